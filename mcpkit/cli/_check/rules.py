"""Rules, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from mcpkit._protocol.revisions import HANDSHAKE
from mcpkit.cli._check.listing import Entry, Served

__all__ = ["KNOWN", "SEVERITIES", "SPEC", "Find", "Finding", "Found", "Rule", "Severity", "rule"]

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""All severities, from the worst to the mildest.

error: a named host or model API refuses it, or the specification forbids it. warning: a model or
a user will stumble over it, or an API refuses it that some hosts protect from it. note: worth
knowing, and often right as it is.
"""

SPEC: Final = f"https://modelcontextprotocol.io/specification/{HANDSHAKE[-1].version}"
"""The URL of the specification, for sources."""


@dataclass(frozen=True, slots=True)
class Found:
    """A fault that a rule has found in one subject.

    Args:
        subject: The entry with the fault.
        message: The fault, without the subject's name.
        path: The place inside the subject, such as ``people[].age``; empty for the whole.
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
        severity: Of every finding.
        title: The fault, in a few words.
        reason: The harm of the fault, and those who suffer it.
        fix: The remedy, in one line.
        source: A URL where that can be read.
        find: Yields the faults of a server.
    """

    id: str
    severity: Severity
    title: str
    reason: str
    fix: str
    source: str
    find: Find


KNOWN: Final[list[Rule]] = []
"""Every rule that has been made."""


def rule(
    id: str, severity: Severity, title: str, *, reason: str, fix: str, source: str
) -> Callable[[Find], Rule]:
    """Make a rule of a function that yields faults; arguments as for `Rule`."""

    def make(find: Find) -> Rule:
        made = Rule(id, severity, title, reason, fix, source, find)
        KNOWN.append(made)
        return made

    return make


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a rule has found, as it is reported."""

    rule: Rule
    subject: Entry
    message: str
    path: str

    def to_json(self) -> Mapping[str, Any]:
        """Return the finding as it stands in ``--json``."""
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
