"""The budgets: what every figure is promised to be, as one table, and what a run says of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.client import IN_FLIGHT, LEGACY, MODERN
from benchmarks.measure import (
    BARE,
    LOWLEVEL,
    MCPKIT,
    OFFICIAL,
    AtLeast,
    AtMost,
    Ceiling,
    Comparison,
    Finding,
    Promise,
    columns,
    format_value,
    judge,
)

# --- the names of figures -------------------------------------------------------------------------

IMPORT = "import"
HELP = "help"
START = "cold start"
FIRST_LIST = "500 tools, made and listed"
LATER_LIST = "500 tools, listed later"
IDLE_SESSION = "HTTP, idle session"
ABANDONED_SESSION = "HTTP, abandoned session"
PYDANTIC, TYPER = "pydantic", "typer"
OPENED, CALLED = "opened", "called"
PLAIN = "plain"


def stdio(revision: str, in_flight: int) -> str:
    """Frameworks over stdio: latency with one call in flight, calls per second with more."""
    return f"stdio {revision}, {in_flight} in flight"


def http(revision: str, connections: int) -> str:
    """Frameworks over HTTP: calls per second."""
    return f"HTTP {revision}, {_connections(connections)}"


def stdio_kinds(revision: str, in_flight: int) -> str:
    """Kinds of calls over stdio: calls per second."""
    return f"kinds, stdio {revision}, {in_flight} in flight"


def http_kinds(revision: str, connections: int) -> str:
    """Kinds of calls over HTTP: calls per second."""
    return f"kinds, HTTP {revision}, {_connections(connections)}"


def _connections(count: int) -> str:
    return f"{count} connection" if count == 1 else f"{count} connections"


# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """A row: a figure, by its name above, and what is promised of it."""

    figure: str
    promise: Promise


BUDGETS: tuple[Budget, ...] = (
    Budget(IMPORT, AtMost(MCPKIT, PYDANTIC, 1.3, plus=0.025)),
    Budget(HELP, AtMost(MCPKIT, TYPER, 2.5)),
    Budget(START, AtMost(MCPKIT, OFFICIAL, 0.45)),
    Budget(stdio(LEGACY, 1), AtMost(MCPKIT, BARE, 1.5)),
    Budget(stdio(LEGACY, IN_FLIGHT), AtLeast(MCPKIT, BARE, 0.5)),
    Budget(stdio(LEGACY, IN_FLIGHT), AtLeast(MCPKIT, OFFICIAL, 20)),
    Budget(stdio(LEGACY, IN_FLIGHT), AtLeast(MCPKIT, LOWLEVEL, 20)),
    Budget(FIRST_LIST, AtLeast(MCPKIT, BARE, 0.6)),
    Budget(FIRST_LIST, AtMost(MCPKIT, OFFICIAL, 0.5)),
    Budget(LATER_LIST, AtMost(MCPKIT, OFFICIAL, 0.05)),
    *(
        Budget(http(revision, connections), AtLeast(MCPKIT, reference, factor))
        for revision in (LEGACY, MODERN)
        for connections, reference, factor in (
            (1, BARE, 0.7),
            (1, OFFICIAL, 6),
            (1, LOWLEVEL, 6),
            (32, BARE, 1.0),
            (32, OFFICIAL, 12),
            (32, LOWLEVEL, 12),
        )
    ),
    *(
        Budget(stdio_kinds(revision, IN_FLIGHT), AtLeast(kind, reference, factor))
        for revision in (LEGACY, MODERN)
        for kind, reference, factor in (
            (PLAIN, BARE, 0.5),
            ("ctx", BARE, 0.4),
            ("def", PLAIN, 0.3),
        )
    ),
    *(
        Budget(http_kinds(revision, 32), AtLeast(kind, reference, factor))
        for revision in (LEGACY, MODERN)
        for kind, reference, factor in (
            (PLAIN, BARE, 1.0),
            ("ctx", PLAIN, 0.8),
            ("inline", PLAIN, 0.8),
            ("def", PLAIN, 0.3),
            ("resource", PLAIN, 0.8),
            ("prompt", PLAIN, 0.8),
            ("principal", PLAIN, 0.8),
            ("rate_limit", PLAIN, 0.8),
            ("mounted", BARE, 0.75),
            ("uvicorn", BARE, 0.75),
        )
    ),
    Budget(IDLE_SESSION, Ceiling(MCPKIT, 200, "bytes")),
    # The noise: a hundred kilobytes, or 25 pages, over all of them.
    Budget(ABANDONED_SESSION, Ceiling(OPENED, 10, "bytes")),
    Budget(ABANDONED_SESSION, Ceiling(CALLED, 10, "bytes")),
)

# --- what a run says of them ----------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """A budget, and what was found."""

    budget: Budget
    finding: Finding

    @property
    def promise(self) -> str:
        """The promise, as a phrase."""
        promise = self.budget.promise
        subject = _name(promise.subject)
        if isinstance(promise, Ceiling):
            return f"{subject} at most {format_value(promise.most, promise.unit)}"
        reference = _name(promise.reference)
        if isinstance(promise, AtLeast):
            return f"{subject} at least {promise.factor:g} × the speed of {reference}"
        plus = f" + {format_value(promise.plus, 's')}" if promise.plus else ""
        return f"{subject} at most {promise.factor:g} × {reference}{plus}"


def judge_all(comparisons: Iterable[Comparison]) -> list[Judgement]:
    """Every budget of the table, in its order; those without a figure were not measured."""
    measured = {each.figure: each for each in comparisons if each.figure}
    return [
        Judgement(budget, judge(measured[budget.figure], budget.promise))
        if budget.figure in measured
        else Judgement(budget, Finding(""))
        for budget in BUDGETS
    ]


def summary(judgements: Iterable[Judgement]) -> str:
    """A line for each budget: the figure, the promise, what was found, and the verdict.

    Below them is what speaks against figures.
    """
    rows = [["budget", "promise", "found", "verdict"]]
    doubts: dict[str, str] = {}
    for each in judgements:
        finding = each.finding
        rows.append([each.budget.figure, each.promise, finding.found, finding.verdict])
        if finding.doubt:
            doubts[each.budget.figure] = finding.doubt
    unreliable = [f"  UNRELIABLE, {figure}: {doubt}" for figure, doubt in doubts.items()]
    return "\n".join(columns(rows, left=len(rows[0])) + unreliable)


def _name(contender: str) -> str:
    return _NAMES.get(contender, contender)


_NAMES = {
    BARE: "the bare server",
    OFFICIAL: "the official SDK",
    LOWLEVEL: "the official SDK, low-level",
    PYDANTIC: "import pydantic",
    TYPER: "import typer",
    OPENED: "left after initialize",
    CALLED: "left after a call",
}
