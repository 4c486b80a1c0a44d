# region first
from typing import Annotated, Any

import pytest
from mcpkit import Depends, MCPKit
from mcpkit.testing import REVISIONS, AsyncTestClient, Overrides, TestClient

from server import app  # the file above


def test_it_offers_one_tool() -> None:
    with TestClient(app) as client:
        (book,) = client.list_tools()
    assert book.input_schema["required"] == ["room", "nights"]


# endregion first
# region answers
def agree(question: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {}}


@pytest.mark.parametrize(
    "revision", REVISIONS[2:]
)  # those that can ask the user
def test_it_books_when_the_user_agrees(revision: str) -> None:
    with TestClient(app, revision=revision, elicitation=agree) as client:
        booked = client.call_tool("book", {"room": "12", "nights": 2})
    assert booked.data == {"price": 160}


def test_it_fails_when_the_user_declines() -> None:
    with TestClient(
        app, elicitation=lambda question: {"action": "decline"}
    ) as client:
        refused = client.call_tool("book", {"room": "12", "nights": 2})
    assert refused.is_error
    assert refused.text == "The user declined."


# endregion answers
# region arguments
def test_wrong_arguments_are_explained(mcp_client: Any) -> None:
    client = mcp_client(app)
    refused = client.call_tool("book", {"room": "12", "nights": "two"})
    assert refused.text == 'nights: expected an integer, got "two"'


# endregion arguments
# region async
async def booked_with_progress() -> list[float]:
    seen: list[float] = []
    async with AsyncTestClient(app, elicitation=agree) as client:
        await client.call_tool(
            "book",
            {"room": "12", "nights": 2},
            on_progress=lambda now: seen.append(now.progress),
        )
    return seen


def test_it_reports_progress() -> None:
    import asyncio

    assert 2 in asyncio.run(booked_with_progress())


# endregion async
# region overrides
def prices() -> dict[str, int]:
    raise RuntimeError("no test reads the real prices")


hotel = MCPKit("hotel")


@hotel.tool
def price(room: str, known: Annotated[dict[str, int], Depends(prices)]) -> int:
    """Tell the price of a room."""
    return known[room]


def test_it_tells_the_price() -> None:
    overrides: Overrides = {prices: lambda: {"12": 80}}
    with TestClient(hotel, overrides=overrides, lifespan=None) as client:
        assert client.call_tool("price", {"room": "12"}).data == 80


# endregion overrides
