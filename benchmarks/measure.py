"""Rounds, ratios, budgets and tables: figures become verdicts here, and nothing is timed here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["s", "/s", "bytes", "blocks"]

BARE, MCPKIT, OFFICIAL, FASTMCP = "bare", "mcpkit", "official", "fastmcp"
LOWLEVEL, UVLOOP, CONTROL = "official_lowlevel", "official_uvloop", "control"
_CONTROL_TOLERANCE = 0.1


@dataclass(frozen=True)
class Series:
    """One figure, measured once per round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def low(self) -> float:
        return min(self.rounds)

    @property
    def high(self) -> float:
        return max(self.rounds)

    def over(self, other: Series) -> Series:
        """The ratio to another series, round by round, so that a slow moment hits both sides."""
        return Series(tuple(a / b for a, b in zip(self.rounds, other.rounds, strict=True)))


@dataclass(frozen=True)
class Budget:
    """A promise: the subject is at most (or at least) `factor` times the reference, plus `plus`."""

    subject: str
    reference: str
    factor: float
    plus: float = 0.0
    at_least: bool = False

    def allowance(self, reference: Series) -> Series:
        return Series(tuple(self.factor * value + self.plus for value in reference.rounds))

    def reached(self, subject: Series, reference: Series) -> bool:
        """Whether the median share of the allowance, over the rounds, keeps the promise."""
        share = subject.over(self.allowance(reference)).median
        return share >= 1 if self.at_least else share <= 1


@dataclass(frozen=True)
class Ceiling:
    """A promise without a reference: the subject is at most this, in the comparison's unit."""

    subject: str
    most: float


@dataclass
class Comparison:
    """One figure for every contender, with the budgets that hang on it.

    `absent` says, for a contender without figures, why there are none; `doubt`, if there is any,
    why the figures should not be trusted.
    """

    title: str
    unit: Unit
    labels: dict[str, str]
    series: dict[str, Series] = field(default_factory=dict[str, Series])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    budgets: tuple[Budget | Ceiling, ...] = ()
    references: tuple[str, ...] = (BARE, OFFICIAL)
    doubt: str = ""

    def __post_init__(self) -> None:
        if not self.doubt and self._control_differs():
            self.doubt = "the control differs from the bare server, though it is the same"

    def _control_differs(self) -> bool:
        if CONTROL not in self.series or BARE not in self.series:
            return False
        return abs(self.series[CONTROL].over(self.series[BARE]).median - 1) > _CONTROL_TOLERANCE


class Dropout(Exception):
    """A contender cannot be measured; the message says why."""


def interleave(
    contenders: Sequence[str],
    rounds: int,
    measure: Callable[[str, int], dict[str, float]],
    absent: dict[str, str],
    *,
    warm_up: bool = False,
) -> dict[str, dict[str, Series]]:
    """Measure every contender once per round, A B C then B C A, so that drift hits all alike.

    Args:
        contenders: Who takes part.
        rounds: How many rounds count.
        measure: Called with the contender and the round; returns its figures.
        absent: Receives those that raised `Dropout`; they leave with their earlier rounds.
        warm_up: Whether a round, numbered -1, comes before and is thrown away.

    Returns:
        Figure, then contender, to its series.
    """
    figures: dict[str, dict[str, list[float]]] = {}
    running = list(contenders)
    for number in range(-1 if warm_up else 0, rounds):
        shift = number % max(len(running), 1)
        for contender in running[shift:] + running[:shift]:
            try:
                values = measure(contender, number)
            except Dropout as reason:
                absent[contender] = str(reason)
                running.remove(contender)
                continue
            if number >= 0:
                for figure, value in values.items():
                    figures.setdefault(figure, {}).setdefault(contender, []).append(value)
    return {
        figure: {
            contender: Series(tuple(values))
            for contender, values in by_contender.items()
            if contender in running
        }
        for figure, by_contender in figures.items()
    }


