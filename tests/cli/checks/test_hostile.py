"""Servers that are made for rules to take long over, or to fail on: each ends in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from mcpkit.cli._check.descriptions import same_description, similar_names
from mcpkit.cli._check.listing import Entry, Served
from mcpkit.cli._check.schema_walk import is_recursive, walk
from mcpkit.cli._check.table import check
from tests.cli.checks.served import server, tool

pytestmark = pytest.mark.timeout(20)


def chain(length: int, end: dict[str, Any]) -> dict[str, Any]:
    """References to references."""
    refs = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(length)}
    return {"$defs": {**refs, f"a{length}": end}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> dict[str, Any]:
    """Objects in objects, in all of which there is an array of anything."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema, "b": {"type": "array"}}}
    return schema


def many(name: Callable[[int], str], description: Callable[[int], str]) -> list[Entry]:
    return [tool(name(number), description=description(number)) for number in range(3000)]


ARRAYS: Final = {f"p{number}": {"type": "array"} for number in range(5000)}
MANY: Final[dict[str, list[Entry]]] = {
    "other words": many(
        lambda n: f"tool_{n}", lambda n: f"Look at w{n} and x{n} for y{n} and z{n}"
    ),
    "the same words": many(lambda n: f"tool_{n}", lambda n: "Look at it again for me and them"),
    "apart": many(
        lambda n: f"get_{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}",
        lambda n: (
            "Look at it again for me and them, "
            f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}"
        ),
    ),
    "names that are one letter apart": many(
        lambda n: f"name{chr(0x4E00 + n)}", lambda n: f"w{n} x{n}"
    ),
}


@pytest.mark.parametrize("tools", MANY.values(), ids=MANY.keys())
def test_many_tools_are_compared(tools: list[Entry]) -> None:
    served = server(*tools)
    list(same_description.find(served))
    list(similar_names.find(served))


def test_the_earliest_of_several_is_named() -> None:
    text = "Send an order again that was lost on its way to the customer."
    tools = [tool(f"{name}_order", description=text) for name in ("send", "post", "give", "take")]
    tools.insert(0, tool("other", description="Look at the weather of tomorrow in a town."))
    found = [each.message for each in same_description.find(server(*tools))]
    assert found == ["the description is nearly that of 'send_order'"] * 3


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "references to references": chain(3000, {"type": "string"}),
    "references in a long circle": chain(3000, {"$ref": "#/$defs/a0"}),
    "a reference with many digits": {"$ref": "#/anyOf/" + "9" * 5000, "anyOf": [{}]},
    "anchors": {
        "properties": {
            f"p{number}": {"$anchor": f"x{number}", "$ref": f"#x{number + 1}"}
            for number in range(5000)
        }
    },
    "ids": {
        "properties": {
            f"p{number}": {"$id": f"x{number}", "$ref": f"y{number}"} for number in range(5000)
        }
    },
    "references into one definition": {
        "$defs": {"A": nested(60)},
        "anyOf": [
            {"$ref": "#/$defs/A" + "/properties/a" * (n % 60) + "/" * (n // 60)}
            for n in range(1000)
        ],
    },
    "a long name above many": {
        "properties": {"x" * 200_000: {"type": "object", "properties": ARRAYS}}
    },
    "members that are texts": {"required": "x", "properties": "x", "$id": [[]], "$ref": [[]]},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_every_schema_is_checked(schema: dict[str, Any]) -> None:
    check(server(tool(schema=schema)))


def test_a_long_circle_is_one() -> None:
    assert is_recursive(SCHEMAS["references in a long circle"])
    assert not is_recursive(SCHEMAS["references to references"])


def test_every_schema_is_walked_to_once() -> None:
    nodes = list(walk(SCHEMAS["references into one definition"]))
    assert len({id(node.schema) for node in nodes}) == 1 + 1000 + 121
    assert len(nodes) < 5000


def test_a_path_is_short() -> None:
    nodes = list(walk(SCHEMAS["a long name above many"]))
    assert max(len(node.path) for node in nodes) < 300
    assert nodes[-1].path.endswith(".p4999")


TEXTS: Final = ["a.", "< ", " -eyJ" + "a" * 12, "never ", "x_", "'a", "a:", "ignore the ", "! "]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_is_read(text: str) -> None:
    """To look at the rest of the text from each of these takes several times the limit."""
    check(server(tool(description=text * 50_000)))


@pytest.mark.timeout(5)
def test_a_long_gap_is_read() -> None:
    """To look at the rest of the gap from each of its blanks takes several times the limit."""
    check(server(tool(description=f"x<{' ' * 200_000}x")))


def test_a_long_description_of_many_parameters_is_read_once() -> None:
    names = [f"p{number}" for number in range(5000)]
    served: Served = server(
        tool(properties={name: {"type": "string"} for name in names}, description=" ".join(names))
    )
    findings, _ = check(served)
    assert "DESC002" in {each.rule.id for each in findings}
