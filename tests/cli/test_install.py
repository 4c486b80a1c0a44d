"""``mcpkit install``, as a process, with a home folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.cli._install.hosts import HOSTS
from tests.cli.commands import Ended, Step, at_terminal, mcpkit
from tests.transports.processes import TIMEOUT, environment
from tests.warm import Popen, python

INSTALL = [sys.executable, "-m", "mcpkit", "install"]
SERVER = (
    "from mcpkit import MCPKit\n"
    "app = MCPKit('My Weather')\n"
    "print('noise')\n"
    "@app.tool\n"
    "def sky() -> str:\n"
    "    return 'blue'\n"
)
NAMED = [name for name in HOSTS if name != "json"]
RUN = ["-m", "mcpkit", "run"]


def this_python() -> str:
    """What the command takes for the Python that it runs with."""
    return python(within=True)


class Person:
    """A user with a home folder, and a project to install from."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        self.programs = root / "programs"
        for folder in (self.home, self.project, self.programs):
            folder.mkdir()
        (self.project / "weather.py").write_text(SERVER)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables; none of them leads out of the home folder."""
        elsewhere = ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME")
        return dict.fromkeys(elsewhere, "") | {
            "HOME": str(self.home),
            "USERPROFILE": str(self.home),
            "APPDATA": str(self.home / "AppData" / "Roaming"),
            "LOCALAPPDATA": str(self.home / "AppData" / "Local"),
            "PATH": os.pathsep.join([str(self.programs), *os.defpath.split(os.pathsep)]),
            "COLUMNS": "100",
        }

    def installs(self, *arguments: str | Path, cold: bool = False, **variables: str) -> Ended:
        """Run the command; `cold` as in `tests.warm`."""
        env = self.variables | variables
        words = map(str, arguments)
        return mcpkit("install", *words, cold=cold, cwd=self.project, env=env)

    def printed(self, *arguments: str) -> dict[str, Any]:
        """The entry of a target, by ``--client json``, and its name."""
        done = self.installs(*arguments, "--client", "json")
        [(name, entry)] = json.loads(done.output)["mcpServers"].items()
        return {"name": name, **entry}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path.resolve())


# --- every host -----------------------------------------------------------------------------------

JSON = """{
    "before": [1, 2],
    "%s": {
        "other": {"command": "keep", "args": ["\\u00e9"]}
    },
    "after": {"a": null}
}
"""
COMMENTED = """// mine
{
  "before": 1, // yes
  "%s": {
    "other": { "command": "keep" }, // this one
    // "off": {},
  },
}
"""
TABLES = """# mine
model = "o"

