"""examples/ported/time_server.py: the time in any time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from mcpkit.testing import TestClient
from tests.examples.host import call, refused
from tests.examples.ported.serving import OVER, arguments_of, ported


@pytest.fixture(scope="module", params=OVER)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    flags = ("--local-timezone", "Asia/Kathmandu")
    with ported("time_server.py", request.param, *flags) as client:
        yield client


def test_the_tools_have_their_old_names_and_arguments(client: TestClient) -> None:
    assert arguments_of(client) == {
        "get_current_time": ["timezone"],
        "convert_time": ["source_timezone", "time", "target_timezone"],
    }


def test_the_current_time_of_a_zone(client: TestClient) -> None:
    """Of the user's own zone if none is named."""
    found = call(client, "get_current_time", timezone="Asia/Tokyo")
    now = datetime.fromisoformat(found["datetime"])
    assert now.utcoffset() == timedelta(hours=9)
    assert abs(now - datetime.now(timezone.utc)) < timedelta(minutes=2)
    assert found["day_of_week"] == f"{now:%A}"
    assert (found["timezone"], found["is_dst"]) == ("Asia/Tokyo", False)
    assert call(client, "get_current_time")["timezone"] == "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("source", "time", "target", "expected"),
    [
        ("Asia/Tokyo", "16:30", "Asia/Kolkata", ("13:00:00+05:30", "-3.5h")),
        ("Asia/Tokyo", "9:05", "UTC", ("00:05:00+00:00", "-9.0h")),
        ("UTC", "23:00", "Asia/Kathmandu", ("04:45:00+05:45", "+5.75h")),
    ],
)
def test_a_time_is_another_one_elsewhere(
    client: TestClient, source: str, time: str, target: str, expected: tuple[str, str]
) -> None:
    zones = {"source_timezone": source, "target_timezone": target}
    found = call(client, "convert_time", time=time, **zones)
    assert (found["target"]["datetime"][11:], found["time_difference"]) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "/etc/localtime"])
def test_an_invalid_time_zone_is_refused(client: TestClient, zone: str) -> None:
    said = refused(client, "get_current_time", timezone=zone)
    assert said.startswith("timezone: is not an IANA time zone")


@pytest.mark.parametrize("time", ["24:00", "4 pm", "16:30:00"])
def test_an_invalid_time_is_refused(client: TestClient, time: str) -> None:
    said = refused(client, "convert_time", time=time)
    assert said.startswith("time: expected to match pattern")
