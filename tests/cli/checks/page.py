"""The part of ``docs/checks.md`` that is written from the table of rules.

``python -m tests.cli.checks.page`` writes it anew.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from mcpkit.cli._check.rules import Rule
from mcpkit.cli._check.table import RULES, THEMES

__all__ = ["PAGE", "START", "written"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "checks.md"
START: Final = "## The rules\n"


def written() -> str:
    """The page from the heading of the rules on."""
    parts = [START]
    for theme, rules in groupby(RULES, lambda rule: rule.id.rstrip("0123456789")):
        several = list(rules)
        parts.append(f"### {THEMES[theme]}\n")
        parts += map(_described, several)
    return "\n".join(parts)


def _described(rule: Rule) -> str:
    return (
        f"#### {rule.id}\n\n"
        f"**{_escaped(rule.title)}** ({rule.severity}). {_escaped(rule.reason)}\n\n"
        f"Fix: {_escaped(rule.fix)}. [Source]({rule.source})\n"
    )


def _escaped(text: str) -> str:
    """Text as Markdown: what stands in backticks stays, the rest is taken literally."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else part.replace("*", r"\*").replace("_", r"\_").replace("[", r"\[")
        for number, part in enumerate(parts)
    )


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(before + written(), encoding="utf-8")
