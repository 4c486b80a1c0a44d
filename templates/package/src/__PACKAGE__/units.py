"""Units and conversions between them, without MCP."""

from dataclasses import dataclass

QUANTITIES: dict[str, dict[str, float]] = {
    "length": {"m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "mi": 1609.344},
    "mass": {"kg": 1.0, "g": 0.001, "oz": 0.028349523125, "lb": 0.45359237},
    "time": {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
}
"""Quantity → unit → its size in the first unit of the quantity."""


class UnitError(ValueError):
    """The unit is unknown, or two units measure different quantities."""


@dataclass(frozen=True)
class Measure:
    """A number of units."""

    value: float
    unit: str
    quantity: str


def quantity_of(unit: str) -> str:
    """Return the quantity that a unit measures.

    Raises:
        UnitError: The unit is unknown.
    """
    for quantity, units in QUANTITIES.items():
        if unit in units:
            return quantity
    known = ", ".join(unit for units in QUANTITIES.values() for unit in units)
    raise UnitError(f"There is no unit {unit!r}; there are {known}.")


def convert(value: float, source: str, target: str) -> Measure:
    """Convert a measure to another unit.

    Raises:
        UnitError: A unit is unknown, or the two measure different quantities.
    """
    quantity, wanted = quantity_of(source), quantity_of(target)
    if quantity != wanted:
        raise UnitError(f"{source} measures {quantity}, and {target} {wanted}.")
    units = QUANTITIES[quantity]
    return Measure(value * units[source] / units[target], target, quantity)
