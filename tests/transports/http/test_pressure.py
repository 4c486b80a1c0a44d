"""Clients that do their worst, against a real server process.

Whatever they do, others are served, memory stays bounded, and all of it is released afterwards:
tasks, streams, sessions, descriptors. `benchmarks.soak` measures for longer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from mcpkit import Limits, MCPKit
from mcpkit.transports.http.uvicorn import connection_class
from tests.kit import PATIENCE, eventually
from tests.messages import LAST_HANDSHAKE, announced, called, initialize, request
from tests.transports.http import plain
from tests.transports.http.attack import Raw, connect, head, hostile_headers, post, post_head
from tests.transports.http.plain import Server
from tests.transports.http.wire import EVENTS, JSON, headers_of
from tests.uvicorns import listen, running

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.timeout(120),
]

PRESSED: Final = Path(__file__).with_name("pressed.py")
SETTINGS: Final = {
    # Clients are dropped and forgotten for another reason, unless a test is about these.
    "body_timeout": 60,
    "write_timeout": 60,
    "replay_time": 0.1,
    "max_streams": 800,
    "max_each": 10**6,  # all of these come from one address
    "ask_timeout": 0.1,
}
TO_WRITE: Final = 1.0
"""Seconds to send a request, where it is about them: enough for all that send it at once."""

TO_READ: Final = 0.75
"""Seconds in which something must be read, where it is about them."""

TOLERABLE: Final = 5.0
"""Seconds within which 99 of 100 calls of another client are answered, on a machine under load."""

MIB: Final = 1024


class Victim:
    """The server, and what can be known of it."""

    def __init__(self, server: Server) -> None:
        self.process = server.process
        self.port = urlsplit(server.url).port or 0
        self._server = server

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool over a connection of its own; the structured result."""
        answer = self._server.client().post(tool_call(tool, **arguments))
        assert answer.status == 200, answer.body
        structured = answer.result.get("structuredContent")
        is_wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
        return structured["result"] if is_wrapped else structured

    def begin(self) -> str:
        """Begin a session; its id."""
        token = self._server.client(LAST_HANDSHAKE, elicitation={}).session
        assert token is not None
        return token

    def holds(self) -> dict[str, int]:
        """What it says that it holds."""
        found: dict[str, int] = self.call("state", objects=True)
        return found

    def memory(self) -> int:
        """Resident, in KiB."""
        return self.process.status("VmRSS")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def tool_call(tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
    return announced(1, "tools/call", **called(tool, arguments), _meta=meta)


def headers_for(message: Mapping[str, Any], session: str | None = None) -> dict[str, str]:
    usual = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
    if session is not None:
        return {**usual, "Mcp-Session-Id": session, "MCP-Protocol-Version": LAST_HANDSHAKE}
    return usual if message["method"] == "initialize" else {**usual, **headers_of(message)}


def posted(message: Mapping[str, Any], session: str | None = None) -> bytes:
    return post("/mcp", message, headers_for(message, session))


@contextmanager
def serving(**settings: Any) -> Iterator[Victim]:
    """Start a server."""
    env = {"PRESSED": json.dumps({**SETTINGS, **settings})}
    with plain.serving(str(PRESSED), "--http", "--sse", cwd=PRESSED.parent, env=env) as server:
        victim = Victim(server)
        for _ in range(20):
            victim.call("add", a=1, b=2)
        yield victim
        assert "Traceback" not in victim.process.stderr, victim.process.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    with serving() as victim:
        yield victim


@pytest.fixture
def victim(server: Victim) -> Iterator[Victim]:
    with attacked(server):
        yield server


@contextmanager
def attacked(server: Victim) -> Iterator[None]:
    """Whatever is done to a server, it has forgotten soon after."""
    before, descriptors = server.holds(), server.descriptors()
    yield
    kept = {"spare", "ended", "live", "sessions", "LiveSession", "Session", "threads", "passed"}

    def more() -> dict[str, tuple[int, int]]:
        after = server.holds()
        found = {
            name: (before[name], after[name])
            for name in before.keys() - kept
            if after[name] > before[name]
        }
        if after["live"] > 256 or after["Session"] > 260:
            found["live"] = (256, after["live"])
        if server.descriptors() > descriptors:
            found["descriptors"] = (descriptors, server.descriptors())
        return found

    eventually(more, lambda found: not found)


@contextmanager
def others_are_served(victim: Victim) -> Iterator[None]:
    """Another client calls and calls; its waits are tolerable, and every answer is right."""
    waits: list[float] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def call() -> None:
        while not over.wait(0.002):
            begun = time.monotonic()
            try:
                assert victim.call("add", a=1, b=2) == 3
            except BaseException as error:
                failures.append(error)
                return
            waits.append(time.monotonic() - begun)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield
        assert eventually(lambda: len(waits) >= 10 or failures)
    finally:
        over.set()
        thread.join(PATIENCE)
    assert not failures, failures
    assert sorted(waits)[int(len(waits) * 0.99)] < TOLERABLE


@contextmanager
def crowd(victim: Victim, count: int, saying: bytes = b"", **options: Any) -> Iterator[list[Raw]]:
    """Many connections; each says something as soon as it is there."""
    clients: list[Raw] = []
    with ExitStack() as stack:
        for _ in range(count):
            clients.append(stack.enter_context(connect(victim.port, **options)))
            clients[-1].send(saying)
        yield clients


# --- who does not write ---------------------------------------------------------------------------


def test_clients_that_do_not_write_are_answered_and_dropped() -> None:
    """All at the same time: who ends nothing, sends byte after byte, or what was refused."""
    unfinished = {
        "nothing": b"",
        "line": b"POST /mcp HT",
        "headers": post_head("/mcp")[:-2],
        "body": post_head("/mcp", {"Content-Length": "1000"}) + b"{",
    }
    with (
        serving(body_timeout=TO_WRITE) as victim,
        attacked(victim),
        others_are_served(victim),
        ThreadPoolExecutor() as threads,
        connect(victim.port) as slow,
        connect(victim.port) as insistent,
        ExitStack() as stack,
    ):
        insistent.send(post_head("/mcp", {"Content-Length": str(10**9)}))
        assert insistent.status() == 413
        insisting = threads.submit(insistent.trickle, b" " * 400, 0.05)
        trickling = threads.submit(slow.trickle, post_head("/mcp", hostile_headers(3000)), 0.05)
        crowds = {
            name: stack.enter_context(crowd(victim, 100, saying=data))
            for name, data in unfinished.items()
        }
        assert {each.status() for each in crowds["body"]} == {408}
        for each in crowds["body"]:
            each.send(b" ")
        for name, clients in crowds.items():
            assert all(each.is_closed_within() for each in clients), name
        assert trickling.result()
        assert insisting.result()


# --- who writes too much --------------------------------------------------------------------------


def test_headers_without_end_are_431(victim: Victim) -> None:
    """SEC-17."""
    before = victim.memory()
    with others_are_served(victim), connect(victim.port) as client:
        client.send(b"GET /mcp HTTP/1.1\r\nX: ")
        assert client.is_cut_off(b"y" * 8192)
    assert victim.memory() < before + 32 * MIB


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n",
        head("GET", "/mcp", hostile_headers(400_000))[:-2],
    ],
    ids=["address", "headers"],
)
def test_a_head_that_is_too_long_is_refused(victim: Victim, data: bytes) -> None:
    """SEC-17: URI length."""
    with connect(victim.port) as client:
        client.send(data)
        assert client.status() in (400, 431)
        assert client.is_closed_within()


