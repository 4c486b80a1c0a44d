"""Tasks as a client has them: a handle for each, which follows it, and answers what it asks.

A handle looks at its task at the server's interval while somebody waits for it. What pushes only
ends the pause before the next look: the stream of changes in 2026-07-28, the request for the
outcome in 2025-11-25. Nothing depends on a notification (TASKL-14).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import anyio
from pydantic_core import SchemaValidator, core_schema
from typing_extensions import Self

from mcpkit._protocol import wire
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit._protocol.messages import Id
from mcpkit._utils.json import is_array, is_object
from mcpkit.client.results import CallResult, parse
from mcpkit.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    MCPKitError,
    ProtocolError,
    TaskCancelled,
)

if TYPE_CHECKING:
    from mcpkit.client.client import Client

__all__ = [
    "EXTENSION",
    "NoPendingInput",
    "OnProgress",
    "TaskHandle",
    "TaskQuestion",
    "TaskStatus",
    "input_requests_in",
    "related_task",
    "with_extension",
]

Params: TypeAlias = Mapping[str, Any]
OnProgress: TypeAlias = Callable[[float, "float | None", "str | None"], object]
Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name of the extension, in capabilities (TASKX-1)."""

_RELATED: Final = "io.modelcontextprotocol/related-task"
_OVER: Final = frozenset(("completed", "failed", "cancelled"))
_STATUSES: Final = frozenset(get_args(Status))

_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 30.0
"""The bounds of the pause between two looks, whatever a server wishes."""

_USUAL_S: Final = 1.0
"""The pause where a server wishes for none."""

_MOST_FAILURES: Final = 5
"""Looks in a row that may fail."""

_LAST_S: Final = 5.0
"""Seconds to wait for an outcome that has been asked for, once the task is over."""

_LINGER_S: Final = 1.0
"""Seconds that whoever follows a task may take for one status, until the task is left alone."""

_TIMES: Final = SchemaValidator(core_schema.datetime_schema())


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How it stands with a task.

    Args:
        id: Of the task.
        status: ``working``, ``input_required``, ``completed``, ``failed`` or ``cancelled``. A tool
            that fails for its model has ``failed`` in 2025-11-25, and ``completed`` in 2026-07-28.
        message: What the server says beside it; None if nothing.
        created, updated: When it was made, and when it last changed.
        ttl: Seconds from its making for which it is kept; None: for ever.
        poll_interval: Seconds that should pass between two looks; None if the server does not say.
        raw: As it was sent.
    """

    id: str
    status: Status
    message: str | None
    created: datetime
    updated: datetime
    ttl: float | None
    poll_interval: float | None
    raw: Params = field(compare=False, repr=False)

    @classmethod
    def from_wire(cls, raw: Params) -> TaskStatus:
        """Return the value for an object as it was sent, in either revision.

        Raises:
            KeyError, TypeError, AttributeError, ValueError: A member is missing or malformed.
        """
        status = wire.text_in(raw, "status")
        if status not in _STATUSES:
            raise ValueError(f'"status" is {status!r}')
        return cls(
            wire.text_in(raw, "taskId"),
            cast("Status", status),
            wire.optional_text(raw, "statusMessage"),
            _TIMES.validate_python(wire.text_in(raw, "createdAt")),
            _TIMES.validate_python(wire.text_in(raw, "lastUpdatedAt")),
            _seconds(raw, "ttl"),
            _seconds(raw, "pollInterval"),
            raw,
        )

    @property
    def is_over(self) -> bool:
        """True if the task has ended, and nothing will change it any more."""
        return self.status in _OVER


def _seconds(raw: Params, name: str) -> float | None:
    found = raw.get(f"{name}Ms", raw.get(name))
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise TypeError(f'"{name}" must be a number of milliseconds')
    return found / 1000


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """Something that a task wants to know.

    Args:
        method: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.
        params: As on the wire.
    """

    method: str
    params: Params


class NoPendingInput(Exception):
    """A question is no longer asked, so that nobody is to be answered."""


class _Asked:
    """A question of the server that came as a request, and waits for its answer (2025-11-25)."""

    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.answer: Params | Exception = {}

    def settle(self, answer: Params | Exception) -> None:
        """Answer it, or say why there is no answer."""
        if not self.answered.is_set():
            self.answer = answer
            self.answered.set()


class _Waiting:
    """A request for the outcome, which waits for that (2025-11-25)."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] = _nothing
        self.asked: list[str] = []
        """The keys of what was asked meanwhile."""


