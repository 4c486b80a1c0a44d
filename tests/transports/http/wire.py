"""HTTP as it is on the wire: requests of any shape, and answers read byte by byte.

A `Host` is a real uvicorn in a thread. Each `Site` on it is an mcpkit app at a path of its own, and
an `Exchange` is one request on a connection of its own, which can be dropped at any time. A `Talk`
is a session of a handshake revision.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from itertools import count
from typing import Any, Final, NamedTuple

import anyio

from mcpkit import Limits, MCPKit
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit.transports.http.endpoint import EndpointState
from mcpkit.transports.http.requests import Shortcut
from mcpkit.transports.http.uvicorn import connection_class
from tests.kit import PATIENCE, eventually
from tests.messages import (
    BATCHES,
    LAST_HANDSHAKE,
    MODERN,
    announced,
    called,
    initialize,
    notification,
    request,
)
from tests.uvicorns import listen, running

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

TASKS: Final[dict[str, Any]] = {
    CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}}
}
"""The ``_meta`` of a client that takes tasks."""

STREAMS: Final = ["GET", "listen", "/sse"]

Headers = Mapping[str, "str | bytes | Sequence[str] | None"]
"""Values by name: None leaves a header out, several send it several times."""


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """The headers that belong to a request of 2026-07-28."""
    method = message["method"]
    found = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method in _NAMED:
        found["Mcp-Name"] = message["params"].get(_NAMED[method], "")
    return found


# --- what comes back ------------------------------------------------------------------------------


class Event(NamedTuple):
    """One block of an event stream."""

    fields: dict[str, str]
    comments: list[str]

    @property
    def id(self) -> str:
        return self.fields["id"]

    @property
    def message(self) -> Any:
        return json.loads(self.fields["data"])


class Exchange:
    """A request that was sent, and its answer, which is read when it is asked for."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._response: HTTPResponse | None = None
        self._body: bytes | None = None

    @property
    def response(self) -> HTTPResponse:
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    def header(self, name: str) -> str | None:
        return self.response.getheader(name)

    @property
    def kind(self) -> str | None:
        """The media type."""
        return self.header("content-type")

    @property
    def challenge(self) -> str:
        """How to get a token; empty if there is no challenge."""
        return self.header("www-authenticate") or ""

    @property
    def body(self) -> bytes:
        """All of it; waits for its end."""
        if self._body is None:
            self._body = self.response.read()
        return self._body

    @property
    def json(self) -> Any:
        assert self.kind == JSON, (self.status, self.kind, self.body)
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """Of the error."""
        code: int = self.json["error"]["code"]
        return code

    @property
    def refusal(self) -> tuple[int, int]:
        """The status and the code of the error."""
        return self.status, self.code

    def finish(self) -> None:
        """Wait until all of it is there."""
        _ = self.body

    def blocks(self) -> Iterator[Event]:
        """What the stream has from here on, until it ends."""
        assert self.kind == EVENTS, (self.status, self.kind, self.body)
        fields: dict[str, str] = {}
        comments: list[str] = []
        stream = self.response if self._body is None else BytesIO(self._body)
        while line := stream.readline():
            text = line.decode().removesuffix("\n")
            if text.startswith(":"):
                comments.append(text)
            elif text:
                name, _, value = text.partition(":")
                assert name not in fields
                fields[name] = value.removeprefix(" ")
            elif fields or comments:
                yield Event(fields, comments)
                fields, comments = {}, []
        if self.response.chunk_left == 0:  # which the standard library passes over
            raise ConnectionError("the stream was cut off")

    def event(self) -> Event:
        """The next event that is not a comment."""
        return next(each for each in self.blocks() if each.fields)

    def message(self) -> Any:
        """The next event that has a message."""
        return next(each.message for each in self.blocks() if each.fields.get("data"))

    def question(self) -> Any:
        """The next message that the client has to answer."""
        return next(each for each in iter(self.message, None) if {"id", "method"} <= each.keys())

    def events(self) -> list[Event]:
        """All events until the end."""
        return [each for each in self.blocks() if each.fields]

    def messages(self) -> list[Any]:
        """All messages until the end, of a stream or of a single object."""
        if self.kind == JSON:
            return [self.json]
        return [each.message for each in self.events() if each.fields.get("data")]

    @property
    def last(self) -> Any:
        """The last message."""
        return self.messages()[-1]

    @property
    def error(self) -> str:
        """What is wrong."""
        text: str = self.last["error"]["message"]
        return text

    @property
    def result(self) -> Any:
        """What the last message brings; there must be no error."""
        last = self.last
        assert "result" in last, last
        return last["result"]

    @property
    def text(self) -> str:
        """What a tool has returned as text."""
        text: str = self.result["content"][0]["text"]
        return text

    def drop(self) -> None:
        """Go away without a word."""
        self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._connection.close()


