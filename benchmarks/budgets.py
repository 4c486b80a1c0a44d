"""The budgets: the promise for every figure, as one table, and whether a run keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.client import IN_FLIGHT, LEGACY, MODERN
from benchmarks.measure import (
    BARE,
    LOWLEVEL,
    MCPKIT,
    OFFICIAL,
    Comparison,
    Series,
    columns,
    format_ratio,
    format_value,
)

IMPORT = "import"
START = "cold start"
FIRST_LIST = "500 tools, made and listed"
LATER_LIST = "500 tools, listed later"
PYDANTIC = "pydantic"
PLAIN = "plain"
MANY = 32
"""Connections over HTTP."""


def stdio(revision: str, in_flight: int, kinds: bool = False) -> str:
    """Latency over stdio with one call in flight, calls per second with more."""
    return f"{'kinds, ' if kinds else ''}stdio {revision}, {in_flight} in flight"


def http(revision: str, connections: int, kinds: bool = False) -> str:
    """Calls per second over HTTP."""
    many = "" if connections == 1 else "s"
    return f"{'kinds, ' if kinds else ''}HTTP {revision}, {connections} connection{many}"


class Budget(NamedTuple):
    """A promise about a subject's figure, as a ratio to the reference."""

    figure: str
    subject: str
    reference: str
    least: float = 0.0  # how many times the speed of the reference it has at least
    most: float = 0.0  # or how many times the figure of the reference it is at most,
    plus: float = 0.0  # plus these seconds

    @property
    def promise(self) -> str:
        """The promise, as a phrase."""
        subject, reference = (_NAMES.get(each, each) for each in (self.subject, self.reference))
        if self.least:
            return f"{subject} at least {self.least:g} × the speed of {reference}"
        plus = f" + {format_value(self.plus, 's')}" if self.plus else ""
        return f"{subject} at most {self.most:g} × {reference}{plus}"


_NAMES = {
    BARE: "the bare server",
    OFFICIAL: "the official SDK",
    LOWLEVEL: "the official SDK, low-level",
    PYDANTIC: "import pydantic",
}
_ERAS = (LEGACY, MODERN)
_FRAMEWORKS_OVER_HTTP = (
    (1, BARE, 0.7),
    (1, OFFICIAL, 6),
    (1, LOWLEVEL, 6),
    (MANY, BARE, 1.0),
    (MANY, OFFICIAL, 12),
    (MANY, LOWLEVEL, 12),
)
_OBSERVED = (("metrics", 1.05), ("audit", 1.25), ("traced", 2), ("observed", 2.5))
"""How many times the time of the plain call they take at most."""

_KINDS_OVER_STDIO = ((PLAIN, BARE, 0.5), ("ctx", BARE, 0.4), ("def", PLAIN, 0.3))
_KINDS_OVER_HTTP = (
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

BUDGETS: tuple[Budget, ...] = (
    Budget(IMPORT, MCPKIT, PYDANTIC, most=1.3, plus=0.025),
    Budget(START, MCPKIT, OFFICIAL, most=0.45),
    Budget(stdio(LEGACY, 1), MCPKIT, BARE, most=1.5),
    Budget(stdio(LEGACY, IN_FLIGHT), MCPKIT, BARE, 0.5),
    Budget(stdio(LEGACY, IN_FLIGHT), MCPKIT, OFFICIAL, 20),
    Budget(stdio(LEGACY, IN_FLIGHT), MCPKIT, LOWLEVEL, 20),
    Budget(FIRST_LIST, MCPKIT, BARE, 0.6),
    Budget(FIRST_LIST, MCPKIT, OFFICIAL, most=0.5),
    Budget(LATER_LIST, MCPKIT, OFFICIAL, most=0.05),
    *(
        Budget(http(era, connections), MCPKIT, reference, least)
        for era in _ERAS
        for connections, reference, least in _FRAMEWORKS_OVER_HTTP
    ),
    *(Budget(stdio(era, IN_FLIGHT, True), *row) for era in _ERAS for row in _KINDS_OVER_STDIO),
    *(Budget(http(era, MANY, True), *row) for era in _ERAS for row in _KINDS_OVER_HTTP),
    *(
        budget
        for era in _ERAS
        for kind, times in _OBSERVED
        for budget in (
            Budget(stdio(era, 1, True), kind, PLAIN, most=times),
            Budget(http(era, MANY, True), kind, PLAIN, least=1 / times),
        )
    ),
)


class Judgement(NamedTuple):
    """A budget, and what a run says of it."""

    budget: Budget
    found: str = ""  # the figure that is judged, with its range, or why there is none
    reached: bool | None = None  # None if that was not measured
    is_reliable: bool = True

    @property
    def verdict(self) -> str:
        """The judgement in a word or two."""
        if self.reached is None:
            return "not measured"
        return ("reached" if self.reached else "missed") + (
            "" if self.is_reliable else ", UNRELIABLE"
        )


def judge_all(comparisons: Iterable[Comparison]) -> list[Judgement]:
    """Judge every budget of the table, in its order; those without a figure were not measured."""
    measured = {each.figure: each for each in comparisons if each.figure}
    return [
        _judge(budget, measured[budget.figure]) if budget.figure in measured else Judgement(budget)
        for budget in BUDGETS
    ]


def _judge(budget: Budget, comparison: Comparison) -> Judgement:
    for name in (budget.subject, budget.reference):
        if name not in comparison.series:
            why = comparison.absent.get(name, "not part of the run").partition(":")[0]
            return Judgement(budget, f"{comparison.labels.get(name, name)} {why}")
    mine, theirs = comparison.series[budget.subject], comparison.series[budget.reference]
    if budget.least:
        ratio = theirs.over(mine) if comparison.unit == "s" else mine.over(theirs)
        reached, allowance = ratio.median >= budget.least, ""
    else:
        ratio = mine.over(theirs)
        allowed = Series(tuple(budget.most * value + budget.plus for value in theirs.rounds))
        reached = mine.over(allowed).median <= 1
        allowance = f", {format_value(allowed.median, comparison.unit)} allowed"
    median, span = ratio.shown(format_ratio)
    found = f"{median} × ({span}){allowance if budget.plus else ''}"
    return Judgement(budget, found, reached, comparison.is_reliable)


def summary(judgements: Iterable[Judgement]) -> str:
    """A line for each budget."""
    rows = [["budget", "promise", "found", "verdict"]]
    rows += [
        [each.budget.figure, each.budget.promise, each.found, each.verdict] for each in judgements
    ]
    return "\n".join(columns(rows, left=len(rows[0])))
