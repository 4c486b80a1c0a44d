"""How a server ends: streams first, then calls that have had their time, then the process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
import uvicorn

from mcpkit import Limits, MCPKit
from mcpkit.transports.http import server as serve
from mcpkit.transports.http.uvicorn import connection_class
from tests.kit import eventually
from tests.messages import initialize, request
from tests.transports.http.attack import Raw, head
from tests.transports.http.plain import RUN, Client, Server, serving
from tests.transports.http.wire import Exchange
from tests.transports.processes import LEGACY, call, modern, started
from tests.uvicorns import listen

PROMPT = 8.0
"""Seconds that are far more than an end takes that waits for nothing, and far less than `LONG`."""

LONG = 60
HASTE = {"GRACE": "0.05", "CLOSING": "0.05"}
"""What is given to calls and to threads where it must be used up; it never is where it must not."""

SOURCE = """
import os, sys, time
from pathlib import Path
import anyio, anyio.to_thread
from mcpkit import Limits, MCPKit
from mcpkit.transports.http import server as serve

serve._CLOSING = float(os.environ.get("CLOSING", serve._CLOSING))
app = MCPKit("ending", limits=Limits(grace=float(os.environ["GRACE"])))
here = Path(__file__).parent


def begun(what: str) -> None:
    print(what, "begun", file=sys.stderr, flush=True)


@app.tool
async def released() -> str:
    begun("released")
    while not (here / "release").exists():
        await anyio.sleep(0.01)
    return "in time"


@app.tool
async def pid() -> int:
    return os.getpid()


@app.tool
async def forever() -> None:
    begun("forever")
    await anyio.sleep_forever()


@app.tool
def blocked() -> None:
    begun("blocked")
    time.sleep(3600)


@app.tool
async def stubborn() -> None:
    begun("stubborn")
    await anyio.to_thread.run_sync(time.sleep, 3600)


@app.resource("end://watched")
def watched() -> str:
    return "watched"
"""

HOW = {"alone": [], "workers": ["--workers", "2"], "reload": ["--reload"]}
SIGNALS = {"SIGTERM": (signal.SIGTERM, 0), "SIGINT": (signal.SIGINT, 130)}
LISTEN = modern("listen", "subscriptions/listen", notifications={"toolsListChanged": True})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SOURCE)
    return tmp_path


def patient_in(folder: Path, *how: str) -> AbstractContextManager[Server]:
    """A server whose calls may go on for very long."""
    env = {"GRACE": str(LONG)}
    return serving("server.py", "--http", *how, cwd=folder, env=env, within=True)


def opened(client: Client) -> Exchange:
    """The stream of a session."""
    events = client.stream()
    assert events.status == 200
    return events


def calling(server: Server, tool: str) -> tuple[Client, HTTPConnection]:
    """A client and its connection, on which a call has begun."""
    client = server.client()
    connection = client.connect()
    client.send(call(1, tool), connection)
    server.process.wait_for_stderr(f"{tool} begun")
    return client, connection


def end(server: Server, number: signal.Signals = signal.SIGTERM) -> int:
    """Stop it; its exit code."""
    server.process.signal(number)
    return server.process.exit_code(PROMPT)


# --- when nothing runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize(("number", "code"), SIGNALS.values(), ids=SIGNALS)
def test_an_idle_server_ends_streams_and_waits_for_no_connection(
    folder: Path, how: list[str], number: signal.Signals, code: int
) -> None:
    """SUB-6: a subscription ends with its result."""
    with patient_in(folder, *how) as server:
        client = server.client("2025-06-18")
        resting = client.connect()
        client.post(client.request("ping"), resting)
        events, heard = opened(client), server.client().stream(LISTEN)
        assert heard.message()["method"] == "notifications/subscriptions/acknowledged"
        assert end(server, number) == code
        assert events.messages() == []
        [last] = heard.messages()
        assert (last["id"], last["result"]["resultType"]) == ("listen", "complete")


def test_a_stream_of_the_old_transport_ends_cleanly(folder: Path) -> None:
    patience = {"GRACE": str(LONG)}
    with serving("server.py", "--transport", "sse", cwd=folder, env=patience) as server:
        connection = server.client().connect()
        connection.request("GET", "/sse")
        response = connection.getresponse()
        assert response.readline() == b"event: endpoint\n"
        end(server)
        assert response.read().startswith(b"data: /messages?session_id=")


def test_a_server_that_is_to_outlive_its_terminal_does(folder: Path) -> None:
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *RUN, "server.py", "--http"]
    command += ["--port", "0"]
    with serving(cwd=folder, env={"GRACE": str(LONG)}, command=command) as server:
        server.process.signal(signal.SIGHUP)
        client = server.client()
        assert client.post(call(1, "pid")).text == str(server.process.pid)
        assert end(server) == 0


class Crowded(serve.Server):
    """A server to which clients connect at the moment at which it stops."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        self.clients = [Raw(sockets[0].getsockname()[1]) for _ in range(20)]
        for each in self.clients[:10]:
            each.send(head("GET", "/health"))
        await super().shutdown(sockets)


