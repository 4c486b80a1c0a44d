"""A server that is told to stop under load, behind a real load balancer: no call is lost."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import free_port, is_open
from tests.docs.test_deployment import block_of, nginx
from tests.kit import eventually
from tests.transports.http.plain import Client, Server, serving
from tests.transports.processes import call
from tests.web import program

CALLERS = 8
SOURCE = """
import anyio
from mcpkit import MCPKit

app = MCPKit("balanced", http={"ready": True, "drain_delay": 3})


@app.tool
async def double(number: int) -> int:
    await anyio.sleep(0.005)
    return 2 * number
"""


def haproxy(executable: str, folder: Path, front: int, ports: list[str]) -> list[str]:
    backend = block_of("haproxy.cfg")
    for known, port in zip(("8001", "8002"), ports, strict=True):
        backend = backend.replace(known, port)
    (folder / "haproxy.cfg").write_text(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"frontend all\n  bind 127.0.0.1:{front}\n  default_backend trips\n{backend}\n"
    )
    return [executable, "-f", str(folder / "haproxy.cfg")]


def balancing_nginx(executable: str, folder: Path, front: int, ports: list[str]) -> list[str]:
    server = block_of("balanced.conf").replace("listen 80", f"listen 127.0.0.1:{front}")
    for known, port in zip(("8001", "8002"), ports, strict=True):
        server = server.replace(known, port)
    return nginx(executable, folder, server)


BALANCERS = {"haproxy": haproxy, "nginx": balancing_nginx}


@contextmanager
def balanced(folder: Path, name: str) -> Iterator[tuple[str, list[Server]]]:
    """The URL of a load balancer in front of two servers, and these."""
    executable = program(name)
    (folder / "server.py").write_text(SOURCE)
    front = free_port()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving("server.py", "--http", cwd=folder)) for _ in range(2)
        ]
        ports = [str(urlsplit(each.url).port) for each in servers]
        command = BALANCERS[name](executable, folder, front, ports)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        eventually(lambda: is_open(front))
        yield f"http://127.0.0.1:{front}/mcp", servers


class Load:
    """Callers that call until there have been enough calls, and something else has happened."""

    def __init__(self, url: str, least: int, is_over: Callable[[], bool]) -> None:
        self.calls, self.lost = 0, list[str]()
        self._url, self._least, self._is_over = url, least, is_over
        self._numbers, self._lock = count(), threading.Lock()
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(CALLERS)]
        for each in self._threads:
            each.start()

    def join(self, seconds: float) -> None:
        for each in self._threads:
            each.join(seconds)
            assert not each.is_alive()

    def _call(self) -> None:
        connections: list[HTTPConnection] = []
        client = Client(self._url, connections)
        connection = client.connect()
        while self.calls < self._least or not self._is_over():
            number = next(self._numbers)
            try:
                answer = client.post(call(number, "double", number=number), connection)
                problem = "" if answer.text == str(2 * number) else repr(answer.body)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
                connection.close()
            with self._lock:
                self.calls += 1
                self.lost += [problem] if problem else []
        connection.close()


@pytest.mark.parametrize("name", BALANCERS)
def test_a_server_stops_under_load_and_no_call_is_lost(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    least = 10_000 if request.config.getoption("--deep") else 500
    ended = threading.Event()
    with balanced(tmp_path, name) as (url, servers):
        load = Load(url, least, ended.is_set)
        try:
            eventually(lambda: load.calls > min(least / 3, 1000))
            servers[0].process.signal(signal.SIGTERM)
            assert servers[0].process.exit_code(30) == 0
            after = load.calls
            eventually(lambda: load.calls > after + 100)
        finally:
            ended.set()
            load.join(300)
        assert load.lost == []
        assert load.calls >= least
