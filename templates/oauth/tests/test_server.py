"""Tests of the server: permissions and results."""

import json

import pytest
from mcpkit import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient

from __PACKAGE__.auth import READ, WRITE
from __PACKAGE__.server import app

from .conftest import Connect

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_a_note_is_added_found_and_deleted(connect: Connect, revision: str) -> None:
    async with connect("ada", READ, WRITE, revision=revision) as client:
        added = await client.call_tool("add_note", {"text": "Water the plants"})
        found = await client.call_tool("find_notes", {"text": "plants"})
        (contents,) = await client.read_resource("notes://1")
        deleted = await client.call_tool("delete_note", {"number": 1})
        left = await client.call_tool("find_notes")
    assert json.loads(added.text) == {"number": 1, "text": "Water the plants"}
    assert json.loads(found.text) == [json.loads(added.text)]
    assert getattr(contents, "text", "") == "Water the plants"
    assert deleted.text == "Note 1 is gone."
    assert json.loads(left.text) == []


async def test_everybody_has_notes_of_their_own(connect: Connect) -> None:
    async with connect("ada", READ, WRITE) as ada, connect("bob", READ, WRITE) as bob:
        await ada.call_tool("add_note", {"text": "Water the plants"})
        seen = await bob.call_tool("find_notes")
        deleted = await bob.call_tool("delete_note", {"number": 1})
        with pytest.raises(ProtocolError, match="not found"):
            await bob.read_resource("notes://1")
        kept = await ada.call_tool("find_notes")
    assert seen.data == []
    assert deleted.is_error
    assert [each["text"] for each in kept.data] == ["Water the plants"]


@pytest.mark.parametrize(
    ("scopes", "tools"),
    [
        ([], {"whoami"}),
        ([READ], {"whoami", "find_notes"}),
        ([READ, WRITE], {"whoami", "find_notes", "add_note", "delete_note"}),
    ],
)
async def test_a_client_sees_what_its_user_has_allowed(
    connect: Connect, scopes: list[str], tools: set[str]
) -> None:
    async with connect("ada", *scopes) as client:
        assert {each.name for each in await client.list_tools()} == tools


async def test_what_needs_a_scope_is_refused_without_it(connect: Connect) -> None:
    async with connect("ada", READ) as client:
        with pytest.raises(ProtocolError, match=WRITE):
            await client.call_tool("add_note", {"text": "Water the plants"})


async def test_nobody_can_say_who_they_are(connect: Connect) -> None:
    async with connect("bob", READ, WRITE) as client:
        answer = await client.call_tool("add_note", {"text": "Mine", "owner": "ada"})
    assert answer.is_error


async def test_a_caller_is_told_who_they_are(connect: Connect) -> None:
    async with connect("ada", READ) as client:
        answer = await client.call_tool("whoami")
    assert json.loads(answer.text) == {"id": "ada", "name": None, "scopes": [READ]}


async def test_without_http_nobody_has_logged_in(data: object) -> None:
    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("whoami")).is_error
