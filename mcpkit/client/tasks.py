"""`TaskHandle`: follows a task and answers its input requests.

While its result is awaited, a handle polls the task at the server's interval. Messages of the
server only end the pause before the next poll: changes on a stream in 2026-07-28, the response to
the request for the outcome in 2025-11-25. Nothing depends on a notification (TASKL-14).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import anyio

from mcpkit._protocol import wire
from mcpkit._protocol.connection import CAPABILITIES_KEY, TASKS_EXTENSION
from mcpkit._protocol.messages import Id
from mcpkit._utils.json import is_object
from mcpkit.client.connection import ClientConnection, NoPendingInput
from mcpkit.client.results import (
    CallResult,
    InputRequest,
    OnProgress,
    Params,
    TaskStatus,
    input_requests_in,
    parse,
)
from mcpkit.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    MCPKitError,
    ProtocolError,
    TaskCancelled,
)

_MIN_POLL_S: Final = 0.1
_MAX_POLL_S: Final = 30.0  # the bounds of the pause between two polls, whatever the server asks for
_DEFAULT_POLL_S: Final = 1.0

_MAX_FAILURES: Final = 5  # polls in a row that may fail
_LAST_S: Final = 5.0  # seconds to wait for the response with the outcome once the task is over


class TaskHandle:
    """A task, from `Client.start`, or from `Client.task` by its id.

    ``await handle`` waits for the result. ``async for status in handle`` yields each `TaskStatus`
    when it changes, up to the last. During either, the client's own handlers answer the task's
    input requests. To stop waiting does not stop the task: `cancel` does.

    Attributes:
        id: Of the task, for `Client.task`; None if the server responded with the result instead of
            creating a task (2026-07-28).
        status: The last known one; None if there is no task, or it has not been polled yet.
        on_progress: Called with each `Progress` of the task; None if nothing is.
    """

    def __init__(
        self,
        connection: ClientConnection,
        id: str | None = None,
        *,
        status: TaskStatus | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.id = id if status is None else status.id
        self.status = status
        self._connection = connection
        self.on_progress = on_progress
        self._outcome: CallResult | ProtocolError | None = None
        self._following: _Following | None = None
        self._change: anyio.Event | None = None
        self._questions: dict[str, InputRequest] = {}
        self._answered: set[str] = set()
        """Keys that are never asked again (TASKX-7)."""
        self._replies: dict[str, Params | Exception | None] = {}
        """Answers to requests of the server; None as long as there is none (2025-11-25)."""
        self._waiting: list[str] | None = None
        """The keys of the requests that arrived during the one for the outcome (2025-11-25)."""
        self._stop_waiting: Callable[[], object] = lambda: None
        self._by_hand = False
        self._must_poll = True
        self._hurried = False

    def __repr__(self) -> str:
        status = "" if self.status is None else f" {self.status.status}"
        return f"<TaskHandle {self.id}{status}>"

    @property
    def is_over(self) -> bool:
        """True if the task is known to have ended."""
        return self.id is None or (self.status is not None and self.status.is_over)

    # --- waiting ----------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, Any, CallResult]:
        return self.result().__await__()

    async def result(self, *, timeout: float | None = None) -> CallResult:
        """Wait for the result, and answer the task's input requests meanwhile.

        Args:
            timeout: Seconds; None: no limit. The task continues after a timeout.

        Returns:
            The result, as of `Client.call_tool`. A tool that failed is a result with ``is_error``.

        Raises:
            TaskCancelled: The task was cancelled.
            ProtocolError: The call failed. Or the server does not know the task, or this client
                cannot answer an input request; the task continues then.
            TimeoutError: There was no result in time.
            ConnectionClosed, ValueError: As for `Client.request`.
        """
        if not self._has_outcome:
            waiting = self._connection._timeouts.limit(timeout, "No result of the task")
            with waiting, self._followed() as following:
                while not (self._has_outcome and self.is_over):
                    if self._outcome is not None and following.failure is not None:
                        break  # the result is there, and a last poll is not possible
                    following.check()
                    await self._changed()
        if isinstance(self._outcome, CallResult):
            return self._outcome
        if self._outcome is not None:
            raise self._outcome
        assert self.status is not None
        raise TaskCancelled(self.status.id, self.status.message)

    async def __aiter__(self) -> AsyncGenerator[TaskStatus, None]:
        # On trio, a loop that is left early has to be closed: `async with aclosing(aiter(handle))`.
        seen: TaskStatus | None = None
        with self._followed() as following:
            while self.id is not None and (seen is None or not seen.is_over):
                now = self.status
                if now is not None and (seen is None or _facts(now) != _facts(seen)):
                    seen = now
                    yield now
                else:
                    following.check()
                    await self._changed()

    @property
    def _has_outcome(self) -> bool:
        cancelled = self.status is not None and self.status.status == "cancelled"
        return cancelled or self._outcome is not None

    async def _changed(self) -> None:
        self._change = self._change or anyio.Event()
        await self._change.wait()

    def _wake(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.set()

    @contextmanager
    def _followed(self) -> Generator[_Following, None, None]:
        """Poll the task in the background, for all users together."""
        following = self._following
        if following is None or following.failure is not None:
            following = self._following = _Following(self)
            self._must_poll, self._hurried = True, False
            if not self._has_outcome:
                following.start(following.poll)
        following.users += 1
        try:
            yield following
        finally:
            following.users -= 1
            if not following.users:
                following.stop()

    # --- requests ---------------------------------------------------------------------------------

    async def look(self) -> TaskStatus:
        """Poll the task once.

        Raises:
            RuntimeError: There is no task, because the server responded with the result.
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `Client.request`.
        """
        return self._update(await self._request("tasks/get"), "tasks/get")

    async def questions(self) -> Mapping[str, InputRequest]:
        """Return the task's pending input requests by key, to be answered with `answer`.

        Raises:
            ProtocolError, TimeoutError, ConnectionClosed, ValueError: As `look`.
        """
        if self.id is None:
            return {}
        status = await self.look()
        if not requests_tasks(self._connection) or status.status != "input_required":
            return dict(self._questions)
        # They arrive while the outcome is awaited (TASKL-9).
        self._by_hand = True
        self._await_outcome()
        limit = self._connection._timeout
        with self._connection._timeouts.limit(limit, "No input requests of the task"):
            while not self._questions and self._waiting is not None:
                await self._changed()
        return dict(self._questions)

    async def answer(self, answers: Mapping[str, Params]) -> None:
        """Answer input requests of the task.

        Args:
            answers: By key, each a result as on the wire, such as
                ``{"action": "accept", "content": {"name": "Ann"}}``.

        Raises:
            ValueError: There is no input request under a key (2025-11-25).
            ProtocolError, TimeoutError, ConnectionClosed: As `look`.
        """
        if requests_tasks(self._connection):
            for key in answers:
                if key not in self._replies:
                    raise ValueError(f"the task asks nothing under {key!r}")
            for key, answer in answers.items():
                self._reply(key, answer)
            return
        responses = {key: dict(answer) for key, answer in answers.items()}
        await self._request("tasks/update", {"inputResponses": responses})
        self._answered.update(answers)
        for key in answers:
            self._questions.pop(key, None)
        self._must_poll = True
        self._wake()

    async def cancel(self) -> None:
        """Cancel the task; one that is over stays as it is.

        Raises:
            ProtocolError, TimeoutError, ConnectionClosed, ValueError: As `look`.
        """
        if self.is_over:
            return
        try:
            answer = await self._request("tasks/cancel")
        except InvalidParams:  # TASKL-11: also if it is over already
            if not (await self.look()).is_over:
                raise
            return
        if requests_tasks(self._connection):
            self._update(answer, "tasks/cancel")
            return
        with suppress(ProtocolError, TimeoutError):  # TASKX-11: the answer has no status
            await self.look()

    async def _request(self, method: str, params: Params | None = None, **options: Any) -> Params:
        if self.id is None:
            raise RuntimeError("the call was answered at once; there is no task")
        meta = with_tasks(self._connection, None)
        sent = {"taskId": self.id, **(params or {})}
        return await self._connection.request(method, sent, meta=meta, **options)

    # --- messages of the server -------------------------------------------------------------------

    def _update(self, raw: Params, method: str) -> TaskStatus:
        """Set the status from a task on the wire, unless it is older than the known one."""
        now, known = parse(TaskStatus.from_wire, raw, method), self.status
        if now.id != self.id:
            raise ValueError(f"The server's answer to {method} is malformed: of another task")
        # A notification may overtake a response. The end is final (TASKL-5).
        if known is not None and (
            known.is_over or (now.updated < known.updated and not now.is_over)
        ):
            return known
        if not requests_tasks(self._connection):
            asked: Mapping[str, InputRequest] = {}
            if now.status == "input_required":
                asked = input_requests_in(raw, method, self._connection._max_input_requests)
            self._questions = {
                key: each for key, each in asked.items() if key not in self._answered
            }
            if now.status in ("completed", "failed"):
                self._outcome = parse(_outcome, raw, method)
        self.status = now
        if now.is_over and not self._replies:
            self._questions = {}
        self._wake()
        return now

    def _notified(self, raw: Params) -> None:
        try:
            self._update(raw, "notifications/tasks")
        except (ValueError, ProtocolError) as error:
            self._connection._log_fault(
                "the server sends malformed notifications of a task: %s", error, limit=1
            )

    async def _asked(self, id: Id, question: InputRequest) -> Params:
        """Return the answer to a request of the server that belongs to the task (2025-11-25)."""
        key = str(id)
        self._replies[key] = None
        if self._waiting is not None:
            self._waiting.append(key)
        self._questions[key] = question
        self._wake()
        while (reply := self._replies[key]) is None:
            await self._changed()
        del self._replies[key]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _reply(self, key: str, answer: Params | Exception) -> None:
        self._questions.pop(key, None)
        if key in self._replies:
            self._replies[key] = answer
            self._wake()

    def _await_outcome(self) -> None:
        """Request the outcome, unless that is under way (2025-11-25)."""
        if self._waiting is None and self._outcome is None:
            waiting = self._waiting = []
            self._stop_waiting = self._connection._start(self._request_outcome(waiting))

    async def _request_outcome(self, waiting: list[str]) -> None:
        listeners, id = self._connection._task_listeners, cast("str", self.id)
        listeners[id] = self
        try:
            result = await self._request("tasks/result", timeout=float("inf"))
            self._outcome = parse(CallResult.from_wire, result, "tasks/result")
        except (ProtocolError, ConnectionClosed, ValueError, TimeoutError):
            pass  # the error may be the task's own: the next poll tells, and requests it again
        except Exception as error:
            if self._following is not None:
                self._following.fail(error)
        finally:
            if listeners.get(id) is self:
                del listeners[id]
            if self._waiting is waiting:
                self._waiting = None
            for key in waiting:
                self._reply(key, NoPendingInput())
            # The status has changed, perhaps; without an outcome, the next poll may be too early.
            self._must_poll = self._must_poll or self._outcome is not None or not self._hurried
            self._hurried = True
            self._wake()


def _facts(status: TaskStatus) -> tuple[object, ...]:
    """Return the parts that make a new status, among them that of another input request."""
    asked_at = status.updated if status.status == "input_required" else None
    return status.status, status.message, asked_at


class _Following:
    """Polls a task and answers its input requests while it has users."""

    def __init__(self, handle: TaskHandle) -> None:
        self.users = 0
        self.failure: Exception | None = None
        self._stops: list[Callable[[], object]] = []
        self._handle = handle
        self._connection = handle._connection
        self._answering: set[str] = set()

    def start(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        async def run() -> None:
            try:
                await work(*args)
            except Exception as error:
                self.fail(error)

        self._stops.append(self._connection._start(run()))

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        handle = self._handle
        if handle._following is self:
            handle._following = None
            if handle._waiting is not None and not handle._by_hand:
                handle._waiting = None
                handle._stop_waiting()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._handle._wake()

    async def poll(self) -> None:
        handle, client = self._handle, self._connection
        failures, listens, due = 0, False, 0.0
        while not handle.is_over:
            if handle._must_poll:
                handle._must_poll = False
                try:
                    await handle.look()
                    failures = 0
                except (InternalError, TimeoutError, ConnectionClosed):
                    failures += 1
                    known = handle._outcome is not None
                    if known or failures > _MAX_FAILURES or client._closed:
                        raise
                if handle.is_over:
                    break
                wanted = None if handle.status is None else handle.status.poll_interval
                pause = max(_DEFAULT_POLL_S if wanted is None else wanted, _MIN_POLL_S)
                due = anyio.current_time() + min(pause * 2**failures, _MAX_POLL_S)
                if requests_tasks(client):  # once for each poll, however soon it is refused
                    handle._await_outcome()
            if not requests_tasks(client) and not listens:
                listens = True
                self.start(self._listen)
            self._answer()
            if not handle._must_poll:
                with anyio.CancelScope(deadline=due) as scope:
                    await handle._changed()
                handle._must_poll = handle._must_poll or scope.cancelled_caught
        if requests_tasks(client):
            await self._fetch()

    async def _listen(self) -> None:
        def notified(method: str, params: Params) -> None:
            if method == "notifications/tasks" and params.get("taskId") == self._handle.id:
                self._handle._notified(params)

        # Rejected, or ended by the server: the task is polled anyway.
        with suppress(MCPKitError, ValueError, TimeoutError):
            await self._connection.request(
                "subscriptions/listen",
                {"notifications": {"taskIds": [self._handle.id]}},
                meta=with_tasks(self._connection, None),
                timeout=float("inf"),
                on_notification=notified,
            )

    def _answer(self) -> None:
        for key, question in list(self._handle._questions.items()):
            is_answered = self._connection._handler_of(question.method) is not None
            if is_answered and key not in self._answering:
                self._answering.add(key)
                self.start(self._answer_one, key, question)

    async def _answer_one(self, key: str, question: InputRequest) -> None:
        handle, client = self._handle, self._connection
        try:
            answer = await client._handle(question.method, question.params)
            await handle.answer({key: answer})
        except Exception as error:
            if not requests_tasks(client):  # there, an answer cannot be an error
                raise
            if not isinstance(error, ProtocolError):
                client._log_fault("the handler for %s failed", question.method, failed=True)
                error = InternalError("The client failed")
            handle._reply(key, error)

    async def _fetch(self) -> None:
        """Request the outcome of a task that is over (2025-11-25)."""
        handle = self._handle
        with anyio.move_on_after(_LAST_S):  # the request for it may be under way
            while not handle._has_outcome and handle._waiting is not None:
                await handle._changed()
        if handle._has_outcome:
            return
        try:
            result = await handle._request("tasks/result")
            handle._outcome = parse(CallResult.from_wire, result, "tasks/result")
        except ProtocolError as error:
            handle._outcome = error
        handle._wake()


def _outcome(raw: Params) -> CallResult | ProtocolError:
    """Return the outcome of a task that is over, from `tasks/get` (2026-07-28)."""
    if raw["status"] == "completed":
        return CallResult.from_wire(raw["result"])
    error = raw.get("error")
    if is_object(error):
        return ProtocolError.from_wire(error)
    return InternalError(wire.optional_text(raw, "statusMessage") or "The task has failed")


def requests_tasks(connection: ClientConnection) -> bool:
    """Return True if the client requests tasks, and awaits their outcome (2025-11-25)."""
    revision = connection._protocol.revision
    return revision is not None and revision.tasks == "client"


def with_tasks(connection: ClientConnection, meta: Params | None) -> Params | None:
    """Return ``_meta`` that declares the tasks extension, in the revision that has it (TASKX-4)."""
    revision = connection._protocol.revision
    if revision is None or revision.tasks != "extension":
        return meta
    capabilities = connection._protocol.capabilities
    given = capabilities.get("extensions")
    extensions: dict[str, Any] = {**(given if is_object(given) else {}), TASKS_EXTENSION: {}}
    return {CAPABILITIES_KEY: {**capabilities, "extensions": extensions}, **(meta or {})}