[%s.other] # this one
command = "keep"
"""


def others_in(name: str) -> str:
    """A hand-written file of this host."""
    host = HOSTS[name]
    texts = {"codex": TABLES, "vscode": COMMENTED, "zed": COMMENTED, "gemini-cli": COMMENTED}
    return texts.get(name, JSON) % host.key


def entries_in(name: str, file: Path) -> dict[str, Any]:
    data: dict[str, Any] = HOSTS[name].format.load(file.read_text())
    entries: dict[str, Any] = data[HOSTS[name].key]
    return entries


@pytest.mark.parametrize("name", NAMED)
def test_the_file_of_a_host_is_edited_and_nothing_else_in_it(person: Person, name: str) -> None:
    found, file = others_in(name), person.home / "config"
    backup = person.home / "config.bak"
    file.write_text(found)
    command = f"{Path(sys.executable).as_posix()} --version"

    def install(*arguments: str, at: Path = file) -> Ended:
        return person.installs(*arguments, "--client", name, "--config", at)

    assert install(command, "--name", "other").refusal == (
        f"{file} has another other; --force replaces it, --dry-run shows the difference, "
        "--name gives this one another name"
    )
    shown = install(command, "--name", "weather", "--dry-run")
    assert (shown.code, shown.stderr) == (0, "mcpkit: nothing has been changed\n")
    assert shown.stdout.startswith(f"--- {file}\n+++ {file}\n@@ ")
    assert re.search(r"^\+.*weather", shown.stdout, re.MULTILINE)
    assert file.read_text() == found
    assert not backup.exists()

    added = install(command, "--name", "weather")
    next = f"Next: {HOSTS[name].after}\n"
    assert added.output == f"Added weather in {file}\nBackup: {backup}\n{next}"
    assert backup.read_text() == found
    assert entries_in(name, file).keys() == {"other", "weather"}
    after = file.read_text()
    kept = iter(after.splitlines())
    # A comma may have come to the end of a line.
    lines = [re.escape(line.rstrip(",")) + ",?" for line in found.splitlines()]
    assert all(any(re.fullmatch(line, each) for each in kept) for line in lines)

    again = install(command, "--name", "weather")
    assert again.output == f"weather is already in {file}. Nothing to do.\n"
    assert file.read_text() == after
    assert install("weather", "--remove").stdout.startswith(f"Removed weather from {file}\n")
    assert file.read_text().rstrip() == found.rstrip()
    replaced = install(command, "--name", "other", "--force")
    assert replaced.stdout.startswith(f"Replaced other in {file}\n")
    assert entries_in(name, file)["other"]["args"] == ["--version"]

    file.write_text("{ = broken")
    refusal = install(command, "--name", "other", "--force").refusal
    assert refusal.startswith(f"{file} is invalid, so nothing was changed: ")
    assert file.read_text() == "{ = broken"
    new = person.home / "deep" / "config"
    newly = install(command, "--name", "weather", at=new)
    assert newly.stdout == f"Added weather in {new}\n{next}"
    assert Path(entries_in(name, new)["weather"]["command"]) == Path(sys.executable)


@pytest.mark.parametrize("name", ["cursor", "codex"])
def test_the_default_file_is_the_hosts_own(person: Person, name: str) -> None:
    done = person.installs("sh x", "--name", "weather", "--client", name)
    [file] = [each for each in person.home.rglob("*") if each.is_file()]
    assert done.stdout.startswith(f"Added weather in {file}\n")
    done = person.installs("sh x", "--name", "weather", "--client", name, "--project")
    file = person.project / str(HOSTS[name].project_file)
    assert done.stdout.startswith(f"Added weather in {file}\n")


# --- entries --------------------------------------------------------------------------------------


def test_entries_of_files_and_modules(person: Person) -> None:
    assert person.printed("./weather.py:app") == {
        "name": "My-Weather",
        "command": this_python(),
        "args": [*RUN, str(person.project / "weather.py:app")],
        **unless_installed(),
    }
    entry = person.printed("weather:app", "--env", "KEY=a=b")
    assert entry["args"] == [*RUN, "weather:app"]
    assert entry["env"]["KEY"] == "a=b"
    assert str(person.project) in entry["env"]["PYTHONPATH"].split(os.pathsep)
    entry = person.printed("json", "--name", "x_2")  # an installed module
    assert entry["name"] == "x_2"
    assert str(person.project) not in entry.get("env", {}).get("PYTHONPATH", "")
    (person.project / "needy.py").write_text("import os\nos.environ['NEED']\n" + SERVER)
    assert person.printed("needy.py", "--env", "NEED=1")["name"] == "My-Weather"
    (person.project / "wrong.py").write_text("1 / 0")
    assert person.printed("wrong.py", "--force")["name"] == "wrong"


def test_entries_of_commands_and_urls(person: Person) -> None:
    script = program(person.programs / "my-server")
    for name in ("data.txt", "serve"):
        (person.project / name).write_text("")
    assert person.printed("my-server serve data.txt --fast") == {
        "name": "my-server",
        "command": str(script),
        "args": ["serve", str(person.project / "data.txt"), "--fast"],
    }
    entry = person.printed("http://localhost:8000/mcp", "--header", "X-A: b")
    assert (entry["name"], entry["headers"]) == ("localhost-8000", {"X-A": "b"})


def unless_installed() -> dict[str, Any]:
    """The variable that an entry has only where mcpkit itself is not installed."""
    elsewhere = subprocess.run(
        [sys.executable, "-c", "import mcpkit"],
        cwd=os.path.dirname(sys.executable),
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
        capture_output=True,
        timeout=TIMEOUT,
    )
    folder = str(Path(__file__).resolve().parents[2])
    return {"env": {"PYTHONPATH": folder}} if elsewhere.returncode else {}


def program(path: Path, script: str = "exit 0") -> Path:
    """An executable program."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
