"""examples/toolkits: one server from several toolkits."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.testing import TestClient
from tests.examples.host import EXAMPLES, call, example, json_of, refused

SERVER = example("toolkits/server.py")


def test_names_and_uris_have_the_prefix_of_their_toolkit(client: TestClient) -> None:
    tools = client.list_tools()
    assert [tool.name for tool in tools] == [
        *("text_count", "text_slug", "text_diff", "units_convert"),
        *("clock_now", "clock_at", "clock_workdays"),
    ]
    assert all(tool.description for tool in tools)
    assert not any("self" in tool.input_schema.get("properties", {}) for tool in tools)
    known = json_of(client.read_resource("toolkit://units/known"))
    assert set(known) == {"length", "mass", "temperature"}
    prompt = client.get_prompt("clock_appointment", {"person": "Ada"})
    assert "meet Ada" in prompt.messages[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("text_count", {"text": "ab c\nd"}, {"characters": 6, "words": 3, "lines": 2}),
        ("text_slug", {"text": "Être à l'heure!"}, "etre-a-l-heure"),
        ("text_diff", {"old": "a\nb", "new": "a\nc"}, ...),
        ("units_convert", {"value": 10, "unit": "km", "into": "mi"}, 6.21371),
        ("units_convert", {"value": 1, "unit": "lb", "into": "g"}, 453.592),
        ("units_convert", {"value": 100, "unit": "C", "into": "F"}, 212),
        ("clock_at", {"moment": "2027-03-01T12:00:00Z"}, "2027-03-01T17:45:00+05:45"),
        ("clock_at", {"moment": "2027-03-01T12:00:00"}, "2027-03-01T12:00:00+05:45"),
        ("clock_workdays", {"start": "2027-01-01", "count": 2}, ["2027-01-04", "2027-01-05"]),
    ],
)
def test_tools_calculate(
    client: TestClient, tool: str, arguments: dict[str, Any], expected: Any
) -> None:
    found = call(client, tool, **arguments)
    assert expected in (..., found)
    if tool == "text_diff":
        assert found.splitlines()[-2:] == ["-b", "+c"]


KM = {"value": 1, "unit": "km", "into": "kg"}


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("units_convert", KM, "km and kg do not measure the same."),
        ("units_convert", {**KM, "unit": "parsec"}, "unit: expected "),
        ("units_convert", {**KM, "value": -300, "unit": "C", "into": "K"}, "That is below abs"),
        ("text_count", {"text": "x" * 10_001}, "The text has 10001 characters; 10000 are allowed."),
        ("text_slug", {"text": "…"}, "The text has no letters or digits that fit into a URL."),
    ],
)
def test_tools_refuse_impossible_arguments(
    client: TestClient, tool: str, arguments: dict[str, Any], said: str
) -> None:
    assert refused(client, tool, **arguments).startswith(said)


def test_the_module_can_be_run_by_its_name() -> None:
    command = [*SERVER[:-1], "toolkits.server"]
    with TestClient(command, cwd=EXAMPLES) as client:
        assert len(client.list_tools()) == 7