# --- served apps ----------------------------------------------------------------------------------


class Stage:
    """What handlers and a test know of each other, though they run in different threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signs: dict[tuple[str, str], threading.Event] = {}
        self._gates: dict[str, anyio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def _sign(self, kind: str, name: str) -> threading.Event:
        with self._lock:
            return self._signs.setdefault((kind, name), threading.Event())

    def signal(self, kind: str, name: str) -> None:
        """In a handler: it has come to something."""
        self._sign(kind, name).set()

    def has(self, kind: str, name: str) -> bool:
        return self._sign(kind, name).is_set()

    def expect(self, kind: str, name: str) -> None:
        """In a test: wait until a handler has come to something."""
        assert self._sign(kind, name).wait(PATIENCE), f"{name} has not {kind}"

    async def wait(self, name: str) -> None:
        """In a handler: wait until a test lets it go on; say how that went."""
        self._loop = asyncio.get_running_loop()
        gate = self._gates.setdefault(name, anyio.Event())
        self.signal("begun", name)
        try:
            await gate.wait()
        except BaseException:
            self.signal("been cancelled", name)
            raise
        self.signal("gone on", name)

    def release(self, name: str) -> None:
        """In a test: let a handler that waits go on."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._gates[name].set)


class Talk:
    """A session of the handshake revision that was negotiated; `token` is its id."""

    def __init__(self, site: Site, version: str, token: str) -> None:
        self.site = site
        self.version = version
        self.token = token
        self._ids = count(1)

    @property
    def headers(self) -> dict[str, str]:
        found = {"Mcp-Session-Id": self.token}
        if self.version > BATCHES:
            found["MCP-Protocol-Version"] = self.version
        return found

    def post(self, message: Any, headers: Headers | None = None) -> Exchange:
        return self.site.post(message, {**self.headers, **(headers or {})})

    def request(self, method: str, _id: Any = None, **params: Any) -> Exchange:
        return self.post(request(next(self._ids) if _id is None else _id, method, params))

    def call(self, tool: str, _id: Any = None, /, **arguments: Any) -> Exchange:
        return self.request("tools/call", _id, **called(tool, arguments))

    def notify(self, method: str, **params: Any) -> Exchange:
        return self.post(notification(method, params))

    def answer(self, question: Any, **result: Any) -> Exchange:
        return self.post({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def get(self, last: str | None = None, headers: Headers | None = None) -> Exchange:
        """Open the stream of the session, or go on with another after an event."""
        more = {} if last is None else {"Last-Event-ID": last}
        return self.site.get({**self.headers, **more, **(headers or {})})

    def delete(self) -> Exchange:
        return self.site.send("DELETE", self.headers)


class OldTalk:
    """A session of HTTP+SSE (2024-11-05)."""

    def __init__(self, site: Site, headers: Headers | None = None) -> None:
        self.site = site
        self.headers = headers
        self.stream = site.get(headers, site.beside("sse"))
        self.first = self.stream.event()
        self.address = self.first.fields["data"]

    def post(self, message: Any, headers: Headers | None = None) -> Exchange:
        return self.site.post(message, headers or self.headers, self.address)

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the next one of the server."""
        taken = self.post(message)
        assert (taken.status, taken.body) == (202, b"")
        return self.next()

    def next(self) -> Any:
        event = self.stream.event()
        assert event.fields["event"] == "message"
        assert "id" not in event.fields
        return event.message

    def begin(self, version: str = "2024-11-05", **members: Any) -> Any:
        result = self.ask(initialize(version, **members))["result"]
        assert self.post(notification("notifications/initialized")).status == 202
        return result

    def call(self, tool: str, _id: Any = 1, /, **arguments: Any) -> None:
        assert self.post(request(_id, "tools/call", called(tool, arguments))).status == 202


class Site:
    """An app whose endpoint is at a path of a host, and whose handlers are on a stage."""

    def __init__(self, host: Host, app: MCPKit[Any], stage: Stage, path: str) -> None:
        self.host = host
        self.app = app
        self.stage = stage
        self.path = path

    @property
    def state(self) -> EndpointState:
        """What serves it; the first request begins it."""
        endpoint = self.host.application(self)._endpoint
        assert eventually(lambda: endpoint._state is not None)
        found: EndpointState = endpoint._state
        return found

    def beside(self, name: str) -> str:
        """The path of another endpoint beside it."""
        return f"{self.path.removesuffix('/mcp')}/{name}"

    def send(
        self,
        method: str,
        headers: Headers | None = None,
        body: bytes | None = None,
        path: str | None = None,
    ) -> Exchange:
        """Send a request as it is."""
        connection = HTTPConnection("127.0.0.1", self.host.port, timeout=PATIENCE)
        exchange = Exchange(connection)
        self.host.opened.append(exchange)
        connection.putrequest(
            method,
            path or self.path,
            skip_host="Host" in (headers or {}),
            skip_accept_encoding=True,
        )
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            if value is not None:
                values = [value] if isinstance(value, (str, bytes)) else value
                for each in values:
                    connection.putheader(name, each)
        connection.endheaders(body)
        return exchange

    def post(
        self, message: Any, headers: Headers | None = None, path: str | None = None
    ) -> Exchange:
        """Send a message: a JSON value, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        usual = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
        return self.send("POST", _merged(usual, headers), body, path)

    def get(self, headers: Headers | None = None, path: str | None = None) -> Exchange:
        return self.send("GET", _merged({"Accept": EVENTS}, headers), path=path)

    def open_stream(self, kind: str, headers: Headers | None = None) -> Exchange:
        """One of the `STREAMS` that clients hold open, or a refusal."""
        if kind == "GET":
            return self.begin(headers=headers).get(headers=headers)
        if kind == "listen":
            wanted = {"toolsListChanged": True}
            return self.ask("subscriptions/listen", headers, notifications=wanted)
        return self.get(headers, self.beside("sse"))

    def modern(self, message: Any, headers: Headers | None = None) -> Exchange:
        """Send a request of 2026-07-28 with the headers that belong to it."""
        return self.post(message, _merged(headers_of(message), headers))

    def ask(self, method: str, _headers: Headers | None = None, **params: Any) -> Exchange:
        """Ask something in 2026-07-28."""
        return self.modern(announced(1, method, **params), _headers)

    def call(self, tool: str, _meta: Any = None, /, **arguments: Any) -> Exchange:
        """Call a tool in 2026-07-28."""
        return self.ask("tools/call", _meta=_meta or {}, **called(tool, arguments))

    def speaking(self, version: str) -> Site | Talk:
        """What calls tools in a revision: a session, or this site itself."""
        return self if version == MODERN else self.begin(version)

    def begin(
        self,
        version: str = LAST_HANDSHAKE,
        headers: Headers | None = None,
        *,
        ready: bool = True,
        **members: Any,
    ) -> Talk:
        """Begin a session with members of the params of initialize; say so, if it is ready."""
        exchange = self.post(initialize(version, **members), headers)
        assert exchange.status == 200, exchange.body
        token = exchange.header("mcp-session-id")
        assert token is not None
        talk = Talk(self, exchange.result["protocolVersion"], token)
        if ready:
            said = talk.post(notification("notifications/initialized"), headers)
            assert (said.status, said.body) == (202, b"")
        return talk


def _merged(usual: Headers, headers: Headers | None) -> Headers:
    given = headers or {}
    names = {name.lower() for name in given}
    return {**{name: value for name, value in usual.items() if name.lower() not in names}, **given}


def limited(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an endpoint, those that are limits as ``limits=``."""
    names = {each.name for each in fields(Limits)}
    limits = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    return {**others, "limits": Limits(**limits)} if limits else others


class Host:
    """The server that all sites are on."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.opened: list[Exchange] = []
        self.shortcuts: dict[bytes, Shortcut] = {}
        self.applied = 0
        """How many requests have come to the application."""
        self._sites: list[Any] = []

    def serve(self, app: MCPKit[Any], stage: Stage | None = None, **options: Any) -> Site:
        """Serve an app at an address that no other has."""
        path = f"/{len(self._sites)}/mcp"
        made = app.asgi(path=path, **limited(options))
        self._sites.append(made)
        self.shortcuts.update(made.shortcuts)
        return Site(self, app, stage or Stage(), path)

    def application(self, site: Site) -> Any:
        """What serves the app of a site."""
        return next(each for each in self._sites if each.settings.path == site.path)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.applied += 1
        parts: list[str] = scope["path"].split("/")
        number = parts[3 if parts[1] == ".well-known" else 1]
        await self._sites[int(number)](scope, receive, send)

    def close_all(self) -> None:
        """Leave nothing open."""
        for exchange in self.opened:
            try:
                exchange.close()
            except (OSError, HTTPException):
                pass
        self.opened.clear()


@contextmanager
def hosting(*, silence: float = 5) -> Iterator[Host]:
    """Run a server in a thread, which closes connections on which nothing is asked for a while."""
    with listen() as listener:
        host = Host(listener.getsockname()[1])
        # As `mcpkit run` serves, but without its limits: they have tests of their own.
        protocol = connection_class(Limits(body_timeout=60), host.shortcuts)
        with running(
            host,
            listener,
            http=protocol,
            lifespan="off",
            access_log=False,
            timeout_keep_alive=silence,
            timeout_graceful_shutdown=1,
        ):
            try:
                yield host
            finally:
                host.close_all()
