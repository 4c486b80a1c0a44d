"""One run of a task, from the start of its handler to the end or to an input request.

Also here: ``app.tasks``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from mcpkit._input_requests.requester import InputRequired
from mcpkit._input_requests.steps import Suspended
from mcpkit._input_requests.task_replay import TaskReplay
from mcpkit._protocol.connection import TASKS_EXTENSION, Request, RequestSource
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import BY_VERSION, PER_REQUEST, UNKNOWN_CLIENT, ClientProfile
from mcpkit._server.encoding import encode_result
from mcpkit._server.run import ABANDONED, Failed, Outcome, Run
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import log
from mcpkit._utils.quota import ANONYMOUS, Reservation, principal_owner
from mcpkit._utils.text import truncate
from mcpkit.context import Context, RunOwner, do_nothing
from mcpkit.errors import InternalError, InvalidArguments, ProtocolError
from mcpkit.tasks import record
from mcpkit.tasks.current import CurrentTask
from mcpkit.tasks.protocol import outcome_field, related
from mcpkit.tasks.record import Task
from mcpkit.tasks.runs import RunningTask
from mcpkit.tasks.service import StoredSource, TaskService
from mcpkit.tasks.shares import OtherSecret
from mcpkit.tasks.support import support_of
from mcpkit.tasks.transitions import remember
from mcpkit.types import Principal

T = TypeVar("T")

_RETRY_S: Final = 0.5
"""Seconds between two attempts to reach a store that is unavailable."""

_NOTE_S: Final = 1.0
"""Seconds between two writes of a task's progress message."""

MAX_MESSAGE: Final = 1000
"""Characters of a progress message."""

MAX_STEPS: Final = 1000
"""Steps that one task may store."""


