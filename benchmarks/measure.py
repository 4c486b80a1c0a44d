"""Rounds, ratios, budgets and tables: figures become verdicts here, and nothing is timed here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

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
class AtMost:
    """A promise: the subject is at most `factor` times the reference, plus `plus`."""

    subject: str
    reference: str
    factor: float
    plus: float = 0.0


@dataclass(frozen=True)
class AtLeast:
    """A promise: the subject has at least `factor` times the speed of the reference.

    The ratio of two rates is that of the speeds, the ratio of two times is its reciprocal.
    """

    subject: str
    reference: str
    factor: float


@dataclass(frozen=True)
class Ceiling:
    """A promise without a reference: the subject is at most this."""

    subject: str
    most: float
    unit: Unit


Promise: TypeAlias = AtMost | AtLeast | Ceiling


@dataclass(frozen=True)
class Finding:
    """What a run says of a promise.

    Args:
        found: The figure that is judged, with its range; or why there is none.
        reached: Whether the promise is kept; None if that was not measured.
        doubt: Why the figure should not be trusted, if there is a reason.
    """

    found: str
    reached: bool | None = None
    doubt: str = ""

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.reached is None:
            return "not measured"
        said = "reached" if self.reached else "missed"
        return f"{said}, UNRELIABLE" if self.doubt else said


@dataclass
class Comparison:
    """One figure for every contender.

    `figure` is its name in the table of budgets, if there is a budget for it. `absent` says, for a
    contender without figures, why there are none; `doubt`, if there is any, why the figures should
    not be trusted.
    """

    title: str
    unit: Unit
    labels: dict[str, str]
    series: dict[str, Series] = field(default_factory=dict[str, Series])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    figure: str = ""
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


def judge(comparison: Comparison, promise: Promise) -> Finding:
    """What the figures say of a promise."""
    names = [promise.subject]
    if not isinstance(promise, Ceiling):
        names.append(promise.reference)
    for name in names:
        if name not in comparison.series:
            why = comparison.absent.get(name, "not part of the run").partition(":")[0]
            return Finding(f"{comparison.labels.get(name, name)} {why}")
    mine = comparison.series[promise.subject]
    if isinstance(promise, Ceiling):
        median, low, high = (
            format_value(value, comparison.unit) for value in (mine.median, mine.low, mine.high)
        )
        return Finding(f"{median} ({low} … {high})", mine.median <= promise.most, comparison.doubt)
    theirs = comparison.series[promise.reference]
    if isinstance(promise, AtLeast):
        speed = theirs.over(mine) if comparison.unit == "s" else mine.over(theirs)
        return Finding(_range(speed), speed.median >= promise.factor, comparison.doubt)
    allowed = Series(tuple(promise.factor * value + promise.plus for value in theirs.rounds))
    found = _range(mine.over(theirs))
    if promise.plus:
        found += f", {format_value(allowed.median, comparison.unit)} allowed"
    return Finding(found, mine.over(allowed).median <= 1, comparison.doubt)


def _range(ratio: Series) -> str:
    return (
        f"{format_ratio(ratio.median)} × ({format_ratio(ratio.low)} … {format_ratio(ratio.high)})"
    )


def table(comparison: Comparison) -> str:
    """The comparison as text: one line per contender."""
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
    return "\n".join([comparison.title, *columns(rows)])


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows as lines of aligned columns; a row that is shorter than the first is not aligned.

    Args:
        rows: Of cells.
        left: How many columns are aligned to the left.
    """
    full = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(len(row[i]) for row in full) for i in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    lines: list[str] = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *row[1:]]
        if len(row) == len(widths):
            cells = [
                cell.ljust(width) if place < left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