@pytest.mark.parametrize(
    ("target", "files", "arguments"),
    [
        # https://docs.astral.sh/uv/reference/cli/#uv-run
        ("weather.py", {}, "run --no-project --with mcpkit mcpkit run FILE"),
        (
            "weather.py:app",
            {"weather.py": "# /// script\n# dependencies = []\n# ///\n" + SERVER},
            "run --no-project --with-requirements FILE --with mcpkit mcpkit run FILE:app",
        ),
        (
            "weather.py",
            {"weather.py": "\ufeff# /// script\n# ///\n" + SERVER},
            "run --no-project --with-requirements FILE --with mcpkit mcpkit run FILE",
        ),
        ("weather", {}, "run --directory FOLDER --with mcpkit mcpkit run weather"),
        (
            "weather.py",
            {"pyproject.toml": ""},
            "run --project FOLDER --with mcpkit mcpkit run FILE",
        ),
        # It is not imported here, but named after itself.
        ("weather.py", {"weather.py": "1 / 0"}, "run --no-project --with mcpkit mcpkit run FILE"),
    ],
)
def test_entries_with_uv(
    person: Person, target: str, files: dict[str, str], arguments: str
) -> None:
    uv = program(person.programs / "uv")
    for name, text in files.items():
        (person.project / name).write_text(text)
    entry = person.printed(target, "--uv")
    assert (entry["name"], entry["command"]) == ("weather", str(uv))
    file = str(person.project / "weather.py")
    expected = arguments.replace("FILE", file).replace("FOLDER", str(person.project))
    assert entry["args"] == expected.split()


@pytest.mark.parametrize("target", ["weather.py", "weather", "package/inner.py", "package.inner"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_entry_starts_from_any_folder(
    person: Person, tmp_path: Path, target: str
) -> None:
    (person.project / "package").mkdir()
    (person.project / "package" / "__init__.py").write_text("")
    (person.project / "package" / "beside.py").write_text(SERVER)
    (person.project / "package" / "inner.py").write_text("from .beside import app\n")
    entry = person.printed(target)
    (tmp_path / "elsewhere").mkdir()
    bare = {"PATH": "/nowhere", **entry.get("env", {})}
    assert entry["command"] == this_python()
    command = [sys.executable, *entry["args"]]
    if sys.platform != "win32":
        variables = [f"{name}={value}" for name, value in bare.items()]
        command = ["/usr/bin/env", "-i", *variables, *command]
    async with Client(
        command, cwd=tmp_path / "elsewhere", env=bare, timeout=TIMEOUT, stderr=subprocess.DEVNULL
    ) as client:
        assert [tool.name for tool in await client.list_tools()] == ["sky"]


# --- errors ---------------------------------------------------------------------------------------

REFUSED = {
    "": "name the server: a file, a module, a command line or a URL (see --help)",
    "weather.py": "name the host: --client NAME, one of claude-desktop, claude-code, cursor",
    "weather.py -c x": "unknown host 'x'; known: claude-desktop",
    "missing.py -c json": "there is no file missing.py",
    "weather.py:other -c json": "weather.py has nothing named 'other' (--force installs it",
    "wrong.py -c json": "wrong.py cannot be imported: ZeroDivisionError: division by zero",
    "weather.py -c json --header A:b": "--header is for a URL",
    "http://x/mcp -c json --env A=b": "--env is for servers that the host starts",
    "http://u:secret@x/mcp -c json": "the URL has a name or password in it, which",
    "http://x/mcp?access_token=secret -c json": "the URL has a token in it, which hosts show;",
    "http://x:y/mcp -c json": "http://x:y/mcp is not a URL: ",
    "http:///mcp -c json": "http:///mcp has no host",
    "http://x/mcp -c json --uv": "--uv is for servers that the host starts",
    "weather.py -c windsurf --project": "Windsurf has no per-project configuration; omit --pr",
    "http://x/mcp -c claude-desktop --config c": "Claude Desktop does not read URLs from",
    "weather.py -c json --uv": "--uv: there is no uv on PATH",
    "sh -c json": "sh does not say the name of the server; add --name NAME",
    "weather.py -c json --name a.b": "JSON does not accept the name 'a.b'; 'a-b' would do",
    "weather.py -c gemini-cli --name a_b": "Gemini CLI does not accept the name 'a_b'; 'a-b'",
    "weather.py -c cursor --project --config c": "--project and --config: choose one of them",
    "weather -c cursor --remove": "there is no weather in ",
    "weather -c json --remove": "json is printed, not stored; --config FILE names a file",
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.items(), ids=REFUSED)
def test_an_error_is_one_line(person: Person, arguments: str, message: str) -> None:
    (person.project / "wrong.py").write_text("1 / 0")
    assert person.installs(*arguments.split()).refusal.startswith(message)


@pytest.mark.parametrize("character", "\r\n\x1b\u202e\u200b ")
def test_a_url_or_header_with_an_invalid_character(person: Person, character: str) -> None:
    url = f"http://x/{character}y"
    assert person.installs(url, "-c", "json").refusal.startswith("the URL has a character")
    if character != " ":
        refusal = person.installs("http://x/", "-c", "json", "--header", f"A: {character}").refusal
        assert refusal == "--header 'A': a header must be printable"


def test_removing_an_unknown_server_lists_the_others(person: Person) -> None:
    person.installs("weather.py", "--client", "cursor")
    refusal = person.installs("wether", "--client", "cursor", "--remove").refusal
    assert refusal.endswith("; it has My-Weather")


# --- files ----------------------------------------------------------------------------------------


def test_twelve_at_once(person: Person) -> None:
    (person.project / "c").write_text('{"mcpServers": {}}')
    names = [f"s{number}" for number in range(12)]
    processes = [
        Popen(
            [*INSTALL, "http://x/", "--name", name, "-c", "cursor", "--config", "c"],
            cwd=person.project,
            env=environment(**person.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for name in names
    ]
    assert [process.wait(TIMEOUT) for process in processes] == [0] * 12
    assert sorted(json.loads((person.project / "c").read_text())["mcpServers"]) == sorted(names)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "cannot be read, so nothing was changed: it is not a regular file"),
        (
            lambda path: path.write_bytes("{}".encode("utf-16")),
            "cannot be read, so nothing was changed: it is not UTF-8",
        ),
        (
            lambda path: path.write_text('{"mcpServers": []}'),
            'is invalid, so nothing was changed: "mcpServers" is not an object',
        ),
    ],
)
def test_what_cannot_be_read_is_left_alone(
    person: Person, make: Callable[[Path], object], why: str
) -> None:
    make(person.project / "c")
    assert person.installs("weather.py", "-c", "cursor", "--config", "c").refusal.endswith(why)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_stays_a_link(person: Person) -> None:
    real = person.home / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_text("{}")
    link = person.home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert person.installs("weather.py", "--client", "cursor").code == 0
    assert link.is_symlink()
    assert "My-Weather" in real.read_text()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(person: Person) -> None:
    folder = person.project / "locked"
    folder.mkdir(mode=0o500)
    refusal = person.installs("weather.py", "-c", "cursor", "--config", folder / "c").refusal
    assert "was not written: " in refusal


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["weather.py", "--env", "KEY=x", "--env", "TOKEN=y"], "KEY and TOKEN"),
        (["https://example.com/mcp", "--header", "X-Key: x"], "X-Key"),
    ],
)
def test_secrets_in_clear_text_are_noted(person: Person, arguments: list[str], what: str) -> None:
    done = person.installs(*arguments, "-c", "cursor", "--project")
    file = person.project / ".cursor" / "mcp.json"
    assert done.stderr == (
        f"mcpkit: {file} has {what} in clear text, and is shared with the project\n"
    )