def format_value(value: float, unit: Unit) -> str:
    """A value with its unit, to about three digits."""
    if unit == "/s":
        return f"{value:,.0f} /s"
    if unit == "blocks":
        return f"{value:,.2f}"
    if unit == "bytes":
        return f"{value / 1000:,.1f} kB" if abs(value) >= 1000 else f"{value:,.1f} B"
    return f"{value * 1e3:,.1f} ms" if value >= 1e-3 else f"{value * 1e6:,.1f} µs"


def format_ratio(value: float) -> str:
    """A ratio, to about three digits."""
    return f"{value:.3g}" if value < 99.95 else f"{value:,.0f}"


def verdict(comparison: Comparison, budget: Budget | Ceiling) -> tuple[str, bool | None]:
    """What to print about a budget, and whether it is reached (None: could not be measured)."""
    if isinstance(budget, Ceiling):
        return _verdict_without_reference(comparison, budget)
    subject, reference = comparison.labels[budget.subject], comparison.labels[budget.reference]
    promise = (
        f"{subject} at {'least' if budget.at_least else 'most'} {budget.factor:g} × {reference}"
        + (f" + {format_value(budget.plus, comparison.unit)}" if budget.plus else "")
    )
    for contender in (budget.subject, budget.reference):
        if contender not in comparison.series:
            return f"{promise}: {_why_not_judged(comparison, contender)}", None
    mine, theirs = comparison.series[budget.subject], comparison.series[budget.reference]
    ratio = mine.over(theirs)
    reached = budget.reached(mine, theirs)
    line = (
        f"{promise}: {format_ratio(ratio.median)} ×"
        f" ({format_ratio(ratio.low)} … {format_ratio(ratio.high)})"
    )
    if budget.plus:
        allowed = budget.allowance(theirs).median
        line += f", {format_value(allowed, comparison.unit)} allowed"
    line += f" → {'reached' if reached else 'MISSED'}"
    if comparison.doubt:
        line += f" (UNRELIABLE: {comparison.doubt})"
    return line, reached


def _verdict_without_reference(comparison: Comparison, budget: Ceiling) -> tuple[str, bool | None]:
    most = format_value(budget.most, comparison.unit)
    promise = f"{comparison.labels[budget.subject]} at most {most}"
    series = comparison.series.get(budget.subject)
    if series is None:
        return f"{promise}: {_why_not_judged(comparison, budget.subject)}", None
    median, low, high = (
        format_value(value, comparison.unit) for value in (series.median, series.low, series.high)
    )
    reached = series.median <= budget.most
    return f"{promise}: {median} ({low} … {high}) → {'reached' if reached else 'MISSED'}", reached


def _why_not_judged(comparison: Comparison, contender: str) -> str:
    why = comparison.absent.get(contender, "not measured").partition(":")[0]
    return f"not judged, {comparison.labels[contender]} {why}"


def table(comparison: Comparison) -> str:
    """The comparison as text: one line per contender, then one per budget."""
    references = [name for name in comparison.references if name in comparison.series]
    rows = [["", "median", "low … high", *(f"× {comparison.labels[r]}" for r in references)]]
    for contender, label in comparison.labels.items():
        series = comparison.series.get(contender)
        if series is None:
            if contender in comparison.absent:
                rows.append([label, comparison.absent[contender]])
            continue
        low, high = (format_value(v, comparison.unit) for v in (series.low, series.high))
        rows.append(
            [
                label,
                format_value(series.median, comparison.unit),
                f"{low} … {high}",
                *(format_ratio(series.over(comparison.series[r]).median) for r in references),
            ]
        )
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[i]) for row in full) for i in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    lines = [comparison.title]
    for row in rows:
        if len(row) == len(widths):
            cells = [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        else:
            cells = [row[0].ljust(widths[0]), *row[1:]]
        lines.append("  " + "  ".join(cells).rstrip())
    lines += ["  budget: " + verdict(comparison, budget)[0] for budget in comparison.budgets]
    return "\n".join(lines)
