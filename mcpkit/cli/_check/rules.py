"""`Rule`, `Finding`, and the decorator that registers a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from mcpkit._protocol.revisions import HANDSHAKE
from mcpkit.cli._check.listing import Entry, Listing

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""The severities, worst first.

error: a named host or model API rejects it, or the specification forbids it. warning: a model or
a user will stumble over it, or an API rejects it that some hosts work around. note: worth knowing,
and often right as it is.
"""

SPEC: Final = f"https://modelcontextprotocol.io/specification/{HANDSHAKE[-1].version}"
"""The URL of the specification, for sources."""


@dataclass(frozen=True, slots=True)
class Match:
    """A fault in one entry.

    Args:
        subject: The entry with the fault.
        message: The fault, without the entry's name.
        path: The place inside the entry, such as ``people[].age``; empty for the whole entry.
    """

    subject: Entry
    message: str
    path: str = ""


Find: TypeAlias = Callable[[Listing], Iterator[Match]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Args:
        id: A theme and a number; never reused.
        severity: The severity of its findings.
        title: The fault, in a few words.
        reason: The harm of the fault, and who suffers it.
        fix: The remedy, in one line.
        source: A URL that documents the fault.
        find: Yields the faults of a server.
    """

    id: str
    severity: Severity
    title: str
    reason: str
    fix: str
    source: str
    find: Find

    @property
    def theme(self) -> str:
        """The letters of the id."""
        return self.id.rstrip("0123456789")


KNOWN: Final[list[Rule]] = []
"""The registered rules."""


def rule(
    id: str, severity: Severity, title: str, *, reason: str, fix: str, source: str
) -> Callable[[Find], Rule]:
    """Register a function that yields faults as a rule; arguments as for `Rule`."""

    def register(find: Find) -> Rule:
        made = Rule(id, severity, title, reason, fix, source, find)
        KNOWN.append(made)
        return made

    return register


@dataclass(frozen=True, slots=True)
class Finding:
    """A match with its rule, for the report."""

    rule: Rule
    subject: Entry
    message: str
    path: str

    def to_json(self) -> Mapping[str, Any]:
        """Return the finding as in ``--json``."""
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
