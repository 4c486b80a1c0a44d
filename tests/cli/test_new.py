"""``mcpkit new``: its files, its errors, its questions, and the next steps."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpkit.cli import new
from mcpkit.extensions.skills.folder import SkillFolder
from tests.cli.commands import Step, at_terminal, interrupt, mcpkit


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# --- files ----------------------------------------------------------------------------------------


def test_without_a_terminal_the_defaults_are_taken(tmp_path: Path) -> None:
    ended = mcpkit("new", "trips", cwd=tmp_path, cold=True)
    assert (ended.code, ended.stderr) == (0, "")
    assert tree(tmp_path) == ["trips", "trips/server.py"]
    assert "An MCP server." in (tmp_path / "trips" / "server.py").read_text("utf-8")
    origin = re.search(r"mcpkit @ (\S+)\"", ended.stdout)
    assert origin is not None, "this mcpkit comes from a checkout"
    said = f"It requires mcpkit from the origin of this installation, {origin[1]}."
    assert said in ended.stdout


def test_flags_decide(tmp_path: Path) -> None:
    flags = ["-t", "package", "-d", "here/it", "--description", "Plans  trips."]
    mcpkit("new", "My-Trips", *flags, cwd=tmp_path)
    project = tmp_path / "here" / "it"
    assert (project / "src" / "my_trips" / "server.py").is_file()
    assert 'description = "Plans trips."' in (project / "pyproject.toml").read_text("utf-8")
    (tmp_path / "empty").mkdir()
    ended = mcpkit("new", "trips", "--directory", ".", cwd=tmp_path / "empty")
    assert ended.code == 0
    assert tree(tmp_path / "empty") == ["server.py"]
    assert "cd " not in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the commands of other systems")
def test_it_shows_the_next_steps(tmp_path: Path) -> None:
    said = mcpkit("new", "trips", "-t", "database", "-d", "my trips", cwd=tmp_path).stdout
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


NAMES = {
    **dict.fromkeys(["trips", "My-Trips", "my.trips", "a1", "match", "docs"]),
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


@pytest.mark.parametrize(("name", "problem"), NAMES.items())
def test_a_name_that_is_not_allowed_has_a_reason(name: str, problem: str | None) -> None:
    found = new.problem_of_name(name)
    if problem is None:
        assert found is None
        assert new.package_of(name).isidentifier()
    else:
        assert problem in (found or "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("../x", "'../x' is not a name: "),
        ("", "a project needs a name: mcpkit new NAME"),
        (
            "trips -t flask",
            "there is no template 'flask'; there are minimal, package, fastapi, agent, database,",
        ),
        ("trips --description \x1b[31mred", "the description has characters that cannot"),
        ("full", "full exists and is not empty; choose another folder with --directory"),
        ("file", "cannot write file"),
        ("x -d file/x", "cannot write file"),
    ],
)
def test_an_error_is_one_line_and_changes_nothing(
    tmp_path: Path, arguments: str, message: str
) -> None:
    (tmp_path / "full" / "mine").mkdir(parents=True)
    (tmp_path / "file").write_text("precious")
    assert mcpkit("new", *arguments.split(), cwd=tmp_path).refusal.startswith(message)
    assert tree(tmp_path) == ["file", "full", "full/mine"]
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
    values: dict[str, Any] = {}
    exec(new.project("trips", "minimal", description)["server.py"], {"__name__": "server"}, values)
    assert values["app"].server.info.description == description
    files = new.project("trips", "package", description)
    assert description in files["README.md"]
    tomllib = pytest.importorskip("tomllib")
    assert tomllib.loads(files["pyproject.toml"])["project"]["description"] == description


@pytest.mark.parametrize("template", list(new.TEMPLATES))
@pytest.mark.parametrize("name", ["My.Trips_2", "t" * 100])
def test_a_skill_is_added_if_wanted(tmp_path: Path, template: str, name: str) -> None:
    """SKILL-9, SKILL-10"""
    plain = new.project(name, template)
    files = new.project(name, template, skill=True)
    [added] = files.keys() - plain.keys()
    assert added.endswith("/SKILL.md")
    new.write(tmp_path / "project", files)
    [skill] = SkillFolder((tmp_path / "project" / added).parents[1]).read()
    assert skill.frontmatter["name"].startswith(("using-my-trips-2", "using-ttt"))
    server = next(each for each in files if each.endswith("server.py"))
    assert 'app.skills(Path(__file__).with_name("skills"))' in files[server]
    assert "from pathlib import Path" in files[server]
    assert "app.skills" not in plain[server]
    for project in (plain, files):
        assert not any("# skill" in text for text in project.values())
    for extras in ("skills", "auth,skills"):
        if any(f"mcpkit[{extras}]" in text for text in files.values()):
            return
    raise AssertionError("it does not require PyYAML")


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
    def asked(self, folder: Path, *arguments: str, **options: Any) -> str:
        return at_terminal("new", "-d", str(folder / "it"), *arguments, **options)

    def test_it_asks_for_everything_again_after_a_wrong_answer(self, tmp_path: Path) -> None:
        steps = [
            Step("Name of the project: ", "My Server!\n"),
            Step("is not a name"),
            Step("Name of the project: ", "trips\n"),
            Step("[minimal]: ", "8\n"),
            Step("there is no template '8'"),
            Step("[minimal]: ", "package\n"),
            Step("[An MCP server.]: ", "Plans trips.\n"),
        ]
        shown = self.asked(tmp_path, steps=steps)
        assert all(each.about in shown for each in new.TEMPLATES.values())
        assert "Plans trips." in (tmp_path / "it" / "README.md").read_text("utf-8")
        # The folder is rejected before a question.
        shown = self.asked(tmp_path, "trips", code=2)
        assert "exists and is not empty" in shown
        assert "Templates" not in shown

    @pytest.mark.parametrize(
        "steps",
        [
            # Python may miss a signal that comes while it gets ready to read a line.
            [Step("Name of the project: ", done=interrupt), Step("", "\n")],
            [Step("Name of the project: ", "\x04")],
        ],
        ids=["Ctrl-C", "Ctrl-D"],
    )
    def test_stopping_it_leaves_nothing_behind(self, tmp_path: Path, steps: list[Step]) -> None:
        shown = self.asked(tmp_path, steps=steps, code=130)
        assert "stopped, nothing was written" in shown
        assert tree(tmp_path) == []

    @pytest.mark.parametrize("arguments", ["-t agent --description Helps.", "--yes"])
    def test_given_values_are_not_asked_for(self, tmp_path: Path, arguments: str) -> None:
        self.asked(tmp_path, "trips", *arguments.split())


# --- where mcpkit comes from ----------------------------------------------------------------------


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


@pytest.mark.parametrize(("origin", "requirement"), ORIGINS)
@pytest.mark.parametrize("template", list(new.TEMPLATES))
def test_a_project_requires_the_mcpkit_that_wrote_it(
    template: str, origin: object, requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = {"direct_url.json": None if origin is None else json.dumps(origin)}
    installed = SimpleNamespace(read_text=recorded.__getitem__)
    monkeypatch.setattr(new, "distribution", lambda name: installed)
    monkeypatch.setattr(new, "version", lambda name: "0.3.1")
    files = new.project("trips", template)
    where = "server.py" if template == "minimal" else "pyproject.toml"
    if template in ("fastapi", "oauth"):
        requirement = requirement.replace("mcpkit", "mcpkit[auth]", 1)
    assert json.dumps(requirement) in files[where]
    direct = "allow-direct-references = true" in files[where]
    assert direct == (" @ " in requirement and template != "minimal")