class TaskRun(RunningTask, RunOwner):
    """One run of a task that was claimed: the owner of the run of its handler."""

    def __init__(self, server: Server, tasks: TaskService, task: Task, refused: str | None) -> None:
        super().__init__(task.id, task.attempt, task.caller)
        self._server = server
        self._refused = refused
        self.task = CurrentTask(task.id, task.expires, self._note)
        self.threads = tasks.threads
        self._task = task
        self._tasks = tasks
        self._run: Run | None = None
        self._cancel: Callable[[], object] = do_nothing
        self._lost = False
        self._message: str | None = None
        self._noting = False
        self._steps = 0
        self._resumable = False
        self._outcome: Outcome = ABANDONED
        self._asker: TaskReplay | None = None
        self._place: Reservation | None = None
        """Its part of the quota of suspended runs."""
        self._stop_timer: Callable[[], object] = do_nothing
        self._is_asking = False
        self._is_evicted = False

    # --- to the end -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the run."""
        self._cancel = self._tasks.loop.start(self._live())

    def stop(self) -> None:
        """Cancel the run: the process ends, or the task is not run here any more."""
        self._cancel()
        if self._run is not None:
            self._run.cancel()

    @property
    def may_go_on(self) -> bool:
        """True if another process may run the task again."""
        return self._resumable and self._tasks.outlive_process

    def lose(self) -> None:
        """Cancel the run without an outcome: the task was cancelled, or is run elsewhere."""
        if not self._lost:
            self._lost = True
            self.stop()

    async def _live(self) -> None:
        try:
            await self._work()
        except Exception:
            log.exception("the task %s could not be run", self.id)
            if not self._lost:
                await self._fail(InternalError("The server failed to run the task"))
        finally:
            self._count_as_working()
            self.ended.set()
            self._tasks.runs.ended(self)

    async def _work(self) -> None:
        task = self._task
        if task.crashes > record.MAX_CRASHES:
            lost = f"The process that ran the task has ended or hung {task.crashes - 1} times"
            await self._fail(InternalError(lost))
            return
        try:
            call, request = _call_of(self._tasks, task)
            self._server.observers.attach(request.meta)
            asks = self._opened(task.input_requests, "question")
            answers = self._opened(task.answers, "answer")
            steps: Mapping[str, bytes] = {}
            if task.attempt > 1:
                store = await self._tasks.store()
                steps = self._opened(await self._persist(store.values, task.id), "step")
        except OtherSecret:  # while a secret is rotated, others can read it
            self._tasks.runs.choice.leave(task)
            await self._change(lambda task, _: record.release(task, self.number))
            return
        if self._refused is not None:
            await self._fail(InternalError(f"No process could run the task: {self._refused}"))
            return
        server = self._server.view_for(request.origin, request)
        tool = server.catalog.tools.get(call["tool"])
        if task.starts > 1 and tool is not None and not support_of(tool).resumable:
            await self._fail(
                InternalError(
                    "The process that worked on the task has ended or cannot be reached, and the "
                    "tool is not one that may be run again"
                )
            )
            return
        if task.attempt > 1:
            cause = "its process has ended or hung" if task.crashes > 1 else "no process held it"
            server.suspended.tell(request, f"is replayed from its start: {cause}")
        self._resumable = tool is not None and support_of(tool).resumable
        self._steps = len(steps)
        run = self._run = Run(self, server, request)
        asker = TaskReplay(request, asks, answers, call["given"], steps, self._remember)
        asker.hold = self._hold
        run.asker = self._asker = asker
        handler = server.handlers()[request.known.operation]
        await run.complete(handler(server, request.params, Context(run)))
        await self._conclude(run, self._outcome)

    def take_outcome(self, run: Run, outcome: Outcome) -> None:
        """Note the outcome of the run, to be stored."""
        run.is_over = True
        self._outcome = outcome

    def _opened(self, kept: Mapping[str, bytes], field: str) -> dict[str, bytes]:
        open, task = self._tasks.open, self._task
        return {key: open(task, value, field, key) for key, value in kept.items()}

    async def _conclude(self, run: Run, outcome: Outcome) -> None:
        """Write the outcome of the run to the record."""
        if outcome is ABANDONED or self._lost:
            return
        request, limit = run.request, self._tasks.settings.max_bytes
        if type(outcome) is InputRequired:
            if (asks := self._sealed(outcome)) is None:
                await self._fail(InternalError(f"The questions have more than {limit} bytes"))
                return
            await self._suspend(asks)
            return
        text = b""
        if type(outcome) is not Failed:
            try:
                text = encode_result(run.server, request, outcome, private=True)
            except Exception as error:  # the value holds what JSON cannot carry
                outcome = run.failed(error)
            else:
                if len(text) > limit:
                    outcome = Failed(InternalError(f"The result has more than {limit} bytes"))
        if type(outcome) is Failed:
            await self._fail(outcome.error)
            return
        failed = isinstance(outcome, Rendered) and outcome.is_error
        # TASKL-7 and TASKX-8: the shapes do not agree on what has failed.
        status: record.Outcome = (
            "failed" if failed and request.revision.tasks == "client" else "completed"
        )
        await self._finish(status, b"r" + text, self._message)

    async def _fail(self, error: ProtocolError) -> None:
        message = truncate(error.message, MAX_MESSAGE)
        await self._finish("failed", b"e" + encode(error.to_wire()), message)

    async def _finish(self, status: record.Outcome, outcome: bytes, message: str | None) -> None:
        number = self.number
        ended = replace(self._task, status=status)
        sealed = self._tasks.seal(ended, outcome, *outcome_field(ended))
        call = self._tasks.ended_call(ended)
        await self._change(
            lambda task, now: record.finish(task, number, status, sealed, now, message, call)
        )

    async def _change(self, edit: Callable[[Task, float], Task | None]) -> Task | None:
        try:
            return await self._persist(self._tasks.change, self.id, edit)
        except KeyError:
            return None  # its time is over

    async def _persist(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Use the store; retry while it is unavailable, until the run is cancelled."""
        while True:
            try:
                return await function(*args)
            except StoreUnavailable:
                await anyio.sleep(_RETRY_S)

    # --- questions --------------------------------------------------------------------------------

    def _hold(self) -> Callable[[], object] | None:
        """Hold the handler until its questions are answered; see `Replay.hold`."""
        if self._lost or self._is_evicted or self._tasks.is_closing:
            return None
        release = self.threads.lend_place()
        if release is not None and not self._is_asking:
            # Questions of the same turn of the loop are asked together.
            self._is_asking = True
            self._tasks.loop.soon(lambda: self._tasks.loop.start(self._ask()))
        return release

    async def _ask(self) -> None:
        """Write the open questions to the record, and again if there are others by then."""
        run, asker = self._run, self._asker
        assert run is not None
        assert asker is not None
        suspended = self._server.suspended
        task: Task | None = None
        written: set[str] = set()
        while written != asker.pending.keys():
            written = set(asker.pending)
            asks = self._sealed(asker.input_required())
            if asks is None or not (self._place or suspended.count.has_room(self._task.caller)):
                self._is_asking = False
                self._evict()
                return
            task = await self._suspend(asks, is_held=True)
            if run.is_over or self._lost:
                return
            if task is None:
                self.lose()
                return
        self._is_asking = False
        if task is None:  # the handler has gone on without an answer
            return
        self._task = task
        if self._place is None:
            self._place = suspended.count.charge(self._task.caller, 1)
            self._stop_timer = self._tasks.loop.later(suspended.lifetime, self._evict)
        self.is_suspended = True
        self._tasks.runs.wake()
        self.see(task)

    async def _suspend(self, asks: Mapping[str, bytes], *, is_held: bool = False) -> Task | None:
        number, message = self.number, self._message
        return await self._change(
            lambda task, now: record.suspend(task, number, asks, now, message, is_held=is_held)
        )

    def _sealed(self, asked: InputRequired) -> dict[str, bytes] | None:
        """Return questions as the record has them; None if they are too large."""
        task = self._task
        asks = {
            key: self._tasks.seal(task, each, "question", key)
            for key, each in asked.members.items()
        }
        size = sum(map(len, [*asks.values(), *task.input_requests.values()]))
        return None if size > self._tasks.settings.max_bytes else asks

    def see(self, task: Task) -> None:
        """Go on if all questions are answered; from a change of the task, by any process."""
        asker = self._asker
        if self.is_suspended and asker and asker.pending.keys() <= task.answers.keys():
            self._task = task
            self._count_as_working()
            self._tasks.loop.start(self._go_on(task))

    async def _go_on(self, task: Task) -> None:
        asker, number = self._asker, self.number
        assert asker is not None
        try:
            answers = self._opened(task.answers, "answer")
        except OtherSecret:  # while a secret is rotated, others can read it
            self._evict()
            return
        # From here on, another attempt would repeat what this one does.
        if (
            not self._resumable
            and await self._change(lambda task, _: record.resume(task, number)) is None
        ):
            self.lose()
            return
        asker.take(answers)

    def _count_as_working(self) -> None:
        self.is_suspended = False
        self._stop_timer()
        if self._place is not None:
            self._place.release()
            self._place = None

    def _evict(self) -> None:
        """Let the handler end at its questions: any process may replay it."""
        self._is_evicted = True
        if self._asker is not None:
            self._asker.wake()

    # --- the owner of the run ---------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        """True if the process ends."""
        return self._tasks.is_closing

    async def _remember(self, key: str, value: bytes) -> bytes:
        limit = self._tasks.settings.max_bytes
        if len(value) > limit:
            raise ValueError(f"the result of the step {key!r} has more than {limit} bytes")
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ValueError(f"a task has at most {MAX_STEPS} steps")
        store = await self._tasks.store()
        sealed = self._tasks.seal(self._task, value, "step", key)
        kept = await self._persist(remember, store, self.id, self.number, key, sealed)
        if kept is None:
            self.lose()
            # Cancelling does not stop a thread, nor a handler that cleans up.
            raise Suspended
        return self._tasks.open(self._task, kept, "step", key)

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification of the task, in 2025-11-25 only. From any thread."""
        if request.revision.tasks != "client" or self._repeats:
            return
        meta = {**params.get("_meta", {}), **related(self.id)}  # TASKL-8
        params = {**params, "_meta": meta}
        if self._tasks.loop.on_loop():
            self._tasks.notify(self.id, method, params)
        else:
            self._tasks.loop.soon(lambda: self._tasks.notify(self.id, method, params))

    @property
    def _repeats(self) -> bool:
        return self._run is not None and self._run.repeats

    def _note(self, message: str) -> None:
        """Write a progress message to the record, soon. From any thread."""
        if self._repeats:
            return  # the record has a later message
        self._message = truncate(message, MAX_MESSAGE)
        if not self._noting:
            self._noting = True
            self._tasks.loop.soon(lambda: self._tasks.loop.start(self._write_notes()))

    async def _write_notes(self) -> None:
        written: str | None = None
        try:
            while written != self._message and not self.ended.is_set() and not self._lost:
                written = self._message
                note = partial(record.note, attempt=self.number, message=written or "")
                await self._change(note)
                with anyio.move_on_after(_NOTE_S):
                    await self.ended.wait()
        except Exception:
            log.exception("the progress of the task %s could not be stored", self.id)
        finally:
            self._noting = False

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the lowest log level to send; None: nothing."""
        # Each session knows the log level of its client.
        return 0 if request.revision.tasks == "client" else None


def _call_of(tasks: TaskService, task: Task) -> tuple[Mapping[str, Any], Request]:
    """Return the call that created a task, and its request; `OtherSecret` if it is unreadable."""
    try:
        call = tasks.call_of(task)
        return call, _request_of(call)
    except (ValueError, TypeError, KeyError):
        raise OtherSecret from None


def unfit(server: Server, tasks: TaskService, task: Task) -> str | None:
    """Return why a task cannot be run by a server; None if it can."""
    if task.is_call:
        return None
    call, _ = _call_of(tasks, task)
    tool = server.registry.tools.get(call["tool"])
    if tool is None:
        return f"Unknown tool: {truncate(call['tool'])}"
    try:
        tool.accepts.validate(call["arguments"])
    except InvalidArguments as error:
        return f"Invalid arguments for {tool.name}: {error}"
    except Exception:  # the call itself reports it
        return None
    return None


def _request_of(call: Mapping[str, Any]) -> Request:
    """Return the request that created a task."""
    revision = BY_VERSION[call["revision"]]
    capabilities, info = call["client"]
    found = call["principal"]
    principal = None
    if found is not None:
        # Records of an earlier version do not have the last two.
        id, scopes, expires_at, claims, *more = found
        issuer, client_id = more or (None, None)
        principal = Principal(
            id, frozenset(scopes), expires_at, claims, issuer=issuer, client_id=client_id
        )
    return Request(
        call["id"],
        "tools/call",
        revision.methods["tools/call"],
        {"name": call["tool"], "arguments": call["arguments"]},
        call["meta"],
        revision,
        ClientProfile(capabilities, info),
        call["log_level"],
        origin=StoredSource(principal, call["holder"]),
    )


class AppTasks:
    """The tasks of an app, for its own code: ``app.tasks``."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def start(
        self,
        tool: str | Callable[..., Any],
        arguments: Mapping[str, Any] | None = None,
        *,
        ctx: Context[Any] | None = None,
        principal: Principal | str | None = None,
        ttl: float | None = None,
    ) -> str:
        """Start a task without a call of a client, from anywhere on an event loop of the app.

        Args:
            tool: The name of a tool, or its function.
            arguments: The arguments, as a client would send them.
            ctx: The context of the request on whose behalf the task runs: its client owns the task,
                can be asked for input, can look at it and cancel it. Without one, the task cannot
                ask for input.
            principal: The owner of the task, if there is no `ctx`.
            ttl: Seconds that the task is stored; None: the setting of the tool or the app.

        Returns:
            The id by which clients of 2026-07-28 know it (those of `ctx`, if that is older).

        Raises:
            ValueError: There is no such tool, or it does not run as a task.
            RuntimeError: The app is not served on this event loop.
            ProtocolError: There are too many tasks, or the store is unavailable.
        """
        services = next((each for each in self._server.all_services if each.loop.on_loop()), None)
        if services is None:
            raise RuntimeError("the app is not served on this event loop; start tasks where it is")
        tools = self._server.registry.tools
        entry = (
            tools.get(tool)
            if isinstance(tool, str)
            else next((each for each in tools.values() if each.plan.fn is tool), None)
        )
        if entry is None:
            raise ValueError(f"the app has no tool {tool!r}")
        if support_of(entry).mode == "forbidden":
            raise ValueError(f'the tool {entry.name} does not run as a task; add task="optional"')
        if isinstance(principal, str):
            principal = Principal(principal)
        if ctx is None:
            request = _request_without_call(
                UNKNOWN_CLIENT,
                StoredSource(principal, principal_owner(principal.id) if principal else ANONYMOUS),
            )
        elif ctx.request.revision.tasks == "none":
            request = _request_without_call(ctx.request.client, ctx.request.origin)
        else:
            request = ctx.request
        tasks: TaskService = services.get(TASKS_EXTENSION)
        task = await tasks.begin(
            *(entry.name, arguments or {}, request),
            ttl=ttl,
            tool_ttl=support_of(entry).ttl,
            by_arguments=entry.allow is not None,
            given={},
        )
        return task.id


def _request_without_call(client: ClientProfile, origin: RequestSource | None) -> Request:
    """Return a request that stands for the missing call of a task."""
    revision = PER_REQUEST[-1]
    known = revision.methods["tools/call"]
    return Request("", "tools/call", known, {}, {}, revision, client, origin=origin)
