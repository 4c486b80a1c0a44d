"""The picture of a call shows what the command prints."""

from __future__ import annotations

import re
import sys

import pytest

from tests.docs.pages import DOCS, README
from tests.docs.recording import PICTURE, Terminal, lines_in, lines_of, picture_of, record, said


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_picture_has_the_lines_that_the_command_prints() -> None:
    frames = record()
    assert said(lines_in(PICTURE)) == said(lines_of(frames)), (
        "python -m tests.docs.recording draws it"
    )
    assert picture_of(frames).count("<text ") >= len(said(lines_of(frames)))


def test_the_picture_is_small_and_fetches_nothing() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert re.findall(r"href|url\(|@import|@font-face|<script", text) == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/cli.md"])
def test_pages_show_it_with_words_for_those_who_do_not_see_it(page: str) -> None:
    path = README if page == "README.md" else DOCS.parent / page
    (alt,) = re.findall(
        r"!\[([^\]]+)\]\([\w/]*assets/call\.svg\)", path.read_text(encoding="utf-8")
    )
    assert len(alt) > 80


def test_a_terminal_writes_over_what_is_there() -> None:
    terminal = Terminal()
    terminal.write("one\r\n\x1b[36mtwo\x1b[0m!\rT\r\nbar\r\n\x1b[1A\x1b[2Kend")
    assert terminal.screen == (
        (("", "one"),),
        (("", "T"), ("cyan", "wo"), ("", "!")),
        (("", "end"),),
        (),
    )


def test_a_terminal_refuses_codes_that_it_does_not_know() -> None:
    with pytest.raises(AssertionError, match="not known"):
        Terminal().write("\x1b[5X")
