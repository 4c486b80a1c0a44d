"""The page of the rules is generated from the rules."""

from __future__ import annotations

from tests.cli.checks.page import PAGE, START, written


def test_the_page_is_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(START) :] == written(), "run python -m tests.cli.checks.page"
