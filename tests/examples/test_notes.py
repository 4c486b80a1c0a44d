"""examples/notes.py: notes whose changes clients are notified of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import EmbeddedResource, TextResourceContents
from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.examples.host import ERAS, call, example, refused
from tests.kit import until

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


def uris(client: TestClient) -> list[str]:
    return [each.uri for each in client.list_resources()]


def test_notes_are_resources_that_tools_change(client: TestClient) -> None:
    assert uris(client) == ["notes://shopping", "notes://songs"]
    assert text_of(client, "notes://shopping") == "tea\nMilk"
    said = client.call_tool("append_note", {"name": "shopping", "text": "rice"})
    assert said.text == "shopping has 3 lines now."
    assert text_of(client, "notes://shopping") == "tea\nMilk\nrice"
    client.call_tool("delete_note", {"name": "shopping"})
    assert uris(client) == ["notes://songs"]
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("notes://shopping")


def test_notes_are_searched_and_names_are_completed(client: TestClient) -> None:
    found = call(client, "search_notes", text="milk")
    assert found == [{"uri": "notes://shopping", "line": "Milk"}]
    found = call(client, "search_notes", text="a", limit=1)
    assert [each["line"] for each in found] == ["tea"]
    assert list(client.complete("name", "so", template="notes://{name}").values) == ["songs"]
    assert list(client.complete("name", "sh", prompt="summarize").values) == ["shopping"]
    content = client.get_prompt("summarize", {"name": "songs"}).messages[1].content
    assert isinstance(content, EmbeddedResource)
    assert content.resource == TextResourceContents(
        "notes://songs", "la la", mime_type="text/markdown"
    )


def test_a_note_is_not_overwritten_and_must_exist(client: TestClient) -> None:
    assert "use append_note" in refused(client, "write_note", name="songs", text="silence")
    assert text_of(client, "notes://songs") == "la la"
    said = refused(client, "append_note", name="nothing", text="x")
    assert said == "There is no note 'nothing'; there are: shopping, songs."


@pytest.mark.parametrize("name", ["../evil", "A", "", "a/b", "x" * 41, "-x", "x\n"])
def test_a_name_cannot_be_a_path(client: TestClient, name: str) -> None:
    assert refused(client, "write_note", name=name, text="x").startswith("name: ")


@pytest.mark.parametrize("revision", ERAS)
async def test_clients_are_notified_of_notes_they_watch_and_of_the_list(revision: str) -> None:
    heard: list[tuple[str, Any]] = []

    def changes(method: str) -> list[Any]:
        return [params for name, params in heard if name == method]

    async with (
        AsyncTestClient(
            SERVER, revision=revision, on_notification=lambda *change: heard.append(change)
        ) as client,
        AsyncExitStack() as stack,
    ):
        await client.call_tool("write_note", {"name": "mine", "text": "one"})
        await client.call_tool("write_note", {"name": "other", "text": "one"})
        listening = client.listen(lambda *change: None, resources=True, uris=["notes://mine"])
        await stack.enter_async_context(listening)
        before = len(changes(LIST_CHANGED))
        await client.call_tool("append_note", {"name": "other", "text": "two"})
        await client.call_tool("append_note", {"name": "mine", "text": "two"})
        await until(lambda: changes(UPDATED))
        await client.call_tool("write_note", {"name": "new", "text": "x"})
        await until(lambda: len(changes(LIST_CHANGED)) == before + 1)
        await client.call_tool("delete_note", {"name": "new"})
        await until(lambda: len(changes(LIST_CHANGED)) == before + 2)
    assert [params["uri"] for params in changes(UPDATED)] == ["notes://mine"]


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