class TaskHandle:
    """A call that goes on after its answer: from `Client.start`, or `Client.task` by its id.

    ``await handle`` waits for the result. ``async for status in handle`` has each `TaskStatus` in
    turn, when it changes, up to the last. While somebody does either, the client's own functions
    answer what the task asks. Whoever stops to wait does not stop the task: `cancel` does.

    Attributes:
        id: The task's, to find it again by; None if the server has answered the call at once, and
            made no task of it (2026-07-28).
        status: As it was last seen; None if it has not been looked at yet, or there is no task.
    """

    def __init__(
        self,
        client: Client,
        id: str | None = None,
        *,
        status: TaskStatus | None = None,
        result: CallResult | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.id = id if status is None else status.id
        self.status = status
        self._client = client
        self._on_progress = on_progress
        self._outcome: CallResult | ProtocolError | None = result
        self._following: _Following | None = None
        self._change: anyio.Event | None = None
        self._questions: dict[str, TaskQuestion] = {}
        self._answered: set[str] = set()
        """Keys that are never asked again (TASKX-7)."""
        self._asked: dict[str, _Asked] = {}
        self._waiting: _Waiting | None = None
        self._by_hand = False

    def begun(self, status: TaskStatus) -> None:
        """Take what a call is answered with that has become a task."""
        self.id, self.status = status.id, status

    def answered(self, result: CallResult) -> None:
        """Take the result of a call of which the server has made no task."""
        self._outcome = result

    def __repr__(self) -> str:
        stands = "" if self.status is None else f" {self.status.status}"
        return f"<TaskHandle {self.id}{stands}>"

    @property
    def is_over(self) -> bool:
        """True if the task is known to have ended."""
        return self.id is None or (self.status is not None and self.status.is_over)

    # --- waiting ----------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, Any, CallResult]:
        return self.result().__await__()

    async def result(self, *, timeout: float | None = None) -> CallResult:
        """Wait for the result, and answer what the task asks meanwhile.

        Args:
            timeout: Seconds; as long as it takes if None. The task goes on.

        Returns:
            What `Client.call_tool` returns. A tool that failed is a result with ``is_error``.

        Raises:
            TaskCancelled: The task has been cancelled.
            ProtocolError: The error that the call is answered with. Or the server knows nothing of
                the task, or this client cannot answer what it asks; the task goes on then.
            TimeoutError: It takes longer.
            ConnectionClosed, ValueError: As for `Client.request`.
        """
        if not self._is_settled:
            with self._client._within(timeout), self._followed() as following:
                while not (self._is_settled and self.is_over):
                    if self._outcome is not None and following.failure is not None:
                        break  # it has come, and a last look is not possible
                    following.check()
                    await self._changed()
        if isinstance(self._outcome, CallResult):
            return self._outcome
        if self._outcome is not None:
            raise self._outcome
        assert self.status is not None
        raise TaskCancelled(self.status.id, self.status.message)

    def __aiter__(self) -> AsyncIterator[TaskStatus]:
        return _Statuses(self)

    @property
    def _is_settled(self) -> bool:
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
    def _followed(self, linger: float = 0.0) -> Generator[_Following, None, None]:
        """Have the task looked after in here; all who wait for it share that.

        Args:
            linger: Seconds for which it is looked after if somebody may come back.
        """
        following = self._following
        if following is None or following.failure is not None:
            following = self._following = _Following(self)
            if not self._is_settled:
                following.begin()
        following.count += 1
        try:
            yield following
        finally:
            following.count -= 1
            if linger and not self._is_settled and following.failure is None:
                self._client._later(linger, partial(self._unfollow, following))
            else:
                self._unfollow(following)

    def _unfollow(self, following: _Following) -> None:
        if following.count:
            return
        following.end()
        if self._following is following:
            self._following = None
            waiting = self._waiting
            if waiting is not None and not self._by_hand:
                self._waiting = None
                waiting.stop()

    # --- one look, one answer ---------------------------------------------------------------------

    async def look(self) -> TaskStatus:
        """Ask the server once how it stands with the task.

        Raises:
            RuntimeError: There is no task, because the call was answered at once.
            ValueError: The answer is malformed.
            ProtocolError, TimeoutError, ConnectionClosed: As for `Client.request`.
        """
        return self._take(await self._request("tasks/get"), "tasks/get")

    async def questions(self) -> Mapping[str, TaskQuestion]:
        """Return what the task asks at the moment, by key; for those who answer by hand.

        Raises:
            ProtocolError, TimeoutError, ConnectionClosed, ValueError: As `look`.
        """
        if self.id is None:
            return {}
        status = await self.look()
        if not self._by_request or status.status != "input_required":
            return dict(self._questions)
        # They come while somebody waits for the outcome (TASKL-9).
        self._by_hand = True
        self._await_result()
        with self._client._within(self._client._timeout):
            while not self._questions and self._waiting is not None:
                await self._changed()
        return dict(self._questions)

    async def answer(self, answers: Mapping[str, Params]) -> None:
        """Answer questions of the task by hand.

        Args:
            answers: By key, each a result as on the wire, such as
                ``{"action": "accept", "content": {"name": "Ann"}}``.

        Raises:
            ValueError: Nothing is asked under a key (2025-11-25).
            ProtocolError, TimeoutError, ConnectionClosed: As `look`.
        """
        if self._by_request:
            for key in answers:
                if key not in self._asked:
                    raise ValueError(f"the task asks nothing under {key!r}")
            for key, answer in answers.items():
                self._settle(key, answer)
            return
        responses = {key: dict(answer) for key, answer in answers.items()}
        await self._request("tasks/update", {"inputResponses": responses})
        self._answered.update(answers)
        for key in answers:
            self._questions.pop(key, None)
        if self._following is not None:
            self._following.nudge(look=True)

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
        if self._by_request:
            self._take(answer, "tasks/cancel")
            return
        with suppress(ProtocolError, TimeoutError):  # TASKX-11: the answer says nothing of it
            await self.look()

    # --- what is known ----------------------------------------------------------------------------

    @property
    def _by_request(self) -> bool:
        """True where a task asks by requests of the server, and its outcome is waited for."""
        revision = self._client._caller.revision
        return revision is not None and revision.tasks == "wished"

    async def _request(self, method: str, params: Params | None = None, **options: Any) -> Params:
        if self.id is None:
            raise RuntimeError("the call was answered at once; there is no task")
        meta = self._client._with_tasks(None)
        sent = {"taskId": self.id, **(params or {})}
        return await self._client.request(method, sent, meta=meta, **options)

    def _take(self, raw: Params, method: str) -> TaskStatus:
        """Note how it stands with the task, as the server says, and return how it does."""
        now, known = parse(TaskStatus.from_wire, raw, method), self.status
        if now.id != self.id:
            raise ValueError(f"The server's answer to {method} is malformed: of another task")
        # What is pushed may overtake an answer. The end is final (TASKL-5).
        if known is not None and (
            known.is_over or (now.updated < known.updated and not now.is_over)
        ):
            return known
        if not self._by_request:
            asked = input_requests_in(raw, method) if now.status == "input_required" else {}
            most = self._client._max_input_requests
            if len(asked) > most:
                raise ProtocolError(
                    f"The task asks {len(asked)} questions at once; "
                    f"it gets {most} answers at most (max_input_requests)"
                )
            self._questions = {
                key: TaskQuestion(*each) for key, each in asked.items() if key not in self._answered
            }
            if now.status in ("completed", "failed"):
                self._outcome = parse(_outcome, raw, method)
        self.status = now
        if now.is_over and not self._asked:
            self._questions = {}
        self._wake()
        return now

    def told(self, raw: Params) -> bool:
        """Take what the server pushes, if it makes sense, and return whether it did."""
        try:
            self._take(raw, "notifications/tasks")
        except (ValueError, ProtocolError) as error:
            self._client._log_fault("the server tells nonsense about a task: %s", error, most=1)
            return False
        if self._following is not None:
            self._following.nudge(look=False)
        return True

    def told_progress(self, *facts: Any) -> None:
        """Pass on progress."""
        if self._on_progress is not None:
            self._on_progress(*facts)

    # --- 2025-11-25 -------------------------------------------------------------------------------

    def _await_result(self) -> None:
        """Begin to wait for the outcome, unless that has begun."""
        if self._waiting is None and self._outcome is None:
            waiting = self._waiting = _Waiting()
            waiting.stop = self._client._start(self._wait_for_result(waiting))

    async def _wait_for_result(self, waiting: _Waiting) -> None:
        client, id = self._client, cast("str", self.id)
        client._awaited_tasks[id] = self
        try:
            result = await self._request("tasks/result", timeout=float("inf"))
            self._outcome = parse(CallResult.from_wire, result, "tasks/result")
        except (ProtocolError, ConnectionClosed, ValueError, TimeoutError):
            pass  # the error may be the task's own: a look tells, and asks again
        except Exception as error:
            if self._following is not None:
                self._following.fail(error)
        finally:
            if client._awaited_tasks.get(id) is self:
                del client._awaited_tasks[id]
            if self._waiting is waiting:
                self._waiting = None
            for key in waiting.asked:
                self._settle(key, NoPendingInput())
            if self._following is not None:
                self._following.result_ended()
            self._wake()

    async def ask(self, id: Id, question: TaskQuestion) -> Params:
        """Have a request of the server answered that belongs to the task.

        Raises:
            NoPendingInput: The request for the outcome has ended, and it with that.
            ProtocolError: The answer is an error.
        """
        key = str(id)
        asked = self._asked[key] = _Asked()
        if self._waiting is not None:
            self._waiting.asked.append(key)
        self._questions[key] = question
        if self._following is not None:
            self._following.nudge(look=False)
        self._wake()
        await asked.answered.wait()
        if isinstance(asked.answer, Exception):
            raise asked.answer
        return asked.answer

    def _settle(self, key: str, answer: Params | Exception) -> None:
        self._questions.pop(key, None)
        asked = self._asked.pop(key, None)
        if asked is not None:
            asked.settle(answer)


class _Statuses:
    """What an ``async for`` over a task goes through.

    No generator: one that is left by ``break`` would have to be closed.

    Args:
        handle: Of the task.
    """

    def __init__(self, handle: TaskHandle) -> None:
        self._handle = handle
        self._seen: TaskStatus | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TaskStatus:
        handle, seen = self._handle, self._seen
        if handle.id is None or (seen is not None and seen.is_over):
            raise StopAsyncIteration
        with handle._followed(_LINGER_S) as following:
            while True:
                now = handle.status
                if now is not None and _facts(now) != _facts(seen):
                    self._seen = now
                    return now
                following.check()
                await handle._changed()


def _facts(status: TaskStatus | None) -> tuple[object, ...]:
    """Return what is a change if it is another one; also that something else is asked."""
    if status is None:
        return ()
    asked_at = status.updated if status.status == "input_required" else None
    return status.status, status.message, asked_at


class _Following:
    """Looks after a task while somebody waits for it.

    Args:
        handle: Of the task.
    """

    def __init__(self, handle: TaskHandle) -> None:
        self.count = 0
        self.failure: Exception | None = None
        self._handle = handle
        self._client = handle._client
        self._stops: list[Callable[[], object]] = []
        self._answering: set[str] = set()
        self._nudged = anyio.Event()
        self._must_look = True
        self._listens = False
        self._hurried = False

    def begin(self) -> None:
        """Begin to look."""
        self._start(self._live())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._stops.append(self._client._start(work))

    def end(self) -> None:
        """Look no more."""
        for stop in self._stops:
            stop()

    def check(self) -> None:
        """Raise what has gone wrong, if something has."""
        if self.failure is not None:
            raise self.failure

    def fail(self, error: Exception) -> None:
        """Note that something has gone wrong."""
        self.failure = self.failure or error
        self._handle._wake()

    def nudge(self, *, look: bool) -> None:
        """End the pause before the next look; the look itself may be left out."""
        self._must_look = self._must_look or look
        self._nudged.set()

    def result_ended(self) -> None:
        """The request for the outcome has ended, which is a reason to look, but not for ever."""
        if self._handle._outcome is not None or not self._hurried:
            self._hurried = True
            self.nudge(look=True)

    async def _live(self) -> None:
        handle = self._handle
        failures = 0
        try:
            while not handle.is_over:
                if self._must_look:
                    self._must_look = False
                    try:
                        await handle.look()
                        failures = 0
                    except (InternalError, TimeoutError, ConnectionClosed):
                        failures += 1
                        known = handle._outcome is not None
                        if known or failures > _MOST_FAILURES or self._client._closed:
                            raise
                    if handle.is_over:
                        break
                self._use_what_pushes()
                self._answer()
                with anyio.move_on_after(min(self._pause * 2**failures, _LONGEST_S)):
                    await self._nudged.wait()
                self._must_look = self._must_look or not self._nudged.is_set()
                self._nudged = anyio.Event()
            await self._fetch()
        except Exception as error:
            self.fail(error)

    @property
    def _pause(self) -> float:
        status = self._handle.status
        wished = None if status is None else status.poll_interval
        return min(max(_USUAL_S if wished is None else wished, _SHORTEST_S), _LONGEST_S)

    def _use_what_pushes(self) -> None:
        if self._handle._by_request:
            self._handle._await_result()
        elif not self._listens:
            self._listens = True
            self._start(self._listen())

    async def _listen(self) -> None:
        handle = self._handle
        useless = anyio.Event()

        def told(method: str, params: Params) -> None:
            if method == "notifications/subscriptions/acknowledged":
                agreed = params.get("notifications")
                ids: Any = agreed.get("taskIds") if is_object(agreed) else None
                if not (is_array(ids) and handle.id in ids):
                    useless.set()
            elif method == "notifications/tasks" and params.get("taskId") == handle.id:
                handle.told(params)

        async def stop_if_useless(scope: anyio.CancelScope) -> None:
            await useless.wait()
            scope.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(stop_if_useless, group.cancel_scope)
                # Refused, or ended by the server: the task is looked at anyway.
                with suppress(MCPKitError, ValueError, TimeoutError):
                    await self._client.request(
                        "subscriptions/listen",
                        {"notifications": {"taskIds": [handle.id]}},
                        meta=self._client._with_tasks(None),
                        timeout=float("inf"),
                        on_told=told,
                    )
                group.cancel_scope.cancel()
        except Exception as error:
            self.fail(error)

    def _answer(self) -> None:
        """Have the client's functions answer what is asked, each question once."""
        handle = self._handle
        for key, question in list(handle._questions.items()):
            if question.method in self._client._handlers and key not in self._answering:
                self._answering.add(key)
                self._start(self._answer_one(key, question))

    async def _answer_one(self, key: str, question: TaskQuestion) -> None:
        handle, client = self._handle, self._client
        try:
            answer = await client._handle(question.method, question.params)
            await handle.answer({key: answer})
        except Exception as error:
            if not handle._by_request:  # which has no way to refuse an answer
                self.fail(error)
                return
            if not isinstance(error, ProtocolError):
                client._log_fault("the handler for %s failed", question.method, failed=True)
                error = InternalError("The client failed")
            handle._settle(key, error)
        finally:
            self._answering.discard(key)

    async def _fetch(self) -> None:
        """Get the outcome of a task that is over, where that is a request of its own."""
        handle = self._handle
        if not handle._by_request:
            return
        with anyio.move_on_after(_LAST_S):  # the request for it may be under way
            while not handle._is_settled and handle._waiting is not None:
                await handle._changed()
        if handle._is_settled:
            return
        try:
            result = await handle._request("tasks/result")
            handle._outcome = parse(CallResult.from_wire, result, "tasks/result")
        except ProtocolError as error:
            handle._outcome = error
        handle._wake()


def _nothing() -> None:
    """Stop nothing: what is to be stopped has not begun yet."""


def _outcome(raw: Params) -> CallResult | ProtocolError:
    """Return what came of a task, as `tasks/get` has it (2026-07-28)."""
    if raw["status"] == "completed":
        return CallResult.from_wire(raw["result"])
    error = raw.get("error")
    if is_object(error):
        return ProtocolError.from_wire(error)
    return InternalError(wire.optional_text(raw, "statusMessage") or "The task has failed")


def input_requests_in(raw: Params, method: str) -> dict[str, tuple[str, Params]]:
    """Return the input that a result asks for: key → method and params.

    Raises:
        ValueError: It is malformed.
    """
    return parse(_wishes, raw, method)


def _wishes(raw: Params) -> dict[str, tuple[str, Params]]:
    wishes: Params = raw.get("inputRequests") or {}
    found: dict[str, tuple[str, Params]] = {}
    for key, wish in wishes.items():
        params = wish.get("params")
        if params is not None and not is_object(params):
            raise TypeError('"params" must be an object')
        found[key] = wire.text_in(wish, "method"), params or {}
    return found


def related_task(params: Params) -> str | None:
    """Return the id of the task that a message belongs to; None if it belongs to none."""
    meta = params.get("_meta")
    found = meta.get(_RELATED) if is_object(meta) else None
    id = found.get("taskId") if is_object(found) else None
    return id if isinstance(id, str) else None


def with_extension(capabilities: Params, meta: Params | None) -> dict[str, Any]:
    """Return the ``_meta`` of a request that knows the extension, whatever others say."""
    given = capabilities.get("extensions")
    extensions: dict[str, Any] = {**given} if is_object(given) else {}
    extensions[EXTENSION] = {}
    return {CAPABILITIES_KEY: {**capabilities, "extensions": extensions}, **(meta or {})}
