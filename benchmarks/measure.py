"""Rounds, ratios and tables. Nothing is timed here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["s", "/s", "bytes"]

BARE, MCPKIT, OFFICIAL, FASTMCP = "bare", "mcpkit", "official", "fastmcp"
LOWLEVEL, CONTROL = "official_lowlevel", "control"
_CONTROL_TOLERANCE = 0.1


@dataclass(frozen=True)
class Series:
    """One figure, measured once per round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    def over(self, other: Series) -> Series:
        """The ratio to another series, round by round, so that a slow moment hits both sides."""
        return Series(tuple(a / b for a, b in zip(self.rounds, other.rounds, strict=True)))

    def shown(self, form: Callable[[float], str]) -> tuple[str, str]:
        """The median, and the range over the rounds."""
        return form(self.median), f"{form(min(self.rounds))} … {form(max(self.rounds))}"


@dataclass
class Comparison:
    """One figure for every contender.

    `figure` is its name in the table of budgets, if it has a budget. `absent` has the reason for
    each contender without figures.
    """

    title: str
    unit: Unit
    labels: dict[str, str]
    series: dict[str, Series] = field(default_factory=dict[str, Series])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    figure: str = ""
    references: tuple[str, ...] = (BARE, OFFICIAL)

    @property
    def is_reliable(self) -> bool:
        """Whether the control has the figure of the bare server, as it should."""
        bare, control = self.series.get(BARE), self.series.get(CONTROL)
        if bare is None or control is None:
            return True
        return abs(control.over(bare).median - 1) <= _CONTROL_TOLERANCE


class Dropout(Exception):
    """A contender cannot be measured; the message says why."""


FAILURES = (Dropout, OSError, ValueError, LookupError)
"""With these a contender drops out."""


def interleave(
    contenders: Sequence[str],
    rounds: int,
    measure: Callable[[str], dict[str, float]],
    absent: dict[str, str],
    *,
    warm_up: bool = False,
) -> dict[str, dict[str, Series]]:
    """Measure every contender once per round, A B C then B C A, so that drift hits all alike.

    Args:
        contenders: Who takes part.
        rounds: How many rounds count.
        measure: Called with the contender; returns its figures.
        absent: Receives those that fail; they leave with their earlier rounds.
        warm_up: Whether a round comes before that is thrown away.

    Returns:
        Figure, then contender, to its series.
    """
    figures: dict[str, dict[str, list[float]]] = {}
    running = list(contenders)
    for number in range(-1 if warm_up else 0, rounds):
        shift = number % max(len(running), 1)
        for contender in running[shift:] + running[:shift]:
            try:
                values = measure(contender)
            except FAILURES as error:
                absent[contender] = reason(error)
                running.remove(contender)
                continue
            if number >= 0:
                for figure, value in values.items():
                    figures.setdefault(figure, {}).setdefault(contender, []).append(value)
    return {
        figure: {name: Series(tuple(by_name[name])) for name in running if name in by_name}
        for figure, by_name in figures.items()
    }


def reason(error: Exception) -> str:
    """Why a contender dropped out."""
    return f"failed: {error!s:.120}" if str(error) else f"failed: {type(error).__name__}"


def format_value(value: float, unit: Unit) -> str:
    """A value with its unit, to about three digits."""
    if unit == "/s":
        return f"{value:,.0f} /s"
    if unit == "bytes":
        return f"{value / 1000:,.1f} kB"
    return f"{value * 1e3:,.1f} ms" if value >= 1e-3 else f"{value * 1e6:,.1f} µs"


def format_ratio(value: float) -> str:
    """A ratio, to about three digits."""
    return f"{value:.3g}" if value < 99.95 else f"{value:,.0f}"


def table(comparison: Comparison) -> str:
    """The comparison as text: one line per contender."""
    references = [name for name in comparison.references if name in comparison.series]
    rows = [["", "median", "low … high", *(f"× {comparison.labels[r]}" for r in references)]]
    for contender, label in comparison.labels.items():
        if series := comparison.series.get(contender):
            ratios = [series.over(comparison.series[r]).median for r in references]
            shown = series.shown(lambda value: format_value(value, comparison.unit))
            rows.append([label, *shown, *map(format_ratio, ratios)])
        elif contender in comparison.absent:
            rows.append([label, comparison.absent[contender]])
    return "\n".join([comparison.title, *columns(rows)])


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines of aligned columns, the first `left` of them aligned to the left.

    A row that is shorter than the first is not aligned.
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
