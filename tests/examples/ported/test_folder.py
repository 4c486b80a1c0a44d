"""examples/ported as a whole: what its README counts, and what ``mcpkit check`` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.lines import lines_of
from tests.cli.commands import mcpkit
from tests.examples.ported.serving import PORTED

README = (PORTED / "README.md").read_text(encoding="utf-8")
FILES = sorted(PORTED.glob("*.py"))


def test_the_readme_lists_every_server() -> None:
    assert {path.name for path in FILES} == set(re.findall(r"\]\((\w+\.py)\)", README))


def test_the_readme_counts_our_lines() -> None:
    rows = re.findall(r"^\| (\w+) \|.*\| \d+ \| (\d+) \|.*\|$", README, re.MULTILINE)
    assert {f"{name}_server.py": int(lines) for name, lines in rows} == {
        path.name: lines_of(path.read_text(encoding="utf-8")) for path in FILES
    }


def test_lines_are_counted_without_comments() -> None:
    assert lines_of('"""One.\n\nTwo."""\n\n# no\nx = 1  # three\n') == 3


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_linter_finds_nothing_to_mend(path: Path) -> None:
    checked = mcpkit("check", str(path))
    assert checked.code == 0, checked.stdout
