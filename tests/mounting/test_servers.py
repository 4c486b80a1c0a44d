"""``server:app`` on every ASGI server: JSON, streams, clients that leave, and the end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import free_port, is_open
from tests.kit import PATIENCE, eventually
from tests.mounting.server import MARK
from tests.mounting.serving import Address
from tests.transports.http.wire import EVENTS, JSON, Exchange, Site
from tests.transports.processes import REPOSITORY, Process, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

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


class Server(NamedTuple):
    """A server in a process of its own."""

    process: Process
    site: Site

    def expect(self, text: str) -> None:
        """Wait until the app has written something."""
        self.process.wait_for_stderr(f"{MARK}{text}\n")

    def written(self) -> list[str]:
        """All that the app has written; waits until it has ended."""
        self.process.exit_code(PATIENCE)
        lines = self.process.stderr.splitlines()
        return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]


@contextmanager
def running(
    command: Sequence[str],
    target: str = "tests.mounting.server:app",
    *more: str,
    cold: bool = False,
) -> Iterator[Server]:
    """Start a server; ``command`` names it, with options, and `cold` is as in `tests.warm`."""
    port = free_port()
    name, *options = command
    where = ["-b", f"127.0.0.1:{port}"] if name == "hypercorn" else ["--port", str(port)]
    kind = ["--interface", "asgi"] if name == "granian" else []
    whole = [sys.executable, "-m", name, target, *where, *kind, *options, *more]
    address = Address(port)
    env = {"MCPKIT_SECRET": "the-secret-of-the-tests"}
    with started(whole, cwd=REPOSITORY, env=env, cold=cold) as process:
        try:
            eventually(lambda: is_open(port))
            yield Server(process, address.site("/mcp"))
        finally:
            address.close_all()
            process.signal(signal.SIGTERM)
            process.exit_code(PATIENCE)


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


def test_answers_are_json_or_streams_that_come_at_once(server: Server) -> None:
    answer = server.site.call("count", {"progressToken": "p"}, to=3)
    assert answer.kind == EVENTS
    assert [each["params"]["progress"] for each in answer.messages()[:-1]] == [0, 1, 2]
    opened = open_streams(server)
    for tool in ("add", "add_in_thread"):
        for caller in (server.site, server.site.begin()):
            answer = caller.call(tool, a=1, b=2)
            assert (answer.kind, answer.text) == (JSON, "3")
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
def test_streams_end_cleanly_and_the_process_goes(name: str, number: signal.Signals) -> None:
    """A subscription ends with its result."""
    with running(HEAR_SIGNALS[name]) as server:
        stream, listening = open_streams(server)
        server.process.signal(number)
        begun = time.monotonic()
        assert stream.events() == []
        assert listening.message()["result"]["resultType"] == "complete"
        server.process.exit_code(PATIENCE)
        assert time.monotonic() - begun < SOON
        assert name in MAY_BE_KILLED or server.written()[-1] == "left"


@pytest.mark.parametrize("name", sorted(HEAR_SIGNALS.keys() - {"uvicorn with workers"}))
def test_a_call_in_flight_is_answered_before_the_lifespan_is_left(name: str) -> None:
    with running(HEAR_SIGNALS[name]) as server:
        call = server.site.call("a_while")
        server.expect("begun")
        server.process.signal(signal.SIGTERM)
        assert call.text == "done"
        written = server.written()
        written = written[written.index("begun") :]
        whole = ["begun", "done", "left"]
        assert written == whole or (name in MAY_BE_KILLED and written == whole[:-1])


@pytest.mark.parametrize(("command", "number"), CUT_STREAMS)
def test_hypercorn_cuts_streams_when_its_own_time_is_over(
    command: Sequence[str], number: signal.Signals, tmp_path: Path
) -> None:
    """Its workers hear of the end without a signal, and tell the app after their connections."""
    settings = tmp_path / "hypercorn.toml"
    settings.write_text("graceful_timeout = 0.2\n")  # its option takes whole seconds only
    with running(command, "tests.mounting.server:app", "--config", str(settings)) as server:
        open_streams(server)
        server.process.signal(number)
        assert server.written()[-1] == "left"
