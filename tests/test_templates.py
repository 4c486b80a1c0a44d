"""What each template writes: started, tested and checked as its user would.

``.ci/templates`` does the same from a wheel, with everything installed as the READMEs say.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import pytest

from mcpkit.cli.new import TEMPLATES, project, write
from mcpkit.testing import REVISIONS, TestClient
from tests import warm
from tests.docs.pages import free_port
from tests.transports.processes import started

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGED: Final = [each for each in TEMPLATES if each != "minimal"]
NAME: Final = "My-Trips"
TIMEOUT: Final = 50

CALLS: Final[Mapping[str, tuple[str, Mapping[str, object], str]]] = {
    "minimal": ("greet", {"name": "you"}, "Hello, you!"),
    "package": ("convert", {"value": 2, "source": "h", "target": "min"}, '"value":120.0'),
    "fastapi": ("close_ticket", {"number": 7}, "There is no ticket 7."),
    "app": ("show_sales", {"year": 2025}, "Sales of 2025: 6282 in total."),
    "agent": ("research", {"question": "Why?"}, "The client shares no folder; open one first."),
    "database": ("find_books", {"text": "emma"}, "[]"),
    "worker": ("check_addresses", {"group": "friends"}, "bob at example.com"),
    "oauth": ("whoami", {}, "No user has logged in: logins need HTTP."),
}
"""A tool of each template, its arguments, and what it answers."""


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A project from each template."""
    folder = tmp_path_factory.mktemp("projects")
    for template in TEMPLATES:
        description = 'Plans "good" trips; it\'s fun.'
        write(folder / template, project(NAME, template, description, skill=True))
    return {template: folder / template for template in TEMPLATES}


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def folder(projects: Mapping[str, Path], template: str) -> Path:
    return projects[template]


@pytest.fixture(params=PACKAGED)
def packaged(request: pytest.FixtureRequest, projects: Mapping[str, Path]) -> Path:
    return projects[request.param]


