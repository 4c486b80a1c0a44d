"""Runs example clients of the official SDKs, unmodified, against mcpkit's ports of their servers.

    python .ci/examples [NAME ...]

The Python clients come from the source distributions of the SDK, into .cache/examples; the
TypeScript clients are a part of the package of its first generation; that of the second has none.
What cannot be installed here is skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
INSTALLED: Final = ROOT / ".cache" / "peers"
HOME: Final = ROOT / ".cache" / "examples"
TYPESCRIPT: Final = INSTALLED / "node/node_modules/@modelcontextprotocol/sdk/dist/esm/examples"

WAIT_INSTALL: Final = 300
WAIT_START: Final = 30
WAIT_CLIENT: Final = 60

STORIES: Final = {
    "tools": ("modern", "legacy"),
    "prompts": ("modern", "legacy"),
    "resources": ("modern", "legacy"),
    "lifespan": ("modern", "legacy"),
    "streaming": ("modern", "legacy"),
    "pagination": ("modern", "legacy"),
    "error_handling": ("modern", "legacy"),
    "parallel_calls": ("modern", "legacy"),
    "stickynotes": ("modern", "legacy"),
    "subscriptions": ("modern",),
    "roots": ("legacy",),
    "sampling": ("legacy",),
}
"""The examples of the second generation of the Python SDK, and the eras that each is for."""


class Example(NamedTuple):
    """A client, and what it prints at last if it has worked."""

    server: str
    generation: str
    command: tuple[str, ...]
    expected: str


EXAMPLES: Final = [
    *(
        Example(
            story,
            "python-2",
            ("-m", f"stories.{story}.client", *["--legacy"] * (era == "legacy"), "--http"),
            f"OK: {story} (http/{era})",
        )
        for story, eras in STORIES.items()
        for era in eras
    ),
    Example("simple_task", "python-1", ("simple-task-client", "--url"), "Result: Task completed!"),
    Example(
        "simple_task_interactive",
        "python-1",
        ("simple-task-interactive-client", "--url"),
        "Cherry blossoms fall",
    ),
    Example(
        "sse_polling_demo",
        "python-1",
        ("sse-polling-client", "--url"),
        "Result: Processed 10 items",
    ),
    Example(
        "notification_stream",
        "node",
        ("multipleClientsParallel.js",),
        "All clients completed successfully",
    ),
    Example(
        "notification_stream",
        "node",
        ("parallelToolCallsClient.js",),
        "Disconnected from MCP server",
    ),
    Example(
        "notification_stream",
        "node",
        ("streamableHttpWithSseFallbackClient.js",),
        "Started sending 5 notifications",
    ),
]


class SkippedError(Exception):
    """A client cannot be had here; the message says why."""


class FailedError(Exception):
    """A server did not start; the message is its log."""


def sources(generation: str) -> Path:
    """Return the folder of the examples of a Python SDK, which is downloaded unless it is there."""
    if sys.version_info < (3, 11):
        raise SkippedError("its harness needs Python 3.11")
    wanted = (ROOT / f"tests/peers/requirements-{generation}.txt").read_text().strip()
    folder = HOME / wanted.replace("==", "-")
    if not folder.is_dir():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as made:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "mcp"]
            done = subprocess.run(
                [*pip, "-d", made, wanted], capture_output=True, text=True, timeout=WAIT_INSTALL
            )
            if done.returncode:
                raise SkippedError(f"{wanted} cannot be downloaded: {done.stderr[-300:]}")
            (archive,) = Path(made).glob("mcp-*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(HOME, filter="data")
    return folder / "examples"


def command_of(example: Example) -> tuple[list[str], Path]:
    """Return the command of a client, without the URL, and the folder to run it in."""
    if example.generation == "node":
        script = TYPESCRIPT / "client" / example.command[0]
        node = INSTALLED / "node/node_modules/.bin/node"
        if not (script.exists() and node.exists()):
            raise SkippedError("the TypeScript SDK is not installed; run .ci/peers")
        return [str(node), str(script)], TYPESCRIPT
    python = INSTALLED / example.generation / "bin" / "python"
    if not python.exists():
        raise SkippedError("the Python SDK is not installed; run .ci/peers")
    examples = sources(example.generation)
    if example.generation == "python-2":
        return [str(python), *example.command], examples
    name, *options = example.command
    module = f"mcp_{name.replace('-', '_')}.main"
    return [str(python), "-m", module, *options], examples / "clients" / name


@contextmanager
def serving(server: str) -> Iterator[str]:
    """Serve a port, and yield its URL."""
    command = [sys.executable, "-m", "mcpkit", "run", f"{HERE / 'servers.py'}:{server}"]
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen([*command, "--http", "--port", "0"], cwd=ROOT, stderr=log)
        try:
            deadline = time.monotonic() + WAIT_START
            while not (found := re.search(r"listens on (\S+?),? ", Path(log.name).read_text())):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise FailedError(f"{server} did not start: {Path(log.name).read_text()}")
                time.sleep(0.05)
            yield found[1]
        finally:
            process.terminate()
            process.wait(WAIT_START)


def problem_of(example: Example) -> str | None:
    """Run a client once; return what is wrong with it, if anything."""
    command, folder = command_of(example)
    with serving(example.server) as url:
        try:
            done = subprocess.run(
                [*command, url],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=WAIT_CLIENT,
            )
        except subprocess.TimeoutExpired:
            return f"not done after {WAIT_CLIENT} s"
    shown = done.stdout + done.stderr
    if done.returncode == 0 and example.expected in shown:
        return None
    return f"exit code {done.returncode}: {shown.strip()[-2000:]}"


def main() -> int:
    """Run all, or those against the named servers."""
    parser = argparse.ArgumentParser(
        prog="python .ci/examples", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("server", nargs="*")
    wanted = parser.parse_args().server
    wrong = 0
    for example in EXAMPLES:
        if wanted and example.server not in wanted:
            continue
        name = f"{example.server}: {example.generation} {' '.join(example.command)}"
        try:
            problem = problem_of(example)
        except SkippedError as reason:
            print(f"{name}: skipped: {reason}")
            continue
        except FailedError as error:
            problem = str(error)
        wrong += problem is not None
        print(f"{name}: {problem or 'ok'}", flush=True)
    print(f"{wrong} examples failed" if wrong else "all examples work")
    return bool(wrong)


sys.exit(main())
