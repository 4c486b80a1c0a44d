"""``mcpkit new``: its files, its errors, its questions, and the next steps."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcpkit.cli import new
from tests.cli.commands import Ended, Step, at_terminal, interrupt, mcpkit, single_line


def run(folder: Path, *arguments: str, cold: bool = False) -> Ended:
    return mcpkit("new", *arguments, cwd=folder, cold=cold)


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def refused(folder: Path, *arguments: str) -> str:
    """The one line with the reason of the failure."""
    before = tree(folder)
    ended = run(folder, *arguments)
    assert ended.code == 2
    assert tree(folder) == before
    return single_line(ended)


# --- files ----------------------------------------------------------------------------------------


def test_without_a_terminal_the_defaults_are_taken(tmp_path: Path) -> None:
    ended = run(tmp_path, "trips", cold=True)
    assert (ended.code, ended.stderr) == (0, "")
    assert tree(tmp_path) == ["trips", "trips/server.py"]
    assert "An MCP server." in (tmp_path / "trips" / "server.py").read_text("utf-8")


def test_flags_decide(tmp_path: Path) -> None:
    run(tmp_path, "My-Trips", "-t", "package", "-d", "here/it", "--description", "Plans  trips.")
    project = tmp_path / "here" / "it"
    assert (project / "src" / "my_trips" / "server.py").is_file()
    assert 'description = "Plans trips."' in (project / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("name", ["trips", "My-Trips", "my.trips", "a1", "match", "docs"])
def test_names_that_are_allowed(name: str) -> None:
    assert new.problem_of_name(name) is None
    assert new.package_of(name).isidentifier()


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    ended = run(tmp_path, "trips", "--directory", ".")
    assert ended.code == 0
    assert tree(tmp_path) == ["server.py"]
    assert "cd " not in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the commands of other systems")
def test_it_shows_the_next_steps(tmp_path: Path) -> None:
    said = run(tmp_path, "trips", "-t", "database", "-d", "my trips").stdout
    assert [line.strip() for line in said.splitlines() if line.startswith("  ")] == [
        "cd 'my trips'",
        "python3 -m venv .venv",
        '.venv/bin/pip install -e ".[dev]"',
        "test it:",
        ".venv/bin/python -m pytest",
        "serve it on stdio, as hosts do:",
        ".venv/bin/mcpkit run trips.server:app",
        "let Cursor use it (mcpkit install --list names other hosts):",
        ".venv/bin/mcpkit install trips.server:app --client cursor",
    ]


# --- errors ---------------------------------------------------------------------------------------


REFUSED = {
    "My Server!": "is not a name: use letters and digits, and - _ . between them, after a letter",
    "3d": "is not a name",
    "": "is not a name",
    "_trips": "is not a name",
    "Größe": "is not a name",
    "../x": "--directory chooses the folder",
    "json": "would hide the module json; choose another name, such as json-server",
    "class": "is a Python keyword; choose another name, such as class-server",
    "mcpkit": "would hide the module mcpkit",
}


@pytest.mark.parametrize(("name", "message"), REFUSED.items())
def test_a_name_that_is_not_allowed_has_a_reason(name: str, message: str) -> None:
    assert message in (new.problem_of_name(name) or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["../x"], "'../x' is not a name: "),
        ([], "a project needs a name: mcpkit new NAME"),
        (
            ["trips", "-t", "flask"],
            "there is no template 'flask'; there are minimal, package, fastapi, agent, database,",
        ),
        (["trips", "--description", "\x1b[31mred"], "the description has characters that cannot"),
        (["full"], "full exists and is not empty; choose another folder with --directory"),
        (["file"], "cannot write file"),
        (["x", "-d", "file/x"], "cannot write file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "full" / "mine").mkdir(parents=True)
    (tmp_path / "file").write_text("precious")
    assert refused(tmp_path, *arguments).startswith(message)
    assert (tmp_path / "file").read_text() == "precious"


# --- rendering ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "description",
    [
        '"quoted"',
        'it\'s "both"',
        "back\\slash",
        '"""',
        "ends with \\",
        "__PACKAGE__ {x} %s",
        "é 🎈",
    ],
)
def test_a_description_arrives_unchanged(description: str) -> None:
    values: dict[str, object] = {}
    source = new.project("trips", "minimal", description)["server.py"]
    exec(source, {"__name__": "server"}, values)
    app: object = values["app"]
    assert app.server.info.description == description  # type: ignore[attr-defined]


@pytest.mark.parametrize("description", ['"quoted" \\ it\'s', "é 🎈"])
def test_a_description_arrives_in_the_metadata(description: str) -> None:
    tomllib = pytest.importorskip("tomllib")
    files = new.project("trips", "package", description)
    assert tomllib.loads(files["pyproject.toml"])["project"]["description"] == description
    assert description in files["README.md"]


