"""Servers over HTTP: by ``mcpkit run server.py --http``, by uvicorn, or without a server."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit.testing import TestClient
from tests.tasks.servers import UNPACKED
from tests.transports.http import plain
from tests.transports.processes import REPOSITORY
from tests.warm import python

PATIENCE = 30.0
"""Seconds that a server may take to end."""


def program(name: str) -> str:
    """An executable of `.ci/databases` or of the system; the test is skipped if there is none."""
    found = next(map(str, UNPACKED.glob(f"usr/*bin/{name}")), shutil.which(name))
    if found is None:
        pytest.skip(f"there is no {name} here: .ci/databases")
    return found


@contextmanager
def serving(server: Path, *arguments: str, log: Any = None) -> Iterator[str]:
    """Run a server on a port of its own, and give its URL; it must end when it is told to.

    Args:
        server: Its file.
        arguments: Of the command line, in addition.
        log: A text file that gets what it has written to stderr.
    """
    with plain.serving(str(server), "--http", *arguments, cwd=REPOSITORY) as running:
        try:
            yield running.url
        finally:
            running.process.signal(signal.SIGTERM)
            running.process.exit_code(PATIENCE)
            if log is not None:
                log.write(running.process.stderr)


@contextmanager
def reached_by(transport: str, app: Any, file: Path) -> Iterator[Any]:
    """The target of a client: an app in memory, or a process that serves its file."""
    if transport == "http":
        with serving(file) as url:
            yield url
    else:
        yield app if transport == "memory" else [python(), "-m", "mcpkit", "run", str(file)]


@contextmanager
def hosted_in(folder: Path, name: str, application: str) -> Iterator[str]:
    """The URL of an application that uvicorn serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [python(), "-m", "uvicorn", f"{name}:{application}", "--log-level", "error"]
        served = subprocess.Popen(
            [*command, "--app-dir", str(folder), "--fd", str(listener.fileno())],
            pass_fds=[listener.fileno()],
        )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            served.terminate()
            served.wait(20)


def calling(url: str, headers: Mapping[str, str] | None = None, **options: Any) -> TestClient:
    """A client of the endpoint that an application has at ``/mcp``."""
    return TestClient(f"{url}/mcp", headers=headers, timeout=PATIENCE, **options)


@asynccontextmanager
async def in_process(
    endpoint: Any, host: Any = None, **options: Any
) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of an endpoint in this process, or of the application that it is a part of."""
    transport = httpx2.ASGITransport(host or endpoint, **options)
    client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")
    async with endpoint.lifespans.hold(), client:
        yield client