@pytest.mark.parametrize("parser", ["httptools", "h11"])
def test_connections_that_wait_to_be_accepted_are_served_or_closed(parser: str) -> None:
    """Clients that have connected in time are not cut off."""
    with pytest.MonkeyPatch.context() as patch, listen() as listener:
        if parser == "h11":
            patch.setitem(sys.modules, "uvicorn.protocols.http.httptools_impl", None)
        asgi = MCPKit("ending").asgi(health=True)
        http = connection_class(Limits(), asgi.shortcuts)
        config = uvicorn.Config(asgi, http=http, ws="none", log_config=None, lifespan="on")
        server = Crowded(config)
        server.should_exit = True
        thread = threading.Thread(target=server.run, args=[[listener]])
        thread.start()
        thread.join(PROMPT)
        assert not thread.is_alive()
        server.wait_for_threads()
        assert [each.status() for each in server.clients[:10]] == [200] * 10
        assert [each.socket.recv(1) for each in server.clients[10:]] == [b""] * 10
        for each in server.clients:
            each.close()


# --- while calls run ------------------------------------------------------------------------------


class TestCalls:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    @pytest.mark.parametrize("how", [HOW["alone"], HOW["workers"]], ids=["alone", "workers"])
    def test_one_that_ends_in_time_is_answered(
        self, folder: Path, how: list[str], number: signal.Signals
    ) -> None:
        """Streams end before it, and new connections are refused meanwhile."""
        with patient_in(folder, *how) as server:
            client, connection = calling(server, "released")
            events = opened(server.client("2025-06-18"))
            server.process.signal(number)
            assert events.messages() == []
            port = urlsplit(server.url).port

            def is_refused() -> bool:
                with socket.socket() as made:
                    return made.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED

            eventually(is_refused)
            (folder / "release").touch()
            assert client.receive(connection).text == "in time"
            assert server.process.exit_code(PROMPT) == 0

    @pytest.mark.parametrize("tool", ["forever", "blocked"])
    def test_one_that_does_not_is_answered_with_an_error(self, folder: Path, tool: str) -> None:
        with serving("server.py", "--http", cwd=folder, env=HASTE) as server:
            legacy, modern_one = server.client("2025-06-18"), server.client()
            calls = [
                (legacy, legacy.connect(), legacy.calling(tool)),
                (modern_one, modern_one.connect(), call("modern", tool)),
            ]
            for client, connection, message in calls:
                client.send(message, connection)
            eventually(lambda: server.process.stderr.count(f"{tool} begun") == len(calls))
            assert end(server) == 0
            for client, connection, message in calls:
                answer = client.receive(connection)
                assert answer.last["id"] == message["id"]
                assert answer.error == "The server is stopping"

    @pytest.mark.parametrize(
        ("tool", "how"), [("stubborn", []), *(("blocked", how) for how in HOW.values())]
    )
    def test_one_that_refuses_to_end_does_not_hold_the_process(
        self, folder: Path, tool: str, how: list[str]
    ) -> None:
        words = ["server.py", "--http", *how]
        with serving(*words, cwd=folder, env=HASTE, within=True) as server:
            calling(server, tool)
            assert end(server, signal.SIGINT) == 130

    @pytest.mark.parametrize("how", HOW.values(), ids=HOW)
    def test_a_second_ctrl_c_ends_at_once(self, folder: Path, how: list[str]) -> None:
        with patient_in(folder, *how) as server:
            client = server.client("2025-06-18")
            events = opened(client)
            client.send(client.calling("blocked"), client.connect())
            server.process.wait_for_stderr("blocked begun")
            server.process.signal(signal.SIGINT)
            assert events.messages() == []
            assert end(server, signal.SIGINT) == 130


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_ctrl_c_in_a_terminal_leaves_no_traceback(folder: Path, how: list[str]) -> None:
    """It is sent to all processes, not to the first one alone."""
    apart = "import os, sys; os.setsid(); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", apart, *RUN, "server.py", "--http", "--port", "0", *how]
    with serving(cwd=folder, command=command, env={"GRACE": str(LONG)}) as server:
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.exit_code(PROMPT) == 130
        assert server.process.line() is None
        assert len(server.process.stderr.splitlines()) == 1


