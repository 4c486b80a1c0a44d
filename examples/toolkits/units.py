"""Tools that convert between units."""

from typing import Literal

from mcpkit import ToolError, resource, tool

Unit = Literal["mm", "cm", "m", "km", "in", "ft", "mi", "g", "kg", "oz", "lb", "C", "F", "K"]

METRIC: dict[str, float] = {"mm": 0.001, "cm": 0.01, "m": 1, "km": 1000}
METRES = METRIC | {"in": 0.0254, "ft": 0.3048, "mi": 1609.344}
GRAMS: dict[str, float] = {"g": 1, "kg": 1000, "oz": 28.349523125, "lb": 453.59237}
KELVIN: dict[str, tuple[float, float]] = {"K": (1, 0), "C": (1, 273.15), "F": (5 / 9, 459.67)}
"""Factor and offset: kelvin = factor * (degrees + offset)."""


class Units:
    """Unit tools.

    Args:
        digits: How many significant digits results have.
    """

    def __init__(self, digits: int) -> None:
        self.digits = digits

    @tool(read_only=True)
    def convert(self, value: float, unit: Unit, into: Unit) -> float:
        """Convert a length, a mass or a temperature.

        Args:
            value: In the first unit.
            unit: What it is measured in.
            into: What to convert it into.
        """
        for factors in (METRES, GRAMS):
            if unit in factors and into in factors:
                return self._rounded(value * factors[unit] / factors[into])
        if unit not in KELVIN or into not in KELVIN:
            raise ToolError(f"{unit} and {into} do not measure the same.")
        factor, offset = KELVIN[unit]
        kelvin = factor * (value + offset)
        if kelvin < 0:
            raise ToolError("That is below absolute zero.")
        factor, offset = KELVIN[into]
        return self._rounded(kelvin / factor - offset)

    @resource("toolkit://known")
    def known(self) -> dict[str, list[str]]:
        """The units there are."""
        return {"length": list(METRES), "mass": list(GRAMS), "temperature": list(KELVIN)}

    def _rounded(self, value: float) -> float:
        return float(f"{value:.{self.digits}g}")
