"""Short ways from an annotation or a function to what registration makes of it."""

from __future__ import annotations

import contextvars
import importlib.util
import sys
import textwrap
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.to_thread

from mcpkit._entries import Listing
from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.connection import Request
from mcpkit._protocol.revisions import REVISIONS, ClientProfile, Method, Revision
from mcpkit._server.registry import Catalog, Page
from mcpkit._signature.arguments import Arguments
from mcpkit._signature.output import Output
from mcpkit._utils.json import UNSET, JsonSchema
from mcpkit.context import Context, ListKind, RunOwner
from mcpkit.types import LOG_RANK, LogLevel, ResourceResult, TextResourceContents

T = TypeVar("T")

LATEST = max(REVISIONS, key=lambda each: each.version)
OLDEST = min(REVISIONS, key=lambda each: each.version)


def handler(annotation: Any, default: Any = UNSET, returns: Any = UNSET) -> Callable[..., Any]:
    """A function with a parameter ``x`` of a type, as its author would have written it."""

    def fn(x: Any) -> Any:
        return x

    fn.__annotations__ = {"x": annotation}
    if returns is not UNSET:
        fn.__annotations__["return"] = returns
    if default is not UNSET:
        fn.__defaults__ = (default,)
    return fn


def arguments_of(fn: Callable[..., Any]) -> Arguments:
    return Arguments(inspect_handler(fn))


def schema_of(fn: Callable[..., Any]) -> JsonSchema:
    """The input schema of a function."""
    return arguments_of(fn).schema()


def schema_for(annotation: Any, default: Any = UNSET) -> JsonSchema:
    """The schema of a parameter of a type, with ``$defs`` of the root if there are any."""
    root = schema_of(handler(annotation, default))
    found: JsonSchema = root["properties"]["x"]
    return {**found, "$defs": root["$defs"]} if "$defs" in root else found


def accepted(annotation: Any, raw: Any) -> Any:
    """What a parameter of a type becomes when the client sends `raw`."""
    return arguments_of(handler(annotation)).validate({"x": raw})["x"]


def output_of(annotation: Any, structured: bool | None = None) -> Output:
    """The output of a function with this return annotation."""

    def fn() -> Any: ...

    fn.__annotations__ = {} if annotation is UNSET else {"return": annotation}
    return Output(inspect_handler(fn), structured)


class RecordingBackend(RunOwner):
    """A run, its host and its server, which record what a context asks of them."""

    repeats = False

    def __init__(self, threshold: LogLevel | None = "debug") -> None:
        self.session = self.server = self.changes = self
        self.request = request_with()
        self.states: Mapping[Any, Any] = {None: None}
        self.cancelled = False
        self.last_progress: float | None = None
        self.overrides: Mapping[Callable[..., Any], Callable[..., Any]] = {}
        self.threshold = threshold
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.announced: list[tuple[str, str]] = []
        self.drained = 0
        self.in_threads = 0

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        self.sent.append((method, params))

    def log_threshold(self, request: Request) -> int | None:
        return None if self.threshold is None else LOG_RANK[self.threshold]

    async def drain(self, request: Request) -> None:
        self.drained += 1

    def close_stream(self, request: Request, retry: float | None) -> None:
        self.sent.append(("close_stream", {"retry": retry}))

    async def in_thread(self, function: Callable[[], T]) -> T:
        self.in_threads += 1
        return await anyio.to_thread.run_sync(function)

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        return anyio.from_thread.run(function, *args)

    async def read_resource(self, uri: str, context: Context[Any]) -> ResourceResult:
        return ResourceResult([TextResourceContents(uri, "contents")])

    def requester(self) -> RecordingBackend:
        return self

    async def start_step(self, key: str) -> None:
        return None

    def list_changed(self, kind: ListKind) -> None:
        self.announced.append(("list", kind))

    def resource_changed(self, uri: str) -> None:
        self.announced.append(("resource", uri))


def request_with(
    *,
    meta: dict[str, Any] | None = None,
    revision: Revision = LATEST,
    info: Mapping[str, Any] | None = None,
) -> Request:
    return Request(
        7,
        "tools/call",
        Method("call_tool"),
        {},
        meta or {},
        revision,
        ClientProfile({}, info),
    )


def context_with(
    backend: RecordingBackend | None = None, state: Any = None, **request: Any
) -> Context[Any]:
    backend = backend or RecordingBackend()
    backend.request = request_with(**request)
    backend.states = {None: state}
    return Context(cast("Any", backend))


def page_of(
    catalog: Catalog, listing: Listing, cursor: str | None = None, size: int | None = None
) -> Page:
    """A page of a list, as a request would get it."""
    found = catalog.page(listing, cursor, size, context_with())
    if isinstance(found, Page):
        return found
    page: Page = wait(lambda: found)
    return page


def run(
    fn: Callable[..., Any],
    values: Mapping[str, Any] | None = None,
    *,
    context: Context[Any] | None = None,
    inline: bool = False,
) -> Any:
    """Call a handler by its plan, as a request would."""
    plan = CallPlan(fn, inspect_handler(fn), inline=inline)
    return wait(partial(plan.run, dict(values or {}), context or context_with()))


def wait(call: Callable[[], Awaitable[T]]) -> T:
    """Await something within five seconds."""

    async def main() -> T:
        with anyio.fail_after(5):
            return await call()

    # Fixtures may be open in an event loop of this thread, which does not run at the moment.
    return contextvars.Context().run(anyio.run, main)


def module_from(path: Path, source: str) -> Any:
    """A module imported from a file that has this text."""
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return load(path, path.stem)


def load(path: Path, name: str) -> Any:
    """A module imported from a file, also if it was imported before."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks names up there
    spec.loader.exec_module(module)
    return module
