"""examples/toolkits: one server from several toolkits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import EXAMPLES, data_of, example, json_of

SERVER = example("toolkits/server.py")


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param) as client:
        yield client


def test_every_tool_has_the_prefix_of_its_toolkit(client: TestClient) -> None:
    assert [tool.name for tool in client.list_tools()] == [
        *("text_count", "text_slug", "text_diff", "units_convert"),
        *("clock_now", "clock_at", "clock_workdays"),
    ]


def test_every_tool_is_described(client: TestClient) -> None:
    for tool in client.list_tools():
        assert tool.description
        assert "self" not in tool.input_schema.get("properties", {})


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("text_count", {"text": "ab c\nd"}, {"characters": 6, "words": 3, "lines": 2}),
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
    assert data_of(client.call_tool(tool, arguments)) == expected


def test_a_slug_is_text(client: TestClient) -> None:
    assert client.call_tool("text_slug", {"text": "Être à l'heure!"}).text == "etre-a-l-heure"


def test_texts_are_compared(client: TestClient) -> None:
    found = client.call_tool("text_diff", {"old": "a\nb", "new": "a\nc"}).text
    assert found.splitlines()[-2:] == ["-b", "+c"]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (
            "units_convert",
            {"value": 1, "unit": "km", "into": "kg"},
            "km and kg do not measure the same.",
        ),
        (
            "units_convert",
            {"value": -300, "unit": "C", "into": "K"},
            "That is below absolute zero.",
        ),
        (
            "text_count",
            {"text": "x" * 10_001},
            "The text has 10001 characters; 10000 are allowed.",
        ),
        ("text_slug", {"text": "…"}, "The text has no letters or digits that fit into a URL."),
    ],
)
def test_tools_refuse_what_makes_no_sense(
    client: TestClient, tool: str, arguments: dict[str, Any], said: str
) -> None:
    refused = client.call_tool(tool, arguments)
    assert refused.is_error
    assert refused.text == said


def test_a_unit_that_does_not_exist_is_refused_with_those_that_do(client: TestClient) -> None:
    arguments = {"value": 1, "unit": "parsec", "into": "km"}
    refused = client.call_tool("units_convert", arguments)
    assert refused.is_error
    assert refused.text.startswith("unit: expected ")
    assert "'km'" in refused.text


def test_a_resource_has_the_prefix_in_its_uri(client: TestClient) -> None:
    assert set(json_of(client.read_resource("toolkit://units/known"))) == {
        "length",
        "mass",
        "temperature",
    }


def test_a_prompt_has_the_prefix_in_its_name(client: TestClient) -> None:
    prompt = client.get_prompt("clock_appointment", {"person": "Ada"})
    assert "meet Ada" in prompt.messages[0].text


def test_the_module_can_be_run_by_its_name() -> None:
    command = [*SERVER[:-1], "toolkits.server"]
    with TestClient(command, cwd=EXAMPLES) as client:
        assert len(client.list_tools()) == 7
