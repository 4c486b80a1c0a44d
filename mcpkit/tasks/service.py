"""The tasks of a server, as one process knows them: begun, watched, answered, cancelled, worked on.

The store has the tasks; here is who waits for them. Nothing here is begun before the first task,
unless others may have left some in the store.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from pydantic_core import to_json, to_jsonable_python

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import Request
from mcpkit._utils.logs import get_logger
from mcpkit._utils.text import quote_name
from mcpkit.errors import InternalError, InvalidParams, ProtocolError
from mcpkit.tasks import record
from mcpkit.tasks.engine import GLANCE_S, LeaseEngine, RunningLeg
from mcpkit.tasks.options import TaskSettings
from mcpkit.tasks.protocol import owner_name
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Position, StoreUnavailable, TaskStore, TooManyTasks
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit._concurrency.threads import Threads

__all__ = ["StoredSource", "TaskListener", "TaskService", "TaskWaiter"]

log: Final = get_logger("mcpkit")

_AWAY: Final = "The tasks of this server cannot be reached at the moment; ask again later"
_BURST: Final = 100
"""Looks at one task that may come at once."""

_LOOKS: Final = 10
"""Looks at one task that may come in the time in which one should."""

_LAYOUT: Final = 1

_SEEN: Final = ("status", "message", "open", "updated")
"""What clients see of a task as long as it is not over."""


class TaskListener(Protocol):
    """Somebody who tells a client about tasks."""

    def task_changed(self, task: Task) -> None:
        """A task has changed."""
        ...

    def task_said(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """The handler of a task has something to tell beside its result."""
        ...

    def task_gone(self, id: str) -> None:
        """There is no such task, or its time is over; nothing more is told of it."""
        ...


class TaskWaiter:
    """Waits for changes of one task. What has changed since the last wait ends the next at once."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def task_changed(self, task: Task) -> None:
        """End the wait."""
        del task
        self._changed.set()

    def task_said(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Do nothing: the task is as it was."""

    def task_gone(self, id: str) -> None:
        """End the wait."""
        del id
        self._changed.set()

    async def wait(self) -> None:
        """Wait until the task may have changed."""
        with anyio.move_on_after(GLANCE_S):
            await self._changed.wait()
        self._changed = anyio.Event()


class StoredSource:
    """The origin of a task's call, read from the store.

    Args:
        principal: The caller.
        owner: The owner of what it makes the server keep.
    """

    http: Any = None

    def __init__(self, principal: Principal | None, owner: str) -> None:
        self.principal = principal
        self.owner = owner


class _Opening:
    """The opening of a store, which several wait for."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: Exception | None = None


class TaskService:
    """The tasks of a server in one process.

    Args:
        settings: How tasks are stored and run.
        loop: The event loop that runs them.
        threads: The worker threads of their handlers; calls have others, which tasks cannot occupy.
        make_store: Makes the store, when it is first needed.
        seal: Encrypts bytes that are stored.
        open: Decrypts them. Raises `SealBroken` if they were sealed with another secret, or
            changed.
        run_task: Makes the run of a claimed task.
    """

    def __init__(
        self,
        settings: TaskSettings,
        loop: Loop,
        threads: Threads,
        *,
        make_store: Callable[[], TaskStore],
        seal: Callable[[bytes], bytes],
        open: Callable[[bytes], bytes],
        run_task: Callable[[Task], RunningLeg],
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.threads = threads
        self.seal = seal
        self.open = open
        self.is_closing = False
        self._make_store = make_store
        self._store: TaskStore | None = None
        self._opening: _Opening | None = None
        self._stop: list[Callable[[], object]] = []
        self._followers: dict[str, list[TaskListener]] = {}
        self._told: dict[str, Task] = {}
        """What the followers of each task have been told last."""
        self._dispatcher: LeaseEngine | None = None
        self._looking: Callable[[], object] | None = None
        self._looks_again = False
        self._is_away = False
        self._is_closed = False
        self._polls: dict[str, tuple[float, float]] = {}
        self._run_task = run_task

    # --- coming and going -------------------------------------------------------------------------

    def serve(self) -> None:
        """Run the tasks that are due in the store.

        Raises:
            ImportError: The library of the database is not installed.
        """
        store = self._make_store()  # so that a missing library is reported now
        self._make_store = lambda: store
        self._stop.append(self.loop.start(self._begin_to_serve()))

    async def _begin_to_serve(self) -> None:
        while not self.is_closing:
            try:
                await self.store()
            except StoreUnavailable:
                await anyio.sleep(GLANCE_S)
            except Exception:
                log.exception("tasks cannot be kept")
                return
            else:
                return

    async def store(self) -> TaskStore:
        """Return the store, which is open.

        Raises:
            StoreUnavailable: It cannot be used.
        """
        if self._store is not None:
            return self._store
        opening = self._opening
        if opening is None:
            if self.is_closing:
                raise StoreUnavailable("the server ends")
            # In a task of its own: whoever needs it may be cancelled, and it would be half open.
            opening = self._opening = _Opening()
            self.loop.start(self._open(opening))
        await opening.done.wait()
        if opening.error is not None:
            raise opening.error
        assert self._store is not None
        return self._store

    async def _open(self, opening: _Opening) -> None:
        try:
            store = self._make_store()
            await store.open(os.urandom(12).hex(), self._heard)
        except Exception as error:
            opening.error = error
            if isinstance(error, StoreUnavailable):
                self._note_away(error)
        else:
            self._store = store
            self._is_away = False
            dispatcher = self._dispatcher = LeaseEngine(
                store, self.settings, self._note_reached, self._look_at_followed
            )
            self._stop.append(self.loop.start(dispatcher.serve(self._run_task)))
            self._stop.append(self.loop.start(dispatcher.keep()))
        finally:
            self._opening = None
            opening.done.set()

    async def aclose(self, grace: float = 0) -> None:
        """Stop the legs that run, and give back their tasks.

        Args:
            grace: Seconds that those have which no other process could go on with.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._dispatcher is not None and grace > 0:
            with anyio.CancelScope(shield=True):
                await self._dispatcher.finish(grace)
        self.is_closing = True
        if self._opening is not None:
            with anyio.CancelScope(shield=True):
                await self._opening.done.wait()
        if self._looking is not None:
            self._looking()
        with anyio.CancelScope(shield=True):
            if self._dispatcher is not None:
                await self._dispatcher.aclose()
            for stop in self._stop:
                stop()
            if self._store is not None:
                try:
                    await self._store.aclose()
                except StoreUnavailable as error:
                    self._note_away(error)
                self._store = None

    def _note_reached(self, error: StoreUnavailable | None) -> None:
        if error is None:
            self._is_away = False
        else:
            self._note_away(error)

    def _note_away(self, error: StoreUnavailable) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("tasks cannot be reached: %s", error)

    @property
    def outlive_process(self) -> bool:
        """True if other processes go on with what this one leaves."""
        return self._store is not None and self._store.is_shared

    def owner_of(self, request: Request) -> str:
        """Return the name of whoever the tasks of a request belong to."""
        principal = request.principal
        return owner_name(request.revision, None if principal is None else principal.id)

    # --- what clients do --------------------------------------------------------------------------

    async def begin(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        request: Request,
        *,
        ttl: float | None = None,
        tool_ttl: float | None = None,
        given: Mapping[str, tuple[str, Any]],
    ) -> Task:
        """Make a task of a call.

        Args:
            tool_name: The tool that is called.
            arguments: As they were sent.
            request: The call.
            ttl: Seconds for which the client wants the task to be kept; None if it does not say.
            tool_ttl: Those that the tool says.
            given: Answers that the call brings along: key → fingerprint, and the result.

        Raises:
            ProtocolError: There are too many, the arguments are too long, or the store is away.
        """
        principal, origin = request.principal, request.origin
        call = to_json(
            {
                "layout": _LAYOUT,
                "tool": tool_name,
                "arguments": arguments,
                "revision": request.revision.version,
                "client": [request.client.capabilities, request.client.info],
                "meta": request.meta,
                "log_level": request.log_level,
                "id": request.id,
                "holder": "" if origin is None else origin.owner,
                "principal": None
                if principal is None
                else [
                    principal.id,
                    sorted(principal.scopes),
                    principal.expires_at,
                    to_jsonable_python(principal.claims, fallback=str),
                    principal.issuer,
                    principal.client_id,
                ],
                "given": given,
            }
        )
        if len(call) > self.settings.max_bytes:
            raise InvalidParams(f"The call has more than {self.settings.max_bytes} bytes")
        default = self.settings.ttl if tool_ttl is None else tool_ttl
        task = Task(
            id=secrets.token_hex(24),
            owner=self.owner_of(request),
            call=self.seal(call),
            ttl=self.settings.granted(ttl, default),
        )
        most, most_each = self.settings.max_tasks, self.settings.max_tasks_each
        async with self._reached() as store:
            add = partial(store.add, task, most=most, most_of_owner=most_each)
            try:
                try:
                    added = await add()
                except TooManyTasks:
                    if not await store.sweep():  # those whose time is over count until then
                        raise
                    added = await add()
            except TooManyTasks:
                raise InternalError("Too many tasks are unfinished; ask again later") from None
        if self._dispatcher is not None:
            self._dispatcher.due(added.id)
        return added

    async def get(self, id: str, owner: str, *, polled: bool = False) -> Task:
        """Return a task.

        Args:
            id: As the client has it.
            owner: Whoever asks.
            polled: True to count this as a look of the client's own.

        Raises:
            InvalidParams: There is none, its time is over, or it is somebody else's (TASKL-12).
            ProtocolError: The client looks too often, or the store is away.
        """
        if polled:
            self._count_look(id)
        async with self._reached() as store:
            task = await store.get(id)
        if task is None or task.owner != owner:
            raise InvalidParams(f"Unknown task: {quote_name(id)}")
        return task

    def _count_look(self, id: str) -> None:
        """Count a look at a task. Many more are let pass than clients should have a use for.

        Raises:
            ProtocolError: There were too many (TASKX-17).
        """
        now = monotonic()
        left, seen = self._polls.pop(id, (float(_BURST), now))
        left = min(_BURST, left + _LOOKS * (now - seen) / self.settings.poll_interval)
        self._polls[id] = max(0.0, left - 1), now
        if len(self._polls) > 2 * self.settings.max_tasks:
            del self._polls[next(iter(self._polls))]
        if left < 1:
            wait = self.settings.poll_interval
            raise InternalError(f"The task was asked for too often; ask every {wait:g} s")

    async def answer(self, id: str, owner: str, answers: Mapping[str, bytes]) -> None:
        """Answer questions of a task; those that nobody asks are passed over (TASKX-9).

        Raises:
            ProtocolError: As `get`.
        """
        task = await self.get(id, owner)
        sealed = {key: self.seal(answers[key]) for key in task.open if key in answers}
        size = sum(map(len, [*sealed.values(), *task.answers.values()]))
        if sealed and size > self.settings.max_bytes:
            raise InvalidParams(f"The answers have more than {self.settings.max_bytes} bytes")
        await self._change_as_client(id, lambda task, now: record.answer(task, sealed, now))

    async def cancel(self, id: str, owner: str) -> tuple[Task, bool]:
        """Cancel a task.

        Returns:
            The task, and False if it was over already.

        Raises:
            ProtocolError: As `get`.
        """
        task = await self.get(id, owner)
        changed = await self._change_as_client(id, record.cancel)
        return (task, False) if changed is None else (changed, True)

    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of whoever asks, the oldest first.

        Raises:
            ProtocolError: The store is away.
        """
        async with self._reached() as store:
            return await store.list(owner, after, most)

    async def _change_as_client(self, id: str, edit: Change) -> Task | None:
        async with self._reached():
            try:
                return await self.change(id, edit)
            except KeyError:
                raise InvalidParams(f"Unknown task: {quote_name(id)}") from None

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[TaskStore, None]:
        """Around the use of the store on behalf of a client.

        Raises:
            ProtocolError: It is away.
        """
        try:
            yield await self.store()
        except StoreUnavailable as error:
            self._note_away(error)
            raise InternalError(_AWAY) from error

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task, and tell those who follow it.

        Raises:
            KeyError: There is none.
            StoreUnavailable: The store is.
        """
        store = await self.store()
        changed = await store.change(id, edit)
        if changed is not None:
            self.publish(changed)
        return changed

    def answer_later(self, id: str, owner: str, answers: Mapping[str, bytes]) -> None:
        """Answer questions of a task that this process may not have put."""

        async def answer() -> None:
            try:
                await self.answer(id, owner, answers)
            except ProtocolError as error:
                log.warning("an answer for a task is lost: %s", error)

        self.loop.start(answer())

    # --- those who wait ---------------------------------------------------------------------------

    def follow(self, id: str, follower: TaskListener) -> None:
        """Tell somebody of a task from now on."""
        self._followers.setdefault(id, []).append(follower)

    def unfollow(self, id: str, follower: TaskListener) -> None:
        """Tell somebody no more; nothing happens if nobody did."""
        following = self._followers.get(id, [])
        if follower in following:
            following.remove(follower)
            if not following:
                self._forget(id)

    def _forget(self, id: str) -> Sequence[TaskListener]:
        self._told.pop(id, None)
        return self._followers.pop(id, ())

    @contextmanager
    def watching(self, id: str) -> Generator[TaskWaiter, None, None]:
        """Watch a task."""
        watch = TaskWaiter()
        self.follow(id, watch)
        try:
            yield watch
        finally:
            self.unfollow(id, watch)

    def publish(self, task: Task) -> None:
        """Tell those who follow a task that it has changed, and those who work on it or might."""
        if self._dispatcher is not None:
            self._dispatcher.stop(task)
            if task.due is not None and task.runner is None:
                self._dispatcher.due(task.id)
        following = self._followers.get(task.id)
        if following and _is_news(task, self._told.get(task.id)):
            self._told[task.id] = task
            for follower in list(following):
                follower.task_changed(task)

    def say(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Pass on what the handler of a task tells beside its result."""
        for follower in list(self._followers.get(id, ())):
            follower.task_said(id, method, params)

    def _heard(self, id: str | None) -> None:
        """Another process has changed something. From any thread."""
        self.loop.soon(lambda: self._look_soon(id))

    def _look_soon(self, id: str | None) -> None:
        if self.is_closing:
            return
        if self._dispatcher is not None:
            self._dispatcher.due(id or "")
        known = self._known()
        if known if id is None else id in known:
            self._looks_again = True
            if self._looking is None:
                self._looking = self.loop.start(self._look())

    def _known(self) -> Collection[str]:
        """Return the tasks that somebody here waits for, or works on."""
        return {*self._followers, *(self._dispatcher.ids if self._dispatcher is not None else ())}

    async def _look(self) -> None:
        """Look at every task that somebody here waits for, or works on."""
        took = 0.0
        try:
            while self._looks_again:
                # Changes come in crowds, and to look at many tasks takes its time.
                await anyio.sleep(max(0.01, took))
                self._looks_again = False
                begun = monotonic()
                try:
                    await self._look_at(self._known())
                except StoreUnavailable as error:
                    self._note_away(error)
                took = monotonic() - begun
        except Exception:
            log.exception("what others have changed could not be looked at")
        finally:
            self._looking = None

    async def _look_at(self, ids: Collection[str]) -> None:
        store = await self.store()
        for id in ids:
            task = await store.get(id)
            if task is not None:
                self.publish(task)
            else:
                for follower in self._forget(id):
                    follower.task_gone(id)

    # --- those who work ---------------------------------------------------------------------------

    def ended(self, leg: RunningLeg) -> None:
        """Note that a leg has ended."""
        if self._dispatcher is not None:
            self._dispatcher.ended(leg)

    async def _look_at_followed(self) -> None:
        await self._look_at([*self._followers])


def _is_news(task: Task, told: Task | None) -> bool:
    """Return True if those who follow a task should be told how it stands with it.

    Not, if they see no difference, or were told of a later state: two answers of a store may come
    in another order than they were given in.
    """
    if told is None:
        return True
    if _stage(task) < _stage(told):
        return False
    return any(getattr(task, name) != getattr(told, name) for name in _SEEN)


def _stage(task: Task) -> tuple[bool, int, bool, int]:
    """Return how far a task is, whatever the clock says: what only grows."""
    return task.is_over, task.leg, task.runner is None, -len(task.open)
