"""examples/notes.py: notes that clients are told about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpkit import EmbeddedResource, TextResourceContents
from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.examples.host import ERAS, Heard, data_of, example, watching

SERVER = example("notes.py")
UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"


@pytest.fixture(scope="module", params=REVISIONS)
def shared(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param) as client:
        yield client


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    """Its server has two notes."""
    for note in shared.list_resources():
        shared.call_tool("delete_note", {"name": note.name})
    shared.call_tool("write_note", {"name": "shopping", "text": "tea\nMilk"})
    shared.call_tool("write_note", {"name": "songs", "text": "la la"})
    return shared


def text_of(client: TestClient, uri: str) -> str:
    (contents,) = client.read_resource(uri)
    assert isinstance(contents, TextResourceContents)
    assert contents.mime_type == "text/markdown"
    return contents.text


def test_a_note_is_a_resource(client: TestClient) -> None:
    assert [each.uri for each in client.list_resources()] == ["notes://shopping", "notes://songs"]
    assert text_of(client, "notes://shopping") == "tea\nMilk"


def test_a_line_is_added(client: TestClient) -> None:
    said = client.call_tool("append_note", {"name": "shopping", "text": "rice"})
    assert said.text == "shopping has 3 lines now."
    assert text_of(client, "notes://shopping") == "tea\nMilk\nrice"


def test_a_note_that_is_deleted_is_gone(client: TestClient) -> None:
    client.call_tool("delete_note", {"name": "shopping"})
    assert [each.uri for each in client.list_resources()] == ["notes://songs"]
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("notes://shopping")


def test_notes_are_searched(client: TestClient) -> None:
    found = data_of(client.call_tool("search_notes", {"text": "milk"}))
    assert found == [{"uri": "notes://shopping", "line": "Milk"}]


def test_a_search_stops_at_its_limit(client: TestClient) -> None:
    found = data_of(client.call_tool("search_notes", {"text": "a", "limit": 1}))
    assert [each["line"] for each in found] == ["tea"]


def test_names_are_completed(client: TestClient) -> None:
    assert list(client.complete("name", "so", template="notes://{name}").values) == ["songs"]
    assert list(client.complete("name", "sh", prompt="summarize").values) == ["shopping"]


def test_a_prompt_has_the_note_in_it(client: TestClient) -> None:
    prompt = client.get_prompt("summarize", {"name": "songs"})
    content = prompt.messages[1].content
    assert isinstance(content, EmbeddedResource)
    assert content.resource == TextResourceContents(
        "notes://songs", "la la", mime_type="text/markdown"
    )


def test_a_note_is_not_written_over(client: TestClient) -> None:
    refused = client.call_tool("write_note", {"name": "songs", "text": "silence"})
    assert refused.is_error
    assert "use append_note" in refused.text
    assert text_of(client, "notes://songs") == "la la"


def test_an_unknown_note_is_refused_with_what_there_is(client: TestClient) -> None:
    refused = client.call_tool("append_note", {"name": "nothing", "text": "x"})
    assert refused.is_error
    assert refused.text == "There is no note 'nothing'; there are: shopping, songs."


@pytest.mark.parametrize("name", ["../evil", "A", "", "a/b", "x" * 41, "-x", "x\n"])
def test_a_name_is_no_path(client: TestClient, name: str) -> None:
    refused = client.call_tool("write_note", {"name": name, "text": "x"})
    assert refused.is_error
    assert refused.text.startswith("name: ")


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.anyio
async def test_who_watches_a_note_is_told(revision: str) -> None:
    heard = Heard()
    async with AsyncTestClient(SERVER, revision=revision, on_notification=heard) as client:
        await client.call_tool("write_note", {"name": "mine", "text": "one"})
        await client.call_tool("write_note", {"name": "other", "text": "one"})
        async with watching(client, "notes://mine"):
            await client.call_tool("append_note", {"name": "other", "text": "two"})
            await client.call_tool("append_note", {"name": "mine", "text": "two"})
            (told,) = await heard.until(UPDATED)
    assert told["uri"] == "notes://mine"


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.anyio
async def test_clients_hear_of_new_and_deleted_notes(revision: str) -> None:
    heard = Heard()
    async with (
        AsyncTestClient(SERVER, revision=revision, on_notification=heard) as client,
        watching(client),
    ):
        await client.call_tool("write_note", {"name": "new", "text": "x"})
        await heard.until(LIST_CHANGED, 1)
        await client.call_tool("delete_note", {"name": "new"})
        await heard.until(LIST_CHANGED, 2)
        assert await client.list_resources() == []


def test_notes_survive_the_server(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    env = {"NOTES_FILE": str(file)}
    with TestClient(SERVER, env=env) as client:
        client.call_tool("write_note", {"name": "hello", "text": "é"})
    assert json.loads(file.read_text(encoding="utf-8")) == {"hello": "é"}
    with TestClient(SERVER, env=env) as client:
        assert text_of(client, "notes://hello") == "é"
        client.call_tool("delete_note", {"name": "hello"})
    assert json.loads(file.read_text(encoding="utf-8")) == {}
    assert [each.name for each in tmp_path.iterdir()] == ["notes.json"]


@pytest.mark.parametrize("revision", [REVISIONS[1], REVISIONS[-1]])
def test_tools_say_what_they_do_to_notes(revision: str) -> None:
    """There are hints since 2025-03-26."""
    with TestClient(SERVER, revision=revision) as client:
        hints = {tool.name: tool.annotations for tool in client.list_tools()}
    assert hints["search_notes"] is not None
    assert hints["search_notes"].read_only is True
    assert hints["delete_note"] is not None
    assert hints["delete_note"].destructive is True
    assert hints["append_note"] is not None
    assert hints["append_note"].destructive is False