def environment() -> dict[str, str]:
    """As if the project and mcpkit were installed."""
    path = os.pathsep.join(["src", str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": path}


def run(folder: Path, *command: str) -> str:
    ended = warm.run(
        [sys.executable, "-m", *command],
        cold=command[0] != "mcpkit",
        within=True,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    assert ended.returncode == 0, ended.stdout
    printed: str = ended.stdout
    return printed


def of_its_own(folder: Path) -> dict[str, str]:
    """The variables by which servers keep their files in a folder."""
    return {"DATABASE_PATH": str(folder / "library.sqlite3"), "DATA_DIR": str(folder)}


def target(template: str) -> str:
    return "server.py" if template == "minimal" else "my_trips.server:app"


# --- the templates themselves ---------------------------------------------------------------------


def test_packages_have_what_a_package_has(packaged: Path) -> None:
    files = {
        "README.md",
        "pyproject.toml",
        ".gitignore",
        ".mcp.json",
        ".vscode/mcp.json",
        ".github/workflows/ci.yml",
        "src/my_trips/py.typed",
    }
    assert {each for each in files if not (packaged / each).is_file()} == set()


def test_every_folder_is_a_template_and_nothing_is_left_to_fill_in() -> None:
    folders = {path.name for path in (ROOT / "templates").iterdir() if path.is_dir()}
    assert folders == {*TEMPLATES, "shared"}
    left = re.compile(r"__[A-Z_]+__|dot_|TODO")
    for template in TEMPLATES:
        files = project(NAME, template, 'Plans "good" trips.')
        assert (list(files) == ["server.py"]) is (template == "minimal")
        for place, text in files.items():
            assert not left.search(place), place
            assert not left.search(text), place


# --- what the documents of a project say ----------------------------------------------------------


def commands_of(readme: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.skipif(sys.platform == "win32", reason="READMEs have the commands of other systems")
@pytest.mark.parametrize("template", PACKAGED)
def test_what_is_printed_stands_in_the_readme(tmp_path: Path, template: str) -> None:
    printed = run(tmp_path, "mcpkit", "new", NAME, "--template", template, "--yes")
    commands = re.findall(r"^ +((?:\.venv|python3).*)$", printed, re.MULTILINE)
    assert len(commands) >= 4
    readme = (tmp_path / NAME / "README.md").read_text("utf-8")
    assert set(commands) <= set(commands_of(readme))


def test_the_readme_has_the_commands_of_ci_and_names_files_that_are_there(packaged: Path) -> None:
    workflow = (packaged / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    readme = (packaged / "README.md").read_text("utf-8")
    steps = re.findall(r"^ +- run: (.*)$", workflow, re.MULTILINE)
    assert len(steps) >= 5
    assert {f".venv/bin/{step}" for step in steps} <= set(commands_of(readme))
    named = re.findall(r"`((?:src|tests|\.vscode|\.github|\.mcp\.json)[^` ]*)`", readme)
    assert named
    assert [each for each in named if not (packaged / each).exists()] == []


# --- what a project does --------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-2], REVISIONS[-1]])
def test_it_is_served_on_stdio(folder: Path, template: str, revision: str, tmp_path: Path) -> None:
    server = [warm.python(), "-m", "mcpkit", "run", target(template)]
    tool, arguments, answer = CALLS[template]
    env = {**environment(), **of_its_own(tmp_path)}
    client = TestClient(server, revision=revision, cwd=folder, env=env, roots=[], timeout=20)
    with client as connected:
        assert connected.server_info is not None
        assert connected.server_info.name == NAME
        assert all(each.description for each in connected.list_tools())
        assert answer in connected.call_tool(tool, arguments).text


@pytest.mark.parametrize("template", ["package", "app", "agent", "database", "worker"])
def test_the_command_for_hosts_serves_it(projects: Mapping[str, Path], template: str) -> None:
    entries = json.loads((projects[template] / ".mcp.json").read_text("utf-8"))["mcpServers"]
    assert list(entries) == [NAME]
    assert entries[NAME]["command"].startswith(".venv/")
    assert entries[NAME]["args"] == ["-m", "my_trips"]
    command = [warm.python(), *entries[NAME]["args"]]
    with TestClient(command, cwd=projects[template], env=environment(), timeout=20) as client:
        assert client.list_tools()


@pytest.mark.parametrize(
    ("template", "name", "value"),
    [
        ("package", "MCPKIT_SECRET", "short"),
        ("oauth", "MCPKIT_SECRET", "short"),
        ("fastapi", "MCPKIT_SECRET", "short"),
        ("fastapi", "API_TOKENS", "ada"),
        ("fastapi", "API_TOKENS", "ada=short"),
    ],
)
def test_what_is_wrong_in_the_environment_is_said_in_one_line(
    folder: Path, template: str, name: str, value: str
) -> None:
    if template == "fastapi":
        pytest.importorskip("fastapi")
    ended = warm.run(
        [warm.python(), "-m", "my_trips"],
        cwd=folder,
        env={**environment(), name: value},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"{NAME}: {name} ")
    assert value not in line.split("make")[0].split()


def test_it_has_nothing_that_mcpkit_check_finds(folder: Path, template: str) -> None:
    assert "nothing found" in run(folder, "mcpkit", "check", target(template))


@pytest.mark.parametrize("name", ["a", NAME, "a" * 50])
def test_ruff_finds_nothing_whatever_the_length_of_the_name(tmp_path: Path, name: str) -> None:
    pytest.importorskip("ruff")
    for template in TEMPLATES:
        for skill in (False, True):
            files = project(name, template, "x" * 200, skill=skill)
            write(tmp_path / template / str(skill), files)
    run(tmp_path, "ruff", "check", "--no-cache")
    run(tmp_path, "ruff", "format", "--check", "--no-cache")


# --- containers -----------------------------------------------------------------------------------


def instructions(folder: Path) -> list[tuple[str, str]]:
    """The lines of a Dockerfile, as keyword and the rest."""
    lines = (folder / "Dockerfile").read_text("utf-8").splitlines()
    pairs = [tuple(line.split(" ", 1)) for line in lines if line]
    return [(keyword, rest) for keyword, rest in pairs]


DEPLOYED: Final = {
    "PUBLIC_URL": "https://trips.example.com/mcp",
    "MCPKIT_SECRET": "a-secret-of-these-tests",
    "GITHUB_CLIENT_ID": "id",
    "GITHUB_CLIENT_SECRET": "secret",
    "GITHUB_USERS": "ada",
}
"""The environment of a server with a login on the internet."""


@pytest.mark.parametrize("template", ["package", "fastapi", "database", "oauth"])
class TestDockerfile:
    def test_it_copies_what_is_there_and_needs_no_rights(self, folder: Path, template: str) -> None:
        ignored = (folder / ".dockerignore").read_text("utf-8").splitlines()
        lines = instructions(folder)
        assert ignored[0] == "*"
        for keyword, rest in lines:
            for source in shlex.split(rest)[:-1] if keyword == "COPY" else ():
                assert (folder / source).exists()
                assert any(fnmatch(source, each[1:]) for each in ignored if each[0] == "!")
        keywords = [keyword for keyword, _ in lines]
        assert any(word == "RUN" and "useradd" in rest and " app" in rest for word, rest in lines)
        assert ("USER", "app") in lines
        assert keywords.index("RUN") < keywords.index("USER") < keywords.index("CMD")

    def test_its_command_serves_and_its_health_check_sees_it(
        self, folder: Path, template: str, tmp_path: Path
    ) -> None:
        if template == "fastapi":
            pytest.importorskip("fastapi")
        port = str(free_port())
        keywords = dict(instructions(folder))
        command: list[str] = json.loads(keywords["CMD"])
        env = {**environment(), **of_its_own(tmp_path)}
        # Beside other servers of this machine, and not reachable from outside of it.
        if template == "oauth":
            assert {"HOST=0.0.0.0", "PORT=8000"} <= set(shlex.split(keywords["ENV"]))
            command = [sys.executable, *command[1:]]
            env |= {**DEPLOYED, "HOST": "127.0.0.1", "PORT": port}
        else:
            assert command[-3:] == ["0.0.0.0", "--port", "8000"]
            command = [sys.executable, "-m", *command[:-3], "127.0.0.1", "--port", port]
        check: list[Any] = json.loads(keywords["HEALTHCHECK"].partition("CMD ")[2])
        assert check[0] == "python"
        check = [sys.executable, *check[1:-1], check[-1].replace(":8000/", f":{port}/")]
        with started(command, cwd=folder, env=env) as process:
            process.wait_for_stderr(f":{port}")
            healthy = warm.run(check, capture_output=True, timeout=TIMEOUT)
            assert healthy.returncode == 0, healthy.stderr
