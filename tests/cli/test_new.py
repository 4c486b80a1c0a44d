"""``mcpkit new``: its files, its errors, its questions, and the next steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from mcpkit.cli import new
from tests import warm
from tests.transports.processes import (
    TIMEOUT,
    environment,
)

NEW = [sys.executable, "-m", "mcpkit", "new"]


def run(folder: Path, *arguments: str, cold: bool = False) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [*NEW, *arguments],
        cold=cold,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def refused(folder: Path, *arguments: str) -> str:
    """The one line with the reason of the failure."""
    before = tree(folder)
    ended = run(folder, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert tree(folder) == before
    (line,) = ended.stderr.splitlines()
    assert line.startswith("mcpkit: ")
    return line.removeprefix("mcpkit: ")


# --- files ----------------------------------------------------------------------------------------


def test_without_a_terminal_the_defaults_are_taken(tmp_path: Path) -> None:
    ended = run(tmp_path, "trips", cold=True)
    assert (ended.returncode, ended.stderr) == (0, "")
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
    assert ended.returncode == 0
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


@pytest.mark.parametrize("name", ["My Server!", "../x"])
def test_an_invalid_name_is_rejected_in_one_line(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, name) == new.problem_of_name(name)


def test_no_name(tmp_path: Path) -> None:
    assert refused(tmp_path) == "a project needs a name: mcpkit new NAME"


def test_the_help_describes_every_template(tmp_path: Path) -> None:
    shown = run(tmp_path, "--help").stdout
    for name, each in new.TEMPLATES.items():
        assert re.search(rf"  {name} +{re.escape(each.about)}\n", shown)


def test_no_such_template(tmp_path: Path) -> None:
    assert refused(tmp_path, "trips", "-t", "flask") == (
        "there is no template 'flask'; "
        "there are minimal, package, fastapi, agent, database, worker, oauth"
    )


def test_a_description_that_is_not_allowed(tmp_path: Path) -> None:
    reason = refused(tmp_path, "trips", "--description", "\x1b[31mred")
    assert "cannot be printed" in reason


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "mine").write_text("precious")
    assert refused(tmp_path, "trips") == (
        "trips exists and is not empty; choose another folder with --directory"
    )
    assert (tmp_path / "trips" / "mine").read_text() == "precious"


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "trips").write_text("precious")
    assert refused(tmp_path, "trips").startswith("cannot write trips")
    assert refused(tmp_path, "x", "-d", "trips/x").startswith("cannot write trips")


# --- rendering ------------------------------------------------------------------------------------


def test_an_unknown_placeholder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "_sources", lambda name: {PurePosixPath("a.py"): "__NOTHING__"})
    with pytest.raises(ValueError, match=r"a\.py: there is no placeholder __NOTHING__"):
        new.project("trips", "minimal")


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

if sys.platform != "win32":
    import pty
    import select
    import time

    TAKE_IT = (
        "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "runpy.run_module('mcpkit', run_name='__main__', alter_sys=True)"
    )
    """Makes the terminal one whose Ctrl-C is a signal, then is ``mcpkit``."""

    class Terminal:
        """``mcpkit new`` in a terminal of its own; what it prints is `shown`."""

        def __init__(self, folder: Path, *arguments: str) -> None:
            self.descriptor, theirs = pty.openpty()
            self._process = warm.Popen(
                [sys.executable, "-c", TAKE_IT, "new", *arguments],
                cwd=folder,
                env=environment(TERM="dumb"),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
            os.close(theirs)
            self.shown = ""
            self._unread = ""

        def until(self, text: str) -> None:
            """Read on until it has printed a text."""
            deadline = time.monotonic() + TIMEOUT
            while text not in self._unread:
                assert self._waits(deadline), f"{text!r} does not come after {self.shown!r}"
                self._read()
            self._unread = self._unread.partition(text)[2]

        def type(self, text: str) -> None:
            os.write(self.descriptor, text.encode())

        def interrupt(self) -> int:
            """Press Ctrl-C until it is heard; the exit code.

            Python may miss one that comes while it gets ready to read a line.
            """
            for _ in range(int(TIMEOUT)):
                self.type("\x03")
                soon = time.monotonic() + 1
                while self._waits(soon):
                    self._read()
                    if "stopped" in self.shown:
                        return self.ended()
            raise AssertionError(f"it does not stop after {self.shown!r}")

        def ended(self) -> int:
            """Its exit code, after all that it prints."""
            deadline = time.monotonic() + TIMEOUT
            while True:
                assert self._waits(deadline), f"it does not end after {self.shown!r}"
                try:
                    self._read()
                except OSError:  # the other side is closed
                    break
            os.close(self.descriptor)
            return self._process.wait(TIMEOUT)

        def _waits(self, deadline: float) -> bool:
            left = max(0, deadline - time.monotonic())
            return bool(select.select([self.descriptor], [], [], left)[0])

        def _read(self) -> None:
            data = os.read(self.descriptor, 4096)
            if not data:
                raise OSError("the end")
            self.shown += data.decode()
            self._unread += data.decode()

    class TestInATerminal:
        def test_it_asks_for_everything(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path)
            terminal.until("Name of the project: ")
            terminal.type("trips\n")
            terminal.until("[minimal]: ")
            terminal.type("package\n")
            terminal.until("[An MCP server.]: ")
            terminal.type("Plans trips.\n")
            assert terminal.ended() == 0
            assert "Plans trips." in (tmp_path / "trips" / "README.md").read_text("utf-8")

        def test_it_describes_each_template(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path, "trips")
            terminal.until("[minimal]: ")
            assert all(each.about in terminal.shown for each in new.TEMPLATES.values())
            assert terminal.interrupt() == 130

        def test_it_asks_again_after_a_wrong_answer(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path)
            terminal.until("Name of the project: ")
            terminal.type("My Server!\n")
            terminal.until("is not a name")
            terminal.until("Name of the project: ")
            terminal.type("trips\n")
            terminal.until("[minimal]: ")
            terminal.type("8\n")
            terminal.until("there is no template '8'")
            terminal.until("[minimal]: ")
            terminal.type("agent\n")
            terminal.until("[An MCP server.]: ")
            terminal.type("\n")
            assert terminal.ended() == 0

        def test_ctrl_c_leaves_nothing_behind(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path, "trips")
            terminal.until("[minimal]: ")
            assert terminal.interrupt() == 130
            assert "stopped, nothing was written" in terminal.shown
            assert tree(tmp_path) == []

        def test_the_end_of_the_input_stops_it_as_well(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path)
            terminal.until("Name of the project: ")
            terminal.type("\x04")
            assert terminal.ended() == 130
            assert tree(tmp_path) == []

        def test_a_taken_folder_is_rejected_before_the_next_question(self, tmp_path: Path) -> None:
            (tmp_path / "trips" / "mine").mkdir(parents=True)
            terminal = Terminal(tmp_path, "trips")
            assert terminal.ended() == 2
            assert "exists and is not empty" in terminal.shown
            assert "Templates" not in terminal.shown

        def test_given_values_are_not_asked_for(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path, "trips", "-t", "agent", "--description", "Helps.")
            assert terminal.ended() == 0

        def test_with_yes_nothing_is_asked(self, tmp_path: Path) -> None:
            terminal = Terminal(tmp_path, "trips", "--yes")
            assert terminal.ended() == 0
            assert tree(tmp_path) == ["trips", "trips/server.py"]


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
