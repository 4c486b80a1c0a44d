"""The conversions, without a server."""

import pytest

from __PACKAGE__.units import Measure, UnitError, convert


def test_a_marathon_in_kilometres() -> None:
    assert convert(26.2, "mi", "km").value == pytest.approx(42.16, abs=0.01)


def test_a_measure_says_what_it_is() -> None:
    assert convert(120, "min", "h") == Measure(2.0, "h", "time")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("mi", "kg", "mi measures length, and kg mass."),
        ("mi", "furlong", "There is no unit 'furlong'"),
    ],
)
def test_what_cannot_be_converted(source: str, target: str, message: str) -> None:
    with pytest.raises(UnitError, match=message):
        convert(1, source, target)
