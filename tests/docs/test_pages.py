"""What the documentation tells people to do is done, in order, and prints what it says."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, README, Block, Page, blocks_of, pattern_of

RUN = [
    page
    for page in [README, *PAGES]
    if any("run" in block.words for block in blocks_of(page.read_text(encoding="utf-8")))
]


def name_of(path: Path) -> str:
    return path.name if path == README else path.relative_to(DOCS).as_posix()


@pytest.mark.skipif(sys.platform == "win32" or not shutil.which("bash"), reason="commands for bash")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_the_commands_of_a_page_print_what_it_says(path: Path, tmp_path: Path) -> None:
    def check(block: Block, printed: str) -> None:
        fits = pattern_of(block.body).fullmatch(printed.rstrip("\n") + "\n")
        assert fits is not None, f"{name_of(path)}:{block.line} prints\n{printed}"

    # The README runs as installed; other pages are checked for what their commands print.
    Page(path, tmp_path.resolve(), cold=path == README).follow(check)


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("one\n", "one\n", True),
        ("one\n", "two\n", False),
        ("took … s\n", "took 0.2 s\n", True),
        ("took … s\n", "took 0.2 m\n", False),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n…\nz\n", "a\nz\n", True),
        ("a\n", "a\nb\n", False),
        ("1.5\n", "1x5\n", False),
    ],
)
def test_three_dots_stand_for_anything(expected: str, printed: str, fits: bool) -> None:
    assert (pattern_of(expected).fullmatch(printed) is not None) is fits
