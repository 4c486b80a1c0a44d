"""Requests under mcpkit's own server begin where they arrive, which no client can notice."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any

import anyio
import httpx2
import pytest

from mcpkit import Context, Depends, Limits, MCPKit
from mcpkit.http import Scope
from mcpkit.transports.http.exchange import Exchange
from tests.kit import eventually
from tests.messages import LEGACY, MODERN, VERSIONS, announced, called, initialize, request
from tests.transports.http.attack import Raw, post_head
from tests.transports.http.conftest import begins_at_once
from tests.transports.http.server import make_app
from tests.transports.http.wire import JSON, Host, Site, Stage, headers_of, hosting


class Line:
    """A connection on which one client calls again and again."""

    def __init__(self, site: Site, version: str = MODERN) -> None:
        self.site = site
        self.raw = Raw(site.host.port)
        self.version = version
        self.session: dict[str, str] = {}
        if version in LEGACY:
            headers, _ = self.ask(initialize(version))
            self.session = {
                "Mcp-Session-Id": headers["mcp-session-id"],
                "MCP-Protocol-Version": version,
            }

    def head(self, message: Any, **more: str) -> bytes:
        own = headers_of(message) if self.version == MODERN else self.session
        length = str(len(json.dumps(message)))
        return post_head(self.site.path, {**own, "Content-Length": length, **more})

    def text(self, message: Any, **more: str) -> bytes:
        return self.head(message, **more) + json.dumps(message).encode()

    def answer(self) -> tuple[dict[str, str], Any]:
        """The headers of the next answer in lower case, and what it says."""
        headers, body = self.raw.answer()
        return headers, json.loads(body) if body else None

    def ask(self, message: Any, **more: str) -> tuple[dict[str, str], Any]:
        self.raw.send(self.text(message, **more))
        return self.answer()

    def message(self, tool: str, id: int = 7, **arguments: Any) -> dict[str, Any]:
        if self.version == MODERN:
            return announced(id, "tools/call", name=tool, arguments=arguments)
        return request(id, "tools/call", called(tool, arguments))

    def logging(self, tool: str) -> dict[str, Any]:
        """A call that asks for log messages."""
        message = self.message(tool)
        if self.version == MODERN:
            message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info"
        return message

    def call(self, tool: str, id: int = 7, **arguments: Any) -> Any:
        headers, answer = self.ask(self.message(tool, id, **arguments))
        assert headers["status"] == "200 OK", (headers, answer)
        assert answer["id"] == id
        return answer["result"]


class Served:
    """An app whose calls are counted."""

    def __init__(self, serve_on: Host) -> None:
        self.stage = Stage()
        self.begun: list[str] = []
        app = MCPKit("short")

        @app.tool
        async def add(a: int, b: int) -> int:
            self.begun.append("add")
            return a + b

        @app.tool
        async def asking_nothing(a: int, b: int, ctx: Context) -> int:
            assert ctx.http is not None
            assert ctx.http.path == self.site.path
            return a + b

        @app.tool(inline=True)
        def inline(a: int, b: int) -> int:
            return a + b

        async def nothing() -> int:
            return 0

        @app.tool
        async def with_dependency(a: int, b: int, c: Annotated[int, Depends(nothing)]) -> int:
            return a + b + c

        @app.tool
        async def tells(ctx: Context) -> str:
            ctx.info("telling")
            return "told"

        @app.tool
        async def wait(name: str) -> str:
            self.begun.append("wait")
            await self.stage.wait(name)
            return f"waited for {name}"

        def origin(ctx: Context) -> str:
            assert ctx.http is not None
            assert ctx.http.client is not None
            return f"{ctx.http.client[0]} {ctx.http.scope['scheme']}"

        @app.tool
        async def who(ctx: Context) -> str:
            return origin(ctx)

        @app.tool
        async def who_in_the_end(ctx: Context) -> str:
            await anyio.sleep(0)
            return origin(ctx)

        @app.tool
        async def large(size: int) -> str:
            return "x" * size

        @app.tool
        async def broken() -> str:
            self.begun.append("broken")
            raise RuntimeError("s3cret")

        self.lines: list[Line] = []
        self.site = serve_on.serve(app, self.stage)
        self.line().call("add", a=0, b=0)  # the first request of all begins the app
        self.begun.clear()

    def line(self, version: str = MODERN) -> Line:
        self.lines.append(Line(self.site, version))
        return self.lines[-1]

    def close(self) -> None:
        for line in self.lines:
            line.raw.close()


@pytest.fixture
def served(host: Host) -> Iterator[Served]:
    with closing(Served(host)) as served:
        yield served


@pytest.fixture(params=VERSIONS)
def line(request: pytest.FixtureRequest, served: Served) -> Line:
    line = served.line(request.param)
    line.call("add", id=1, a=0, b=0)  # the first call of a session makes room for it
    served.begun.clear()
    return line


# --- which requests take it -----------------------------------------------------------------------


@begins_at_once
@pytest.mark.parametrize("tool", ["add", "asking_nothing", "inline", "with_dependency", "broken"])
def test_a_call_that_need_not_wait_does_not_come_to_the_application(
    line: Line, host: Host, tool: str
) -> None:
    before = host.applied
    result = line.call(tool, **({} if tool == "broken" else {"a": 1, "b": 2}))
    assert ("isError" in result) == (tool == "broken")
    assert host.applied == before


def test_a_call_that_streams_continues_in_the_application(line: Line, host: Host) -> None:
    before = host.applied
    line.raw.send(line.text(line.logging("tells")))
    text = line.raw.until(b'"told"')
    assert b"text/event-stream" in text
    assert text.index(b"notifications/message") < text.index(b'"told"')
    assert host.applied == before + 1


def test_both_ways_give_the_same_answer(line: Line, served: Served) -> None:
    short, long = line.ask(line.message("add", a=1, b=2)), served.line(line.version)
    message = long.message("add", a=1, b=2)
    message["params"]["_meta"] = {**message["params"].get("_meta", {}), "other": 1}
    headers, answer = long.ask(message)
    assert short[1] == answer
    assert {**short[0], "date": ""} == {**headers, "date": ""}


@pytest.mark.parametrize("name", ["who", "who_in_the_end"])
def test_both_ways_believe_a_proxy(line: Line, name: str) -> None:
    """Whose address is whose share, and whose rate."""
    sent = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
    _, answer = line.ask(line.message(name), **sent)
    assert answer["result"]["content"][0]["text"] == "203.0.113.7 https"
    assert line.call(name)["content"][0]["text"] == "127.0.0.1 http"


@pytest.mark.parametrize("cors", [False, True])
@pytest.mark.parametrize(("rate", "room"), [(0.01, 1), (4, 4)])
def test_every_request_counts_once(host: Host, cors: bool, rate: float, room: int) -> None:
    """SEC-10: also one that was looked at where it arrived, and is served elsewhere."""
    origin = "https://a.example"
    app = make_app(Stage())
    line = Line(host.serve(app, rate_limit=rate, cors=cors, allowed_origins=[origin]), MODERN)
    for _ in range(room):
        headers, _ = line.ask(line.message("add", a=1, b=2), Origin=origin)
        assert headers["status"] == "200 OK"
    if room == 1:
        headers, _ = line.ask(line.message("add", a=1, b=2), Origin=origin)
        assert headers["status"] == "429 Too Many Requests"
    line.raw.close()


def test_requests_are_begun_at_the_url_of_the_endpoint_alone() -> None:
    app = MCPKit("a")
    assert list(app.asgi(path="/ä").shortcuts) == [b"/%C3%A4"]
    assert list(app.asgi(path="/").shortcuts) == [b"/"]
    assert app.asgi(path="/messages", sse=True).shortcuts == {}


# --- connections ----------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(line: Line, served: Served) -> None:
    """A handler that waits is begun once, and goes on."""
    messages = [
        line.message("add", 1, a=1, b=0),
        line.message("wait", 2, name="b"),
        line.message("add", 3, a=3, b=0),
    ]
    line.raw.send(b"".join(map(line.text, messages)))
    assert line.answer()[1]["id"] == 1
    served.stage.expect("begun", "b")
    served.stage.release("b")
    waited = line.answer()[1]
    assert (waited["id"], waited["result"]["content"][0]["text"]) == (2, "waited for b")
    assert line.answer()[1]["id"] == 3
    assert served.begun == ["add", "wait", "add"]


@pytest.mark.parametrize("broken", [b"\0\r\n\r\n", b"GET / HTTP/1.1\r\n\0: \r\n\r\n"])
def test_broken_http_is_refused_after_the_requests_before_it(
    line: Line, served: Served, broken: bytes
) -> None:
    """Also after those that have to wait."""
    messages = [line.message("wait", 2, name="b"), line.message("add", 3, a=3, b=0)]
    line.raw.send(b"".join(map(line.text, messages)) + broken)
    served.stage.expect("begun", "b")
    line.raw.send(b"more")
    served.stage.release("b")
    assert [line.answer()[1]["id"] for _ in messages] == [2, 3]
    assert line.raw.rest().startswith(b"HTTP/1.1 400 ")


def test_bodies_may_come_later_than_their_heads(line: Line) -> None:
    """Also once a client that asks whether to go on has the answer."""
    message = line.message("add", a=1, b=2)
    head, body = line.head(message), json.dumps(message).encode()
    for first, rest in ((head + body[:1], body[1:]), (head + body[:30], body[30:])):
        line.raw.send(first)
        line.raw.send(rest)
        assert line.answer()[1]["result"]["content"][0]["text"] == "3"
    line.raw.send(line.head(message, Expect="100-continue"))
    assert line.raw.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
    line.raw.send(body)
    assert line.answer()[1]["result"]["content"][0]["text"] == "3"
    headers, _ = line.ask(message, Connection="close")
    assert headers["connection"] == "close"
    assert line.raw.socket.recv(1) == b""


def test_silence_begins_with_each_answer_and_never_during_a_call() -> None:
    """The timer that an answered call has set does not end the one that came with it."""
    silence = 0.4
    with hosting(silence=silence) as host, closing(Served(host)) as impatient:
        line, busy = impatient.line(), impatient.line()
        both = (busy.message("add", 1, a=1, b=0), busy.message("wait", 2, name="c"))
        busy.raw.send(b"".join(map(busy.text, both)))
        assert busy.answer()[1]["id"] == 1
        impatient.stage.expect("begun", "c")
        line.call("add", a=1, b=2)
        threading.Event().wait(silence / 2)
        line.call("add", a=1, b=2)
        since = time.monotonic()
        assert line.raw.socket.recv(1) == b""
        assert time.monotonic() - since > 0.75 * silence, "the time of the first has no say"
        impatient.stage.release("c")
        assert busy.answer()[1]["id"] == 2


def test_bodies_are_not_counted_as_the_head_that_follows_them(served: Served) -> None:
    line = served.line()
    text = line.text(line.message("large", size=1) | {"x": "y" * 35_000})
    line.raw.send(text + text + text[:60])
    for _ in range(2):
        headers, _ = line.answer()
        assert headers["status"] == "200 OK"
    line.raw.send(text[60:])
    assert line.answer()[0]["status"] == "200 OK"


@begins_at_once
def test_a_request_counts_as_soon_as_it_begins() -> None:
    """And not from the first step of a task on, before which any number could be begun."""
    app = MCPKit("few")

    @app.tool
    async def wait() -> None:
        await anyio.sleep_forever()

    asgi = app.asgi(loopback=True, limits=Limits(max_requests=2, max_each=2))
    message = announced(1, "tools/call", name="wait", arguments={})
    headers = {"Content-Type": JSON, **headers_of(message)}

    async def main() -> list[int | None]:
        transport = httpx2.ASGITransport(asgi)
        async with httpx2.AsyncClient(transport=transport) as client:
            # The first request of all begins the app, even one that is refused.
            first = await client.post("http://127.0.0.1/mcp", json={})
            assert first.status_code == 400
        answer = asgi.shortcuts[b"/mcp"]
        body = json.dumps(message).encode()
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        scope = {"headers": pairs, "server": None}
        loop = asyncio.get_running_loop()
        begun = [answer(scope, body, loop) for _ in range(3)]
        return [each[0] if isinstance(each, tuple) else None for each in begun]

    assert asyncio.run(main()) == [None, None, 503]


def test_a_fault_of_the_shortcut_is_no_fault_of_the_client(
    served: Served, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(scope: Scope, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        raise RuntimeError("out of order")

    host.shortcuts[served.site.path.encode()] = fail
    line = served.line()
    if sys.version_info >= (3, 11):
        headers, _ = line.ask(line.message("add", a=1, b=2))
        assert headers["status"] == "500 Internal Server Error"
        assert "out of order" in caplog.text
    else:
        assert line.call("add", a=1, b=2)["content"][0]["text"] == "3"


@begins_at_once
def test_a_call_that_becomes_a_task_is_freed_without_the_garbage_collector(host: Host) -> None:
    """An answer of megabytes would stay until enough small objects have been made."""
    app = MCPKit("large")

    @app.tool
    def large() -> str:
        return "x" * 1_000_000

    site = host.serve(app)
    site.call("large").finish()

    def exchanges() -> int:
        return sum(type(each) is Exchange for each in gc.get_objects())

    gc.collect()
    before = exchanges()
    gc.disable()
    try:
        for _ in range(5):
            site.call("large").finish()
        eventually(exchanges, lambda found: found <= before)
    finally:
        gc.enable()
