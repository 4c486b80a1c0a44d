"""A client: for the command line, for tests, and for programs that use servers.

A `Client` speaks every revision, finds out which one a server wants, and answers its questions.
These are requests of the server in the handshake revisions, and parts of a result in 2026-07-28.
"""

from __future__ import annotations

import inspect
import math
import os
import shlex
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, TypeGuard, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from typing_extensions import Self

from mcpkit._concurrency.loop import Loop, open_loop
from mcpkit._protocol import wire
from mcpkit._protocol.client_connection import Answered, Asked, Caller, InvalidMessage, Sent, Told
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import Id, is_id
from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, Revision
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.logs import get_logger
from mcpkit._utils.quota import ANONYMOUS, Quota
from mcpkit._utils.targets import names_file, run_command
from mcpkit.client.results import (
    CallResult,
    Completion,
    ListedPrompt,
    ListedResource,
    ListedTemplate,
    ListedTool,
    PromptMessages,
    parse,
)
from mcpkit.client.stdio import ProcessLink
from mcpkit.client.tasks import (
    EXTENSION,
    NoPendingInput,
    TaskHandle,
    TaskQuestion,
    TaskStatus,
    input_requests_in,
    related_task,
    with_extension,
)
from mcpkit.errors import (
    ConnectionClosed,
    HeaderMismatch,
    InternalError,
    MethodNotFound,
    MissingClientCapability,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from mcpkit.transports.memory import MemoryLink
from mcpkit.types import Implementation, LogLevel, ResourceContents

if TYPE_CHECKING:
    import httpx2

    from mcpkit._server.server import Server
    from mcpkit.app import MCPKit
    from mcpkit.client.auth.base import HttpAuth
    from mcpkit.client.http import HttpLink
    from mcpkit.client.task_offers import ClientTasks

__all__ = ["Client", "Handler", "Target"]

log = get_logger("mcpkit.client")

Target: TypeAlias = "MCPKit[Any] | str | os.PathLike[str] | Sequence[str]"
"""An app object, the path of a server's file, a command, or an ``http://`` or ``https://`` URL."""

Params: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[dict[str, Any]], "Params | Awaitable[Params]"]
"""Answers a question of a server: ``params`` of the request → ``result``, as on the wire."""

T = TypeVar("T")


class Link(Protocol):
    """A way to a server."""

    async def send_text(self, text: bytes) -> None:
        """Send one message.

        Raises:
            ConnectionClosed: The server is gone.
        """
        ...

    async def aclose(self) -> None:
        """Leave the server."""
        ...


class _Pending:
    """A request that waits for its answer."""

    __slots__ = ("answer", "arrived", "on_progress", "on_told", "size")

    def __init__(
        self,
        on_progress: Callable[[float, float | None, str | None], object] | None,
        on_told: Callable[[str, Params], object] | None,
    ) -> None:
        self.arrived = anyio.Event()
        self.answer: Answered | None = None
        self.size = 0
        """Bytes of the message with the answer."""
        self.on_progress = on_progress
        self.on_told = on_told


_MAX_BYTES_SHOWN: Final = 80
"""Bytes that are shown of what cannot be read."""

_MOST_PAGES: Final = 10_000
_MOST_ENTRIES: Final = 100_000
_MOST_LIST_BYTES: Final = 64 * 1024 * 1024
"""All pages of a list together may have as many bytes as one message."""

_MOST_QUESTIONS: Final = 1_000
"""Requests of a server that are answered at the same time."""

_MOST_QUESTION_BYTES: Final = 64 * 1024 * 1024
"""Bytes that these requests have together."""

_MOST_COMPLAINTS: Final = 100
"""Times that the same fault of a server is logged."""

_CANCEL_S: Final = 2.0
"""Seconds that the cancellation of a task may take, when the call ends that has begun it."""

_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_MODERN_ERRORS: Final = (-32020, -32021, -32022)
"""Errors that only a server without handshake gives (ERA-10)."""

_DENIED_STATUSES: Final = (401, 403, 407, 429)
"""HTTP statuses that say nothing about what a server speaks."""

_REFUSED_STATUSES: Final = frozenset(range(400, 500)) - {*_DENIED_STATUSES}
"""HTTP statuses of a server that may not know what it is asked (ERA-11)."""

_NOT_HERE_STATUSES: Final = (400, 404, 405)
"""HTTP statuses of a server that may want GET instead (ERA-12)."""


class ClientOptions(TypedDict, total=False):
    """Options of a client, as keywords; see `Client`."""

    name: str
    version: str
    elicitation: Handler | None
    sampling: Handler | None
    roots: Sequence[str | os.PathLike[str]] | Handler | None
    capabilities: Params | None
    offer_tasks: bool
    on_log: Callable[[str, Any, str | None], object] | None
    on_notification: Callable[[str, Params], object] | None
    probe_timeout: float
    max_rounds: int
    max_input_requests: int
    on_round: Callable[[int, Params], object] | None
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    stderr: int | None
    headers: Mapping[str, str] | None
    http_client: httpx2.AsyncClient | None
    auth: HttpAuth | str | Callable[[], str | Awaitable[str]] | None
    raise_exceptions: bool


