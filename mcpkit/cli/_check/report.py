"""Findings for people: grouped by subject, a line each, and the fix where it first applies."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from mcpkit._utils.text import single_line
from mcpkit.cli._check.listing import Served
from mcpkit.cli._check.rules import SEVERITIES, Finding, Rule
from mcpkit.cli._check.schema_walk import enumerated

__all__ = ["as_json", "print_findings", "print_rules", "rules_as_json"]

_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_MIN_ALIKE: Final = 4
"""Findings that say the same become one line if there are as many, or more."""


class _Line(NamedTuple):
    where: str
    what: str
    rule: Rule
    message: str


def print_findings(
    console: Console, served: Served, findings: Sequence[Finding], silenced: int
) -> None:
    """Write findings and a summary to a terminal or a pipe.

    On a terminal lines are wrapped; elsewhere each finding is one line, for grep.
    """
    explained: set[str] = set()
    before: tuple[str, str] | None = None
    for line in _lines(findings):
        if before is not None and before != (line.where, line.what):
            console.print()
        before = (line.where, line.what)
        _print_finding(console, line)
        if line.rule.id not in explained:
            explained.add(line.rule.id)
            _print_indented(console, f"fix: {line.rule.fix}", "dim")
    if findings:
        console.print()
    for part in _wrapped(console, _summary(served, findings, silenced)):
        console.print(Text(part))
    if findings:
        hint = "mcpkit check --rules says more about each; --ignore ID leaves one out."
        console.print(Text(hint, "dim"))


def _lines(findings: Sequence[Finding]) -> Iterator[_Line]:
    """Yield findings as lines; many of one rule and kind become one line, at the end.

    Notes always do, warnings if they say the same and no line of a file would be lost.
    """
    keys = [_key(each) for each in findings]
    alike = Counter(keys)
    together: dict[tuple[str, ...], list[Finding]] = {}
    for key, each in zip(keys, findings, strict=True):
        if each.rule.severity != "error" and alike[key] >= _MIN_ALIKE:
            together.setdefault(key, []).append(each)
            continue
        at = each.subject.location
        what = f"{each.subject.kind} {each.subject.name}".rstrip()
        message = each.message
        if each.path and each.path.isidentifier() and repr(each.path) not in message:
            message += f" (in {each.path})"
        yield _Line(str(at or ""), what, each.rule, message)
    for members in together.values():
        first = members[0]
        same = len({each.message for each in members}) == 1
        shown = [each.subject.name for each in members[:_MIN_ALIKE]]
        more = f" and {len(members) - _MIN_ALIKE} more" if len(members) > _MIN_ALIKE else ""
        message = first.message if same else first.rule.title
        what = f"{len(members)} {first.subject.kind}s"
        yield _Line("", what, first.rule, f"{message}: {', '.join(shown)}{more}")


def _key(finding: Finding) -> tuple[str, ...]:
    if finding.rule.severity == "note":
        return finding.rule.id, finding.subject.kind
    where = str(finding.subject.location or "")
    return finding.rule.id, finding.subject.kind, finding.message, where


def _print_finding(console: Console, line: _Line) -> None:
    where = f"{single_line(line.where)}  " if line.where else ""
    what = single_line(line.what)
    severity = line.rule.severity
    head = f"{where}{what}  {line.rule.id} {severity}: "
    body = _wrapped(console, head + single_line(line.message))
    text = Text("\n".join(body))
    start = len(where)
    text.stylize("dim", 0, start)
    text.stylize("bold", start, start + len(what))
    found = text.plain.find(f"{line.rule.id} {severity}:")
    if found >= 0:
        text.stylize(_STYLES[severity], found, found + len(f"{line.rule.id} {severity}"))
    console.print(text)


def _print_indented(console: Console, message: str, style: str) -> None:
    for part in _wrapped(console, message, "    "):
        console.print(Text(part, style))


def _wrapped(console: Console, message: str, indent: str = "") -> list[str]:
    if not console.is_terminal:
        return [indent + message]
    lines = textwrap.wrap(
        message,
        max(console.width, 40),
        initial_indent=indent,
        subsequent_indent=f"{indent}     " if message.startswith("fix: ") else indent or "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def _summary(served: Served, findings: Sequence[Finding], silenced: int) -> str:
    counts = Counter(each.rule.severity for each in findings)
    found = [_several(counts[each], each) for each in SEVERITIES if counts[each]]
    looked = [
        _several(len(entries), noun)
        for noun, entries in (
            ("tool", served.tools),
            ("resource", served.resources),
            ("template", served.templates),
            ("prompt", served.prompts),
        )
        if entries
    ]
    more = f" ({silenced} silenced)" if silenced else ""
    name = single_line(served.itself.name) or "the server"
    said = enumerated(found) or "nothing found"
    return f"{name}: {said} in {enumerated(looked) or 'an empty server'}{more}."


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def as_json(
    target: str, served: Served, findings: Sequence[Finding], silenced: int
) -> Mapping[str, Any]:
    """Return the whole report as a JSON object, for programs."""
    counts = Counter(each.rule.severity for each in findings)
    return {
        "target": target,
        "revision": served.revision.version,
        "server": served.itself.raw,
        "counts": {each: counts[each] for each in SEVERITIES},
        "silenced": silenced,
        "findings": [each.to_json() for each in findings],
    }


def print_rules(console: Console, rules: Sequence[Rule]) -> None:
    """Write rules with their reasons, fixes and sources."""
    for number, rule in enumerate(rules):
        if number:
            console.print()
        text = Text(f"{rule.id} {rule.severity}: {rule.title}")
        text.stylize(_STYLES[rule.severity], 0, len(f"{rule.id} {rule.severity}"))
        console.print(text)
        _print_indented(console, rule.reason, "")
        _print_indented(console, f"fix: {rule.fix}", "")
        _print_indented(console, rule.source, "dim")


def rules_as_json(rules: Sequence[Rule]) -> list[Mapping[str, Any]]:
    """Return rules as JSON objects, for programs."""
    return [
        {
            "rule": rule.id,
            "severity": rule.severity,
            "title": rule.title,
            "reason": rule.reason,
            "fix": rule.fix,
            "source": rule.source,
        }
        for rule in rules
    ]
