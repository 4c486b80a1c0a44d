"""The report: one line for each finding, with the fix where a rule first applies; or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from mcpkit._utils.text import single_line
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import SEVERITIES, Finding, Rule
from mcpkit.cli._check.schema_walk import enumerated

_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_MIN_ALIKE: Final = 4
"""Findings with the same message are merged into one line if there are this many, or more."""


def print_findings(
    console: Console, listing: Listing, findings: Sequence[Finding], silenced: int
) -> None:
    """Write findings and a summary."""
    explained: set[str] = set()
    before: tuple[str, str] | None = None
    for location, subject, rule, message in _lines(findings):
        if before not in (None, (location, subject)):
            console.print()
        before = location, subject
        text = Text.assemble(
            (f"{single_line(location)}  " if location else "", "dim"),
            (f"{single_line(subject)}  ", "bold"),
            (f"{rule.id} {rule.severity}", _STYLES[rule.severity]),
            f": {single_line(message)}",
        )
        _print(console, text)
        if rule.id not in explained:
            explained.add(rule.id)
            _print(console, Text(f"fix: {rule.fix}", "dim"), "    ")
    if findings:
        console.print()
    _print(console, Text(_summary(listing, findings, silenced)))
    if findings:
        hint = "mcpkit check --rules explains each rule; --ignore ID omits one."
        _print(console, Text(hint, "dim"))


def _print(console: Console, text: Text, indent: str = "") -> None:
    """Write a text, at a terminal in lines that fit, of which all but the first are indented."""
    lines = [text]
    if console.is_terminal:
        lines = [*text.wrap(console, max(console.width - len(indent) - 4, 36))]
    for number, line in enumerate(lines):
        line.rstrip()
        console.print(Text(indent + " " * 4 * bool(number)) + line)


def _lines(findings: Sequence[Finding]) -> Iterator[tuple[str, str, Rule, str]]:
    """Yield the location, subject, rule and message of lines.

    Many findings of one rule and kind are merged into one line, at the end.
    """
    keys = [_key(each) for each in findings]
    alike = Counter(keys)
    together: dict[tuple[str, ...], list[Finding]] = {}
    for key, each in zip(keys, findings, strict=True):
        if each.rule.severity != "error" and alike[key] >= _MIN_ALIKE:
            together.setdefault(key, []).append(each)
            continue
        entry = each.subject
        subject = f"{entry.kind} {entry.name}".rstrip()
        yield str(entry.location or ""), subject, each.rule, each.message
    for members in together.values():
        first = members[0]
        same = len({each.message for each in members}) == 1
        shown = [each.subject.name for each in members[:_MIN_ALIKE]]
        more = f" and {len(members) - _MIN_ALIKE} more" if len(members) > _MIN_ALIKE else ""
        message = first.message if same else first.rule.title
        subject = f"{len(members)} {first.subject.kind}s"
        yield "", subject, first.rule, f"{message}: {', '.join(shown)}{more}"


def _key(finding: Finding) -> tuple[str, ...]:
    if finding.rule.severity == "note":
        return finding.rule.id, finding.subject.kind
    location = str(finding.subject.location or "")
    return finding.rule.id, finding.subject.kind, finding.message, location


def _summary(listing: Listing, findings: Sequence[Finding], silenced: int) -> str:
    counts = Counter(each.rule.severity for each in findings)
    found = [_count(counts[each], each) for each in SEVERITIES if counts[each]]
    kinds = Counter(each.kind for each in listing.listed)
    checked = [_count(count, kind) for kind, count in kinds.items()]
    more = f" ({silenced} silenced)" if silenced else ""
    name = single_line(listing.itself.name) or "the server"
    result = enumerated(found) or "nothing found"
    return f"{name}: {result} in {enumerated(checked) or 'an empty server'}{more}."


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def as_json(
    target: str, listing: Listing, findings: Sequence[Finding], silenced: int
) -> Mapping[str, Any]:
    """Return the whole report as a JSON object."""
    counts = Counter(each.rule.severity for each in findings)
    return {
        "target": target,
        "revision": listing.revision.version,
        "server": listing.itself.raw,
        "counts": {each: counts[each] for each in SEVERITIES},
        "silenced": silenced,
        "findings": [each.to_json() for each in findings],
    }


def print_rules(console: Console, rules: Sequence[Rule]) -> None:
    """Write rules with their reasons, fixes and sources."""
    for number, rule in enumerate(rules):
        if number:
            console.print()
        head = (f"{rule.id} {rule.severity}", _STYLES[rule.severity])
        _print(console, Text.assemble(head, f": {rule.title}"))
        for each in (rule.reason, f"fix: {rule.fix}", rule.source):
            _print(console, Text(each), "    ")


def rules_as_json(rules: Sequence[Rule]) -> list[Mapping[str, Any]]:
    """Return rules as JSON objects."""
    names = ("severity", "title", "reason", "fix", "source")
    return [{"rule": each.id} | {name: getattr(each, name) for name in names} for each in rules]
