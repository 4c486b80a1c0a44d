"""`Rule`, `Finding`, and the decorator that registers a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from mcpkit._protocol.revisions import HANDSHAKE
from mcpkit.cli._check.listing import Entry, Listing
from mcpkit.cli._check.schema_walk import Node, walk

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""The severities, worst first.

error: a named host or model API rejects it, or the specification forbids it. warning: a model or
a user will stumble over it, or an API rejects it that some hosts work around. note: worth knowing,
and often right as it is.
"""

FAIL_ON: Final = (*SEVERITIES, "never")
"""The values of ``--fail-on``."""

SPEC: Final = f"https://modelcontextprotocol.io/specification/{HANDSHAKE[-1].version}"
"""The URL of the specification, for sources."""


class Match(NamedTuple):
    """A fault in one entry."""

    subject: Entry
    message: str = ""  # without the entry's name; empty for the title of the rule and the paths
    paths: Sequence[str] = ()  # in the entry, such as people[].age; empty for the whole entry


Find: TypeAlias = Callable[[Listing], Iterator[Match]]
"""Yields the faults of a server."""


class Rule(NamedTuple):
    """A rule."""

    id: str  # a theme and a number; never reused
    severity: Severity
    title: str  # the fault, in a few words
    reason: str  # its harm, and who suffers it
    fix: str
    source: str  # a URL that documents the fault
    find: Find

    @property
    def theme(self) -> str:
        """The letters of the id."""
        return self.id.rstrip("0123456789")


KNOWN: Final[list[Rule]] = []
"""The registered rules."""


def rule(
    head: str,
    *,
    reason: str,
    fix: str,
    source: str,
    tool: Callable[[Entry], object] | None = None,
    schema: Callable[[Node], object] | None = None,
) -> Callable[[Find], Rule]:
    """Register a function that yields faults as a rule; the head is ``ID SEVERITY: TITLE``.

    Instead, `tool` or `schema` is true for each tool, or schema of a parameter, with the fault.
    """
    name, _, title = head.partition(": ")
    id, _, severity = name.partition(" ")

    def register(find: Find) -> Rule:
        made = Rule(id, cast("Severity", severity), title, reason, fix, source, find)
        KNOWN.append(made)
        return made

    if tool is not None:
        register(lambda listing: (Match(each) for each in listing.tools if tool(each)))
    if schema is not None:
        register(
            lambda listing: chain.from_iterable(in_schemas(each, schema) for each in listing.tools)
        )
    return register


def in_schemas(tool: Entry, is_fault: Callable[[Node], object]) -> Iterator[Match]:
    """Yield a match with the paths of the schemas of a tool that have a fault, if there are any."""
    paths = [node.path or "(root)" for node in walk(tool.schema) if is_fault(node)]
    if paths:
        yield Match(tool, paths=list(dict.fromkeys(paths)))


class Finding(NamedTuple):
    """A match with its rule, for the report."""

    rule: Rule
    subject: Entry
    message: str
    paths: Sequence[str]

    def to_json(self) -> Mapping[str, Any]:
        """Return the finding as in ``--json``."""
        at = self.subject.location
        return {
            "rule": self.rule.id,
            "severity": self.rule.severity,
            "subject": {"kind": self.subject.kind, "name": self.subject.name},
            "path": ", ".join(self.paths) or None,
            "message": self.message,
            "fix": self.rule.fix,
            "source": self.rule.source,
            "location": None if at is None else at._asdict(),
        }
