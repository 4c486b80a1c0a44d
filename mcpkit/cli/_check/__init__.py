"""The rules of ``mcpkit check``, in the order of the report.

A rule looks at a `Listing`, everything that a server lists, and yields the faults that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mcpkit.cli._check import behaviour, names, safety, schemas, server, skills, views
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import KNOWN, SEVERITIES, Finding, Match, Rule
from mcpkit.cli._check.schema_walk import listed

THEMES: Final = {
    "NAME": "Names",
    "DESC": "Descriptions",
    "SCHEMA": "Input schemas",
    "COST": "Cost",
    "HINT": "Annotations",
    "OUT": "Results",
    "RES": "Resources",
    "SKILL": "Skills",
    "VIEW": "Views",
    "SERVER": "The server",
    "CODE": "Code",
    "MOVE": "Names that are not, or no longer, those of mcpkit",
    "SAFE": "Safety",
}
"""Theme, the letters of an id → its heading."""

REMOVED: Final = (
    *("NAME007", "DESC004", "DESC007", "DESC008", "DESC009", "DESC010"),
    *("SCHEMA007", "SCHEMA010", "SCHEMA011", "SCHEMA012", "SCHEMA014", "SCHEMA018"),
    *("COST005", "COST006", "HINT002", "OUT001", "OUT002", "OUT004", "TASK001", "TASK002"),
    *("RES001", "RES002", "PROMPT001", "PROMPT002", "SERVER001", "SERVER002", "CAP001", "CAP002"),
    *("CAP003", "SAFE004", "SAFE007"),
)
"""Ids of rules that no longer exist. Settings may still name them, and no new rule gets one."""

_MODULES: Final = (behaviour, names, safety, schemas, server, skills, views)
"""They register their rules when they are imported."""

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted(KNOWN, key=lambda each: ([*THEMES].index(each.theme), each.id))
)


def unknown(prefixes: Iterable[str]) -> list[str]:
    """Return the prefixes that match no id of a rule, past or present."""
    ids = (*REMOVED, *(rule.id for rule in RULES))
    return [each for each in prefixes if not each or not any(id.startswith(each) for id in ids)]


def choose(select: Sequence[str], ignore: Sequence[str]) -> list[Rule]:
    """Return the rules to apply, by ids or their prefixes; `select` may be empty for all rules."""
    return [
        rule
        for rule in RULES
        if (not select or rule.id.startswith(tuple(select)))
        and not rule.id.startswith(tuple(ignore))
    ]


def apply(listing: Listing, rules: Iterable[Rule] = RULES) -> tuple[list[Finding], int]:
    """Apply rules to a server, and return the findings, entry by entry, the worst first.

    Beside them is the number of findings that entries silence in their ``_meta``. Safety rules
    cannot be silenced there, because a server must not decide whether it is trusted.
    """
    findings = [_finding(rule, each) for rule in rules for each in rule.find(listing)]
    reported = [each for each in findings if not _is_silenced(each)]
    order = {id(entry): number for number, entry in enumerate(listing.entries)}
    reported.sort(key=lambda each: (order[id(each.subject)], SEVERITIES.index(each.rule.severity)))
    return reported, len(findings) - len(reported)


def _finding(rule: Rule, match: Match) -> Finding:
    paths = [each for each in match.paths if each]
    message = match.message or rule.title
    if paths:
        message += f" (in {listed(paths)})" if match.message else f": {listed(paths)}"
    return Finding(rule, match.subject, message, paths)


def _is_silenced(finding: Finding) -> bool:
    ignored = tuple(each for each in finding.subject.ignored if each)
    return finding.rule.theme != "SAFE" and finding.rule.id.startswith(ignored)
