"""Servers made to exhaust or crash a rule: each is checked within seconds."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mcpkit.cli._check import apply
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.schema_walk import is_recursive, walk
from tests.cli.checks.listings import server, tool

pytestmark = pytest.mark.timeout(20)


def chain(length: int, end: dict[str, Any]) -> dict[str, Any]:
    """A chain of references."""
    refs = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(length)}
    return {"$defs": {**refs, f"a{length}": end}, "$ref": "#/$defs/a0"}


def nested(levels: int) -> dict[str, Any]:
    """Nested objects, each with an array."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema, "b": {"type": "array"}}}
    return schema


ARRAYS: Final = {f"p{number}": {"type": "array"} for number in range(5000)}

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
    apply(server(tool(schema=schema)))


def test_every_schema_is_visited_once_and_paths_are_short() -> None:
    assert is_recursive(SCHEMAS["references in a long circle"])
    assert not is_recursive(SCHEMAS["references to references"])
    nodes = list(walk(SCHEMAS["references into one definition"]))
    assert len({id(node.schema) for node in nodes}) == 1 + 1000 + 121
    assert len(nodes) < 5000
    nodes = list(walk(SCHEMAS["a long name above many"]))
    assert max(len(node.path) for node in nodes) < 300
    assert nodes[-1].path.endswith(".p4999")


TEXTS: Final = {
    **{text: text * 50_000 for text in ("a.", "< ", "never ", "x_", "'a", "a:", "! ")},
    "a token": (" -eyJ" + "a" * 12) * 50_000,
    "an order": "ignore the " * 50_000,
    "a long gap": f"x<{' ' * 200_000}x",
}


@pytest.mark.timeout(5)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_text_is_read(text: str) -> None:
    """Scanning the rest of the text from each of these would take several times the limit."""
    apply(server(tool(description=text)))


def test_a_long_description_of_many_parameters_is_read_once() -> None:
    names = [f"p{number}" for number in range(5000)]
    listing: Listing = server(
        tool(properties={name: {"type": "string"} for name in names}, description=" ".join(names))
    )
    findings, _ = apply(listing)
    assert "DESC002" in {each.rule.id for each in findings}
