"""Fake servers that do exactly what a test of a client wants, on a real uvicorn in a thread.

A `FakeHost` is the server; each test has a `FakeSite` on it, with a path of its own, which says
what happens to the requests of each MCP method and remembers them all. An `Incoming` is one of
those requests. (`tests/transports/http/wire.py` has the opposite: real apps, and requests as they
are sent.)
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio.to_thread

from tests.kit import PATIENCE, eventually
from tests.uvicorns import listen, running

EVENTS = "text/event-stream"
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
"""The result of a tool, in every revision."""

Handle = Callable[["Incoming"], Awaitable[None]]


async def within(event: threading.Event) -> None:
    """Wait in the server's thread for an event of the test."""
    assert await asyncio.to_thread(event.wait, PATIENCE), "it did not happen in time"


class Incoming:
    """One HTTP request, as its server sees it."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.verb: str = scope["method"]
        self.path: str = scope["path"]
        self.client: tuple[str, int] = scope["client"]
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.message: Any = None  # the body, if it is JSON
        self.over = threading.Event()  # the client has left, or everything has been said
        self.left = False  # by the client
        self._has_begun = self._is_open = False
        self._receive = receive
        self._send = send

    async def read(self) -> None:
        body, more = b"", True
        while more:
            part = await self._receive()
            body += part.get("body", b"")
            more = part.get("more_body", False)
        self.message = json.loads(body) if body else None

    @property
    def method(self) -> str:
        """The method of MCP, ``"answer"``, or the verb of a request without a body."""
        if not isinstance(self.message, dict):
            return self.verb
        found: str = self.message.get("method", "answer")
        return found

    @property
    def params(self) -> Any:
        return self.message.get("params", {})

    async def begin(
        self, status: int, kind: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        pairs = [(name.replace("_", "-"), value) for name, value in (headers or {}).items()]
        if kind is not None:
            pairs.append(("content-type", kind))
        raw = [(name.encode(), value.encode()) for name, value in pairs]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})
        self._has_begun = self._is_open = True

    async def reply(
        self, status: int, body: bytes = b"", kind: str | None = None, **headers: str
    ) -> None:
        await self.begin(status, kind, headers)
        await self.end(body)

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.reply(status, json.dumps(value).encode(), "application/json", **headers)

    async def result(self, _headers: Mapping[str, str] | None = None, /, **members: Any) -> None:
        await self.json(self.answer(**members), 200, **(_headers or {}))

    async def done(self) -> None:
        await self.result(**DONE)

    async def error(self, code: int, status: int = 200, **members: Any) -> None:
        error = {"code": code, "message": "no", **members}
        await self.json({"jsonrpc": "2.0", "id": self.message["id"], "error": error}, status)

    def answer(self, **members: Any) -> dict[str, Any]:
        """A response to the request, modern or not."""
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": members}

    async def stream(self) -> None:
        await self.begin(200, EVENTS)

    async def event(self, value: Any = None, **fields: Any) -> None:
        """One event of a stream: a message, or fields as they are."""
        if value is not None:
            fields["data"] = json.dumps(value)
        await self.piece("".join(f"{name}: {each}\n" for name, each in fields.items()) + "\n")

    async def piece(self, text: str | bytes) -> None:
        if not self._has_begun:
            await self.stream()
        body = text.encode() if isinstance(text, str) else text
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def events(self, *values: Any, stays: bool = False) -> None:
        """A stream of messages, which ends, or stays open until the client leaves."""
        await self.stream()
        for value in values:
            await self.event(value)
        if stays:
            await self.gone()

    async def end(self, body: bytes = b"") -> None:
        """End the response; a handler that returns does so too."""
        if self._is_open:
            self._is_open = False
            await self._send({"type": "http.response.body", "body": body})

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_open = False
        self.left = True
        self.over.set()


class FakeSite:
    """What happens behind one URL, and the requests in the order of their arrival."""

    def __init__(self, host: FakeHost, path: str) -> None:
        self.path = path
        self.url = host.origin + path
        self.seen: list[Incoming] = []
        self._handlers: dict[str, Handle] = {}

    def on(self, *methods: str) -> Callable[[Handle], Handle]:
        """Say what happens to a method of MCP, to ``GET`` or ``DELETE``, or to an ``answer``."""

        def register(handle: Handle) -> Handle:
            self._handlers.update(dict.fromkeys(methods, handle))
            return handle

        return register

    def handler(self, method: str) -> Handle:
        return self._handlers[method]

    def methods(self) -> list[str]:
        return [each.method for each in self.seen]

    def of(self, method: str) -> list[Incoming]:
        return [each for each in self.seen if each.method == method]

    async def arrival(self, method: str, count: int = 1) -> Incoming:
        """Wait until a method has been asked `count` times; return the last of these requests."""
        await anyio.to_thread.run_sync(
            eventually, self.methods, lambda found: found.count(method) >= count
        )
        return self.of(method)[count - 1]

    async def serve(self, incoming: Incoming) -> None:
        await incoming.read()
        self.seen.append(incoming)
        handle = self._handlers.get(incoming.method)
        if handle is not None:
            await handle(incoming)
            await incoming.end()
        elif incoming.verb == "POST":
            await incoming.reply(400)
        else:
            await incoming.reply(405)

    # --- servers that know the protocol -----------------------------------------------------------

    def modern(self) -> FakeSite:
        found = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}
        kept = {"ttlMs": 0, "cacheScope": "private"}
        self.on("server/discover")(lambda it: it.result(**found, **kept))
        return self

    def legacy(self, session: str | None = "s1", version: str = "2025-11-25") -> FakeSite:
        @self.on("initialize")
        async def initialize(incoming: Incoming) -> None:
            headers = {} if session is None else {"mcp-session-id": session}
            info = {"name": "fake", "version": "1"}
            await incoming.result(
                headers, protocolVersion=version, capabilities={}, serverInfo=info
            )

        taken = ("notifications/initialized", "notifications/cancelled", "answer")
        self.on(*taken)(lambda it: it.reply(202))
        self.on("DELETE")(lambda it: it.reply(204))
        return self


class FakeHost:
    """The server that all sites are on."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self._sites: dict[str, FakeSite] = {}

    def site(self, path: str = "/mcp") -> FakeSite:
        """A site at a path that no other has, with this end."""
        site = FakeSite(self, f"/{len(self._sites)}{path}")
        self._sites[site.path] = site
        return site

    def also(self, site: FakeSite, path: str) -> str:
        """A path beside that of a site, for the same site."""
        found = site.path.rpartition("/")[0] + path
        self._sites[found] = site
        return found

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        incoming = Incoming(scope, receive, send)
        try:
            await self._sites[incoming.path].serve(incoming)
        finally:
            incoming.over.set()


@contextmanager
def hosting() -> Iterator[FakeHost]:
    with listen() as listener:
        host = FakeHost(listener.getsockname()[1])
        with running(host, listener, lifespan="off", timeout_graceful_shutdown=1):
            yield host
