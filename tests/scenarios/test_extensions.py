"""Requests, their notifications, and hooks of an extension (EXTENSIONS §1)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpkit.errors import InternalError, InvalidParams, MethodNotFound, ProtocolError
from tests.kit import until
from tests.scenarios.conftest import Connect
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import MODERN, TappedClient

GEO = "com.example/geo"


async def test_a_request_is_served(client: TappedClient, revision: str) -> None:
    """EXT-6: on every revision. SKILL-17: members of 2026-07-28 only there."""
    result = {**await client.request("geo/weather", {"city": "Oslo", "unknown": 1})}
    if revision == MODERN:
        assert result.pop("_meta").keys() == {"io.modelcontextprotocol/serverInfo"}
        assert result.pop("resultType") == "complete"
        assert (result.pop("ttlMs"), result.pop("cacheScope")) == (60_000, "private")
    assert result == {"city": "Oslo", "celsius": 21.5, "rain": False}


async def test_a_request_has_notifications(connect: Connect) -> None:
    heard: list[Any] = []
    client = await connect(on_notification=lambda *each: heard.append(each))
    await client.request("geo/weather", {"city": "Oslo", "days": 2})
    await until(lambda: heard)
    assert heard == [("notifications/geo/looked", {"city": "Oslo", "days": 2, "level": 3})]


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({}, "city: required, but missing"),
        ({"city": 5}, "city: expected a string, got 5"),
        ({"city": "Oslo", "days": "many"}, "days: expected an integer"),
    ],
)
async def test_params_are_validated(
    client: TappedClient, params: dict[str, Any], fault: str
) -> None:
    """EXT-18."""
    with pytest.raises(InvalidParams, match=f"^geo/weather: {fault}"):
        await client.request("geo/weather", params)


async def test_a_method_exists_in_its_revisions(client: TappedClient, revision: str) -> None:
    """EXT-12."""
    for name in ("geo/moves", "geo/nothing"):
        if name == "geo/moves" and revision in ("2025-06-18", MODERN):
            continue
        with pytest.raises(MethodNotFound):
            await client.request(name)


@pytest.mark.revisions("2025-06-18", MODERN)
async def test_members_of_all_results_are_those_of_the_revision(
    client: TappedClient, revision: str
) -> None:
    result = await client.request("geo/moves")
    assert result["_meta"]["example.com/count"] == 0
    assert result.get("resultType") == ("complete" if revision == MODERN else None)


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("told", ProtocolError, "closed"),
        ("crash", InternalError, "The server failed to answer"),
        ("list", InternalError, "The server failed to answer"),
        ("meta", InternalError, "The server failed to answer"),
    ],
)
async def test_a_failure_is_an_error(
    client: TappedClient, how: str, kind: type[ProtocolError], said: str
) -> None:
    with pytest.raises(kind, match=said) as raised:
        await client.request("geo/fail", {"how": how})
    assert SECRET not in str(raised.value)
    assert (raised.value.code, raised.value.data) == (
        (-31000, "told") if how == "told" else (-32603, None)
    )


async def test_a_notification_is_served(client: TappedClient) -> None:
    """EXT-18: one whose params are wrong, or whose handler fails, changes nothing."""
    name = str(id(client))

    async def sent(lat: Any) -> None:
        await client.notify("notifications/geo/moved", {"client": name, "lat": lat})

    await sent(59.9)
    await sent("north")
    await sent(91)
    await client.notify("notifications/geo/nothing", {})
    with anyio.fail_after(10):
        while (found := await client.request("geo/here", {"client": name}))["lat"] is None:
            pass
    assert found["lat"] == 59.9


async def test_a_notification_is_no_request(client: TappedClient) -> None:
    """EXT-12."""
    with pytest.raises(MethodNotFound):
        await client.request("notifications/geo/moved", {"client": "a", "lat": 1})


async def test_entries_have_members_of_the_extension(client: TappedClient, revision: str) -> None:
    """CONT-2: in revisions whose entries have a ``_meta``; the author's own members stay."""
    found = {each.name: each.raw.get("_meta", {}) for each in await client.list_tools()}
    place, kind = found["add"].get("com.example/place"), found["add"].get("example.com/kind")
    expected = ("add", "sum") if revision >= "2025-06-18" else (None, None)
    assert (place, kind) == expected
    marked = {name for name, meta in found.items() if "com.example/place" in meta}
    assert marked <= {"add", "where"}


async def test_a_hook_knows_what_the_client_declares(connect: Connect) -> None:
    """EXT-4, EXT-5, EXT-8, EXT-9: the value has to be an object."""
    for declared, found in (({GEO: {"zoom": 3}}, {"zoom": 3}), ({}, None), ({GEO: True}, None)):
        client = await connect(extensions=declared)
        result = await client.call_tool("where")
        assert result.text == "here"
        assert (result.meta or {}).get(GEO) == found


async def test_a_client_reads_what_the_server_declares(client: TappedClient) -> None:
    assert client.extension(GEO) == {"units": ["km"]}
    assert client.extension("com.example/other") is None
