"""Servers as processes of the command line, spoken to over plain connections of HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.messages import MODERN, Message, initialize, request
from tests.transports.http.wire import Exchange
from tests.transports.processes import TIMEOUT, Process, started

RUN: Final = [sys.executable, "-m", "mcpkit", "run"]
_LISTENS: Final = re.compile(r"listens on (\S+?),? ")


class Client:
    """A client of an endpoint, whose connections are closed in the end."""

    def __init__(
        self, url: str, connections: list[HTTPConnection], session: str | None = None
    ) -> None:
        self.url = url
        self.session = session
        self._connections = connections
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path
        self._ids = iter(range(1, 1_000_000))

    def connect(self) -> HTTPConnection:
        """A connection of its own, which stays with the worker that has accepted it."""
        assert self._host is not None
        made = HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        self._connections.append(made)
        return made

    def send(
        self, message: Any, connection: HTTPConnection, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message, or a GET if there is none, and do not wait for what it is answered."""
        sent = {"Accept": "application/json, text/event-stream", **(headers or {})}
        if self.session is not None:
            sent["Mcp-Session-Id"] = self.session
        verb = "GET" if message is None else "POST"
        if message is not None:
            sent["Content-Type"] = "application/json"
        params = message.get("params", {}) if isinstance(message, dict) else {}
        if "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}):
            sent |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
            if named := params.get("name") or params.get("taskId") or params.get("uri"):
                sent["Mcp-Name"] = named
        connection.request(verb, self._path, json.dumps(message) if message else None, sent)

    def receive(self, connection: HTTPConnection) -> Exchange:
        """What was sent before is answered with."""
        exchange = Exchange(connection)
        exchange.finish()
        return exchange

    def post(self, message: Any, connection: HTTPConnection | None = None) -> Exchange:
        """Send a message, over a fresh connection unless one is given; the answer."""
        used = connection or self.connect()
        try:
            self.send(message, used)
            return self.receive(used)
        finally:
            if connection is None:
                used.close()
                self._connections.remove(used)

    def stream(
        self, message: Any = None, connection: HTTPConnection | None = None, **headers: str
    ) -> Exchange:
        """Send a message, or a GET if there is none, that is answered with a stream."""
        used = connection or self.connect()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send(message, used, named)
        return Exchange(used)

    def result_of(self, tool: str, /, **arguments: Any) -> Exchange:
        """Call a tool as a task of 2025-11-25; the stream that waits for its result."""
        call = {"name": tool, "arguments": arguments, "task": {}}
        made = self.post(self.request("tools/call", **call)).result["task"]
        return self.stream(self.request("tasks/result", taskId=made["taskId"]))

    def shake_hands(self, version: str, **capabilities: Any) -> None:
        """Begin a session."""
        answer = self.post(initialize(version, "handshake", capabilities=capabilities))
        assert answer.result["protocolVersion"] == version
        self.session = answer.header("Mcp-Session-Id")

    def request(self, method: str, **params: Any) -> Message:
        """A request of this session."""
        return request(next(self._ids), method, **params)

    def calling(self, tool: str, /, **arguments: Any) -> Message:
        """A call of a tool, to be sent."""
        return self.request("tools/call", name=tool, arguments=arguments)

    def call(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool over a fresh connection; the text that it answers."""
        answer = self.post(self.calling(tool, **arguments))
        assert answer.status == 200, answer.body
        return answer.text


class Server:
    """A process that serves."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url
        self.connections: list[HTTPConnection] = []

    def client(
        self, version: str | None = None, *, session: str | None = None, **capabilities: Any
    ) -> Client:
        """A client; it begins a session if a revision is named."""
        client = Client(self.url, self.connections, session)
        if version is not None:
            client.shake_hands(version, **capabilities)
        return client

    def close(self) -> None:
        """Close the connections of all clients."""
        for connection in self.connections:
            connection.close()


@contextmanager
def serving(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    command: list[str] | None = None,
    cold: bool = False,
    within: bool = False,
) -> Iterator[Server]:
    """``mcpkit run`` with arguments, for as long as the block lasts, on a port that is free.

    Args:
        arguments: Of the command line, without ``--port``.
        cwd: Where it runs.
        env: Variables in addition to those of this process.
        command: To run instead; it must say where it listens as ``mcpkit run`` does.
        cold, within: As for `Process`.
    """
    whole = [*RUN, *arguments, "--port", "0"] if command is None else command
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cold": cold, "within": within}
    with started(whole, cwd=cwd, env=env, **options) as process:
        process.wait_for_stderr("(Ctrl-C stops it)")
        found = _LISTENS.search(process.stderr)
        assert found is not None
        server = Server(process, found[1])
        try:
            yield server
        finally:
            server.close()