@pytest.mark.parametrize("value", ["Bearer ${env:TOKEN}", "Basic $LOGIN", "${input:token}"])
def test_a_placeholder_is_not_a_secret(person: Person, value: str) -> None:
    """And MCPKIT_TOKEN is not written (SEC-13): it is for the commands that send it."""
    arguments = ["https://example.com/mcp", "--header", f"Authorization: {value}", "-c", "cursor"]
    done = person.installs(*arguments, MCPKIT_TOKEN="sw0rdfish")
    assert (done.code, done.stderr) == (0, "")
    file = (person.home / ".cursor" / "mcp.json").read_text()
    assert value in file
    assert "sw0rdfish" not in file + done.stdout


@pytest.mark.parametrize("value", ["Bearer x", "authorization: Basic pa$$word", "x ${A} y", "$"])
def test_a_token_is_not_written_because_hosts_log_in(person: Person, value: str) -> None:
    header = value if ":" in value else f"Authorization: {value}"
    refusal = person.installs("https://x/mcp", "--header", header, "-c", "cursor").refusal
    assert "hosts log in to a URL themselves" in refusal
    assert "pa$$word" not in refusal
    assert not (person.home / ".cursor").exists()


# --- Claude Code ----------------------------------------------------------------------------------

KEPT = {"mcpServers": {"My-Weather": {"type": "stdio", "command": "old", "args": [], "env": {}}}}


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
class TestClaudeCode:
    """https://code.claude.com/docs/en/mcp"""

    @pytest.fixture
    def log(self, person: Person) -> Path:
        """A program of that name, and the file with its arguments."""
        log = person.home / "log"
        program(person.programs / "claude", f'printf "%s\\n" "$@" >> "{log}"')
        return log

    def test_its_own_program_edits_the_configuration(self, person: Person, log: Path) -> None:
        def install(*arguments: str, cold: bool = False) -> tuple[Ended, list[str]]:
            log.unlink(missing_ok=True)
            done = person.installs(*arguments, "-c", "claude-code", cold=cold)
            return done, log.read_text().splitlines() if log.exists() else []

        done, words = install("weather.py", "--dry-run")
        assert (done.code, words) == (0, [])
        assert done.stdout.startswith("claude mcp add-json --scope user My-Weather '{")
        done, words = install("weather.py", cold=True)
        assert (done.code, done.stderr) == (0, "")
        assert words[:-1] == ["mcp", "add-json", "--scope", "user", "My-Weather"]
        added = json.loads(words[-1])
        args = [*RUN, str(person.project / "weather.py")]
        assert (added["type"], added["args"]) == ("stdio", args)
        file = person.home / ".claude.json"
        assert not file.exists()
        added["env"] = added.get("env", {})
        file.write_text(json.dumps({"mcpServers": {"My-Weather": added}}))
        done, words = install("weather.py", cold=True)
        assert "Nothing to do" in done.stdout
        assert words == []
        file.write_text(json.dumps(KEPT))
        done, words = install("weather.py")
        assert "has another My-Weather" in done.refusal
        assert words == []
        done, words = install("weather.py", "--force")
        assert done.code == 0
        assert words[:5] == ["mcp", "remove", "--scope", "user", "My-Weather"]
        assert words[5:7] == ["mcp", "add-json"]
        done, words = install("My-Weather", "--remove")
        assert (done.code, words) == (0, ["mcp", "remove", "--scope", "user", "My-Weather"])

    @pytest.mark.parametrize(
        ("arguments", "what"),
        [
            (["weather.py", "--env", "KEY=x", "--env", "PLACE=${HOME}"], "KEY"),
            (["http://x/mcp", "--name", "My-Weather", "--header", "Token: x"], "Token"),
            (["weather.py", "--force"], "OLD"),
        ],
    )
    def test_values_that_others_can_see_are_noted_first(
        self, person: Person, log: Path, arguments: list[str], what: str
    ) -> None:
        """It accepts an entry only as an argument, including the values of the old entry."""
        if what == "OLD":
            entry = {**KEPT["mcpServers"]["My-Weather"], "env": {"OLD": "x"}}
            (person.home / ".claude.json").write_text(
                json.dumps({"mcpServers": {"My-Weather": entry}})
            )
        done = person.installs(*arguments, "-c", "claude-code")
        assert done.code == 0
        assert done.stderr.startswith(
            f"mcpkit: claude takes {what} on its command line only, where other users of this "
            "machine can see it while it runs\n"
        )

    def test_its_absence_and_its_failures_are_shown(self, person: Person) -> None:
        done = person.installs("weather.py", "-c", "claude-code")
        assert done.code == 2
        assert done.stdout.startswith("claude mcp add-json --scope user My-Weather '{")
        assert done.stderr == (
            "mcpkit: claude cannot be run from here; run this yourself, or use --project:\n"
        )
        program(person.programs / "claude", "echo no such scope >&2; exit 1")
        refusal = person.installs("weather.py", "-c", "claude-code").refusal
        assert refusal == "claude mcp add-json failed: no such scope"


