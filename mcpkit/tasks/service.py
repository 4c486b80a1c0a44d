"""TaskService: the tasks of a server in one process, begun, watched, answered and cancelled.

The store has the tasks; here are those who wait for them. Nothing is opened before the first task,
unless other processes may have left some in the store.

The record of a task is the truth, and the number of its attempt fences off all others: whatever a
process does wrong, an attempt without the lease changes nothing.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple

import anyio
from pydantic_core import from_json, to_json, to_jsonable_python

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads
from mcpkit._protocol.connection import TASKS_EXTENSION, Request, RequestSource
from mcpkit._server.operations import Reading
from mcpkit._server.server import Server
from mcpkit._stores import make_store
from mcpkit._stores.base import StoreUnavailable, TooManyRecords
from mcpkit._stores.connections import LoopThread
from mcpkit._utils.logs import log
from mcpkit._utils.quota import RateLimit
from mcpkit._utils.sealing import SealBroken, Sealer
from mcpkit._utils.text import quote_name
from mcpkit.errors import (
    Forbidden,
    InternalError,
    InvalidArguments,
    InvalidParams,
    ProtocolError,
)
from mcpkit.tasks import record, transitions
from mcpkit.tasks.options import TaskSettings
from mcpkit.tasks.protocol import caller_name, outcome_field, owner_name
from mcpkit.tasks.record import Admit, Task
from mcpkit.tasks.runs import POLL_S, RETRY_S, RunningTask, Runs
from mcpkit.tasks.shares import Choice, OtherSecret, StoredBytes
from mcpkit.tasks.transitions import CODEC, Change, TaskStore
from mcpkit.types import Principal

_SWEEP_S: Final = 60.0
"""Seconds between two deletions of expired tasks."""

_CLEAN_UP_S: Final = 2.0
"""Seconds in which attempts can end when the process does."""

_UNAVAILABLE: Final = "The tasks of this server are unavailable at the moment; try again later"
_LONGEST_WAIT_S: Final = 30.0
"""Seconds after which a request that waits for a task reads it, even if nothing has changed."""

_POLL_BURST: Final = 100
"""Polls of one task that may come at once."""

_POLLS: Final = 10
"""Polls of one task per poll interval."""

_ID: Final = re.compile("[0-9a-f]{48}")
"""The ids of tasks: nothing else is looked up."""

_LAYOUT: Final = 1
"""The layout of a stored call."""

_VISIBLE: Final = ("status", "message", "open", "updated")
"""The fields of an unfinished task that clients see."""


class Unavailable(InternalError):
    """The store cannot be read or written at the moment."""


class TaskListener:
    """Is notified of tasks."""

    def task_changed(self, task: Task) -> None:
        """A task has changed."""

    def task_notifies(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """The handler of a task sends a notification."""


class TaskWaiter(TaskListener):
    """Waits for changes of one task. A change since the last wait ends the next one at once."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def task_changed(self, task: Task) -> None:
        """End the wait."""
        self.wake()

    def wake(self) -> None:
        """End the wait: the task may have changed, or is gone."""
        self._changed.set()

    async def wait(self) -> None:
        """Wait until the task may have changed."""
        with anyio.move_on_after(_LONGEST_WAIT_S):
            await self._changed.wait()
        self._changed = anyio.Event()


class StoredSource(NamedTuple):
    """The origin of a task's call, read from the store."""

    principal: Principal | None
    owner: str
    http: Any = None


