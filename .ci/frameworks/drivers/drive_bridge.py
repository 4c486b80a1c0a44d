"""A bridge: an official client reaches it over one transport, and it the server over the other.

Which official client, of the handshake era or the newest, is for the Python that runs this to say.

    drive_bridge.py NAME (URL | COMMAND [ARGUMENT ...])
"""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

NAME = sys.argv.pop(1)

from driving import COUNT, SERVER, URL, WAIT, Report, program  # noqa: E402 - it takes the other arguments
from mcp import ClientSession, StdioServerParameters, stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

try:
    from mcp import Client
except ImportError:
    Client = None

TO_URL: dict[str, Callable[[], list[str]]] = {
    "mcp-proxy": lambda: [program("mcp-proxy"), "--transport", "streamablehttp", SERVER[0]],
    "mcp-remote": lambda: [program("mcp-remote"), SERVER[0], "--transport", "http-only"],
    "supergateway": lambda: [program("supergateway"), "--streamableHttp", SERVER[0]],
}
"""Programs that speak stdio to the host."""

TO_COMMAND: dict[str, Callable[[str], list[str]]] = {
    "mcp-proxy": lambda port: [program("mcp-proxy"), "--port", port, "--", *SERVER],
    "supergateway": lambda port: [
        *(program("supergateway"), "--stdio", shlex.join(SERVER), "--port", port),
        *("--outputTransport", "streamableHttp", "--stateful"),
    ],
}
"""Programs that listen for the host."""


@asynccontextmanager
async def listening(home: str) -> AsyncIterator[str]:
    """A bridge that listens, and its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    bridge = subprocess.Popen(
        TO_COMMAND[NAME](str(port)), stdout=sys.stderr, env={**os.environ, "HOME": home}
    )
    deadline = time.monotonic() + WAIT
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if bridge.poll() is not None or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        bridge.terminate()
        bridge.wait(WAIT)


@asynccontextmanager
async def reached(home: str) -> AsyncIterator[Any]:
    """How the client reaches the bridge: a URL, or a command."""
    if URL:
        command, *arguments = TO_URL[NAME]()
        env = {**os.environ, "HOME": home}
        yield StdioServerParameters(command=command, args=arguments, env=env)
    else:
        async with listening(home) as url:
            yield url


@asynccontextmanager
async def connected(home: str) -> AsyncIterator[Any]:
    """The client, after its handshake if it has one."""
    async with reached(home) as how:
        if Client is not None:
            async with Client(how) as client:
                yield client
            return
        streams = streamable_http_client(how) if isinstance(how, str) else stdio_client(how)
        async with streams as (read, write, *_), ClientSession(read, write) as session:
            await asyncio.wait_for(session.initialize(), WAIT)
            yield session


async def main(home: str) -> None:
    report = Report(NAME)
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total])

    async with connected(home) as client:

        async def tools() -> Any:
            found = (await client.list_tools()).model_dump(by_alias=True)["tools"]
            return {each["name"]: sorted(each["inputSchema"]["properties"]) for each in found}

        async def call(name: str, values: dict[str, Any], **options: Any) -> Any:
            result = await client.call_tool(name, values, **options)
            return result.model_dump(by_alias=True)

        async def count() -> Any:
            await call("count", COUNT, progress_callback=on_progress)
            return progress

        await report.note("tools", tools)
        await report.note_answers(call)
        await report.note("count", count)
    report.print()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
