"""Tests of the MCP server."""

import json

import pytest
from mcpkit import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient

from __PACKAGE__.auth import CLOSE
from __PACKAGE__.server import app

from .conftest import Doors

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_a_model_acts_in_the_name_of_its_user(doors: Doors, revision: str) -> None:
    async with doors.mcp("bob", revision) as client:
        opened = await client.call_tool("open_ticket", {"title": "Fix the door"})
    assert json.loads(opened.text)["opened_by"] == "bob"


async def test_both_doors_lead_to_the_same_desk(doors: Doors) -> None:
    async with doors.web("bob") as web, doors.mcp("ada") as client:
        await web.post("/tickets", json={"title": "Water the plants"})
        seen = await client.call_tool("list_tickets")
        await client.call_tool("close_ticket", {"number": 1})
        left = await web.get("/tickets")
    assert [each["title"] for each in seen.data] == ["Water the plants"]
    assert left.json() == []


async def test_a_missing_ticket_is_told_to_the_model(doors: Doors) -> None:
    async with doors.mcp("ada") as client:
        answer = await client.call_tool("close_ticket", {"number": 7})
    assert answer.is_error
    assert answer.text == "There is no ticket 7."


async def test_whoever_lacks_the_scope_neither_sees_nor_uses_a_tool(doors: Doors) -> None:
    async with doors.mcp("bob") as client:
        seen = {each.name for each in await client.list_tools()}
        with pytest.raises(ProtocolError, match=CLOSE):
            await client.call_tool("close_ticket", {"number": 7})
    assert seen == {"list_tickets", "open_ticket"}


async def test_without_http_nobody_is_signed_in() -> None:
    async with AsyncTestClient(app) as client:
        answer = await client.call_tool("open_ticket", {"title": "Fix the door"})
    assert answer.is_error