class TaskService:
    """The tasks of a server in one process.

    The store is made when it is first needed. For `run_task` see `Runs`, for `unfit` see `Choice`.
    """

    def __init__(
        self,
        server: Server,
        loop: Loop,
        run_task: Callable[[Task, str | None], RunningTask],
        unfit: Callable[[Task], str | None],
    ) -> None:
        settings: TaskSettings = server.settings.tasks or TaskSettings()
        self.settings = settings
        self.loop = loop
        self.threads = Threads(loop, server.settings.limits.max_threads)
        """For handlers of tasks; calls have others, which tasks cannot occupy."""
        is_sealed = bool(server.settings.secrets) and settings.store is not None
        self._sealer: Sealer | None = server.sealer("tasks") if is_sealed else None
        self._inject = server.observers.inject
        self.is_closing = False
        self._bytes = StoredBytes(settings.max_stored or 64 * settings.max_bytes, self.change)
        self.kept_calls = StoredBytes(settings.max_stored or 64 * settings.max_bytes, self.change)
        """The bytes of calls that have ended, which do not make room for others."""
        choice = Choice(settings.max_running, unfit, lambda: server.registry.version)
        self.runs = Runs(settings, loop, run_task, choice, self._note_reached)
        self._make_store: Callable[[], TaskStore] = partial(_make_store, server)
        self._store: TaskStore | None = None
        self._opened: anyio.Event | None = None
        """Set when the store is open, or cannot be opened; None if it is not being opened."""
        self._open_error: Exception | None = None
        self._cancel: list[Callable[[], object]] = []
        self._listeners: dict[str, list[TaskListener]] = {}
        """The listeners of each task, as often as they follow it."""
        self._notified: dict[str, Task] = {}
        """The last state of each task that its listeners know."""
        self._stale: set[str] = set()
        """The tasks that another process may have changed."""
        self._changed = anyio.Event()
        """Set when there are some."""
        self._awaited: Counter[str] = Counter()
        """The requests that wait for each task."""
        self._is_unavailable = False
        self.outages = 0  # that are over
        self._polls = RateLimit(_POLL_BURST, _POLLS / settings.poll_interval)

    # --- opening and closing ----------------------------------------------------------------------

    def serve(self) -> None:
        """Run the tasks that are due in the store; `ImportError` if its library is missing."""
        store = self._make_store()  # which reports a missing library now
        self._make_store = lambda: store
        self._cancel.append(self.loop.start(self._open_when_available()))

    async def _open_when_available(self) -> None:
        while self._store is None:
            try:
                await self.store()
            except StoreUnavailable:
                await anyio.sleep(POLL_S)
            except Exception:
                log.exception("tasks cannot be stored")
                return

    async def store(self) -> TaskStore:
        """Return the store, which is open; `StoreUnavailable` if it cannot be used."""
        if self._store is not None:
            return self._store
        opened = self._opened
        if opened is None:
            if self.is_closing:
                raise StoreUnavailable("the server is shutting down")
            # In a task of its own: a cancelled caller would leave the store half open.
            opened = self._opened = anyio.Event()
            self.loop.start(self._open(opened))
        await opened.wait()
        if self._store is None:
            raise self._open_error or StoreUnavailable("the server is shutting down")
        return self._store

    async def _open(self, opened: anyio.Event) -> None:
        try:
            store = self._make_store()
            await store.open(CODEC, os.urandom(12).hex(), self._on_change)
        except Exception as error:
            self._open_error = error
            if isinstance(error, StoreUnavailable):
                self._note_reached(error)
        else:
            self._store = store
            self._note_reached(None)
            for work in (self.runs.run_due(store), self._sweep(store), self._refresh(store)):
                self._cancel.append(self.loop.start(work))
            thread = LoopThread("mcpkit-leases")
            thread.start(self.runs.keep_leases(store))
            self._cancel.append(thread.stop)
        finally:
            self._opened = None
            opened.set()

    async def aclose(self, grace: float = 0) -> None:
        """Stop the tasks that run; those that no other process can continue have some seconds."""
        if self.is_closing:
            return
        with anyio.CancelScope(shield=True):
            if grace > 0:
                await self.runs.stop(grace, only_shared=True)
            self.is_closing = True
            if self._opened is not None:
                await self._opened.wait()
            await self.runs.stop(_CLEAN_UP_S)
            for cancel in self._cancel:
                cancel()
            if self._store is not None:
                try:
                    await transitions.close(self._store)
                except StoreUnavailable as error:
                    self._note_reached(error)
                self._store = None

    def read(self) -> Iterator[Reading]:
        """Yield how many tasks run here, and how many of them wait for their clients."""
        running = list(self.runs.running)  # OpenTelemetry reads in a thread of its own
        asking = sum(each.is_suspended for each in running)
        yield Reading("mcpkit.tasks", len(running) - asking, {"state": "working"})
        yield Reading("mcpkit.tasks", asking, {"state": "input_required"})

    async def check_store(self) -> None:
        """Read from the store. Raises an exception if it cannot be reached."""
        async with self.reached() as store:
            await store.get("")

    def _note_reached(self, error: StoreUnavailable | None) -> None:
        if error is not None and not self._is_unavailable:
            log.warning("tasks are unavailable: %s", error)
        elif error is None and self._is_unavailable:  # answers may have been lost
            self.outages += 1
            self._notified.clear()
            self._changed_elsewhere(None)
        self._is_unavailable = error is not None

    @property
    def outlive_process(self) -> bool:
        """True if other processes continue the tasks that this one leaves."""
        return self._store is not None and self._store.is_shared

    # --- sealed fields ----------------------------------------------------------------------------
    # A value of one field of a task and its owner cannot be opened as that of another.

    def seal(self, task: Task, value: bytes, *field: str) -> bytes:
        """Return a value sealed for a field of a task, such as ``"answer", key``."""
        if self._sealer is None:
            return value
        return self._sealer.seal(value, task.id, task.owner, *field).encode("ascii")

    def open(self, task: Task, value: bytes, *field: str) -> bytes:
        """Return a value that was sealed for a field of a task; `OtherSecret` if it cannot be."""
        if self._sealer is None:
            return value
        try:
            return self._sealer.open(value.decode("ascii"), task.id, task.owner, *field)
        except (SealBroken, ValueError):
            raise OtherSecret from None

    def call_of(self, task: Task) -> dict[str, Any]:
        """Return the call of a task; `OtherSecret` if it cannot be opened."""
        call: dict[str, Any] = from_json(self.open(task, task.call, "call"))
        return call

    def ended_call(self, task: Task) -> bytes | None:
        """Return what a task that ends keeps of its call; None: all."""
        if not task.tool:
            return None
        # Processes of an earlier version look here for the tool.
        call: Any = {"layout": _LAYOUT, "tool": task.tool, "arguments": {}}
        return self.seal(task, to_json(call), "call")

    # --- operations of clients --------------------------------------------------------------------
    # They raise a `ProtocolError` while the store is unavailable.

    def owner_of(self, request: Request, shape: str | None = None) -> str:
        """Return the owner of the tasks of a request; those of a `shape` are not for clients."""
        principal = request.principal
        shape = shape or request.revision.tasks
        return owner_name(shape, None if principal is None else principal.id)

    async def begin(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        request: Request,
        *,
        ttl: float | None = None,
        tool_ttl: float | None = None,
        by_arguments: bool = False,
        given: Mapping[str, tuple[str, Any]],
        rest: bytes | None = None,
    ) -> Task:
        """Make a task of a call.

        `ttl` and `tool_ttl` are the seconds for which the client, and the tool, want it to be
        stored; `by_arguments` is true if the tool has ``allow=``; `given` are the answers that came
        with the call, by key: the fingerprint of the question, and the result. With the `rest` of a
        result this makes the record of a call that has ended, which clients cannot list.
        """
        origin, principal, stored_principal = request.origin, request.principal, None
        if principal is not None:
            stored_principal = [
                *(principal.id, sorted(principal.scopes), principal.expires_at),
                to_jsonable_python(principal.claims, fallback=str),
                *(principal.issuer, principal.client_id),
            ]
        call = to_json(
            {
                "layout": _LAYOUT,
                "tool": tool_name,
                "arguments": arguments,
                "revision": request.revision.version,
                "client": [request.client.capabilities, request.client.info],
                "meta": self._inject(request.meta),
                "log_level": request.log_level,
                "id": request.id,
                "holder": "" if origin is None else origin.owner,
                "principal": stored_principal,
                "given": given,
            }
        )
        if len(call) > self.settings.max_bytes:
            raise InvalidParams(f"The call has more than {self.settings.max_bytes} bytes")
        default = self.settings.ttl if tool_ttl is None else tool_ttl
        task = Task(
            id=secrets.token_hex(24),
            owner=self.owner_of(request, None if rest is None else "results"),
            caller=caller_name("" if origin is None else origin.owner),
            tool="" if by_arguments else tool_name,
            call=b"",
            ttl=self.settings.granted(ttl, default),
        )
        task = replace(task, call=self.seal(task, call, "call"))
        if rest is None:
            self.runs.choice.made(task)
        else:
            task = replace(task, caller=task.caller or task.owner, status="completed")
            task = replace(task, outcome=self.seal(task, rest, *outcome_field(task)))
        limit, limit_per_holder = self.settings.max_tasks, self.settings.max_tasks_each
        async with self.reached() as store:
            while True:
                try:
                    if not await self._bytes.make_room(task.caller, task.size):
                        raise TooManyRecords
                    task = await transitions.add(
                        store, task, limit=limit, limit_per_holder=limit_per_holder
                    )
                    break
                except TooManyRecords:
                    if not await store.sweep():  # expired tasks count until then
                        raise InternalError(
                            "Too many tasks are unfinished, or they are too large; try again later"
                        ) from None
        self._bytes.note(task)
        self.runs.wake()
        return task

    async def get(self, id: str, owner: str, *, polled: bool = False) -> Task:
        """Return a task; `polled` counts this as a poll of the client (TASKX-17).

        Raises `InvalidParams` if there is none, or it has another owner (TASKL-12).
        """
        if _ID.fullmatch(id) is None:
            raise InvalidParams(f"Unknown task: {quote_name(id)}")
        if polled and self._polls.take(id):
            interval = f"{self.settings.poll_interval:g} s"
            raise InternalError(f"The task was polled too often; wait {interval} between polls")
        async with self.reached() as store:
            task = await store.get(id)
        if task is None or task.owner != owner:
            raise InvalidParams(f"Unknown task: {quote_name(id)}")
        return task

    async def answer(
        self, id: str, owner: str, answers: Mapping[str, bytes], admit: Admit | None = None
    ) -> None:
        """Answer questions of a task. Answers without an open question are ignored (TASKX-9).

        Raises `OtherSecret` if a question cannot be read here.
        """
        task = await self.get(id, owner)
        if admit is not None:
            await admit(task)
        sealed: dict[str, bytes] = {}
        for key in task.open:
            if key in answers:
                # Who cannot read the question would seal the answer with another secret, too.
                self.open(task, task.input_requests[key], "question", key)
                sealed[key] = self.seal(task, answers[key], "answer", key)
        size = sum(map(len, [*sealed.values(), *task.answers.values()]))
        if sealed and size > self.settings.max_bytes:
            raise InvalidParams(f"The answers have more than {self.settings.max_bytes} bytes")
        await self._change_as_client(id, lambda task, now: record.answer(task, sealed, now))

    async def admit(self, task: Task, server: Server, origin: RequestSource | None) -> None:
        """Raise `Forbidden` if a caller may not call the tool of a task as the task does."""
        if origin is None:
            return
        if not any(each.scopes or each.allow for each in server.registry.tools.values()):
            return
        call = None if task.tool else self.call_of(task)
        tool = server.catalog.tools.get(task.tool if call is None else call["tool"])
        if tool is not None and tool.allow is not None:
            if task.tool and task.is_over:  # it had no ``allow=`` then, and its arguments are gone
                raise Forbidden("The permissions of the tool have changed since the task ended")
            call = call or self.call_of(task)
            with suppress(InvalidArguments):  # with which it has not run
                await tool.admit(call["arguments"], origin)

    async def cancel(self, id: str, owner: str) -> tuple[Task, bool]:
        """Cancel a task; return it, and False if it had ended already."""
        task = await self.get(id, owner)
        call = self.ended_call(task)
        changed = await self._change_as_client(id, lambda it, now: record.cancel(it, now, call))
        if changed is None:  # it has ended: before, meanwhile, or by a change whose answer was lost
            was_over, task = task.is_over, await self.get(id, owner)
            return task, task.status == "cancelled" and not was_over
        return changed, True

    async def _change_as_client(self, id: str, edit: Change) -> Task | None:
        async with self.reached():
            try:
                return await self.change(id, edit)
            except KeyError:
                raise InvalidParams(f"Unknown task: {quote_name(id)}") from None

    @asynccontextmanager
    async def reached(self) -> AsyncGenerator[TaskStore, None]:
        """Return a context with the store, which raises `Unavailable` if it cannot be used."""
        try:
            yield await self.store()
        except StoreUnavailable as error:
            self._note_reached(error)
            raise Unavailable(_UNAVAILABLE) from error

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task, and notify its listeners; `KeyError` if there is none."""
        store = await self.store()
        changed = await store.change(id, edit)
        if changed is not None:
            self.publish(changed)
            if changed.ttl != 0 and not changed.is_call:  # else it expires to make room
                self._bytes.note(changed)
                await self._bytes.make_room(changed.caller)
        return changed

    async def answer_at_last(
        self, id: str, owner: str, answers: Mapping[str, bytes], admit: Admit | None = None
    ) -> None:
        """Answer questions of a task as soon as the store is available."""
        while not self.is_closing:
            try:
                await self.answer(id, owner, answers, admit)
            except Unavailable:
                await anyio.sleep(RETRY_S)
                continue
            except ProtocolError as error:
                log.warning("an answer to a task is lost: %s", error)
            return

    # --- listeners --------------------------------------------------------------------------------

    def follow(self, id: str, listener: TaskListener) -> None:
        """Notify a listener of a task from now on, until the task is over."""
        self._listeners.setdefault(id, []).append(listener)

    def unfollow(self, id: str, listener: TaskListener) -> None:
        """Undo one `follow`."""
        listeners = self._listeners.get(id, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                self._forget(id)

    def drop(self, listener: TaskListener) -> None:
        """Stop notifying a listener."""
        for id, listeners in list(self._listeners.items()):
            while listener in listeners:
                self.unfollow(id, listener)

    def _forget(self, id: str) -> None:
        self._notified.pop(id, None)
        self._listeners.pop(id, None)

    @contextmanager
    def watching(self, id: str) -> Generator[TaskWaiter, None, None]:
        """Yield a waiter for changes of a task."""
        waiter = TaskWaiter()
        self.follow(id, waiter)
        self._awaited[id] += 1
        try:
            yield waiter
        finally:
            self._awaited -= Counter([id])
            self.unfollow(id, waiter)

    def publish(self, task: Task) -> None:
        """Notify the runs and the listeners of a task that it has changed."""
        self.runs.see(task)
        listeners = self._listeners.get(task.id)
        if listeners and _is_news(task, self._notified.get(task.id)):
            self._notified[task.id] = task
            for listener in dict.fromkeys(listeners):
                listener.task_changed(task)
            if task.is_over:
                self._forget(task.id)

    def notify(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Pass on a notification from the handler of a task."""
        for listener in dict.fromkeys(self._listeners.get(id, ())):
            listener.task_notifies(id, method, params)

    def _on_change(self, id: str | None) -> None:
        # From any thread.
        self.loop.soon(lambda: self._changed_elsewhere(id))

    def _changed_elsewhere(self, id: str | None) -> None:
        self.runs.wake()
        known = self._known()
        self._stale.update(known if id is None else known & {id})
        if self._stale:
            self._changed.set()

    def _known(self) -> set[str]:
        """Return the tasks that have listeners, or run, in this process."""
        return {*self._listeners, *(each.id for each in self.runs.running)}

    async def _refresh(self, store: TaskStore) -> None:
        """Read the tasks that other processes change, until cancelled."""
        took = 0.0
        while True:
            with anyio.move_on_after(POLL_S if store.is_shared else math.inf):
                await self._changed.wait()
            # Changes come in bursts, and reading many tasks takes its time.
            await anyio.sleep(max(0.01, took))
            self._changed = anyio.Event()
            started = monotonic()
            # A hint may be lost of the tasks that requests wait for.
            ids, self._stale = self._stale.union(self._awaited), set()
            try:
                await self._read_again(ids)
            except StoreUnavailable as error:
                self._stale |= ids
                self._note_reached(error)
            except Exception:
                log.exception("the changes of other processes could not be read")
            took = monotonic() - started

    async def _read_again(self, ids: Collection[str]) -> None:
        if not ids:
            return
        found = await (await self.store()).find(ids)
        for id in ids:
            if id in found:
                self.publish(found[id])
            elif id not in self._awaited:
                self._forget(id)
            else:  # it has expired, or it is a call that is about to be stored
                for listener in self._listeners.get(id, ()):
                    if isinstance(listener, TaskWaiter):
                        listener.wake()

    # --- expiry -----------------------------------------------------------------------------------

    async def _sweep(self, store: TaskStore) -> None:
        """Delete expired tasks, until cancelled."""
        while True:
            await anyio.sleep(_SWEEP_S)
            try:
                await store.sweep()
                await self._read_again(self._known())
            except StoreUnavailable as error:
                self._note_reached(error)
            except Exception:
                log.exception("expired tasks could not be deleted")
            self.runs.choice.forget()
            self._bytes.forget()
            self.kept_calls.forget()


def _make_store(server: Server) -> TaskStore:
    settings: TaskSettings = server.settings.tasks or TaskSettings()
    store = settings.store
    if isinstance(store, str):
        return make_store(store, server.info.name)
    if store is not None:
        return store()
    from mcpkit._stores.memory import MemoryStore, Table

    table: Table[Task] = server.memory.setdefault(TASKS_EXTENSION, Table[Task]())
    return MemoryStore(table)


def _is_news(task: Task, known: Task | None) -> bool:
    """Return True if listeners that know an earlier state should be notified.

    They should not if they see no difference, or know a later state: two answers of a store may
    arrive in another order than they were given in.
    """

    def stage(task: Task) -> tuple[bool, int, bool, int]:
        """Return the progress of a task, which only grows, whatever the clock says."""
        dialogue = len(task.input_requests) + len(task.answers)
        return task.is_over, task.attempt, task.worker is None, dialogue

    if known is None or stage(task) < stage(known):
        return known is None
    return any(getattr(task, name) != getattr(known, name) for name in _VISIBLE)


def service_of(server: Server) -> TaskService | None:
    """Return the tasks of the event loop on which a server is served; None if it is not."""
    return None if server.services is None else server.services.get(TASKS_EXTENSION)
