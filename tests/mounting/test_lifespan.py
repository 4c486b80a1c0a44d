"""The lifespan of an app is entered once and left at the end, however it is served."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mcpkit import MCPKit
from tests.messages import announced, called, initialize, request
from tests.mounting.serving import Diary, attached, make_app, served, variable
from tests.transports.http.wire import JSON, Stage, headers_of

Build = Callable[[MCPKit[Any]], Any]


EVERY_WAY: dict[str, Build] = {
    "alone": lambda app: app,
    "with options": lambda app: app.asgi(path="/mcp"),
    "routed": lambda app: Starlette(routes=[app.route("/mcp")]),
    "attached": lambda app: attached(app, Starlette(), "/mcp"),
    "attached to FastAPI": lambda app: attached(app, FastAPI(), "/mcp"),
    "attached twice": lambda app: attached(app, Starlette(), "/mcp", "/again"),
    "mounted": lambda app: Starlette(routes=[Mount("/", app)]),
    "with two endpoints": lambda app: Starlette(
        routes=[app.route("/mcp"), app.route("/again"), Mount("/x", app)]
    ),
}


# --- uvicorn --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifespan", ["on", "off"])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_it_is_entered_once_and_left_after_all_calls(way: str, lifespan: str) -> None:
    stage, diary = Stage(), Diary()
    with served(EVERY_WAY[way](make_app(stage=stage, diary=diary)), lifespan=lifespan) as address:
        site = address.site("/mcp")
        again = address.site("/again" if "tw" in way else "/mcp")
        for each in (site, again, site):
            assert each.call("look").result["structuredContent"]["lifespan"] == "state"
            assert each.begin().call("who").text == "mounted"
        assert diary.entries == ["entered"]
        # The client leaves, and a call of a handshake revision goes on without it.
        call = site.begin().call("wait", name="call")
        stage.expect("begun", "call")
        call.drop()
    assert diary.entries == ["entered", "call ended", "left"]


def test_the_lifespan_of_the_host_is_around_that_of_an_attached_app() -> None:
    diary = Diary()

    @asynccontextmanager
    async def of_the_host(host: Any) -> AsyncGenerator[dict[str, str], None]:
        diary.entries.append("host entered")
        yield {"tenant": "acme"}
        diary.entries.append("host left")

    host = Starlette(lifespan=of_the_host)
    make_app(diary=diary).attach(host, "/mcp")
    with served(host) as address:
        seen = address.site("/mcp").call("look").result["structuredContent"]
        assert seen["state"] == {"tenant": "acme"}
    assert sorted(diary.entries) == ["entered", "host entered", "host left", "left"]


# --- when it fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["alone", "routed", "mounted"])
def test_a_request_that_cannot_enter_it_is_answered_and_the_next_one_tries_again(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary(failures=1)
    with served(EVERY_WAY[way](make_app(diary=diary)), lifespan="off") as address:
        site = address.site("/mcp")
        refused = site.call("who")
        assert (refused.kind, *refused.refusal) == (JSON, 500, -32603)
        assert b"secret" not in refused.body
        assert site.call("who").text == "mounted"
    assert diary.entries == ["failed", "entered", "left"]
    [record] = [each for each in caplog.records if each.name == "mcpkit"]
    assert record.exc_info is not None
    assert "the secret database is away" in str(record.exc_info[1])


@pytest.mark.parametrize("lifespan", ["on", "auto"])
@pytest.mark.parametrize("way", ["alone", "attached", "attached to FastAPI"])
def test_with_lifespan_events_the_server_refuses_to_start(way: str, lifespan: Any) -> None:
    application = EVERY_WAY[way](make_app(diary=Diary(failures=1)))
    server = uvicorn.Server(
        uvicorn.Config(application, port=0, lifespan=lifespan, log_level="critical")
    )
    with suppress(SystemExit):
        server.run()
    assert not server.started


# --- clients in process ---------------------------------------------------------------------------


def test_starlettes_test_client_has_an_event_loop_for_each_request_outside_of_a_with_block() -> (
    None
):
    """What belongs to one event loop is of no use in the next."""
    diary = Diary()
    client = TestClient(make_app(diary=diary))
    session = client.post("/mcp", json=initialize()).headers["mcp-session-id"]
    assert diary.entries == ["entered", "left"]
    call = request(1, "tools/call", called("who", {}))
    again = client.post("/mcp", json=call, headers={"mcp-session-id": session})
    assert again.json()["result"]["content"][0]["text"] == "mounted"
    assert diary.entries == ["entered", "left"] * 2


def in_process(application: Any) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(application)
    return httpx2.AsyncClient(transport=transport, base_url="http://test")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_httpx2_in_process_enters_it_once(way: str, backend: str) -> None:
    diary = Diary()
    application = EVERY_WAY[way](make_app(diary=diary))

    async def main() -> None:
        message = announced(1, "tools/call", **called("who", {}))
        async with in_process(application) as client:
            for _ in range(3):
                answer = await client.post("/mcp", json=message, headers=headers_of(message))
                assert answer.json()["result"]["content"][0]["text"] == "mounted"
        assert diary.entries == ["entered"]

    anyio.run(main, backend=backend)
    assert diary.entries == ["entered", "left"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_event_loops_side_by_side_enter_it_once_each(backend: str) -> None:
    diary = Diary()
    application = make_app(diary=diary)

    async def ask() -> None:
        async with in_process(application) as client:
            assert (await client.post("/mcp", json=initialize())).status_code == 200

    with start_blocking_portal(backend) as one, start_blocking_portal(backend) as other:
        for each in (one, other, one, other):
            each.call(ask)
        assert diary.entries == ["entered"] * 2
    assert diary.entries == ["entered"] * 2 + ["left"] * 2


# --- what a lifespan may do -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_may_wait_while_it_is_left_at_the_end_of_the_event_loop(backend: str) -> None:
    entries: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None, None]:
        async with anyio.create_task_group() as group:
            yield
            with anyio.move_on_after(0.01) as scope:
                await anyio.sleep_forever()
            entries.append(f"waited {scope.cancelled_caught}")
            group.cancel_scope.cancel()
        await anyio.sleep(0)
        entries.append("left")

    app: MCPKit[Any] = MCPKit("slow", lifespan=lifespan)

    async def main() -> None:
        async with in_process(app) as client:
            assert (await client.post("/mcp", json=initialize())).status_code == 200

    anyio.run(main, backend=backend)
    assert entries == ["waited True", "left"]


def test_it_runs_in_a_context_that_is_not_that_of_the_first_request() -> None:
    """A context variable of one client must not reach the others."""
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None, None]:
        seen.append(variable.get())
        yield

    app: MCPKit[Any] = MCPKit("context", lifespan=lifespan)

    async def host(scope: Any, receive: Any, send: Any) -> None:
        variable.set("of a request")
        await app(scope, receive, send)

    with served(host, lifespan="off") as address:
        assert address.site("/mcp").post(initialize()).status == 200
    assert seen == ["unset"]
