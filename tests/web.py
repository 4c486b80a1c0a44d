"""A server over HTTP as its users have it: ``mcpkit run server.py --http``, in a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

__all__ = ["serving"]

ROOT = Path(__file__).parents[1]
PATIENCE = 30.0
"""Seconds that a server may take to listen, and to end."""

_URL = re.compile(r"listens on (http://\S+?),?(?:\s|$)")


@contextmanager
def serving(server: Path, *arguments: str, log: Any = None) -> Iterator[str]:
    """Run a server on a port of its own, and give its URL.

    Args:
        server: Its file.
        arguments: Of the command line, in addition.
        log: A text file that gets what it writes to stderr.
    """
    command = [sys.executable, "-m", "mcpkit", "run", str(server), "--http", "--port", "0"]
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    found: Queue[str] = Queue()
    written: list[str] = []

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            written.append(line)
            if log is not None:
                log.write(line)
            if match := _URL.search(line):
                found.put(match.group(1))
        found.put("")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        try:
            url = found.get(timeout=PATIENCE)
        except Empty:
            url = ""
        assert url, "".join(written)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            reader.join(PATIENCE)
            if process.stderr is not None:
                process.stderr.close()