class Client:
    """A connection to a server, as an async context manager.

    ``async with Client("server.py") as client: ...``

    Args:
        target: An app object (served in memory), the path of a server's file (run with
            ``mcpkit run``), a command, or the URL of a server (``pip install "mcpkit[client]"``).
        revision: Speak this one; None finds out what the server speaks.
        name, version: Sent to the server as those of the client.
        elicitation, sampling: Answer a question of the server: given its ``params``, they return
            the ``result``. Each declares its capability.
        roots: Paths or URIs the server may look at, or a function as above.
        capabilities: Declared in addition.
        offer_tasks: Let servers wish for the answers of `elicitation` and `sampling` as tasks, so
            that no request is held open while the user thinks (2025-11-25).
        on_log: Called with level, data and logger of each log message.
        on_notification: Called with method and params of every notification.
        timeout: Seconds that a request may take; None waits as long as it takes.
        probe_timeout: Seconds to wait for a sign of life before the handshake is tried (ERA-10).
        max_rounds: Times that one request may be asked for input before it fails (MRTR-17).
        max_input_requests: Questions that one such request for input may have.
        on_round: Called with the number of the round, from 1, and the result that asks for input,
            as on the wire, before it is answered (2026-07-28).
        env, cwd, stderr: For a server that is a process.
        headers: Sent with every HTTP request, such as ``Authorization``.
        http_client: Sends the HTTP requests, for its proxies, certificates, authentication or
            transport. Its timeouts do not apply, except to connecting, and it follows no
            redirects. It is not closed, and may serve several clients.
        auth: Who gets the tokens for a server over HTTP: `mcpkit.client.auth.OAuth`, which logs the
            user in, or `ClientCredentials`; or a token, or a function that returns one. Logging in
            does not count toward the timeout of a request.
        raise_exceptions: With an app object, raise the handler's own exception instead of
            returning the error that a client sees. An exception of a callback is raised by the
            next request, or by the end of the connection; otherwise it is only logged.

    Attributes:
        server_info: Name and version of the server; None if it did not say.
        server_capabilities: The capabilities that the server has declared, as on the wire.
        instructions: The server's instructions for a model; None if it has none.

    Raises:
        ValueError: The revision is unknown.
    """

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
        offer_tasks: bool = False,
        on_log: Callable[[str, Any, str | None], object] | None = None,
        on_notification: Callable[[str, Params], object] | None = None,
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
    ) -> None:
        if revision is not None and revision not in BY_VERSION:
            raise ValueError(f"unknown revision {revision!r}; known: {', '.join(BY_VERSION)}")
        self._target = target
        self._wanted = None if revision is None else BY_VERSION[revision]
        self._handlers: dict[str, Handler] = {}
        declared: dict[str, Any] = {}
        if elicitation is not None:
            self._handlers["elicitation/create"] = elicitation
            declared["elicitation"] = {}
        if sampling is not None:
            self._handlers["sampling/createMessage"] = sampling
            declared["sampling"] = {}
        if roots is not None:
            self._handlers["roots/list"] = roots if callable(roots) else _fixed_roots(roots)
            declared["roots"] = {}
        self._offers: ClientTasks | None = None
        self._offered: dict[str, Any] = {}
        if offer_tasks:
            from mcpkit.client.task_offers import ClientTasks, offer_of

            self._offers = ClientTasks(self._start, self._handle)
            self._offered = {"tasks": offer_of(self._handlers)}
        info = {"name": name, "version": version}
        self._caller = Caller(info, {**declared, **(capabilities or {})})
        self._on_log = on_log
        self._on_notification = on_notification
        self._timeout = timeout
        self._probe_timeout = probe_timeout
        self._max_rounds = max_rounds
        self._max_input_requests = max_input_requests
        self._on_round = on_round
        self._env, self._cwd, self._stderr = env, cwd, stderr
        self._headers, self._http_client = headers, http_client
        self._auth: HttpAuth | None = None
        if auth is not None:
            from mcpkit.client.auth.base import http_auth

            self._auth = http_auth(auth)
        self._limits: set[anyio.CancelScope] = set()
        self._paused: dict[anyio.CancelScope, float] = {}
        self._pauses = 0
        self._raise = raise_exceptions
        self._raised: dict[Id, BaseException] = {}
        self._failed: Exception | None = None
        """An exception of a callback that has not been raised to the program yet."""
        self._pending: dict[Id, _Pending] = {}
        self._link: Link | None = None
        self._http: HttpLink | None = None
        self._loop: Loop | None = None
        self._closed = False
        self._closed_because: ConnectionClosed | None = None
        self._questions = 0
        self._question_bytes = Quota(_MOST_QUESTION_BYTES, _MOST_QUESTION_BYTES)
        self._complained: Counter[str] = Counter()
        self._awaited_tasks: dict[str, TaskHandle] = {}
        """Those whose outcome has been asked for, and that may ask something meanwhile."""
        self._progress_of_tasks: WeakValueDictionary[str, TaskHandle] = WeakValueDictionary()
        self._stack = AsyncExitStack()
        self.server_info: Implementation | None = None
        self.server_capabilities: Params = {}
        self.instructions: str | None = None

    # --- coming and going -------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            self._loop = await self._stack.enter_async_context(open_loop())
            self._link = await self._open()
            self._stack.push_async_callback(self._leave, self._link)
            await self._agree()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    @staticmethod
    async def _leave(link: Link) -> None:
        # Also when the client itself is cancelled: no server process may stay behind.
        with anyio.CancelScope(shield=True):
            await link.aclose()

    async def __aexit__(self, *error: object) -> None:
        self._closed = True
        await self._stack.aclose()
        if error[:1] == (None,):
            self._raise_failure()

    def _running(self, app: MCPKit[Any]) -> AbstractAsyncContextManager[Server]:
        """Enter the lifespan of an app in memory."""
        return app.running()

    async def _open(self) -> Link:
        from mcpkit.app import MCPKit

        assert self._loop is not None
        target = self._target
        if isinstance(target, MCPKit):
            from mcpkit._server.task_runs import serving_tasks

            server = await self._stack.enter_async_context(self._running(target))
            served, _ = await self._stack.enter_async_context(serving_tasks(server, self._loop))
            return MemoryLink(served, self._loop, self._receive, self._note_exception)
        if is_url(target):
            self._http = _http_link(
                target,
                self._loop,
                self._receive,
                self._lost,
                self._renew,
                headers=self._headers,
                http_client=self._http_client,
                auth=self._auth,
                unhurried=self._without_timeout,
            )
            return self._http
        command = command_of(target)
        link = ProcessLink(
            command,
            self._receive,
            self._lost,
            env=self._env,
            cwd=self._cwd,
            stderr=self._stderr,
        )
        await link.start()
        self._loop.start(link.read())
        return link

    async def _agree(self) -> None:
        """Find out which revision to speak, and learn the name of the server."""
        wanted = self._wanted
        if wanted is not None and wanted.handshake:
            await self._shake_hands(wanted)
            return
        self._caller.revision = wanted or PER_REQUEST[-1]
        try:
            await self._discover()
            return
        except (ConnectionClosed, ProtocolError, TimeoutError, ValueError) as error:
            if wanted is not None or not self._speaks_otherwise(error):
                raise
            recognised = isinstance(error, ProtocolError) and error.code in _MODERN_ERRORS
            supported = _supported(error) if recognised else ()
            shared = next(
                (each for each in reversed(PER_REQUEST) if each.version in supported), None
            )
            if shared is not None:
                self._caller.revision = shared
                await self._discover()
                return
            older = any(each.version in supported for each in HANDSHAKE)
            if recognised and not older and self._http is not None:
                raise
            refused = error
        await self._shake_hands(HANDSHAKE[-1], refused)

    def _speaks_otherwise(self, error: Exception) -> bool:
        """Return True if a server that fails without a handshake may want one (ERA-11)."""
        if self._http is None:
            return not isinstance(error, ConnectionClosed)
        if isinstance(error, ConnectionClosed):
            return self._http.status in _REFUSED_STATUSES
        return self._http.status not in _DENIED_STATUSES

    async def _shake_hands(self, wanted: Revision, refused: Exception | None = None) -> None:
        """Shake hands, with a server over HTTP in either of two ways (ERA-12).

        Args:
            wanted: The version to ask for.
            refused: The exception of asking without a handshake; None if that was not tried.
        """
        http = self._http
        if refused is None or http is None or not http.is_old():
            try:
                await self._initialize(wanted)
                return
            except (ConnectionClosed, ProtocolError) as error:
                if http is None or http.status not in _NOT_HERE_STATUSES:
                    raise
                refused = error
        if not await http.look_for_endpoint(self._probe_timeout):  # ERA-12
            raise refused
        await self._initialize(wanted)

    async def _discover(self) -> None:
        result = await self.request("server/discover", timeout=self._probe_timeout)
        if self._wanted is None and not is_array(result.get("supportedVersions")):
            # Some servers answer anything with an empty object.
            raise ValueError("The server's answer to server/discover names no versions")
        meta = result.get("_meta")
        self._introduced(meta.get(_SERVER_INFO) if is_object(meta) else None, result)

    async def _initialize(self, wanted: Revision) -> None:
        self._caller.revision = None
        params = {
            "protocolVersion": wanted.version,
            "capabilities": {**self._caller.capabilities, **self._offered},
            "clientInfo": self._caller.info,
        }
        result = await self.request("initialize", params)
        offered = str(result.get("protocolVersion"))
        found = BY_VERSION.get(offered)
        if found is None or not found.handshake:
            raise UnsupportedProtocolVersion(offered, [each.version for each in HANDSHAKE])
        self._caller.revision = found
        self._introduced(result.get("serverInfo"), result)
        if self._http is not None:
            self._http.version = found.version
        await self.notify("notifications/initialized")
        if self._http is not None:
            await self._http.listen()

    async def _renew(self) -> None:
        """Make a new handshake: the server has forgotten the session (HTTPL-16)."""
        spoken = self._caller.revision
        assert spoken is not None
        log.warning("the server has forgotten the session; making a new one")
        try:
            await self._initialize(spoken)
        except BaseException:
            self._caller.revision = spoken
            raise

    def _introduced(self, info: object, result: Params) -> None:
        self.server_info = wire.implementation_from_wire(info) if is_object(info) else None
        capabilities = result.get("capabilities")
        self.server_capabilities = capabilities if is_object(capabilities) else {}
        self.instructions = wire.optional_text(result, "instructions")

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken, such as ``2025-11-25``."""
        assert self._caller.revision is not None
        return self._caller.revision.version

    # --- what arrives -----------------------------------------------------------------------------

    def _receive(self, text: bytes) -> None:
        try:
            events = self._caller.receive(text)
            asked = sum(isinstance(event, Asked) for event in events)
            unreadable: InvalidMessage | None = None
            for event in events:
                if isinstance(event, InvalidMessage):
                    unreadable = unreadable or event
                elif isinstance(event, Asked):
                    self._take_question(event, len(text) // asked)
                else:
                    self._take(event, len(text))
            if unreadable is not None:
                self._unreadable(unreadable, text)
        except Exception as error:
            # Neither what a server sends nor a callback that fails may end the reading.
            self._log_fault("a message of the server could not be handled", failed=True)
            if self._raise:
                self._failed = self._failed or error

    def _raise_failure(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _take(self, event: Answered | Told, size: int) -> None:
        if isinstance(event, Answered):
            pending = self._pending.get(event.id)
            if pending is not None:
                pending.answer, pending.size = event, size
                pending.arrived.set()
        else:
            self._told(event)

    def _take_question(self, event: Asked, size: int) -> None:
        if self._http is not None and not self._caller.by_handshake:
            # An answer would be a message that this revision does not have (MSG-13).
            self._log_fault("the server asks %s in a request of its own", event.method)
            return
        if self._questions >= _MOST_QUESTIONS or not self._question_bytes.has_room(ANONYMOUS, size):
            self._log_fault("the server asks too much at once; some of it is not answered", most=1)
            return
        assert self._loop is not None
        self._questions += 1
        self._question_bytes.add(ANONYMOUS, size)
        self._loop.start(self._answer(event, size))

    def _log_fault(
        self, what: str, *arguments: object, most: int = _MOST_COMPLAINTS, failed: bool = False
    ) -> None:
        """Log a fault a number of times, however often a server gives a reason for it.

        Args:
            what: The message, by which the fault is known.
            arguments: Of the message.
            most: The number of times.
            failed: True to log the exception that is being handled as well.
        """
        self._complained[what] += 1
        count = self._complained[what]
        if count > most:
            return
        if count == most > 1:
            what += f" (said {most} times; it will not be said again)"
        if failed:
            log.exception(what, *arguments)
        else:
            log.warning(what, *arguments)

    def _unreadable(self, event: InvalidMessage, text: bytes) -> None:
        shown = text[:_MAX_BYTES_SHOWN].decode("utf-8", "replace") + "…" * (
            len(text) > _MAX_BYTES_SHOWN
        )
        self._log_fault("the server sent %r, which is no message: %s", shown, event.error)

    def _told(self, event: Told) -> None:
        params = event.params
        if self._on_notification is not None:
            self._on_notification(event.method, params)
        if event.method == "notifications/message":
            self._told_log(params)
        elif event.method == "notifications/progress":
            self._told_progress(params)
        elif event.method == "notifications/tasks/status":
            task = self._awaited_tasks.get(str(params.get("taskId")))
            if task is not None:
                task.told(params)
        meta = params.get("_meta")
        listening = self._pending_of(meta.get(_SUBSCRIPTION)) if is_object(meta) else None
        if listening is not None and listening.on_told is not None:
            listening.on_told(event.method, params)

    def _told_log(self, params: Params) -> None:
        if self._on_log is None:
            return
        try:
            level, data, logger = wire.log_from_wire(params)
        except ValueError as error:
            self._log_fault("the server sends malformed log messages: %s", error, most=1)
        else:
            self._on_log(level, data, logger)

    def _told_progress(self, params: Params) -> None:
        token = params.get("progressToken")
        pending = self._pending_of(token)
        tell = None if pending is None else pending.on_progress
        if tell is None and isinstance(token, str) and token in self._progress_of_tasks:
            tell = self._progress_of_tasks[token].told_progress
        if tell is None:
            return
        try:
            progress, total, message = wire.progress_from_wire(params)
        except ValueError as error:
            self._log_fault("the server sends malformed progress: %s", error, most=1)
        else:
            tell(progress, total, message)

    def _pending_of(self, id: object) -> _Pending | None:
        return self._pending.get(id) if is_id(id) else None

    async def _answer(self, event: Asked, size: int) -> None:
        try:
            await self._answer_now(event)
        finally:
            self._questions -= 1
            self._question_bytes.add(ANONYMOUS, -size)

    async def _answer_now(self, event: Asked) -> None:
        try:
            if event.method == "ping":
                sent = self._caller.send_result(event.id, {})
            else:
                task = self._awaited_tasks.get(related_task(event.params) or "")
                answer: Params | None = None
                if task is not None:
                    answer = await task.ask(event.id, TaskQuestion(event.method, event.params))
                elif self._offers is not None:
                    answer = await self._offers.take(event.method, event.params)
                if answer is None:
                    answer = await self._handle(event.method, event.params)
                sent = self._caller.send_result(event.id, answer)
        except NoPendingInput:
            return
        except ProtocolError as error:
            sent = self._caller.send_error(event.id, error)
        except Exception:
            # What went wrong may hold secrets, and is for this side to read.
            self._log_fault("the handler for %s failed", event.method, failed=True)
            sent = self._caller.send_error(event.id, InternalError("The client failed"))
        try:
            await self._carry(sent)
        except ConnectionClosed:
            return
        except ProtocolError as error:
            self._log_fault("the server refuses the answer to %s: %s", event.method, error)

    def _start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run a coroutine beside all else, until it ends, the client does, or it is stopped."""
        if self._loop is None:
            work.close()
            raise RuntimeError("enter the client first: async with Client(...) as client")
        return self._loop.start(work)

    def _later(self, delay: float, function: Callable[[], object]) -> None:
        """Call a function when so many seconds have passed, if the client is still there then."""
        if self._loop is not None and not self._closed:
            self._loop.later(delay, function)

    async def _handle(self, method: str, params: Params) -> Params:
        handler = self._handlers.get(method)
        if handler is None:
            raise MethodNotFound(f"This client does not answer {method}")
        result = handler(dict(params))
        result = await result if inspect.isawaitable(result) else result
        if not is_object(result):
            raise TypeError(f"the handler for {method} returned {result!r}, which is no object")
        return result

    def _lost(self, reason: ConnectionClosed | None = None) -> None:
        self._closed = True
        self._closed_because = self._closed_because or reason
        for pending in self._pending.values():
            pending.arrived.set()

    def _note_exception(self, request: Request, error: BaseException) -> None:
        if self._raise:
            self._raised[request.id] = error

    # --- asking -----------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        """The way to the server.

        Raises:
            RuntimeError: The client has not been entered.
        """
        if self._link is None:
            raise RuntimeError("enter the client first: async with Client(...) as client")
        return self._link

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send a notification.

        Raises:
            ConnectionClosed: The server is gone.
            ProtocolError: The server refuses it (HTTP).
        """
        await self._carry(self._caller.send_notification(method, params))

    async def _carry(self, sent: Sent, answered: Callable[[], bool] | None = None) -> None:
        """Take a message to the server; over HTTP, wait for what comes back as well."""
        link = self.link
        if self._http is None:
            await link.send_text(sent.text)
        else:
            await self._http.exchange(sent, answered)

    async def request(
        self,
        method: str,
        params: Params | None = None,
        *,
        meta: Params | None = None,
        timeout: float | None = None,
        on_progress: Callable[[float, float | None, str | None], object] | None = None,
        on_told: Callable[[str, Params], object] | None = None,
    ) -> Params:
        """Send a request and wait for its result.

        Args:
            method: As on the wire.
            params: Without ``_meta``.
            meta: Put into ``_meta``.
            timeout: Seconds; the client's own setting if None.
            on_progress: Called with progress, total and message; asks for them.
            on_told: Called with the notifications of this subscription.

        Raises:
            ProtocolError: The server's error, as the class that owns its code.
            TimeoutError: The answer took too long; the server was told that nobody waits any more.
            ConnectionClosed: The server is gone, sends more than 64 MiB at once, or says over HTTP
                what is not MCP.
            ValueError: The result is not an object.
        """
        return (await self._requested(method, params, meta, timeout, on_progress, on_told))[0]

    async def _requested(
        self,
        method: str,
        params: Params | None,
        meta: Params | None = None,
        timeout: float | None = None,
        on_progress: Callable[[float, float | None, str | None], object] | None = None,
        on_told: Callable[[str, Params], object] | None = None,
    ) -> tuple[Params, int]:
        """Return the result as `request` does, and the bytes that its message had."""
        pending = _Pending(on_progress, on_told)
        merged = dict(meta or {})
        if on_progress is not None:
            # The request's own id would do, but it is only known once the request is made.
            merged["progressToken"] = self._caller.next_id
        sent = self._caller.send_request(method, params or {}, merged)
        id = sent.id
        assert id is not None
        self._pending[id] = pending
        try:
            if self._closed:
                raise self._closed_because or ConnectionClosed("The server is gone")
            if self._http is None:
                await self._carry(sent)
            limit = self._timeout if timeout is None else timeout
            try:
                with self._within(limit):
                    if self._http is not None:
                        await self._carry(sent, pending.arrived.is_set)
                    await pending.arrived.wait()
            except (ConnectionClosed, ProtocolError):
                raise
            except BaseException as error:
                await self._abandon(sent, error)
                raise
        finally:
            del self._pending[id]
        if id in self._raised:
            raise self._raised.pop(id)
        self._raise_failure()
        answer = pending.answer
        if answer is None:
            raise self._closed_because or ConnectionClosed(
                f"The server left before it answered {method}"
            )
        if answer.error is not None:
            raise answer.error
        if not is_object(answer.result):
            raise ValueError(f"The server's answer to {method} is malformed: not an object")
        return answer.result, pending.size

    @contextmanager
    def _within(self, limit: float | None) -> Generator[None, None, None]:
        """Raise TimeoutError after some seconds, in which nobody logs in."""
        with anyio.fail_after(limit) as scope:
            self._limits.add(scope)
            if self._pauses:
                self._pause()
            try:
                yield
            finally:
                self._limits.discard(scope)
                self._paused.pop(scope, None)

    @contextmanager
    def _without_timeout(self) -> Generator[None, None, None]:
        """Let all that waits wait for longer: a user is logging in."""
        self._pauses += 1
        self._pause()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = anyio.current_time()
                for scope, left in self._paused.items():
                    scope.deadline = now + left
                self._paused.clear()

    def _pause(self) -> None:
        now = anyio.current_time()
        for scope in self._limits - self._paused.keys():
            self._paused[scope] = scope.deadline - now
            scope.deadline = math.inf

    async def _abandon(self, sent: Sent, error: BaseException) -> None:
        """Tell the server that nobody waits for an answer any more (CANC-6, CANC-7)."""
        if sent.method == "initialize" or self._closed:
            return
        if self._http is not None and sent.version is not None:
            return  # the response was closed, which says the same (CANC-5)
        reason = "timeout" if isinstance(error, TimeoutError) else "cancelled"
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            try:
                await self.notify(
                    "notifications/cancelled", {"requestId": sent.id, "reason": reason}
                )
            except (ConnectionClosed, ProtocolError):
                return

    async def _ask(
        self, method: str, params: Params, *, may_be_task: bool = False, **options: Any
    ) -> Params:
        """Send a request as often as the server needs input before it answers (MRTR)."""
        again = dict(params)
        for number in range(self._max_rounds + 1):
            result = await self.request(method, again, **options)
            kind = result.get("resultType", "complete")
            if kind == "complete" or (kind == "task" and may_be_task):  # MSG-15
                return result
            if kind != "input_required":
                raise ValueError(f"The server's answer to {method} has the unknown type {kind!r}")
            again = dict(params)
            wishes = input_requests_in(result, method)
            if len(wishes) > self._max_input_requests:
                raise ProtocolError(
                    f"The server asks for {len(wishes)} inputs at once; "
                    f"it gets {self._max_input_requests} at most (max_input_requests)"
                )
            if self._on_round is not None:
                self._on_round(number + 1, result)
            if wishes:
                again["inputResponses"] = {
                    key: await self._handle(*wish) for key, wish in wishes.items()
                }
            if "requestState" in result:
                again["requestState"] = result["requestState"]  # MRTR-16: byte for byte
        raise ProtocolError(f"The server asked for input more than {self._max_rounds} times")

    # --- methods ----------------------------------------------------------------------------------

    async def ping(self) -> None:
        """Ask the server for a sign of life (before 2026-07-28); raises as `request`."""
        await self.request("ping")

    async def list_tools(self) -> list[ListedTool]:
        """Return all tools, from all pages of the list.

        Over HTTP, tools whose schemas declare headers in a wrong way are left out (HDR-3,
        2026-07-28).

        Raises:
            ValueError: The list is malformed, its cursors go in a circle, or it does not end: it
                has more than 100,000 entries, 10,000 pages or 64 MiB.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        tools = await self._all("tools/list", "tools", ListedTool.from_wire)
        http = self._http
        if http is None or self._caller.by_handshake:
            return tools
        usable: list[ListedTool] = []
        for each in tools:
            try:
                http.learn(each.name, each.input_schema)
            except ValueError as error:
                self._log_fault("the tool %r is left out of the list: %s", each.name, error)
            else:
                usable.append(each)
        return usable

    async def list_resources(self) -> list[ListedResource]:
        """Return all resources that have a URI of their own; raises as `list_tools`."""
        return await self._all("resources/list", "resources", ListedResource.from_wire)

    async def list_resource_templates(self) -> list[ListedTemplate]:
        """Return all resource templates; raises as `list_tools`."""
        method = "resources/templates/list"
        return await self._all(method, "resourceTemplates", ListedTemplate.from_wire)

    async def list_prompts(self) -> list[ListedPrompt]:
        """Return all prompts; raises as `list_tools`."""
        return await self._all("prompts/list", "prompts", ListedPrompt.from_wire)

    async def _all(self, method: str, member: str, make: Callable[[Params], T]) -> list[T]:
        def entries(page: Params) -> list[T]:
            return [make(each) for each in page[member]]

        found: list[T] = []
        cursor: str | None = None
        seen: set[str] = set()
        size = 0
        while True:
            page, more = await self._requested(method, {} if cursor is None else {"cursor": cursor})
            size += more
            found += parse(entries, page, method)
            if len(found) > _MOST_ENTRIES or size > _MOST_LIST_BYTES:
                raise ValueError(f"The server sends too much for {method}: {len(found)} entries")
            cursor = page.get("nextCursor")
            if cursor is None:  # PAGE-1: "" would be a cursor
                return found
            if not isinstance(cursor, str):
                raise ValueError(f"The server's answer to {method} has a cursor that is no text")
            if cursor in seen:
                raise ValueError(f"The server repeats the cursor {cursor!r} of {method}")
            seen.add(cursor)
            if len(seen) >= _MOST_PAGES:
                raise ValueError(f"The server has too many pages for {method}: {len(seen)}")

    async def call_tool(
        self,
        name: str,
        arguments: Params | None = None,
        *,
        on_progress: Callable[[float, float | None, str | None], object] | None = None,
        log_level: LogLevel | None = None,
        meta: Params | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """Call a tool. A tool that failed is a result with ``is_error``.

        A tool that runs as a task only is started as one, waited for, and cancelled with the call.

        Args:
            name: Of the tool.
            arguments: By name, as JSON values.
            on_progress: Called with progress, total and message.
            log_level: Ask for log messages of this call from this level on (2026-07-28).
            meta: Put into ``_meta``.
            timeout: Seconds; the client's own setting if None.

        Raises:
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        params = {"name": name, "arguments": dict(arguments or {})}
        leveled = self._with_level(meta, log_level)
        options: Params = {"meta": leveled, "on_progress": on_progress, "timeout": timeout}
        limit = self._timeout if timeout is None else timeout
        with self._within(limit):
            try:
                result = await self._call(params, {**options, "may_be_task": self._knows_tasks})
            except (MethodNotFound, MissingClientCapability) as refusal:
                if not self._wants_task(refusal):
                    raise
                task = await self._start_instead(
                    refusal,
                    name,
                    arguments,
                    on_progress=on_progress,
                    log_level=log_level,
                    meta=meta,
                )
            else:
                if result.get("resultType") != "task":
                    return parse(CallResult.from_wire, result, "tools/call")
                task = TaskHandle(self, status=parse(TaskStatus.from_wire, result, "tools/call"))
            try:
                return await task
            finally:
                if not task.is_over and not self._closed:
                    await self._give_up(task)

    async def _start_instead(
        self, refusal: ProtocolError, name: str, arguments: Params | None, **options: Any
    ) -> TaskHandle:
        try:
            return await self.start(name, arguments, **options)
        except MethodNotFound:  # the refusal was about something else
            raise refusal from None

    @staticmethod
    async def _give_up(task: TaskHandle) -> None:
        """Cancel a task for which nobody waits any more, also if the waiting itself is cancelled.

        Nobody is told if that fails.
        """
        with (
            anyio.CancelScope(shield=True),
            anyio.move_on_after(_CANCEL_S),
            suppress(ProtocolError, TimeoutError, ConnectionClosed, ValueError),
        ):
            await task.cancel()

    async def _call(self, params: Params, options: Params) -> Params:
        """Return the result of ``tools/call``, with the headers that the tool wants."""
        try:
            return await self._ask("tools/call", params, **options)
        except HeaderMismatch:
            # The server wants arguments in headers, and has not said so yet, or said otherwise.
            if self._http is None:
                raise
            name = params["name"]
            known = self._http.known(name)
            await self.list_tools()
            if self._http.known(name) == known:
                raise
            return await self._ask("tools/call", params, **options)

    # --- tasks ------------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        arguments: Params | None = None,
        *,
        ttl: float | None = None,
        on_progress: Callable[[float, float | None, str | None], object] | None = None,
        log_level: LogLevel | None = None,
        meta: Params | None = None,
        timeout: float | None = None,
    ) -> TaskHandle:
        """Call a tool, and let the call go on as a task (2025-11-25 and 2026-07-28).

        In 2026-07-28 the server decides: it may ask something first, and it may answer at once.
        The handle has the result then.

        Args:
            name: Of the tool.
            arguments: By name, as JSON values.
            ttl: Seconds from its making for which the task is to be kept; the server may decide
                otherwise (2025-11-25).
            on_progress: Called with progress, total and message; in 2026-07-28 only until there is
                a task, of which the status has a message.
            log_level: Ask for log messages of this call from this level on (2026-07-28).
            meta: Put into ``_meta``.
            timeout: Seconds until the task has begun; the client's own setting if None.

        Raises:
            ValueError: The answer is malformed.
            MethodNotFound: The server has no tasks, or does not run this tool as one.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        if not self._has_tasks:
            raise MethodNotFound(
                f"The server has no tasks in {self.revision}; call the tool with call_tool()"
            )
        task = TaskHandle(self, on_progress=on_progress)
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        meta = self._with_tasks(self._with_level(meta, log_level))
        if self._tasks_are_wished:
            params["task"] = {} if ttl is None else {"ttl": round(ttl * 1000)}
            if on_progress is not None:
                # It outlives the request, unlike the token that this would have.
                token = f"task-{uuid4().hex}"
                self._progress_of_tasks[token] = task
                meta = {"progressToken": token, **(meta or {})}
        options: dict[str, Any] = {"meta": meta, "timeout": timeout, "may_be_task": True}
        if self._tasks_are_wished:
            result = await self._begun(params, options)
        else:
            result = await self._call(params, {**options, "on_progress": on_progress})
        if self._tasks_are_wished and "task" in result:
            task.begun(parse(lambda raw: TaskStatus.from_wire(raw["task"]), result, "tools/call"))
        elif result.get("resultType") == "task":
            task.begun(parse(TaskStatus.from_wire, result, "tools/call"))
        else:  # TASKL-2, TASKX-2
            task.answered(parse(CallResult.from_wire, result, "tools/call"))
        return task

    async def _begun(self, params: Params, options: Params) -> Params:
        """Return the answer to a call that becomes a task, which is there at once (TASKL-4).

        Whoever is cancelled before it has arrived would never hear of the task: that is cancelled.
        """
        answered = anyio.Event()
        answers: list[Params | Exception] = []

        async def call() -> None:
            try:
                answers.append(await self._call(params, options))
            except Exception as error:
                answers.append(error)
            finally:
                answered.set()

        stop = self._start(call())
        try:
            await answered.wait()
        except BaseException:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_S):
                await answered.wait()
            stop()
            for each in answers:
                task: Any = None if isinstance(each, Exception) else each.get("task")
                if is_object(task) and isinstance(task.get("taskId"), str):
                    await self._give_up(self.task(task["taskId"]))
            raise
        if not answers:
            raise ConnectionClosed("The client has left")
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def task(self, id: str) -> TaskHandle:
        """Return the handle of a task that was begun before, perhaps by another client.

        Nothing is sent: a task that does not exist is found out by the first look at it.

        Args:
            id: Of the task, as its handle had it. It must have been begun in the same revision.
        """
        return TaskHandle(self, id)

    async def tasks(self) -> list[TaskHandle]:
        """Return the tasks of this client's user, from all pages of the list (2025-11-25).

        Raises:
            MethodNotFound: The server does not list tasks; in 2026-07-28 none does.
            ValueError, ProtocolError, TimeoutError, ConnectionClosed: As `list_tools`.
        """
        if not self._tasks_are_wished:
            raise MethodNotFound(
                f"{self.revision} has no list of tasks; keep their ids, and use task(id)"
            )
        declared = self.server_capabilities.get("tasks")
        if not (is_object(declared) and "list" in declared):
            raise MethodNotFound("The server does not list tasks; keep their ids, and use task(id)")

        def make(raw: Params) -> TaskHandle:
            return TaskHandle(self, status=TaskStatus.from_wire(raw))

        return await self._all("tasks/list", "tasks", make)

    @property
    def _tasks_are_wished(self) -> bool:
        """True in the revision in which a client wishes for a task with its call."""
        revision = self._caller.revision
        return revision is not None and revision.tasks == "wished"

    @property
    def _has_tasks(self) -> bool:
        """True if the server declares that calls of tools may become tasks (TASKL-1, TASKX-1)."""
        assert self._caller.revision is not None
        path = {
            "wished": ("tasks", "requests", "tools", "call"),
            "extension": ("extensions", EXTENSION),
        }.get(self._caller.revision.tasks)
        found: object = self.server_capabilities
        for name in path or ():
            found = found.get(name) if is_object(found) else None
        return path is not None and is_object(found)

    @property
    def _knows_tasks(self) -> bool:
        """True if each request of this client says that it knows tasks."""
        extensions = self._caller.capabilities.get("extensions")
        return is_object(extensions) and EXTENSION in extensions

    def _with_tasks(self, meta: Params | None) -> Params | None:
        """Return the ``_meta`` of a request that knows tasks, where that must be said (TASKX-4)."""
        revision = self._caller.revision
        if revision is None or revision.tasks != "extension":
            return meta
        return with_extension(self._caller.capabilities, meta)

    def _wants_task(self, error: ProtocolError) -> bool:
        """Return True if an error may say that a tool runs as a task only (TASKL-3, TASKX-3)."""
        if not self._has_tasks:
            return False
        if self._tasks_are_wished:
            return isinstance(error, MethodNotFound)
        data = error.data if isinstance(error, MissingClientCapability) else None
        required = data.get("requiredCapabilities") if is_object(data) else None
        extensions = required.get("extensions") if is_object(required) else None
        return is_object(extensions) and EXTENSION in extensions

    def _with_level(self, meta: Params | None, level: LogLevel | None) -> Params | None:
        if level is None or self._caller.by_handshake:
            return meta
        return {**(meta or {}), "io.modelcontextprotocol/logLevel": level}

    async def read_resource(
        self, uri: str, *, timeout: float | None = None
    ) -> list[ResourceContents]:
        """Read a resource.

        Args:
            uri: Of the resource.
            timeout: Seconds; the client's own setting if None.

        Returns:
            The contents, of which there may be several.

        Raises:
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        result = await self._ask("resources/read", {"uri": uri}, timeout=timeout)
        return parse(_contents, result, "resources/read")

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> PromptMessages:
        """Get the messages of a prompt.

        Args:
            name: Of the prompt.
            arguments: By name, as strings.
            timeout: Seconds; the client's own setting if None.

        Raises:
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        params: dict[str, Any] = {"name": name}
        if arguments:
            params["arguments"] = dict(arguments)
        result = await self._ask("prompts/get", params, timeout=timeout)
        return parse(PromptMessages.from_wire, result, "prompts/get")

    async def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: str | None = None,
        template: str | None = None,
        known: Mapping[str, str] | None = None,
    ) -> Completion:
        """Ask for suggestions.

        Args:
            argument: The name of the argument.
            value: The text that has been typed so far.
            prompt: The prompt that it belongs to, or
            template: the resource template.
            known: The other arguments (2025-06-18 and later).

        Raises:
            ValueError: Neither or both of prompt and template are given, or the answer is
                malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `request`.
        """
        if (prompt is None) == (template is None):
            raise ValueError("pass either prompt= or template=")
        ref = {"type": "ref/prompt", "name": prompt}
        if template is not None:
            ref = {"type": "ref/resource", "uri": template}
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if known is not None:
            params["context"] = {"arguments": dict(known)}
        result = await self.request("completion/complete", params)
        return parse(Completion.from_wire, result, "completion/complete")

    async def set_log_level(self, level: LogLevel) -> None:
        """Ask for log messages from this level on (before 2026-07-28; then see `call_tool`)."""
        await self.request("logging/setLevel", {"level": level})

    async def subscribe(self, uri: str) -> None:
        """Ask to be told when a resource changes (before 2026-07-28; then see `listen`)."""
        await self.request("resources/subscribe", {"uri": uri})

    async def unsubscribe(self, uri: str) -> None:
        """Ask not to be told any more when a resource changes (before 2026-07-28)."""
        await self.request("resources/unsubscribe", {"uri": uri})

    @asynccontextmanager
    async def listen(
        self,
        on_change: Callable[[str, Params], object],
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AsyncGenerator[Params, None]:
        """Be told of changes, inside the ``async with`` (2026-07-28).

        Args:
            on_change: Called with method and params of each change.
            tools, prompts, resources: True to be told of changes of this list.
            uris: The resources to be told of.

        Yields:
            The notifications that the server has agreed to send, as on the wire.

        Raises:
            TimeoutError: The server has not agreed in time.
            ProtocolError, ConnectionClosed: As for `request`.
        """
        wanted: dict[str, Any] = {}
        for member, flag in (
            ("toolsListChanged", tools),
            ("promptsListChanged", prompts),
            ("resourcesListChanged", resources),
        ):
            if flag:
                wanted[member] = True
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        agreed = anyio.Event()
        answer: dict[str, Any] = {}

        def told(method: str, params: Params) -> None:
            if method == "notifications/subscriptions/acknowledged":
                answer.update(params.get("notifications") or {})
                agreed.set()
            else:
                on_change(method, params)

        failure: list[BaseException] = []
        ended = anyio.Event()

        async def hold() -> None:
            try:
                await self.request(
                    "subscriptions/listen",
                    {"notifications": wanted},
                    timeout=float("inf"),
                    on_told=told,
                )
            except (ProtocolError, ConnectionClosed) as error:
                failure.append(error)
            finally:
                agreed.set()
                ended.set()

        assert self._loop is not None
        stop = self._loop.start(hold())
        try:
            with self._within(self._timeout):
                await agreed.wait()
            if failure:
                raise failure[0]
            yield answer
        finally:
            stop()
            with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                await ended.wait()


def _fixed_roots(roots: Sequence[str | os.PathLike[str]]) -> Handler:
    def uri(root: str | os.PathLike[str]) -> str:
        text = os.fspath(root)
        return text if "://" in text else Path(text).absolute().as_uri()

    listed = {"roots": [{"uri": uri(root)} for root in roots]}
    return lambda params: listed


def _contents(raw: Params) -> list[ResourceContents]:
    return [wire.contents_from_wire(each) for each in raw["contents"]]


def is_url(target: Target) -> TypeGuard[str]:
    """Return True if a target is the URL of a server."""
    return isinstance(target, str) and target.lower().startswith(("http://", "https://"))


def _http_link(url: str, *args: Any, **options: Any) -> HttpLink:
    try:
        from mcpkit.client.http import HttpLink
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise ImportError(
            'A server over HTTP needs the client extra: pip install "mcpkit[client]"'
        ) from None
    return HttpLink(url, *args, **options)


def _supported(error: Exception) -> Sequence[str]:
    data = error.data if isinstance(error, ProtocolError) else None
    found = data.get("supported") if is_object(data) else None
    return found if is_array(found) else []


def command_of(target: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the command that starts a server on stdio.

    Args:
        target: A command as a sequence, the path of a Python file, ``file.py:app``, or a command
            line as one string.
    """
    if not isinstance(target, (str, os.PathLike)):
        return list(target)
    text = os.fspath(target)
    return run_command(text) if names_file(text) else shlex.split(text)
