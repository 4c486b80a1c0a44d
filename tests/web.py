"""A server over HTTP as its users have it: ``mcpkit run server.py --http``, in a process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.transports.http import plain
from tests.transports.processes import REPOSITORY

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
