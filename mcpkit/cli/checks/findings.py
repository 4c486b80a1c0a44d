"""What rules say, and what is known of a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from mcpkit.cli.checks.served import Entry, Served
from mcpkit.protocol.revisions import HANDSHAKE

__all__ = ["SEVERITIES", "SPEC", "Find", "Finding", "Found", "Rule", "Severity", "rule"]

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""From the worst to the mildest.

error: a named host or model API refuses it, or the specification forbids it. warning: a model or
a user will stumble over it, or an API refuses it that some hosts protect from it. note: worth
knowing, and often right as it is.
"""

SPEC: Final = f"https://modelcontextprotocol.io/specification/{HANDSHAKE[-1].version}"
"""Where the specification is, for sources."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule says of one subject.

    Args:
        subject: What it is about.
        message: What is wrong, without the subject's name.
        path: Where inside the subject, such as ``people[].age``; empty for the whole.
    """

    subject: Entry
    message: str
    path: str = ""


Find: TypeAlias = Callable[[Served], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Args:
        id: A theme and a number; never given to another rule.
        severity: How bad it is.
        title: What it finds, in a few words.
        reason: Why it matters, and to whom.
        fix: What to do, in one line.
        source: A URL where that can be read.
        find: Finds it.
    """

    id: str
    severity: Severity
    title: str
    reason: str
    fix: str
    source: str
    find: Find


def rule(
    id: str, severity: Severity, title: str, *, reason: str, fix: str, source: str
) -> Callable[[Find], Rule]:
    """Make a rule of a function that finds something."""

    def make(find: Find) -> Rule:
        return Rule(id, severity, title, reason, fix, source, find)

    return make


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has found, as it is reported."""

    rule: Rule
    subject: Entry
    message: str
    path: str

    def to_json(self) -> Mapping[str, Any]:
        """As it stands in ``--json``."""
        at = self.subject.location
        return {
            "rule": self.rule.id,
            "severity": self.rule.severity,
            "subject": {"kind": self.subject.kind, "name": self.subject.name},
            "path": self.path or None,
            "message": self.message,
            "fix": self.rule.fix,
            "source": self.rule.source,
            "location": None if at is None else {"file": at.file, "line": at.line},
        }
