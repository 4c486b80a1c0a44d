"""The page of the rules says what the table says."""

from __future__ import annotations

import pytest

from mcpkit.cli._check.rules import Rule
from mcpkit.cli._check.table import RULES
from tests.cli.checks.page import PAGE, START, written


def test_the_page_is_in_step_with_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(START) :] == written(), "run python -m tests.cli.checks.page"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_page_has_the_rule_and_its_source(rule: Rule) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"#### {rule.id}\n" in text
    assert f"({rule.source})" in text
