"""A connection to a server: requests, the handshake of every revision, answers to the server.

`mcpkit.Client` adds the methods of MCP. A server asks its client in requests of its own in the
handshake revisions, and in results in 2026-07-28; both reach the same handlers.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import anyio
from typing_extensions import Self

from mcpkit._concurrency.loop import Loop, open_loop
from mcpkit._protocol import wire
from mcpkit._protocol.client_connection import (
    ClientProtocol,
    InvalidMessage,
    IsAnswered,
    Notification,
    OutgoingMessage,
    ServerRequest,
)
from mcpkit._protocol.connection import (
    RELATED_TASK_KEY,
    SERVER_INFO_KEY,
    SUBSCRIPTION_KEY,
    Request,
    Response,
)
from mcpkit._protocol.messages import Id, is_id
from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, Revision
from mcpkit._utils.json import is_array, is_object, value_at
from mcpkit._utils.logs import get_logger
from mcpkit._utils.targets import command_of, is_url
from mcpkit.client.calls import Calls, OnLog
from mcpkit.client.results import InputRequest, OnProgress, Params, Progress
from mcpkit.client.stdio import ProcessLink
from mcpkit.client.timeouts import Timeouts
from mcpkit.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from mcpkit.limits import check_several
from mcpkit.types import Implementation

if TYPE_CHECKING:
    import httpx2

    from mcpkit.client.auth.base import HttpAuth
    from mcpkit.client.http import HttpLink
    from mcpkit.tracing import Tracing

log = get_logger("mcpkit.client")

T = TypeVar("T")

Handler: TypeAlias = Callable[[dict[str, Any]], "Params | Awaitable[Params]"]
"""Answers a request of the server: its ``params`` → its ``result``, as on the wire."""

OnMessage: TypeAlias = Callable[[str, Params], object]
"""Called with the method and params of a notification."""

Close: TypeAlias = Callable[[], Awaitable[object]]
"""Ends a subscription, a task, or a request."""

MAX_REQUESTS: Final = 1_000  # requests of a server that are answered at the same time
MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024  # bytes of these requests, together
MAX_LOGGED: Final = 100  # times that the same fault of a server is logged
_LEAVE_S: Final = 2.0  # seconds for each message that ends something

_MODERN_ERRORS: Final = (-32020, -32021, -32022)
"""Errors that only a server of 2026-07-28 sends (ERA-10)."""

_DENIED_STATUSES: Final = (401, 403, 407, 429)  # HTTP statuses that do not depend on the revision
_NOT_HERE_STATUSES: Final = (400, 404, 405)
"""HTTP statuses of a server that may want a GET instead (ERA-12)."""


class Link(Protocol):
    """A way to a server."""

    async def exchange(self, sent: OutgoingMessage, answered: IsAnswered | None = None) -> None:
        """Send one message; raises `ConnectionClosed` if the server is gone.

        Over HTTP it also waits for the response to the request.
        """

    async def aclose(self) -> None:
        """Close the connection."""


class Connectable(Protocol):
    """An app that can be served in memory, such as `mcpkit.MCPKit`."""

    def connect(
        self,
        loop: Loop,
        on_text: Callable[[bytes], None],
        on_exception: Callable[[Request, BaseException], None] | None = None,
    ) -> AbstractAsyncContextManager[Link]:
        """Serve one client, as `mcpkit.MCPKit.connect` does."""
        ...


Target: TypeAlias = "Connectable | str | os.PathLike[str] | Sequence[str]"
"""An app object, the path of a server's file, a command, or an ``http://`` or ``https://`` URL."""


class NoPendingInput(Exception):
    """A request of the server has been withdrawn, so it needs no answer."""


@dataclass(slots=True)
class Pending:
    """A request that waits for its response."""

    on_progress: OnProgress | None = None
    on_notification: OnMessage | None = None
    arrived: anyio.Event = field(default_factory=anyio.Event)
    response: Response | None = None
    size: int = 0
    """Bytes of the message with the response."""


_ALL_OF: Final[Mapping[str, Params]] = {
    "elicitation": {"form": {}},
    "sampling": {"tools": {}},
}
"""The members of the capabilities that a function declares. One that accepts forms without looking
must not make a user open URLs."""


