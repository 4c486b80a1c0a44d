"""Lambda functions: their processes, which are frozen between events, and clients of them."""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpkit._protocol.connection import CAPABILITIES_KEY
from tests.messages import BATCHES, MODERN, announced, called, initialize, notification, request
from tests.transports.http.wire import EVENTS, JSON, headers_of
from tests.transports.processes import REPOSITORY, Process, started

EVENT_FILES: Final = Path(__file__).parent / "events"
SHAPES: Final = sorted(each.stem for each in EVENT_FILES.glob("*.json"))
_TEMPLATES: Final = {
    each: (EVENT_FILES / f"{each}.json").read_text(encoding="utf-8") for each in SHAPES
}


def event_of(
    shape: str, method: str, path: str, headers: Mapping[str, str], body: bytes, *, encoded: bool
) -> dict[str, Any]:
    """The event that a request becomes."""
    event: dict[str, Any] = json.loads(_TEMPLATES[shape])
    context = event["requestContext"]
    if shape == "rest_api":
        event["headers"] |= headers
        for name, value in headers.items():
            event["multiValueHeaders"][name] = value.split(", ")
        event |= {"path": path, "httpMethod": method}
        context |= {"path": f"/{context['stage']}{path}", "httpMethod": method}
    else:
        event["headers"] |= {name.lower(): value for name, value in headers.items()}
        event["rawPath"] = path
        context["http"] |= {"method": method, "path": path}
    if "pathParameters" in event:
        event["pathParameters"]["proxy"] = path[1:]
    if body:
        text = base64.b64encode(body) if encoded else body
        event |= {"body": text.decode(), "isBase64Encoded": encoded}
    return event


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Response:
        """What a gateway makes of what the function returns."""
        headers = {**result.get("headers", {})}
        for name, values in result.get("multiValueHeaders", {}).items():
            headers[name] = ", ".join(values)
        body = result.get("body", "").encode()
        decoded = base64.b64decode(body) if result["isBase64Encoded"] else body
        return cls(result["statusCode"], headers, decoded)

    @property
    def messages(self) -> list[Any]:
        """All messages of the response, an object or a whole stream."""
        if self.headers["content-type"] == JSON:
            return [json.loads(self.body)]
        assert self.headers["content-type"] == EVENTS, self
        lines = [each.removeprefix(b"data:").strip() for each in self.body.splitlines()]
        return [json.loads(each) for each in lines if each.startswith(b"{")]

    @property
    def last(self) -> Any:
        return self.messages[-1]

    @property
    def text(self) -> str:
        """What a tool has returned as text, or failed with."""
        text: str = self.last["result"]["content"][0]["text"]
        return text


class Function:
    """An instance of the function, a process that runs during invocations only."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def invoke(self, event: Mapping[str, Any]) -> Response:
        self._process.signal(signal.SIGCONT)
        self._process.send_bytes(json.dumps(event).encode() + b"\n")
        line = self._process.line()
        assert line is not None, self._process.stderr
        self._process.signal(signal.SIGSTOP)
        return Response.of(json.loads(line))


@contextmanager
def instance(handler: str = "handler", **variables: str) -> Iterator[Function]:
    """A cold instance; `handler` is one of the function's."""
    target = handler if ":" in handler else f"tests.hosting.function:{handler}"
    command = [sys.executable, "-m", "tests.hosting.runtime", target]
    env = {"MCPKIT_SECRET": "the-secret-of-the-tests", **variables}
    with started(command, cwd=REPOSITORY, env=env) as process:
        yield Function(process)


class Caller:
    """A client of any instance, through one kind of gateway, in one revision."""

    def __init__(self, function: Function, shape: str, revision: str, path: str = "/mcp") -> None:
        self.function = function
        self.shape = shape
        self.revision = revision
        self.path = path
        self.session: dict[str, str] = {}
        self.server_capabilities: dict[str, Any] = {}
        self._ids = count(1)

    def send(
        self,
        method: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        encoded: bool = False,
    ) -> Response:
        given = {**self.session, **(headers or {})}
        event = event_of(self.shape, method, self.path, given, body, encoded=encoded)
        return self.function.invoke(event)

    def post(self, message: Any, *, encoded: bool = False) -> Response:
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}"}
        if self.revision == MODERN and "method" in message:
            headers |= headers_of(message)
        return self.send("POST", headers, json.dumps(message).encode(), encoded=encoded)

    def begin(self, **capabilities: Any) -> None:
        """Shake hands, or ask what there is where no handshake exists."""
        if self.revision == MODERN:
            found = self.request("server/discover").last["result"]
        else:
            begun = self.post(initialize(self.revision, capabilities=capabilities))
            found = begun.last["result"]
            assert found["protocolVersion"] == self.revision
            self.session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
            if self.revision > BATCHES:
                self.session["MCP-Protocol-Version"] = self.revision
            assert self.post(notification("notifications/initialized")).status == 202
        self.server_capabilities = found["capabilities"]

    def request(self, method: str, *, encoded: bool = False, **params: Any) -> Response:
        if self.revision == MODERN:
            message = announced(next(self._ids), method, **params)
        else:
            message = request(next(self._ids), method, params)
        return self.post(message, encoded=encoded)

    def call(self, tool: str, /, *, encoded: bool = False, **arguments: Any) -> Response:
        return self.request("tools/call", encoded=encoded, **called(tool, arguments))

    def asked(self, tool: str = "ask", _answers: Any = None, /, **arguments: Any) -> Any:
        """The result of a call by a client that can be asked, perhaps with answers."""
        meta: dict[str, Any] = {CAPABILITIES_KEY: {"elicitation": {}}}
        more = _answers or {}
        return self.request("tools/call", _meta=meta, **called(tool, arguments), **more).last[
            "result"
        ]