# --- all or nothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("existing", [True, False])
def test_a_failure_leaves_nothing_behind(tmp_path: Path, existing: bool) -> None:
    if existing:
        (tmp_path / "deep" / "trips").mkdir(parents=True)
    before = tree(tmp_path)
    with pytest.raises(UnicodeEncodeError):
        new.write(tmp_path / "deep" / "trips", {"a": "1", "src/b": "\ud800", "c": "3"})
    assert tree(tmp_path) == before


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("precious")
    with pytest.raises(FileExistsError):
        new.write(tmp_path, {"a": "1", "b": "2"})
    assert tree(tmp_path) == ["b"]
    assert (tmp_path / "b").read_text() == "precious"


# --- in a terminal --------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
class TestInATerminal:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "it"

    def asked(self, folder: Path, *arguments: str, steps: Sequence[Step] = ()) -> tuple[int, str]:
        return at_terminal("new", "-d", str(folder), *arguments, steps=steps)

    def test_it_asks_for_everything_again_after_a_wrong_answer(self, folder: Path) -> None:
        steps = [
            Step("Name of the project: ", "My Server!\n"),
            Step("is not a name"),
            Step("Name of the project: ", "trips\n"),
            Step("[minimal]: ", "8\n"),
            Step("there is no template '8'"),
            Step("[minimal]: ", "package\n"),
            Step("[An MCP server.]: ", "Plans trips.\n"),
        ]
        code, shown = self.asked(folder, steps=steps)
        assert code == 0
        assert all(each.about in shown for each in new.TEMPLATES.values())
        assert "Plans trips." in (folder / "README.md").read_text("utf-8")

    @pytest.mark.parametrize(
        "steps",
        [
            # Python may miss a signal that comes while it gets ready to read a line.
            [Step("Name of the project: ", done=interrupt), Step("", "\n")],
            [Step("Name of the project: ", "\x04")],
        ],
        ids=["Ctrl-C", "Ctrl-D"],
    )
    def test_stopping_it_leaves_nothing_behind(self, folder: Path, steps: list[Step]) -> None:
        code, shown = self.asked(folder, steps=steps)
        assert code == 130
        assert "stopped, nothing was written" in shown
        assert not folder.exists()

    def test_a_taken_folder_is_rejected_before_the_next_question(self, folder: Path) -> None:
        (folder / "mine").mkdir(parents=True)
        code, shown = self.asked(folder, "trips")
        assert code == 2
        assert "exists and is not empty" in shown
        assert "Templates" not in shown

    @pytest.mark.parametrize("arguments", ["-t agent --description Helps.", "--yes"])
    def test_given_values_are_not_asked_for(self, folder: Path, arguments: str) -> None:
        assert self.asked(folder, "trips", *arguments.split())[0] == 0


# --- where mcpkit comes from ----------------------------------------------------------------------


def installed_from(monkeypatch: pytest.MonkeyPatch, told: object) -> None:
    """Pretend that mcpkit was installed from an origin, as installers record it."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if told is None else json.dumps(told)

    monkeypatch.setattr(new, "distribution", lambda name: Installed())
    monkeypatch.setattr(new, "version", lambda name: "0.3.1")


ORIGINS: list[tuple[object, str]] = [
    (None, "mcpkit>=0.3"),
    ({}, "mcpkit>=0.3"),
    (
        {"url": "file:///src/mcpkit", "dir_info": {"editable": True}},
        "mcpkit @ file:///src/mcpkit",
    ),
    (
        {"url": "https://example.com/mcpkit-0.3.1-py3-none-any.whl", "archive_info": {}},
        "mcpkit @ https://example.com/mcpkit-0.3.1-py3-none-any.whl",
    ),
    (
        {
            "url": "https://example.com/mcpkit.git",
            "vcs_info": {"vcs": "git", "commit_id": "c0ffee", "requested_revision": "main"},
            "subdirectory": "python",
        },
        "mcpkit @ git+https://example.com/mcpkit.git@c0ffee#subdirectory=python",
    ),
    ({"url": "https://ann:secret@example.com/x.whl", "archive_info": {}}, "mcpkit>=0.3"),
]


@pytest.mark.parametrize(("told", "requirement"), ORIGINS)
@pytest.mark.parametrize("template", list(new.TEMPLATES))
def test_a_project_requires_the_mcpkit_that_wrote_it(
    template: str, told: object, requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, told)
    files = new.project("trips", template)
    where = "server.py" if template == "minimal" else "pyproject.toml"
    if template in ("fastapi", "oauth"):
        requirement = requirement.replace("mcpkit", "mcpkit[auth]", 1)
    assert json.dumps(requirement) in files[where]
    direct = "allow-direct-references = true" in files[where]
    assert direct == (" @ " in requirement and template != "minimal")


def test_it_says_its_origin(tmp_path: Path) -> None:
    said = run(tmp_path, "trips").stdout
    origin = re.search(r"mcpkit @ (\S+)\"", said)
    assert origin is not None, "this mcpkit comes from a checkout"
    assert f"It requires mcpkit from the origin of this installation, {origin[1]}." in said
