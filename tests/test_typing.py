"""What authors get from their type checker: the samples in ``tests/typing`` under both checkers."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.commands import mcpkit

ROOT = Path(__file__).parent.parent
ACCEPTED = ROOT / "tests" / "typing" / "accepted.py"
REFUSED = ROOT / "tests" / "typing" / "refused.py"
LIMIT = 240

# Without a cache a checker reads the whole library and what it depends on.
pytestmark = [pytest.mark.types, pytest.mark.timeout(LIMIT + 30)]


class Complaint(NamedTuple):
    file: Path
    line: int
    message: str


def output_of(checker: str, *arguments: str | Path, cwd: Path = ROOT) -> str:
    """What a checker prints; fails if it did not get as far as checking."""
    if importlib.util.find_spec(checker) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{checker} is not installed, and CI must run it")
        pytest.skip(f"{checker} is not installed: pip install {checker}")
    command = [sys.executable, "-m", checker, *arguments]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@functools.cache
def complaints_of_mypy() -> list[Complaint]:
    text = output_of("mypy", "--strict", "--output=json", ACCEPTED, REFUSED)
    found: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return [
        Complaint(ROOT / each["file"], each["line"], each["message"])
        for each in found
        if each["severity"] == "error"
    ]


@functools.cache
def complaints_of_pyright() -> list[Complaint]:
    # The project's own configuration says strict.
    found = report_of_pyright(ACCEPTED, REFUSED)["generalDiagnostics"]
    return [
        Complaint(Path(each["file"]), each["range"]["start"]["line"] + 1, each["message"])
        for each in found
        if each["severity"] == "error"
    ]


def report_of_pyright(*files: Path, cwd: Path = ROOT) -> Any:
    options = ("--outputjson", "--pythonpath", sys.executable)
    return json.loads(output_of("pyright", *options, *files, cwd=cwd))


@pytest.fixture(params=[complaints_of_mypy, complaints_of_pyright], ids=["mypy", "pyright"])
def complaints(request: pytest.FixtureRequest) -> list[Complaint]:
    found: list[Complaint] = request.param()
    return found


def test_accepted_samples_have_the_types_they_assert(complaints: list[Complaint]) -> None:
    assert [each for each in complaints if each.file == ACCEPTED] == []


def test_refused_samples_are_refused_on_the_marked_lines_only(complaints: list[Complaint]) -> None:
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    marked = {number: line for number, line in enumerate(lines, 1) if line.endswith("# error")}
    refused = {each.line: lines[each.line - 1] for each in complaints if each.file == REFUSED}
    assert refused == marked


# --- what is shown --------------------------------------------------------------------------------

TEMPLATES = ("minimal", "package", "fastapi", "agent", "database", "worker", "oauth")
PAGES = {
    "rooms": {"server.py": "testing_server.py", "test_rooms.py": "test_rooms.py"},
    "kitchen": {"server.py": "debugging.py", "test_dough.py": "test_dough.py"},
    "users": {"notes.py": "user_state.py", "test_users.py": "test_users.py"},
    "tutorial": {"server.py": "tutorial_server.py", "tutorial_test.py": "tutorial_test.py"},
}
"""Files of the documentation that stand in a folder together, by the names that they have there."""


def put_together(folder: Path) -> None:
    """All that we show, as those have it who begin with it."""
    code = ROOT / "docs" / "code"
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(code, folder / "code", ignore=shutil.ignore_patterns("migration", "*_test.py"))
    for name in ("test_rooms.py", "test_dough.py", "test_users.py"):
        (folder / "code" / name).unlink()
    for name, files in PAGES.items():
        (folder / name).mkdir()
        for target, source in files.items():
            shutil.copy(code / source, folder / name / target)
    (folder / "migration").mkdir()
    for name in ("migrated.py", "migrated_mount.py", "test_migrated.py"):
        shutil.copy(code / "migration" / name, folder / "migration")
    for template in TEMPLATES:
        made = mcpkit("new", f"{template}-server", "--template", template, "--yes", cwd=folder)
        assert made.code == 0, made.stderr


def test_what_we_show_is_strictly_typed(tmp_path: Path) -> None:
    put_together(tmp_path)
    roots = [*PAGES, "migration", *(f"{name}-server" for name in TEMPLATES), "."]
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.10",
        "executionEnvironments": [
            {"root": root, "extraPaths": [str(ROOT), root, f"{root}/src"]} for root in roots
        ],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = report_of_pyright(cwd=tmp_path)
    assert found["summary"]["filesAnalyzed"] > 40
    assert [
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found["generalDiagnostics"]
    ] == []
