"""Completion (PROTOCOL §4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.errors import InvalidParams
from tests.scenarios.tapped import TappedClient, since, until

pytestmark = pytest.mark.anyio

PROMPT = {"type": "ref/prompt", "name": "address"}


async def test_values_that_fit_what_was_typed(client: TappedClient) -> None:
    result = await client.complete("street", "street 14", prompt="address")
    assert result.values[0] == "Street 14"
    assert len(result.values) == 11
    assert not result.has_more


async def test_at_most_a_hundred_values(client: TappedClient) -> None:
    """COMP-2."""
    result = await client.complete("street", "", prompt="address")
    assert (len(result.values), result.total, result.has_more) == (100, 150, True)


async def test_choices_complete_by_themselves(client: TappedClient) -> None:
    assert (await client.complete("style", "s", prompt="greet")).values == ["short"]


@pytest.mark.parametrize("uri", ["diary://{year}/{month}", "diary://2024/Ma"])
async def test_variables_of_a_template(client: TappedClient, uri: str) -> None:
    """COMP-5: the template itself, or a URI that fits it."""
    assert (await client.complete("month", "M", template=uri)).values == ["May"]


async def test_an_argument_without_suggestions(client: TappedClient) -> None:
    assert (await client.complete("name", "A", prompt="greet")).values == []


@pytest.mark.revisions(*since("2025-06-18"))
async def test_the_other_arguments_are_known(client: TappedClient) -> None:
    result = await client.complete("town", "L", prompt="address", known={"country": "Portugal"})
    assert result.values == ["Lisbon"]


@pytest.mark.revisions(*until("2025-06-18"))
async def test_the_other_arguments_are_not_known_yet(client: TappedClient) -> None:
    """LIFE-8."""
    result = await client.complete("town", "L", prompt="address", known={"country": "Portugal"})
    assert result.values == []


UNFIT: dict[str, dict[str, Any]] = {
    "unknown prompt": {
        "ref": {"type": "ref/prompt", "name": "nobody"},
        "argument": {"name": "a", "value": ""},
    },
    "unknown template": {
        "ref": {"type": "ref/resource", "uri": "no://{x}"},
        "argument": {"name": "x", "value": ""},
    },
    "unknown argument": {"ref": PROMPT, "argument": {"name": "planet", "value": ""}},
    "unknown kind": {
        "ref": {"type": "ref/tool", "name": "add"},
        "argument": {"name": "a", "value": ""},
    },
    "no argument": {"ref": PROMPT},
    "no name": {"ref": PROMPT, "argument": {"value": ""}},
    "no value": {"ref": PROMPT, "argument": {"name": "street"}},
    "no ref": {"argument": {"name": "street", "value": ""}},
    "a name that is no string": {
        "ref": {"type": "ref/prompt", "name": ["address"]},
        "argument": {"name": "street", "value": ""},
    },
}


@pytest.mark.parametrize("params", UNFIT.values(), ids=list(UNFIT))
async def test_unfit_parameters(client: TappedClient, params: dict[str, Any]) -> None:
    """COMP-3, COMP-4."""
    with pytest.raises(InvalidParams):
        await client.request("completion/complete", params)
