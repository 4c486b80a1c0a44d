"""Completion (PROTOCOL §4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.errors import InvalidParams
from tests.scenarios.tapped import TappedClient

PROMPT = {"type": "ref/prompt", "name": "address"}


async def test_values_that_fit_the_text_so_far(client: TappedClient) -> None:
    """COMP-2: at most a hundred of them."""
    some = await client.complete("street", "street 14", prompt="address")
    assert (some.values[0], len(some.values), some.has_more) == ("Street 14", 11, False)
    many = await client.complete("street", "", prompt="address")
    assert (len(many.values), many.total, many.has_more) == (100, 150, True)
    assert (await client.complete("style", "s", prompt="greet")).values == ["short"]
    assert (await client.complete("name", "A", prompt="greet")).values == []


@pytest.mark.parametrize("uri", ["diary://{year}/{month}", "diary://2024/Ma"])
async def test_variables_of_a_template(client: TappedClient, uri: str) -> None:
    """COMP-5: the template itself, or a URI that fits it."""
    assert (await client.complete("month", "M", template=uri)).values == ["May"]


async def test_the_other_arguments_are_known_since_2025_06_18(
    client: TappedClient, revision: str
) -> None:
    """LIFE-8."""
    result = await client.complete("town", "L", prompt="address", known={"country": "Portugal"})
    assert result.values == (["Lisbon"] if revision >= "2025-06-18" else [])


FIRST = {"name": "street", "value": ""}
UNFIT: list[dict[str, Any]] = [
    {"ref": {"type": "ref/prompt", "name": "unknown"}, "argument": FIRST},
    {"ref": {"type": "ref/resource", "uri": "no://{x}"}, "argument": FIRST},
    {"ref": {"type": "ref/tool", "name": "add"}, "argument": FIRST},
    {"ref": PROMPT, "argument": {"name": "planet", "value": ""}},
    {"ref": PROMPT, "argument": {"value": ""}},
    {"ref": PROMPT, "argument": {"name": "street"}},
    {"ref": PROMPT},
    {"argument": FIRST},
]


async def test_unfit_parameters(client: TappedClient) -> None:
    """COMP-3, COMP-4."""
    for params in UNFIT:
        with pytest.raises(InvalidParams):
            await client.request("completion/complete", params)