# --- who does not read ----------------------------------------------------------------------------


@pytest.fixture(scope="class")
def reader() -> Iterator[Victim]:
    """A server that does not wait for clients that do not read."""
    with serving(write_timeout=TO_READ) as victim:
        yield victim


class TestWhoDoesNotRead:
    @pytest.fixture
    def victim(self, reader: Victim) -> Iterator[Victim]:
        with attacked(reader):
            yield reader

    def test_a_client_that_does_not_read_a_response_is_dropped(self, victim: Victim) -> None:
        before = victim.memory()
        asking = posted(tool_call("large", size=4_000_000))
        with others_are_served(victim), crowd(victim, 10, saying=asking, receive_buffer=4096):
            assert eventually(lambda: victim.holds()["exchanges"] >= 10), "they are counted"
            assert eventually(lambda: victim.holds()["exchanges"] <= 1)
        assert victim.memory() < before + 10 * 16 * MIB

    def test_a_client_that_does_not_read_a_stream_is_dropped_and_takes_little_memory(
        self, victim: Victim
    ) -> None:
        before = victim.memory()
        arguments = {"steps": 5000, "size": 4000, "pause": 0.0001}
        legacy = request(1, "tools/call", called("advance", arguments))
        modern = posted(tool_call("advance", **arguments))
        with others_are_served(victim), crowd(victim, 10, receive_buffer=4096) as clients:
            for number, each in enumerate(clients):
                each.send(modern if number % 2 else posted(legacy, victim.begin()))
            assert eventually(lambda: victim.holds()["exchanges"] >= 10)
            assert eventually(lambda: victim.holds()["exchanges"] <= 1)
            assert victim.memory() < before + 60 * MIB, "of 200 MB that were said"

    def test_a_client_that_reads_slowly_but_steadily_gets_everything(self, victim: Victim) -> None:
        kernel = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
        size = kernel + 5_000_000
        with connect(victim.port, receive_buffer=65536) as client:
            begun = time.monotonic()
            client.send(posted(tool_call("large", size=size)))
            found = client.until(b"\r\n\r\n")
            left = length = int(found.lower().split(b"content-length: ")[1].split()[0])
            while left > kernel:  # or all that is left might be written already
                left -= len(client.socket.recv(50_000))
                time.sleep(0.01)
            assert time.monotonic() - begun > TO_READ, "longer than one has who does not read"
            while left:
                left -= len(client.socket.recv(left))
        assert length > size


