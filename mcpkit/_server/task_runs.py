"""A leg of a task: one run of its handler, from its start to its end or to a question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from pydantic_core import from_json

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads
from mcpkit._input_requests.rounds import Suspended
from mcpkit._input_requests.task_replay import TaskReplay
from mcpkit._protocol.connection import Request, RequestSource
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import BY_VERSION, PER_REQUEST, UNKNOWN_CLIENT, ClientProfile
from mcpkit._server.encoding import InputRequired, encode_result
from mcpkit._server.run import ABANDONED, Failure, Outcome, Run
from mcpkit._server.server import Server, log
from mcpkit._server.session import operations_of
from mcpkit._signature.output import Rendered
from mcpkit._stores.base import RecordStore, StoreUnavailable
from mcpkit._utils.sealing import SealBroken
from mcpkit._utils.text import truncate
from mcpkit.context import Context, CurrentTask
from mcpkit.errors import InternalError, ProtocolError
from mcpkit.middleware import Handler
from mcpkit.tasks import record
from mcpkit.tasks.protocol import related
from mcpkit.tasks.record import Task
from mcpkit.tasks.service import StoredSource, TaskService
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit._input_requests.asker import Requester

__all__ = ["AppTasks", "TaskRun", "serving_tasks"]

T = TypeVar("T")

_AGAIN_S: Final = 0.5
"""Seconds until a store that is away is asked again."""

_NOTE_S: Final = 1.0
"""Seconds between two notes of how far a task is."""

_LONGEST_NOTE: Final = 1000
_MOST_STEPS: Final = 1000

_CUT_OFF: Final = (
    "The process that worked on the task has ended, and the tool is not one that may be run again"
)


class TaskRun:
    """A leg of a task, which is to its run what a session is to the run of a request.

    Args:
        server: With its tasks.
        tasks: Of the process.
        task: As it was claimed.
    """

    def __init__(self, server: Server, tasks: TaskService, task: Task) -> None:
        self._server = server
        self.id = task.id
        self.number = task.attempt
        self.ended = anyio.Event()
        self.task = CurrentTask(task.id, task.expires, self._note)
        self._task = task
        self._tasks = tasks
        self._run: Run | None = None
        self._outcome: Outcome = ABANDONED
        self._cancel: Callable[[], object] = _not_begun
        self._lost = False
        self._message: str | None = None
        self._noting = False
        self._log_threshold: int | None = None
        self._steps = 0
        self._resumable = False

    # --- to the end -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to work."""
        self._cancel = self._tasks.loop.start(self._live())

    def stop(self) -> None:
        """End the work: the process ends, or the leg is lost."""
        if self._run is not None:
            self._run.stop()
        self._cancel()

    @property
    def may_go_on(self) -> bool:
        """True if another process may go on where this one stops."""
        return self._resumable and self._tasks.outlive_process

    def lose(self) -> None:
        """The leg is not the task's own any more, which was cancelled or is somebody else's."""
        if not self._lost:
            self._lost = True
            self.stop()

    async def _live(self) -> None:
        try:
            await self._work()
        except Exception:
            log.exception("a leg of the task %s could not be run", self.id)
        finally:
            self.ended.set()
            self._tasks.ended(self)

    async def _work(self) -> None:
        task = self._task
        if task.crashes > record.MAX_CRASHES:
            times = task.crashes - 1
            await self._fail(InternalError(f"The work has ended its process {times} times"))
            return
        try:
            call: dict[str, Any] = from_json(self._tasks.open(task.call))
            request = _request_of(call)
            asks, answers = self._opened(task.input_requests), self._opened(task.answers)
            steps: Mapping[str, bytes] = {}
            if task.attempt > 1:
                store = await self._tasks.store()
                steps = self._opened(await self._persist(store.steps, task.id))
        except (SealBroken, ValueError, KeyError):
            await self._fail(InternalError("The task was made with another secret, or changed"))
            return
        server = self._server.view_for(request)
        tool = server.catalog.tools.get(call["tool"])
        if task.starts > 1 and (tool is None or not tool.resumable):
            await self._fail(InternalError(_CUT_OFF))
            return
        if request.revision.tasks == "wished":
            self._log_threshold = 0  # each session knows what its client wants
        self._resumable = tool is not None and tool.resumable
        given = {key: (mark, result) for key, (mark, result) in call["given"].items()}
        self._steps = len(steps)
        run = self._run = Run(self, server, request)
        run.asker = TaskReplay(request, asks, answers, given, steps, self._remember)
        operation = operations_of(server)[request.known.operation]
        await run.finish(_begun(operation, run), self._note_outcome)
        await self._conclude(run, self._outcome)

    def _opened(self, kept: Mapping[str, bytes]) -> dict[str, bytes]:
        return {key: self._tasks.open(value) for key, value in kept.items()}

    def _note_outcome(self, run: Run, outcome: Outcome) -> None:
        run.is_over = True
        self._outcome = outcome

    async def _conclude(self, run: Run, outcome: Outcome) -> None:
        """Write down how the leg has ended."""
        if outcome is ABANDONED or self._lost:
            return
        request, leg = run.request, self.number
        if type(outcome) is InputRequired:
            asks = {key: self._tasks.seal(each) for key, each in outcome.asked.items()}
            most, message = self._tasks.settings.max_bytes, self._message
            if sum(map(len, [*asks.values(), *self._task.input_requests.values()])) > most:
                await self._fail(InternalError(f"The questions have more than {most} bytes"))
                return
            await self._change(lambda task, now: record.park(task, leg, asks, now, message))
            return
        text = b""
        if type(outcome) is not Failure:
            try:
                text = encode_result(run.server, request, outcome, private=True)
            except Exception as error:  # the value holds what JSON cannot carry
                outcome = run.failed(error)
            else:
                if len(text) > self._tasks.settings.max_bytes:
                    most = self._tasks.settings.max_bytes
                    outcome = Failure(InternalError(f"The result has more than {most} bytes"))
        if type(outcome) is Failure:
            await self._fail(outcome.error)
            return
        failed = isinstance(outcome, Rendered) and outcome.is_error
        # TASKL-7 and TASKX-8: the shapes do not agree on what has failed.
        status: record.Outcome = (
            "failed" if failed and request.revision.tasks == "wished" else "completed"
        )
        await self._finish(status, b"r" + text, self._message)

    async def _fail(self, error: ProtocolError) -> None:
        message = truncate(error.message, _LONGEST_NOTE)
        await self._finish("failed", b"e" + encode(error.to_wire()), message)

    async def _finish(self, status: record.Outcome, outcome: bytes, message: str | None) -> None:
        leg, sealed = self.number, self._tasks.seal(outcome)
        await self._change(lambda task, now: record.finish(task, leg, status, sealed, now, message))

    async def _change(self, edit: Callable[[Task, float], Task | None]) -> None:
        try:
            await self._persist(self._tasks.change, self.id, edit)
        except KeyError:
            pass  # its time is over

    async def _persist(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Use the store, however often it is away: until the leg is lost."""
        while True:
            try:
                return await function(*args)
            except StoreUnavailable:
                await anyio.sleep(_AGAIN_S)

    # --- what a run asks of its session -----------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        """True if the process ends."""
        return self._tasks.is_closing

    @property
    def threads(self) -> Threads:
        """The threads of the server's tasks."""
        return self._tasks.threads

    def make_requester(self, request: Request) -> Requester:
        """Return how the leg asks."""
        raise AssertionError(f"{request} has one")

    async def _remember(self, place: str, value: bytes) -> bytes:
        most = self._tasks.settings.max_bytes
        if len(value) > most:
            raise ValueError(f"the result of the step {place!r} has more than {most} bytes")
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ValueError(f"a task has at most {_MOST_STEPS} steps")
        store = await self._tasks.store()
        sealed = self._tasks.seal(value)
        kept = await self._persist(store.remember, self.id, self.number, place, sealed)
        if kept is None:
            self.lose()
            # A thread, and a handler that cleans up, is not stopped by that.
            raise Suspended
        return self._tasks.open(kept)

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Tell the client something, if it is there, and of a revision that is told. Any thread."""
        if request.revision.tasks != "wished" or self._repeats:
            return
        about = {**params, "_meta": {**params.get("_meta", {}), **related(self.id)}}  # TASKL-8
        if self._tasks.loop.on_loop():
            self._tasks.say(self.id, method, about)
        else:
            self._tasks.loop.soon(lambda: self._tasks.say(self.id, method, about))

    @property
    def _repeats(self) -> bool:
        return self._run is not None and self._run.repeats

    def _note(self, message: str) -> None:
        """Note how far the task is, for clients that look at it. From any thread."""
        if self._repeats:
            return  # it would go back
        self._message = truncate(message, _LONGEST_NOTE)
        if not self._noting:
            self._noting = True
            self._tasks.loop.soon(self._begin_noting)

    def _begin_noting(self) -> None:
        if not self.ended.is_set():
            self._tasks.loop.start(self._write_notes())

    async def _write_notes(self) -> None:
        written: str | None = None
        try:
            while written != self._message and not self.ended.is_set() and not self._lost:
                written = self._message
                await self._change(partial(_noted, self.number, written or ""))
                with anyio.move_on_after(_NOTE_S):
                    await self.ended.wait()
        except Exception:
            log.exception("how far the task %s is could not be noted", self.id)
        finally:
            self._noting = False

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the least log level to send."""
        del request
        return self._log_threshold

    async def drain(self, request: Request) -> None:
        """Return at once: nobody is waited for."""

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Do nothing: the answer has long been given."""

    def handler_raised(self, request: Request, error: BaseException) -> None:
        """Drop the exception behind a failure, which is in the log."""

    def announce_task(self, id: str) -> None:
        """Do nothing: tasks begin no tasks by calls."""

    def attach_task(self, id: str, request: Request) -> AbstractContextManager[object]:
        """Do nothing: no task waits for another one by a request."""
        del id, request
        return nullcontext()

    def on_roots_changed(self, handler: Callable[..., object]) -> None:
        """Do nothing: the client of a task may not be there."""


def _request_of(call: Mapping[str, Any]) -> Request:
    """Return the request that a task has begun with."""
    revision = BY_VERSION[call["revision"]]
    capabilities, info = call["client"]
    found = call["principal"]
    principal = None
    if found is not None:
        # Tasks that were begun by an earlier version do not say the last two.
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


async def _begun(operation: Handler[Server], run: Run) -> Any:
    return await operation(run.server, run.request.params, Context(run))


def _noted(leg: int, message: str, task: Task, now: float) -> Task | None:
    return record.note(task, leg, message, now)


def _not_begun() -> None:
    """Stop nothing: the leg has not begun."""


def _store_maker(server: Server) -> Callable[[], RecordStore[Task]]:
    store = server.settings.tasks.store
    if store is None:
        from mcpkit._stores.memory import MemoryStore, Table

        if not server.shelf:
            server.shelf.append(Table[Task]())
        return lambda: MemoryStore(server.shelf[0])
    if not isinstance(store, str):
        return store
    from mcpkit._stores import make_store

    return lambda: make_store(store, server.info.name)


def _seals(server: Server) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """Return the functions that seal and open what is stored, if the server has a secret."""
    if not server.settings.secrets or server.settings.tasks.store is None:
        return bytes, bytes
    sealer = server.sealer("tasks")
    return (
        lambda value: sealer.seal(value).encode("ascii"),
        lambda sealed: sealer.open(sealed.decode("ascii")),
    )


@asynccontextmanager
async def serving_tasks(
    server: Server, loop: Loop
) -> AsyncGenerator[tuple[Server, TaskService], None]:
    """Look after the tasks of a server for as long as it is served.

    Args:
        server: With the state of its lifespan.
        loop: That it is served on.

    Yields:
        The server with its tasks, and these.
    """
    settings = server.settings
    seal, open = _seals(server)
    tasks = TaskService(
        settings.tasks,
        loop,
        Threads(loop, settings.max_threads),
        make_store=_store_maker(server),
        seal=seal,
        open=open,
        run_task=lambda task: TaskRun(served, tasks, task),
    )
    served = server.with_tasks(tasks)
    if settings.tasks.store is not None and "tasks" in server.catalog.advertised:
        tasks.serve()
    server.task_services.append(tasks)
    try:
        yield served, tasks
    finally:
        server.task_services.remove(tasks)
        await tasks.aclose()


class AppTasks:
    """The tasks of an app, for its own code.

    Args:
        server: Of the app.
    """

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
        """Begin a task that no client has called for, from anywhere on an event loop of the app.

        Args:
            tool: The name of a tool, or its function.
            arguments: As a client would send them.
            ctx: Of the request on whose behalf it is begun: the task is then its client's, which
                can be asked, look at it and cancel it. Without one nobody can be asked.
            principal: Whose task it is, if there is no `ctx`.
            ttl: Seconds for which it is kept; what the tool or the app says if None.

        Returns:
            The id, which clients of 2026-07-28 know it by (those of `ctx`, if that is older).

        Raises:
            ValueError: There is no such tool, or it does not run as a task.
            RuntimeError: The app is not served on this event loop.
            ProtocolError: There are too many tasks, or they cannot be kept.
        """
        found = next((each for each in self._server.task_services if each.loop.on_loop()), None)
        if found is None:
            raise RuntimeError("the app is not served on this event loop, so nothing can be begun")
        tools = self._server.registry.tools
        named_or_made = (
            tools.get(tool)
            if isinstance(tool, str)
            else next((each for each in tools.values() if each.function is tool), None)
        )
        if named_or_made is None:
            raise ValueError(f"the app has no tool {tool!r}")
        if named_or_made.task == "forbidden":
            raise ValueError(
                f'the tool {named_or_made.name} does not run as a task; add task="optional"'
            )
        if isinstance(principal, str):
            principal = Principal(principal)
        if ctx is None:
            request = _request_without_call(
                UNKNOWN_CLIENT, StoredSource(principal, principal.id if principal else "")
            )
        elif ctx.request.revision.tasks == "none":
            request = _request_without_call(ctx.request.client, ctx.request.origin)
        else:
            request = ctx.request
        task = await found.begin(
            named_or_made.name,
            arguments or {},
            request,
            ttl=ttl,
            tool_ttl=named_or_made.task_ttl,
            given={},
        )
        return task.id


def _request_without_call(client: ClientProfile, origin: RequestSource | None) -> Request:
    """Return the request that a task without a call seems to have begun with."""
    revision = PER_REQUEST[-1]
    known = revision.methods["tools/call"]
    return Request("", "tools/call", known, {}, {}, revision, client, origin=origin)