# --- a person at a terminal -----------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("n\n", 2), ("\n", 2), ("\x04", 130)], ids=repr
)
def test_the_user_is_asked_at_a_terminal(person: Person, answer: str, code: int) -> None:
    file, before = person.project / "c", '{"mcpServers": {"other": {"command": "keep"}}}'
    file.write_text(before)
    said = at_terminal(
        *["install", str(person.project / "weather.py"), "--name", "other"],
        *["-c", "cursor", "--config", str(file)],
        steps=[Step("Replace it?", answer)],
        env=person.variables | {"NO_COLOR": "1"},
        code=code,
    )
    assert "has another other. Replace it? [y/N]" in " ".join(said.split())
    assert said.index('"command": "keep"') < said.index("Replace it?")
    assert this_python() in file.read_text() if code == 0 else file.read_text() == before


# --- help -----------------------------------------------------------------------------------------


def test_hosts_are_listed_with_their_files(person: Person) -> None:
    person.installs("weather.py", "-c", "cursor")
    done = person.installs("--list", cold=True)
    rows = [line.split(maxsplit=1) for line in done.output.splitlines()]
    assert [row[0] for row in rows] == list(HOSTS)
    assert dict(rows)["cursor"].split() == ["exists", str(person.home / ".cursor" / "mcp.json")]
    assert dict(rows)["windsurf"].startswith(str(person.home))
