"""The two sides of the migration guides answer alike, where the other side is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mcpkit.testing import TestClient
from tests import warm
from tests.docs.pages import DOCS, ROOT
from tests.warm import python

CODE: Final = DOCS / "code" / "migration"
PYTHONS: Final = {
    "fastmcp": os.environ.get("FASTMCP_PYTHON", ROOT / ".cache/peers/fastmcp/bin/python"),
    "official": os.environ.get("OFFICIAL_PYTHON", ROOT / ".cache/peers/python-2/bin/python"),
}
"""Where the other SDKs are; a side that is not there is skipped."""


def python_of(peer: str) -> str:
    if not Path(PYTHONS[peer]).is_file():
        pytest.skip(f"{peer} is not installed")
    return str(PYTHONS[peer])


def command(side: str) -> list[str]:
    if side == "mcpkit":
        return [python(), "-m", "mcpkit", "run", str(CODE / "migrated.py")]
    return [python_of(side), str(CODE / f"{side}_server.py")]


def two(question: Mapping[str, Any]) -> Mapping[str, Any]:
    (field,) = question["requestedSchema"]["properties"]
    return {"action": "accept", "content": {field: 2}}


sides = pytest.mark.parametrize("side", ["mcpkit", "fastmcp", "official"])


def connected(side: str, revision: str = "2025-11-25") -> TestClient:
    return TestClient(command(side), revision=revision, timeout=50, elicitation=two)


@sides
def test_both_sides_answer_alike(side: str) -> None:
    with connected(side) as client:
        known = client.call_tool("trip", {"start": "Lisbon", "end": "Porto"})
        unknown = client.call_tool("trip", {"start": "Lisbon", "end": "Rome"})
        booked = client.call_tool("book", {"city": "Lisbon"})
        (weather,) = client.read_resource("trips://Lisbon/weather")
        planned = client.get_prompt("plan", {"city": "Porto"})
    assert known.data == {"start": "Lisbon", "end": "Porto", "kilometres": 313}
    assert unknown.is_error
    assert unknown.text.endswith("I do not know that trip.")
    assert booked.text == "2 nights in Lisbon."
    assert getattr(weather, "text", None) == "Sunny."
    assert [each.text for each in planned.messages] == ["Plan 3 days in Porto.", "Gladly."]


@sides
def test_what_the_guide_says_of_asking_on_the_newest_revision(side: str) -> None:
    with connected(side, "2026-07-28") as client:
        booked = client.call_tool("book", {"city": "Lisbon"})
    assert booked.is_error is (side == "fastmcp")


def test_a_declared_question_stays_one() -> None:
    with connected("mcpkit", "2026-07-28") as client:
        assert client.call_tool("reserve", {"city": "Rome"}).text == "2 nights in Rome."


@pytest.mark.parametrize("peer", ["fastmcp", "official"])
def test_the_other_side_is_tested_and_mounted_as_shown(peer: str) -> None:
    run = f"import {peer}_mount, {peer}_test; {peer}_test.test_a_trip()"
    subprocess.run([python_of(peer), "-c", run], cwd=CODE, timeout=50, check=True)


def test_our_side_is_tested_and_mounted_as_shown() -> None:
    run = "import migrated_mount, test_migrated; test_migrated.test_a_trip()"
    warm.run([sys.executable, "-c", run], cwd=CODE, timeout=50, check=True)
