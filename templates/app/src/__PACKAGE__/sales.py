"""The sales: replace this with your own data."""

FIRST_YEAR = 2024
LAST_YEAR = 2026
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_SOLD = {
    2024: (310, 290, 342, 371, 398, 420, 405, 388, 436, 471, 540, 612),
    2025: (402, 377, 430, 468, 495, 533, 521, 490, 547, 598, 676, 745),
    2026: (488, 462, 539, 571, 618, 655, 640, 603, 671, 724, 815, 902),
}


class SalesError(Exception):
    """There are no sales of a year."""


def sold_in(year: int) -> tuple[int, ...]:
    """Return how much was sold in each month of a year."""
    if year not in _SOLD:
        raise SalesError(f"Unknown year {year}; the years are {FIRST_YEAR} to {LAST_YEAR}.")
    return _SOLD[year]