def test_a_client_that_sends_requests_and_does_not_read_is_dropped(victim: Victim) -> None:
    """Answers that are small each."""
    data = posted(tool_call("large", size=2000)) * 100
    with others_are_served(victim), connect(victim.port, receive_buffer=4096) as client:
        assert client.is_cut_off(data)


# --- who asks too much ----------------------------------------------------------------------------


def test_giant_bodies_in_parallel_take_bounded_memory(victim: Victim) -> None:
    before = victim.memory()
    body = json.dumps(tool_call("length", value="x" * 7_000_000)).encode()
    message = tool_call("length", value="")
    statuses: Counter[int] = Counter()

    def send() -> None:
        with connect(victim.port) as client:
            usual = {**headers_for(message), "Content-Length": str(len(body))}
            client.send(head("POST", "/mcp", usual) + body)
            statuses[client.status()] += 1

    with others_are_served(victim):
        threads = [threading.Thread(target=send) for _ in range(16)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(PATIENCE)
    assert set(statuses) <= {200, 429}
    assert statuses[200] >= 1
    assert victim.memory() < before + 500 * MIB


def test_a_flood_of_sessions_leaves_nothing(victim: Victim) -> None:
    """DESIGN §7."""
    for _ in range(200):
        victim.begin()
    before = victim.memory()
    data = posted(initialize())
    with others_are_served(victim), connect(victim.port) as client:
        for _ in range(3000):
            client.send(data)
            client.until(b'"serverInfo"')
            client.until(b"}}")
    assert victim.memory() < before + 8 * MIB


def test_a_flood_of_streams_is_bounded_and_released(victim: Victim) -> None:
    before = victim.memory()
    listen = announced(1, "subscriptions/listen", notifications={"toolsListChanged": True})
    usual = {"Accept": EVENTS, "MCP-Protocol-Version": LAST_HANDSHAKE}
    sse = head("GET", "/sse", {"Accept": EVENTS})
    statuses: Counter[int] = Counter()
    with others_are_served(victim), crowd(victim, 1000) as clients:
        for number, each in enumerate(clients):
            if number % 3 == 0:
                each.send(head("GET", "/mcp", {**usual, "Mcp-Session-Id": victim.begin()}))
            else:
                each.send(posted(listen) if number % 3 == 1 else sse)
        statuses.update(each.status() for each in clients)
        assert statuses == {200: 800, 503: 200}
        assert victim.memory() < before + 60 * MIB
        for each in clients:
            each.vanish()
        assert eventually(lambda: victim.holds()["streams"] == 0)


# --- who vanishes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [Raw.half_close, Raw.vanish])
@pytest.mark.parametrize(
    "at", ["head", "body", "call", "subscription", "stream", "question", "thread"]
)
def test_a_client_that_leaves_is_forgotten(
    victim: Victim, at: str, leave: Callable[[Raw], None]
) -> None:
    """CANC-5: whatever was sent, also several requests at once, and whatever came back."""
    data, back = {
        "head": (post_head("/mcp")[:40], b""),
        "body": (post_head("/mcp", {"Content-Length": "1000"}) + b'{"jsonrpc"', b""),
        "call": (posted(tool_call("wait", seconds=600)), b""),
        "subscription": (
            posted(announced(1, "subscriptions/listen", notifications={})) * 3,
            b"data: ",
        ),
        "stream": (posted(tool_call("advance", steps=10**6, pause=0.05)), b"data: "),
        "question": (b"", b"elicitation/create"),
        "thread": (posted(tool_call("work", steps=1000, pause=0.02)), b"data: "),
    }[at]
    asking = request(1, "tools/call", called("user", {}))
    with others_are_served(victim), crowd(victim, 20) as clients:
        for each in clients:
            each.send(data or posted(asking, victim.begin()))
            each.until(back)
        if at == "call":
            assert eventually(lambda: victim.holds()["exchanges"] >= 20)
        for each in clients:
            leave(each)
        assert eventually(lambda: victim.holds()["exchanges"] <= 1)
        assert eventually(lambda: victim.holds()["streams"] == 0)
    assert victim.holds()["threads"] <= 45


def test_calls_in_a_session_go_on_without_their_client_and_are_then_forgotten(
    victim: Victim,
) -> None:
    """HTTPL-20: a disconnect is not a cancellation."""
    message = request(1, "tools/call", called("hold", {}))
    with others_are_served(victim), crowd(victim, 20) as clients:
        for each in clients:
            each.send(posted(message, victim.begin()))
        assert eventually(lambda: victim.holds()["exchanges"] >= 20)
        connected = victim.descriptors()
        for each in clients:
            each.vanish()
        assert eventually(lambda: victim.descriptors() <= connected - 20 + 2), "it has noticed"
        assert victim.holds()["exchanges"] >= 20
        victim.call("release")
        assert eventually(lambda: victim.holds()["passed"] == 20)
        assert eventually(lambda: victim.holds()["exchanges"] <= 1)


# --- the end --------------------------------------------------------------------------------------


def test_none_of_them_keeps_the_server_from_stopping() -> None:
    with serving(grace=0.1) as victim, ExitStack() as stack:
        for data in (
            b"POST /mcp",
            post_head("/mcp", {"Content-Length": "1000"}) + b"{",
            posted(tool_call("large", size=4_000_000)),
            posted(tool_call("advance", steps=5000, size=4000)),
            posted(tool_call("wait", seconds=600)),
            posted(announced(1, "subscriptions/listen", notifications={})),
            head("GET", "/sse", {"Accept": EVENTS}),
        ):
            stack.enter_context(connect(victim.port, receive_buffer=4096)).send(data)
        assert eventually(lambda: victim.holds()["exchanges"] >= 3)
        assert eventually(lambda: victim.holds()["streams"] == 2)
        victim.process.signal(signal.SIGTERM)
        assert victim.process.exit_code() == 0


# --- where httptools has no wheels ----------------------------------------------------------------


def test_h11_drops_clients_that_never_finish_or_keep_sending() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
        http: Any = connection_class(Limits(body_timeout=0.5, grace=0.1), {})
    with listen() as listener, running(MCPKit("pure"), listener, http=http, lifespan="off"):
        port = listener.getsockname()[1]
        with connect(port) as silent, connect(port) as client:
            silent.send(post_head("/mcp")[:-2])
            client.send(post_head("/mcp", {"Content-Length": str(10**9)}))
            assert client.status() == 413
            assert client.trickle(b" " * 400, 0.05)
            assert silent.is_closed_within()
