"""The part of ``docs/checks.md`` that is generated from the rules.

``python -m tests.cli.checks.page`` writes it.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from mcpkit.cli._check import RULES, THEMES
from mcpkit.cli._check.rules import Rule

PAGE: Final = Path(__file__).parents[3] / "docs" / "checks.md"
START: Final = "## The rules\n"


def written() -> str:
    """The page, from the heading of the rules to its end."""
    parts = [START]
    for theme, rules in groupby(RULES, lambda rule: rule.theme):
        parts.append(f"### {THEMES[theme]}\n")
        parts += map(_described, rules)
    return "\n".join(parts)


def _described(rule: Rule) -> str:
    return (
        f"#### {rule.id}\n\n"
        f"**{_escaped(rule.title)}** ({rule.severity}). {_escaped(rule.reason)}\n\n"
        f"Fix: {_escaped(rule.fix)}. [Source]({rule.source})\n"
    )


def _escaped(text: str) -> str:
    """Text as literal Markdown, except for what is in backticks."""
    parts = text.split("`")
    return "`".join(
        part if number % 2 else part.replace("*", r"\*").replace("_", r"\_").replace("[", r"\[")
        for number, part in enumerate(parts)
    )


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition(START)[0]
    PAGE.write_text(before + written(), encoding="utf-8")
