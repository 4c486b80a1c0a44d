"""``server:app`` on every ASGI server: JSON, streams, clients that leave, and the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mounting.serving import Address
from tests.transports.http.wire import EVENTS, JSON, PATIENCE, Exchange, Site
from tests.warm import Popen

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

ROOT = Path(__file__).parent.parent.parent

UVICORN = {
    f"uvicorn-{http}-{loop}": ["uvicorn", "--http", http, "--loop", loop]
    for http in ("h11", "httptools")
    for loop in ("asyncio", "uvloop")
}
HYPERCORN = {
    f"hypercorn-{worker}": ["hypercorn", "-k", worker] for worker in ("asyncio", "uvloop", "trio")
}
GRANIAN = {f"granian-{loop}": ["granian", "--loop", loop] for loop in ("asyncio", "uvloop")}
SERVERS = {**UVICORN, **HYPERCORN, **GRANIAN}
HEAR_SIGNALS = {
    **UVICORN,
    "uvicorn without lifespan": ["uvicorn", "--lifespan", "off"],
    "uvicorn with workers": ["uvicorn", "--workers", "2"],
    "hypercorn without workers": ["hypercorn", "-w", "0"],
    **GRANIAN,
}
"""Those that let the app know at once that they have to stop."""

CUT_STREAMS = [
    pytest.param(
        HYPERCORN[name],
        number,
        id=f"{name}-{number.name}",
        marks=pytest.mark.skipif(
            name == "hypercorn-asyncio" and sys.version_info >= (3, 12),
            reason="with any app, it waits for open streams without end from Python 3.12 on",
        ),
    )
    for name, number in [
        *((name, signal.SIGTERM) for name in HYPERCORN),
        # The process that hears signals is the same for all of these workers.
        ("hypercorn-trio", signal.SIGINT),
    ]
]

INTERRUPTED = HEAR_SIGNALS.keys() - {"uvicorn-h11-uvloop", "uvicorn-httptools-asyncio"}
"""Those that are stopped by SIGINT as well: a parser of HTTP does not know which signal it was."""

SOON = 2.0 if not os.environ.get("CI") else PATIENCE
"""Seconds; a machine that does much else at once may take longer."""


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: Address) -> None:
        self.process = process
        self.site: Site = address.site("/mcp")
        self._lines: list[str] = []
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._told:
                self._lines.append(line.rstrip())
                self._told.notify_all()

    def expect(self, line: str) -> None:
        """Wait until the app has told something."""
        with self._told:
            assert self._told.wait_for(lambda: line in self._lines, PATIENCE), self._lines

    def stop(self, number: int) -> None:
        self.process.send_signal(number)

    def told(self) -> list[str]:
        """All that the app has told; waits until it has ended."""
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        own = ("entered", "begun", "cancelled", "done", "left")
        return [line for line in self._lines if line.startswith(own)]

    def wait_for_answer(self) -> None:
        """Wait until it listens."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.site.host.port), 1).close()
            except OSError:
                assert self.process.poll() is None, self._lines
                assert time.monotonic() < deadline, "it does not listen"
                time.sleep(0.02)
            else:
                return

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running(
    command: Sequence[str],
    target: str = "tests.mounting.server:app",
    *more: str,
    cold: bool = False,
) -> Iterator[Server]:
    """Start a server; ``command`` names it, with options, and `cold` is as in `tests.warm`."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    name, *options = command
    where = ["-b", f"127.0.0.1:{port}"] if name == "hypercorn" else ["--port", str(port)]
    kind = ["--interface", "asgi"] if name == "granian" else []
    process = Popen(
        [sys.executable, "-m", name, target, *where, *kind, *options, *more],
        cold=cold,
        cwd=ROOT,
        env={**os.environ, "MCPKIT_SECRET": "the-secret-of-the-tests"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    address = Address(port)
    server = Server(process, address)
    try:
        server.wait_for_answer()
        yield server
    finally:
        address.close_all()
        server.close()


def open_streams(server: Server) -> tuple[Exchange, Exchange]:
    """A GET and a subscription, both of which are open."""
    stream = server.site.begin().get()
    assert stream.kind == EVENTS
    listening = server.site.ask("subscriptions/listen", notifications={"toolsListChanged": True})
    assert "acknowledged" in listening.message()["method"]
    return stream, listening


@pytest.fixture(scope="module", params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(SERVERS[request.param], cold=True) as found:
        yield found


# --- while it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["add", "add_in_thread"])
def test_answers_are_json(server: Server, tool: str) -> None:
    for answer in (server.site.call(tool, a=1, b=2), server.site.begin().call(tool, a=1, b=2)):
        assert answer.kind == JSON
        assert answer.text == "3"


def test_what_streams_is_an_event_stream(server: Server) -> None:
    answer = server.site.call("count", {"progressToken": "p"}, to=3)
    assert answer.kind == EVENTS
    assert [each["params"]["progress"] for each in answer.messages()[:-1]] == [0, 1, 2]


def test_streams_may_be_held_open_while_others_are_served(server: Server) -> None:
    opened = open_streams(server)
    assert server.site.call("add", a=1, b=2).text == "3"
    for each in opened:
        each.drop()


def test_a_client_that_leaves_cancels_its_call(server: Server) -> None:
    """CANC-5."""
    call = server.site.call("wait")
    server.expect("begun")
    call.drop()
    server.expect("cancelled")


# --- the end --------------------------------------------------------------------------------------


MAY_BE_KILLED = {"uvicorn without lifespan"}
"""Servers that end their process by the same signal, perhaps before the lifespan has been left."""


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, signal.SIGTERM) for name in HEAR_SIGNALS),
        *((name, signal.SIGINT) for name in sorted(INTERRUPTED)),
    ],
)
def test_streams_end_cleanly_and_the_process_goes(name: str, number: int) -> None:
    """A subscription ends with its result."""
    with running(HEAR_SIGNALS[name]) as server:
        stream, listening = open_streams(server)
        server.stop(number)
        begun = time.monotonic()
        assert stream.events() == []
        assert listening.message()["result"]["resultType"] == "complete"
        server.process.wait(PATIENCE)
        assert time.monotonic() - begun < SOON
        assert name in MAY_BE_KILLED or server.told()[-1] == "left"


@pytest.mark.parametrize("name", sorted(HEAR_SIGNALS.keys() - {"uvicorn with workers"}))
def test_a_call_in_flight_is_answered_before_the_lifespan_is_left(name: str) -> None:
    with running(HEAR_SIGNALS[name]) as server:
        call = server.site.call("a_while")
        server.expect("begun")
        server.stop(signal.SIGTERM)
        assert call.text == "done"
        told = server.told()
        told = told[told.index("begun") :]
        whole = ["begun", "done", "left"]
        assert told == whole or (name in MAY_BE_KILLED and told == whole[:-1])


@pytest.mark.parametrize(("command", "number"), CUT_STREAMS)
def test_hypercorn_cuts_streams_when_its_own_time_is_over(
    command: Sequence[str], number: int, tmp_path: Path
) -> None:
    """Its workers hear of the end without a signal, and tell the app after their connections."""
    settings = tmp_path / "hypercorn.toml"
    settings.write_text("graceful_timeout = 0.2\n")  # its option takes whole seconds only
    with running(command, "tests.mounting.server:app", "--config", str(settings)) as server:
        open_streams(server)
        server.stop(number)
        assert server.told()[-1] == "left"
