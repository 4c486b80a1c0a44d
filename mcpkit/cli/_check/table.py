"""The table of all rules, in the order in which they are reported and documented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mcpkit.cli._check import (  # noqa: F401 - each adds its rules
    behaviour,
    cost,
    descriptions,
    names,
    safety,
    schemas,
    server,
)
from mcpkit.cli._check.listing import Served
from mcpkit.cli._check.rules import KNOWN, Finding, Rule

__all__ = ["RULES", "THEMES", "check", "chosen", "unknown"]

THEMES: Final = {
    "NAME": "Names",
    "DESC": "Descriptions",
    "SCHEMA": "Input schemas",
    "COST": "Cost",
    "HINT": "Annotations",
    "OUT": "Results",
    "TASK": "Tasks",
    "RES": "Resources",
    "PROMPT": "Prompts",
    "SERVER": "The server",
    "CAP": "Capabilities",
    "MOVE": "Names of other libraries",
    "SAFE": "Safety",
}
"""The beginning of an id → its theme."""

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(KNOWN, key=lambda each: ([*THEMES].index(each.id.rstrip("0123456789")), each.id))
)


def unknown(beginnings: Iterable[str]) -> list[str]:
    """Return the beginnings with which no rule's id begins."""
    return [
        each for each in beginnings if not each or not any(r.id.startswith(each) for r in RULES)
    ]


def chosen(select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    """Return the rules to apply.

    Args:
        select: Ids of rules, or their beginnings; empty for all.
        ignore: Ids of rules that are not applied, or their beginnings.
    """
    return [
        rule
        for rule in RULES
        if (not select or rule.id.startswith(tuple(select)))
        and not (ignore and rule.id.startswith(tuple(ignore)))
    ]


def check(served: Served, rules: Iterable[Rule] = RULES) -> tuple[list[Finding], int]:
    """Apply rules.

    Returns:
        The findings, entry by entry in the order of the lists, the worst first; and the number of
        findings that the author has silenced in the entries themselves. Findings on safety are
        never silenced there, because a server must not decide whether it is trusted.
    """
    findings = list(_findings(served, rules))
    heard = [each for each in findings if not _silenced(each)]
    order = {id(entry): number for number, entry in enumerate(served.entries)}
    ranks = {"error": 0, "warning": 1, "note": 2}
    heard.sort(key=lambda each: (order[id(each.subject)], ranks[each.rule.severity]))
    return heard, len(findings) - len(heard)


def _findings(served: Served, rules: Iterable[Rule]) -> Iterator[Finding]:
    for rule in rules:
        for found in rule.find(served):
            yield Finding(rule, found.subject, found.message, found.path)


def _silenced(finding: Finding) -> bool:
    ignored = tuple(each for each in finding.subject.ignored if each)
    return (
        bool(ignored)
        and not finding.rule.id.startswith("SAFE")
        and finding.rule.id.startswith(ignored)
    )
