"""What is a header and what is not, on our own server and under plain uvicorn, byte by byte."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from mcpkit import Context, Limits, MCPKit
from mcpkit.transports.http.uvicorn import connection_class
from tests.messages import announced
from tests.transports.http.attack import Raw, connect, post_head
from tests.transports.http.conftest import by_header
from tests.transports.http.wire import headers_of
from tests.uvicorns import listen, running

SERVERS: Final = ("own", "own, the long way", "own on h11", "uvicorn", "uvicorn on h11")
CALL: Final = announced(1, "tools/call", name="who", arguments={})
MODERN: Final = headers_of(CALL)
BODY: Final = json.dumps(CALL).encode()
CHUNKED: Final = {"Transfer-Encoding": "chunked"}
CHUNK: Final = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
HEAD: Final = post_head("/mcp", {**MODERN, **CHUNKED})
TRAILER: Final = b"X-User: admin\r\n\r\n"


def make_app() -> MCPKit[Any]:
    app = MCPKit("fields")

    @app.tool
    async def who(*, ctx: Context) -> list[str]:
        assert ctx.http is not None
        names = [name.decode() for name, _ in ctx.http.scope["headers"]]
        return [str(ctx.principal), *(each for each in names if each.startswith("x-"))]

    return app


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def served(server: str, path: str) -> Iterator[int]:
    """The port of an endpoint, for as long as it is served."""
    asgi = make_app().asgi(path=path, principal=by_header)
    http: Any = {"uvicorn": "httptools", "uvicorn on h11": "h11"}.get(server)
    with pytest.MonkeyPatch.context() as patch, listen() as listener:
        if server == "own on h11":
            patch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
        if http is None:
            shortcuts = asgi.shortcuts if server == "own" else {}
            http = connection_class(Limits(), shortcuts)
        with running(asgi, listener, http=http, lifespan="off", timeout_graceful_shutdown=1):
            yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def port(server: str) -> Iterator[int]:
    yield from served(server, "/mcp")


@pytest.fixture(scope="module")
def special_port(server: str) -> Iterator[int]:
    yield from served(server, "/b:c@~+é/mcp")


def seen(raw: Raw) -> list[str]:
    """Who the server takes the client for, and the headers of the client's own that it sees."""
    headers, body = raw.answer()
    assert headers["status"] == "200 OK", body
    found = json.loads(body)["result"]["structuredContent"]["result"]
    assert isinstance(found, list)
    return found


def who(port: int, request: bytes) -> list[str]:
    with connect(port) as raw:
        raw.send(request)
        return seen(raw)


def status(port: int, headers: dict[str, str], path: str = "/mcp", body: bytes = BODY) -> int:
    with connect(port) as raw:
        raw.send(post_head(path, {**MODERN, **headers}) + body)
        return raw.status()


LENGTH: Final = {"Content-Length": str(len(BODY))}


class TestTrailers:
    """RFC 9110, 6.5.1: a proxy that sets or removes a header sees no trailers."""

    @pytest.fixture
    def at_once(self, server: str, port: int) -> int:
        """The port, if trailers differ from headers when the application is called."""
        if server == "uvicorn":
            pytest.skip("its fast parser has added them by then")
        return port

    def test_they_are_no_headers_of_their_request_or_the_next(self, at_once: int) -> None:
        with connect(at_once) as raw:
            raw.send(HEAD + CHUNK + TRAILER)
            assert seen(raw) == ["None"]
            raw.send(HEAD.replace(b"Host:", b"X-Own: 1\r\nHost:") + CHUNK + b"\r\n")
            assert seen(raw) == ["None", "x-own"]

    def test_they_are_no_headers_if_they_arrive_later(self, port: int) -> None:
        with connect(port) as raw:
            raw.send(post_head("/mcp", {**MODERN, **CHUNKED, "Expect": "100-continue"}))
            assert raw.status() == 100  # the application has been called
            raw.send(CHUNK + TRAILER)
            assert seen(raw) == ["None"]

    def test_they_hold_no_expectation(self, at_once: int) -> None:
        with connect(at_once) as raw:
            raw.send(HEAD + CHUNK[:-5])
            raw.send(CHUNK[-5:] + b"Expect: 100-continue\r\n\r\n")
            assert seen(raw) == ["None"]

    @pytest.mark.parametrize("line", [b"X: y\r\n", b"y" * 8192], ids=["many", "long"])
    def test_endless_ones_end_the_connection(self, server: str, port: int, line: bytes) -> None:
        if server == "uvicorn":
            pytest.skip("it has no bound")
        with connect(port) as raw:
            raw.send(HEAD + CHUNK + b"X: ")
            assert raw.is_cut_off(line * (8192 // len(line)))


@pytest.mark.parametrize(
    "name", [*MODERN, "Content-Type", "Accept", "Content-Length", "Host", "X-User"]
)
def test_blanks_around_a_value_do_not_belong_to_it(port: int, name: str) -> None:
    """RFC 9110, 5.5."""
    head = post_head("/mcp", {**MODERN, **LENGTH, "X-User": "me"}).decode()
    blank = re.sub(rf"(?m)^{name}: (.*)\r$", f"{name}:\t  \\1 \t \r", head)
    assert blank != head
    assert who(port, blank.encode() + BODY) == ["me", "x-user"]


@pytest.mark.parametrize("coding", ["gzip, chunked", "identity, chunked", "chunked, gzip", "gzip"])
def test_an_unknown_transfer_coding_is_refused(port: int, coding: str) -> None:
    """RFC 9112, 6.1."""
    body = CHUNK + b"\r\n"
    assert status(port, {"Transfer-Encoding": coding}, body=body) in (400, 501)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((each, 404) for each in ("/mcp%2f", "/mcp%2F", "/%6dcp", "/%6Dcp", "/%2fmcp")),
        *((each, 200) for each in ("/mcp", "/mcp/", "/mcp?a=%6d")),
    ],
)
def test_a_path_with_needless_escapes_is_not_served(port: int, path: str, expected: int) -> None:
    """Rules of proxies are about the path as it was sent."""
    assert status(port, LENGTH, path) == expected


def test_escapes_that_are_needed_count_in_any_case(special_port: int) -> None:
    for path in ("/b:c@~+%C3%A9/mcp", "/b:c@~+%c3%a9/mcp"):
        assert status(special_port, LENGTH, path) == 200
    for path in ("/b%3Ac@~+%C3%A9/mcp", "/b:c@%7e+%C3%A9/mcp"):
        assert status(special_port, LENGTH, path) == 404


def test_blanks_behind_an_expectation_do_not_count(server: str, port: int) -> None:
    """RFC 9110, 10.1.1: the client waits for permission to send the body."""
    if server == "uvicorn":
        pytest.skip("its fast parser takes them for a part of the value")
    with connect(port) as raw:
        raw.send(post_head("/mcp", {**MODERN, **CHUNKED, "Expect": "100-Continue \t"}))
        assert raw.status() == 100
        raw.send(CHUNK + b"\r\n")
        assert seen(raw) == ["None"]
