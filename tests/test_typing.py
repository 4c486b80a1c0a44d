"""What authors get from their type checker: the samples in ``tests/typing`` under both checkers."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
ACCEPTED = ROOT / "tests" / "typing" / "accepted.py"
REFUSED = ROOT / "tests" / "typing" / "refused.py"
LIMIT = 240

# Without a cache a checker reads the whole library and what it depends on.
pytestmark = pytest.mark.timeout(LIMIT + 30)


class Complaint(NamedTuple):
    file: Path
    line: int
    message: str


def output_of(checker: str, *options: str) -> str:
    """What a checker prints about the samples; fails if it did not get as far as checking."""
    if importlib.util.find_spec(checker) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{checker} is not installed, and CI must run it")
        pytest.skip(f"{checker} is not installed: pip install {checker}")
    command = [sys.executable, "-m", checker, *options, str(ACCEPTED), str(REFUSED)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@functools.cache
def complaints_of_mypy() -> list[Complaint]:
    text = output_of("mypy", "--strict", "--output=json")
    found: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return [
        Complaint(ROOT / each["file"], each["line"], each["message"])
        for each in found
        if each["severity"] == "error"
    ]


@functools.cache
def complaints_of_pyright() -> list[Complaint]:
    # The project's own configuration says strict.
    found = json.loads(output_of("pyright", "--outputjson", "--pythonpath", sys.executable))
    return [
        Complaint(Path(each["file"]), each["range"]["start"]["line"] + 1, each["message"])
        for each in found["generalDiagnostics"]
        if each["severity"] == "error"
    ]


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
