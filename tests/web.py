"""Servers over HTTP as their users have them: by ``mcpkit run server.py --http``, or uvicorn."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.transports.http import plain
from tests.transports.processes import REPOSITORY
from tests.warm import python

PATIENCE = 30.0
"""Seconds that a server may take to end."""


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