def test_a_server_that_is_stopped_while_it_starts_still_leaves_the_lifespan() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncGenerator[None, None]:
        seen.append("entered")
        yield
        seen.append("left")

    app: MCPKit[None] = MCPKit("ending", lifespan=lifespan)
    config = uvicorn.Config(app.asgi(), log_config=None, lifespan="on", ws="none")
    server = serve.Server(config, lambda: server.handle_exit(signal.SIGTERM, None))
    with listen() as bound:
        server.run([bound])
        server.wait_for_threads()
    assert seen == ["entered", "left"]
    assert server.code == 0


# --- new requests ---------------------------------------------------------------------------------


async def test_what_arrives_while_it_ends_is_refused(anyio_backend: str) -> None:
    application = MCPKit("ending").asgi()
    transport = httpx2.ASGITransport(application)
    async with (
        application.lifespans.hold() as lifespan,
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        headers = {"Accept": "application/json, text/event-stream"}
        begun = await client.post("/mcp", json=initialize(LEGACY), headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        lifespan.drain()
        for method, message in (("POST", request(3, "ping")), ("GET", None)):
            refused = await client.request(method, "/mcp", json=message, headers=headers)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["message"] == "The server is about to stop"


# --- a delay before it ends -----------------------------------------------------------------------


def delayed(seconds: float, folder: Path, *how: str) -> AbstractContextManager[Server]:
    """A server that a load balancer looks at."""
    source = SOURCE.replace(
        'MCPKit("ending",', f'MCPKit("ending", http={{"ready": True, "drain_delay": {seconds}}},'
    )
    (folder / "server.py").write_text(source)
    return patient_in(folder, *how)


def readiness(server: Server) -> int:
    connection = server.client().connect()
    connection.request("GET", "/ready")
    return connection.getresponse().status


SERVING = pytest.mark.parametrize("how", [HOW["alone"], HOW["workers"]], ids=["alone", "workers"])


@SERVING
def test_sigterm_fails_readiness_first_and_serves_for_the_delay(
    folder: Path, how: list[str]
) -> None:
    with delayed(2, folder, *how) as server:
        assert readiness(server) == 200
        events = opened(server.client("2025-06-18"))
        server.process.signal(signal.SIGTERM)
        began = time.monotonic()
        eventually(lambda: [readiness(server) for _ in range(4)] == [503] * 4)
        assert server.client().post(call(1, "pid")).text
        assert server.process.exit_code(PROMPT + 2) == 0
        assert time.monotonic() - began > 1.8
        assert events.messages() == []


@SERVING
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_skips_the_delay_and_lets_calls_finish(
    folder: Path, how: list[str], first: signal.Signals
) -> None:
    with delayed(LONG, folder, *how) as server:
        client, connection = calling(server, "released")
        server.process.signal(first)
        if first == signal.SIGTERM:
            eventually(lambda: [readiness(server) for _ in range(4)] == [503] * 4)
            assert server.client().post(call(1, "pid")).text
            server.process.signal(signal.SIGINT)
        (folder / "release").touch()
        assert client.receive(connection).text == "in time"
        assert server.process.exit_code(PROMPT) == 130


def test_a_reload_does_not_wait_for_the_delay(folder: Path) -> None:
    with delayed(LONG, folder, "--reload") as server:
        assert end(server) == 0


def test_uvicorn_waits_for_the_delay_too(folder: Path) -> None:
    with delayed(1, folder) as server:  # which writes the file
        end(server, signal.SIGINT)
    command = [sys.executable, "-m", "uvicorn", "server:app", "--port", "0"]
    with started(command, cwd=folder, env={"GRACE": "5"}) as process:
        process.wait_for_stderr("Uvicorn running on http://")
        url = process.stderr.partition("Uvicorn running on ")[2].split()[0]
        assert httpx2.get(f"{url}/ready").status_code == 200
        began = time.monotonic()
        process.signal(signal.SIGTERM)
        eventually(lambda: httpx2.get(f"{url}/ready").status_code == 503)
        assert process.exit_code(PROMPT) in (0, -signal.SIGTERM)
        assert time.monotonic() - began > 0.9