class ClientConnection:
    """A connection to a server, as an async context manager; `mcpkit.Client` has the arguments."""

    def __init__(
        self,
        target: Target,
        *,
        revision: str | None = None,
        name: str = "mcpkit",
        version: str = "0",
        elicitation: Handler | None = None,
        sampling: Handler | None = None,
        roots: Sequence[str | os.PathLike[str]] | Handler | None = None,
        capabilities: Params | None = None,
        extensions: Mapping[str, Params] | None = None,
        on_log: OnLog | None = None,
        on_notification: OnMessage | None = None,
        timeout: float | None = 60,
        probe_timeout: float = 5,
        max_rounds: int = 16,
        max_input_requests: int = 100,
        on_round: Callable[[int, Params], object] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: int | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: httpx2.AsyncClient | None = None,
        auth: HttpAuth | str | Callable[[], str | Awaitable[str]] | None = None,
        raise_exceptions: bool = False,
        telemetry: Tracing | bool = False,
    ) -> None:
        if revision is not None and revision not in BY_VERSION:
            raise ValueError(f"unknown revision {revision!r}; known: {', '.join(BY_VERSION)}")
        self._target = target
        self._wanted = None if revision is None else BY_VERSION[revision]
        given = {
            "elicitation/create": elicitation,
            "sampling/createMessage": sampling,
            "roots/list": roots if roots is None or callable(roots) else _fixed_roots(roots),
        }
        self._handlers = {method: each for method, each in given.items() if each is not None}
        declared: dict[str, Any] = {
            each: _ALL_OF.get(each, {})
            for each in (method.partition("/")[0] for method in self._handlers)
        }
        info = {"name": name, "version": version}
        declared.update(capabilities or {})
        if extensions:
            declared["extensions"] = {**declared.get("extensions", {}), **extensions}
        self._protocol = ClientProtocol(info, declared)
        self._on_log = on_log
        self._calls = Calls()
        self._on_notification = on_notification
        self._timeout = timeout
        self._probe_timeout = probe_timeout
        self._max_rounds = max_rounds
        self._max_input_requests = max_input_requests
        self._on_round = on_round
        self._process_options: dict[str, Any] = {
            "env": None if env is None else {**os.environ, **env},
            "cwd": cwd,
            "stderr": stderr,
            # Ctrl-C in a terminal must reach only the client, which then stops the server.
            "start_new_session": True,
        }
        self._http_options: dict[str, Any] = {"headers": headers, "http_client": http_client}
        if auth is not None:
            from mcpkit.client.auth.base import http_auth

            self._http_options["auth"] = http_auth(auth)
        self._telemetry: Tracing | None = None
        if telemetry:
            from mcpkit.tracing import Tracing  # loaded only if used

            self._telemetry = Tracing() if telemetry is True else telemetry
        self._memory_options: Mapping[str, Any] = {}
        self._timeouts = Timeouts()
        self._raise = raise_exceptions
        self._raised: dict[Id, BaseException] = {}
        self._failed: Exception | None = None
        """The exception of a callback that is still to be raised."""
        self._pending: dict[Id, Pending] = {}
        self._link: Link | None = None
        self._http: HttpLink | None = None
        self._loop: Loop | None = None
        self._closed: ConnectionClosed | None = None
        self._requests = 0
        self._request_bytes = 0
        self._faults: Counter[str] = Counter()
        self._listeners: list[OnMessage] = []
        """Functions that receive every notification."""
        self._watched: Counter[str] = Counter()
        """The resources that the session subscribes to, and how often (handshake revisions)."""
        self._subscribed: dict[str, Close] = {}
        """The URIs of `subscribe`, and how to end each."""
        self._subscribing = anyio.Lock()
        self._task_listeners: dict[str, Any] = {}
        """Handles whose outcome is awaited, so that the server may ask for their input."""
        self._task_progress: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._stack = AsyncExitStack()
        self.server_info: Implementation | None = None
        self.server_capabilities: Params = {}
        self.instructions: str | None = None

    # --- opening and closing ----------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            self._loop = await self._stack.enter_async_context(open_loop())
            self._link = await self._stack.enter_async_context(self._open(self._loop))
            await self._negotiate()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._closed = self._closed or ConnectionClosed("The client has left")
        await self._stack.aclose()
        if error[:1] == (None,):
            self._raise_failure()

    @asynccontextmanager
    async def _open(self, loop: Loop) -> AsyncGenerator[Link, None]:
        target = self._target
        link: Link
        if not isinstance(target, (str, os.PathLike, Sequence)):
            app: Any = target

            def note(request: Request, error: BaseException) -> None:
                self._raised[request.id] = error

            hook = note if self._raise else None
            async with app.connect(loop, self._receive, hook, **self._memory_options) as link:
                yield link
            return
        if is_url(target):
            try:
                from mcpkit.client.http import HttpLink
            except ModuleNotFoundError as error:
                if error.name != "httpx2":
                    raise
                raise ImportError(
                    'A server over HTTP needs the client extra: pip install "mcpkit[client]"'
                ) from None
            called = (self._receive, self._on_close, self._renew_session, self._timeouts.paused)
            link = self._http = HttpLink(target, loop, *called, **self._http_options)
        else:
            process = await anyio.open_process(command_of(target), **self._process_options)
            link = ProcessLink(process, self._receive, self._on_close)
            loop.start(link.read())
        try:
            yield link
        finally:
            # Also when the client itself is cancelled: no server process may stay behind.
            with anyio.CancelScope(shield=True):
                await link.aclose()

    async def _negotiate(self) -> None:
        """Find out which revision to speak, and learn the name of the server."""
        wanted, is_slow = self._wanted, False
        if wanted is None or not wanted.handshake:
            self._protocol.revision = wanted or PER_REQUEST[-1]
            try:
                await self._discover()
                return
            except (ConnectionClosed, ProtocolError, TimeoutError, ValueError) as error:
                if not self._may_retry(error):
                    raise
                if wanted is not None:
                    await self._name_revisions(wanted, error)
                    raise
                supports_ours = PER_REQUEST[-1].version in _supported_versions(error)
                is_slow = isinstance(error, TimeoutError)
            if supports_ours:
                await self._discover()
                return
        try:
            await self._handshake(wanted or HANDSHAKE[-1])
        except (ConnectionClosed, ProtocolError) as error:
            if wanted is not None and self._may_retry(error):
                await self._name_revisions(wanted, error)
            if is_slow:  # it was about to answer, and takes no handshake after that
                self._protocol.revision = PER_REQUEST[-1]
                with suppress(ConnectionClosed, ProtocolError, TimeoutError, ValueError):
                    await self._discover()
                    return
            raise

    async def _name_revisions(self, wanted: Revision, error: Exception) -> None:
        """Raise `UnsupportedProtocolVersion` with what the server speaks, if it tells."""
        speaks = _supported_versions(error)
        if not speaks and not isinstance(error, TimeoutError):
            # Only an answer in another revision tells.
            with suppress(ConnectionClosed, ProtocolError, TimeoutError, ValueError):
                if wanted.handshake:
                    self._protocol.revision = PER_REQUEST[-1]
                    result = await self.request("server/discover", timeout=self._probe_timeout)
                    found = result.get("supportedVersions")
                    speaks = found if is_array(found) else ()
                else:
                    await self._handshake(HANDSHAKE[-1])
                    speaks = (self.revision,)
        named = [str(each) for each in speaks]
        if named:
            raise UnsupportedProtocolVersion(wanted.version, named) from error

    def _may_retry(self, error: Exception) -> bool:
        """Return True if the error of a request without a handshake may be due to the revision."""
        status = None if self._http is None else self._http.status
        if status in _DENIED_STATUSES:
            return False
        if isinstance(error, ConnectionClosed):
            return status in range(400, 500)  # ERA-11: it may not know the method
        is_modern = isinstance(error, ProtocolError) and error.code in _MODERN_ERRORS
        supported = _supported_versions(error)
        return not is_modern or self._http is None or any(each in supported for each in BY_VERSION)

    async def _handshake(self, wanted: Revision) -> None:
        """Shake hands, over HTTP in either of two ways (ERA-12)."""
        try:
            await self._initialize(wanted)
        except (ConnectionClosed, ProtocolError):
            http = self._http
            if http is None or http.status not in _NOT_HERE_STATUSES:
                raise
            if not await http.look_for_endpoint(self._probe_timeout):
                raise
            await self._initialize(wanted)

    async def _discover(self) -> None:
        result = await self.request("server/discover", timeout=self._probe_timeout)
        if self._wanted is None and not is_array(result.get("supportedVersions")):
            # Some servers answer any request with an empty object.
            raise ValueError("The server's answer to server/discover names no versions")
        self._learn_server(value_at(result, "_meta", SERVER_INFO_KEY), result)

    async def _initialize(self, wanted: Revision) -> None:
        self._protocol.revision = wanted
        params = {
            "protocolVersion": wanted.version,
            "capabilities": self._protocol.capabilities,
            "clientInfo": self._protocol.info,
        }
        result = await self.request("initialize", params)
        offered = str(result.get("protocolVersion"))
        found = BY_VERSION.get(offered)
        if found is None or not found.handshake:
            raise UnsupportedProtocolVersion(offered, [each.version for each in HANDSHAKE])
        self._protocol.revision = found
        self._learn_server(result.get("serverInfo"), result)
        if self._http is not None:
            self._http.version = found.version
        await self.notify("notifications/initialized")
        if self._http is not None:
            await self._http.listen()

    async def _renew_session(self) -> None:
        """Shake hands again: the server has forgotten the session (HTTPL-16)."""
        spoken = self._protocol.revision
        assert spoken is not None
        log.warning("the server has forgotten the session; making a new one")
        await self._initialize(spoken)
        self._start(self._subscribe_again([*self._watched]))

    async def _subscribe_again(self, uris: Sequence[str]) -> None:
        for uri in uris:
            try:
                await self.request("resources/subscribe", {"uri": uri})
            except (ConnectionClosed, ProtocolError, TimeoutError, ValueError) as error:
                self._log_fault("the subscription to %s is lost: %s", uri, error)

    def _learn_server(self, info: object, result: Params) -> None:
        self.server_info = wire.implementation_from_wire(info) if is_object(info) else None
        capabilities = result.get("capabilities")
        self.server_capabilities = capabilities if is_object(capabilities) else {}
        self.instructions = wire.optional_text(result, "instructions")

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken, such as ``2025-11-25``."""
        assert self._protocol.revision is not None
        return self._protocol.revision.version

    # --- messages of the server -------------------------------------------------------------------

    def _receive(self, text: bytes) -> None:
        try:
            events = self._protocol.receive(text)
            asked = sum(isinstance(event, ServerRequest) for event in events)
            invalid: InvalidMessage | None = None
            for event in events:
                if isinstance(event, InvalidMessage):
                    invalid = invalid or event
                elif isinstance(event, ServerRequest):
                    self._on_request(event, len(text) // asked)
                elif isinstance(event, Notification):
                    self._notified(event.method, event.params)
                elif (pending := self._pending.get(event.id)) is not None:
                    pending.response, pending.size = event, len(text)
                    pending.arrived.set()
            if invalid is not None:
                shown = text[:80].decode("utf-8", "replace") + "…" * (len(text) > 80)
                self._log_fault("the server sent an invalid message, %r: %s", shown, invalid.error)
        except Exception as error:
            # Neither a message nor a callback that fails may end the reading.
            self._log_fault("a message of the server could not be handled", failed=True)
            if self._raise:
                self._failed = self._failed or error

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _log_fault(
        self, message: str, *arguments: object, limit: int = MAX_LOGGED, failed: bool = False
    ) -> None:
        """Log a fault of the server at most `limit` times; `failed` adds the current exception."""
        count = self._faults[message] = self._faults[message] + 1
        if count == limit > 1:
            message += f" (logged {limit} times; further ones are not logged)"
        if count <= limit:
            report = log.error if failed else log.warning
            report(message, *arguments, exc_info=failed)

    def _notified(self, method: str, params: Params) -> None:
        if self._on_notification is not None:
            self._on_notification(method, params)
        if method == "notifications/message":
            call = self._calls.current
            on_log = self._on_log if call is None or call.on_log is None else call.on_log
            entry = on_log and self._read(wire.log_from_wire, params, "log messages")
            if on_log is not None and entry is not None:
                on_log(*entry)
        elif method == "notifications/progress":
            token = params.get("progressToken")
            asker = self._pending_of(token) or self._task_progress.get(str(token))
            if asker is not None and asker.on_progress is not None:
                now = self._read(wire.progress_from_wire, params, "progress")
                if now is not None:
                    asker.on_progress(Progress(*now))
        elif method == "notifications/tasks/status":
            task = self._task_listeners.get(str(params.get("taskId")))
            if task is not None:
                task._notified(params)
        for each in list(self._listeners):
            each(method, params)
        listening = self._pending_of(value_at(params, "_meta", SUBSCRIPTION_KEY))
        if listening is not None and listening.on_notification is not None:
            listening.on_notification(method, params)

    def _read(self, read: Callable[[Params], T], params: Params, what: str) -> T | None:
        try:
            return read(params)
        except ValueError as error:
            self._log_fault(f"the server sends malformed {what}: %s", error, limit=1)
            return None

    def _pending_of(self, id: object) -> Pending | None:
        return self._pending.get(id) if is_id(id) else None

    # --- requests of the server -------------------------------------------------------------------

    def _on_request(self, event: ServerRequest, size: int) -> None:
        if self._http is not None and not self._protocol.by_handshake:
            # An answer would be a message that this revision does not have (MSG-13).
            self._log_fault("the server sends the request %s in 2026-07-28", event.method)
            return
        if self._requests >= MAX_REQUESTS or self._request_bytes + size > MAX_REQUEST_BYTES:
            self._log_fault("the server sends too many requests; some are not answered", limit=1)
            return
        self._requests += 1
        self._request_bytes += size
        self._start(self._answer(event, size))

    async def _answer(self, event: ServerRequest, size: int) -> None:
        try:
            try:
                id = value_at(event.params, "_meta", RELATED_TASK_KEY, "taskId")
                task = self._task_listeners.get(str(id))
                if event.method == "ping":
                    result: Params = {}
                elif task is not None:
                    question = InputRequest(event.method, event.params)
                    result = await task._asked(event.id, question)
                else:
                    result = await self._handle(event.method, event.params)
                sent = self._protocol.send_result(event.id, result)
            except NoPendingInput:
                return
            except ProtocolError as error:
                sent = self._protocol.send_error(event.id, error)
            except Exception:
                # The exception may hold secrets: it is logged here, not sent.
                self._log_fault("the handler for %s failed", event.method, failed=True)
                sent = self._protocol.send_error(event.id, InternalError("The client failed"))
            await self.link.exchange(sent)
        except ConnectionClosed:
            pass
        except ProtocolError as error:
            self._log_fault("the server rejects the answer to %s: %s", event.method, error)
        finally:
            self._requests -= 1
            self._request_bytes -= size

    def _handler_of(self, method: str) -> Handler | None:
        call = self._calls.current
        on_input = None if call is None else call.on_input
        if on_input is None:
            return self._handlers.get(method)
        return lambda params: on_input(InputRequest(method, params))

    async def _handle(self, method: str, params: Params) -> Params:
        handler = self._handler_of(method)
        if handler is None:
            raise MethodNotFound(f"This client does not answer {method}")
        opens = value_at(self._protocol.capabilities, "elicitation", "url") is not None
        if method == "elicitation/create" and params.get("mode") == "url" and not opens:
            raise InvalidParams("This client opens no URLs")  # ELIC-1
        with self._timeouts.paused():
            result = handler(dict(params))
            result = await result if inspect.isawaitable(result) else result
        if not is_object(result):
            raise TypeError(f"the handler for {method} returned {result!r}, which is not a dict")
        return result

    def _start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run a coroutine in the background; return the function that cancels it."""
        if self._loop is None:
            work.close()
            raise RuntimeError("enter the client first: async with Client(...) as client")
        return self._loop.start(work)

    def _on_close(self, reason: ConnectionClosed | None = None) -> None:
        self._closed = self._closed or reason or ConnectionClosed("The server is gone")
        for pending in self._pending.values():
            pending.arrived.set()

    # --- messages to the server -------------------------------------------------------------------

    @property
    def link(self) -> Link:
        """The way to the server; raises RuntimeError if the client has not been entered."""
        if self._link is None:
            raise RuntimeError("enter the client first: async with Client(...) as client")
        return self._link

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification; raises as `request`."""
        if self._telemetry is not None:
            params = {
                **(params or {}),
                "_meta": self._telemetry.inject((params or {}).get("_meta", {})),
            }
        await self.link.exchange(self._protocol.send_notification(method, params))

    async def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        meta: Params | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        on_notification: OnMessage | None = None,
    ) -> Params:
        """Send a request and wait for its result.

        Args:
            method, params: As on the wire, without ``_meta``.
            meta: Put into ``_meta``.
            timeout: Seconds; the client's own setting if None.
            on_progress: Called with each `Progress`, which the server is asked for.
            on_notification: Called with the method and params of this subscription's notifications.

        Raises:
            ProtocolError: The server's error, as the class that owns its code.
            TimeoutError: There was no response in time; the request is cancelled at the server.
            ConnectionClosed: The server is gone, sends more than 64 MiB at once, or answers over
                HTTP with something else than MCP.
            ValueError: The result is not an object.
        """
        pending = Pending(on_progress, on_notification)
        return await self._await(pending, method, params, meta, timeout)

    async def _await(
        self,
        pending: Pending,
        method: str,
        params: Params | None,
        meta: Params | None = None,
        timeout: float | None = None,
    ) -> Params:
        """Send a request, and return its result as `request` does."""
        merged = dict(meta or {})
        if pending.on_progress is not None:
            # The request's own id would do, but it is only known once the request is made.
            merged["progressToken"] = self._protocol.next_id
        if self._telemetry is None:
            return await self._send_and_wait(pending, method, params, merged, timeout)
        with self._telemetry.calling(method, params or {}, merged, **self._about()) as results:
            results.append(await self._send_and_wait(pending, method, params, merged, timeout))
        return cast("Params", results[0])

    def _about(self) -> dict[str, Any]:
        """Return the attributes that all spans and metrics of this connection have."""
        address = urlsplit(self._target) if isinstance(self._target, str) and self._http else None
        return {
            "mcp.protocol.version": self._protocol.revision and self._protocol.revision.version,
            "network.transport": "tcp" if address else "pipe",
            "network.protocol.name": "http" if address else None,
            "server.address": address and address.hostname,
            "server.port": address and address.port,
        }

    async def _send_and_wait(
        self,
        pending: Pending,
        method: str,
        params: Params | None,
        merged: dict[str, Any],
        timeout: float | None,
    ) -> Params:
        sent = self._protocol.send_request(method, params or {}, merged)
        id = sent.id
        assert id is not None
        self._pending[id] = pending
        try:
            if self._closed is not None:
                raise self._closed
            try:
                limit = self._timeout if timeout is None else timeout
                with self._timeouts.limit(limit, f"No response to {method}"):
                    await self.link.exchange(sent, pending.arrived.is_set)
                    await pending.arrived.wait()
            except (ConnectionClosed, ProtocolError):
                raise
            except BaseException as error:
                await self._cancel(sent, error)
                raise
        finally:
            del self._pending[id]
        if id in self._raised:
            raise self._raised.pop(id)
        self._raise_failure()
        response = pending.response
        if response is None:
            assert self._closed is not None
            raise self._closed
        if response.error is not None:
            raise response.error
        if not is_object(response.result):
            raise ValueError(f"The server's answer to {method} is malformed: not an object")
        return response.result

    async def _cancel(self, sent: OutgoingMessage, error: BaseException) -> None:
        """Tell the server that the response is no longer awaited (CANC-6, CANC-7)."""
        # Over HTTP without a session, the response was closed, which says the same (CANC-5).
        is_said = self._http is not None and sent.version is not None
        if is_said or sent.method == "initialize" or self._closed is not None:
            return
        reason = "timeout" if isinstance(error, TimeoutError) else "cancelled"
        params = {"requestId": sent.id, "reason": reason}
        await leave(partial(self.notify, "notifications/cancelled", params))


async def leave(close: Close) -> None:
    """End something, also if the task that has it is cancelled; errors are ignored."""
    failed = suppress(ConnectionClosed, ProtocolError, TimeoutError, ValueError)
    with anyio.move_on_after(_LEAVE_S, shield=True), failed:
        await close()


def _supported_versions(error: Exception) -> Sequence[Any]:
    """Return the versions that a server supports, according to its error (ERA-10)."""
    listed = value_at(getattr(error, "data", None), "supported")
    return listed if is_array(listed) else ()


def _fixed_roots(roots: Sequence[str | os.PathLike[str]]) -> Handler:
    check_several("roots", roots)
    texts = [os.fspath(root) for root in roots]
    uris = [text if "://" in text else Path(text).absolute().as_uri() for text in texts]
    return lambda params: {"roots": [{"uri": uri} for uri in uris]}
