"""The tasks of a server, as one process knows them: begun, watched, answered, cancelled, worked on.

The store has the tasks; here is who waits for them. Nothing here is begun before the first task,
unless others may have left some in the store.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from pydantic_core import to_json, to_jsonable_python

from mcpkit.context import Context
from mcpkit.engine.legs import Leg, PastOrigin
from mcpkit.engine.loop import Loop
from mcpkit.engine.server import Server, log
from mcpkit.engine.task_methods import owner_name
from mcpkit.engine.threads import Threads
from mcpkit.errors import InternalError, InvalidParams, ProtocolError
from mcpkit.protocol.connection import NOBODY, ClientFacts, Origin, Request
from mcpkit.protocol.revisions import PER_REQUEST
from mcpkit.support.text import named
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Position, StoreAway, TaskStore, TooManyTasks
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit.engine.entries import Tool
    from mcpkit.tasks.settings import TaskSettings

__all__ = ["AppTasks", "Follower", "Tasks", "Watch", "serving_tasks"]

_GLANCE_S: Final = 1.0
"""Seconds between two looks for what other processes have left, or changed without a word."""

_SWEEP_S: Final = 60.0
_CLEAN_UP_S: Final = 2.0
"""Seconds that legs have to end when the process does."""

_AWAY: Final = "The tasks of this server cannot be reached at the moment; ask again later"
_BURST: Final = 50
"""Looks at one task that may come at once; beyond them, those are refused that come too fast."""

_LAYOUT: Final = 1


class Follower(Protocol):
    """Somebody who tells a client about tasks."""

    def task_changed(self, task: Task) -> None:
        """A task has changed."""
        ...

    def task_said(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """The handler of a task has something to tell beside its result."""
        ...


class Watch:
    """Waits for changes of one task. What has changed since the last wait ends the next at once."""

    def __init__(self) -> None:
        self._changed = anyio.Event()

    def task_changed(self, task: Task) -> None:
        """End the wait."""
        del task
        self._changed.set()

    def task_said(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Do nothing: the task is as it was."""

    async def wait(self) -> None:
        """Wait until the task may have changed."""
        with anyio.move_on_after(_GLANCE_S):
            await self._changed.wait()
        self._changed = anyio.Event()


class Tasks:
    """The tasks of a server in one process.

    Args:
        server: As it is served, with the state of its lifespan.
        loop: That the tasks are worked on.
        threads: For plain ``def`` handlers.
        make_store: Makes the store, when it is first needed.
    """

    def __init__(
        self, server: Server, loop: Loop, threads: Threads, make_store: Callable[[], TaskStore]
    ) -> None:
        self.server = server
        self.settings: TaskSettings = server.settings.tasks
        self.loop = loop
        self.threads = threads
        self.is_closing = False
        self._make_store = make_store
        self._store: TaskStore | None = None
        self._opening: anyio.Lock | None = None
        self._stop: list[Callable[[], object]] = []
        self._legs: dict[Leg, None] = {}
        self._followers: dict[str, list[Follower]] = {}
        self._poked: anyio.Event | None = None
        self._looking: Callable[[], object] | None = None
        self._is_away = False
        self._is_closed = False
        self._polls: dict[str, tuple[float, float]] = {}
        seals = bool(server.settings.secrets) and self.settings.store is not None
        self._sealer = server.sealer("tasks") if seals else None

    # --- coming and going -------------------------------------------------------------------------

    def serve(self) -> None:
        """Begin to work on what others have left in the store, if there may be something."""
        if self.settings.store is not None and "tasks" in self.server.catalog.advertised:
            self._stop.append(self.loop.start(self._begin_to_serve()))

    async def _begin_to_serve(self) -> None:
        while not self.is_closing:
            try:
                await self.store()
            except StoreAway:
                await anyio.sleep(_GLANCE_S)
            else:
                return

    async def store(self) -> TaskStore:
        """Return the store, which is open.

        Raises:
            StoreAway: It cannot be used.
        """
        if self._store is None:
            if self._opening is None:
                self._opening = anyio.Lock()
            async with self._opening:
                if self._store is None:
                    self._store = await self._open()
        return self._store

    async def _open(self) -> TaskStore:
        store = self._make_store()
        try:
            await store.open(os.urandom(12).hex(), self._heard)
        except StoreAway as error:
            self._note_away(error)
            raise
        self._is_away = False
        self._poked = anyio.Event()
        self._stop.append(self.loop.start(self._work(store)))
        self._stop.append(self.loop.start(self._keep(store)))
        return store

    async def aclose(self) -> None:
        """Stop the legs that run, and give back their tasks."""
        if self._is_closed:
            return
        self.is_closing = self._is_closed = True
        if self._looking is not None:
            self._looking()
        for stop in self._stop:
            stop()
        for leg in list(self._legs):
            leg.stop()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLEAN_UP_S):
                while self._legs:
                    await next(iter(self._legs)).ended.wait()
            if self._store is not None:
                try:
                    await self._store.aclose()
                except StoreAway as error:
                    self._note_away(error)

    def _note_away(self, error: StoreAway) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("tasks cannot be reached: %s", error)

    # --- at rest ----------------------------------------------------------------------------------

    def seal(self, value: bytes) -> bytes:
        """Return bytes as they are kept: encrypted, if the server has a secret."""
        return value if self._sealer is None else self._sealer.seal(value).encode("ascii")

    def open(self, kept: bytes) -> bytes:
        """Return bytes that were kept.

        Raises:
            SealBroken: They were sealed with another secret, or changed.
        """
        return kept if self._sealer is None else self._sealer.open(kept.decode("ascii"))

    def owner_of(self, request: Request) -> str:
        """Return the name of whoever the tasks of a request belong to."""
        principal = request.principal
        return owner_name(request.revision, None if principal is None else principal.id)

    # --- what clients do --------------------------------------------------------------------------

    async def begin(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        request: Request,
        *,
        ttl: float | None = None,
        given: Mapping[str, tuple[str, Any]],
    ) -> Task:
        """Make a task of a call.

        Args:
            tool: That is called.
            arguments: As they were sent.
            request: The call.
            ttl: Seconds that the client wishes the task to be kept for; None: it does not say.
            given: Answers that the call brings along: key → fingerprint, and the result.

        Raises:
            ProtocolError: There are too many, the arguments are too long, or the store is away.
        """
        principal, origin = request.principal, request.origin
        call = to_json(
            {
                "layout": _LAYOUT,
                "tool": tool.name,
                "arguments": arguments,
                "revision": request.revision.version,
                "client": [request.client.capabilities, request.client.info],
                "meta": request.meta,
                "log_level": request.log_level,
                "id": request.id,
                "holder": "" if origin is None else origin.holder.owner,
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
        default = self.settings.ttl if tool.task_ttl is None else tool.task_ttl
        task = Task(
            id=secrets.token_urlsafe(24),
            owner=self.owner_of(request),
            call=self.seal(call),
            ttl=self.settings.granted(ttl, default),
        )
        most, most_each = self.settings.max_tasks, self.settings.max_tasks_each
        async with self._reached() as store:
            try:
                added = await store.add(task, most=most, most_of_owner=most_each)
            except TooManyTasks:
                raise InternalError("Too many tasks are unfinished; ask again later") from None
        self._poke()
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
            raise InvalidParams(f"Unknown task: {named(id)}")
        return task

    def _count_look(self, id: str) -> None:
        """Count a look at a task: twice as often as clients should is well, and more for a while.

        Raises:
            ProtocolError: There were too many (TASKX-17).
        """
        now = monotonic()
        left, seen = self._polls.pop(id, (float(_BURST), now))
        left = min(_BURST, left + 2 * (now - seen) / self.settings.poll_interval)
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
        await self.get(id, owner)
        sealed = {key: self.seal(value) for key, value in answers.items()}
        if sum(map(len, sealed.values())) > self.settings.max_bytes:
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
                raise InvalidParams(f"Unknown task: {named(id)}") from None

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[TaskStore, None]:
        """Around the use of the store on behalf of a client.

        Raises:
            ProtocolError: It is away.
        """
        try:
            yield await self.store()
        except StoreAway as error:
            self._note_away(error)
            raise InternalError(_AWAY) from error

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task, and tell those who follow it.

        Raises:
            KeyError: There is none.
            StoreAway: The store is.
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

    def follow(self, id: str, follower: Follower) -> None:
        """Tell somebody of a task from now on."""
        self._followers.setdefault(id, []).append(follower)

    def unfollow(self, id: str, follower: Follower) -> None:
        """Tell somebody no more; nothing happens if nobody did."""
        following = self._followers.get(id, [])
        if follower in following:
            following.remove(follower)
            if not following:
                del self._followers[id]

    @contextmanager
    def watching(self, id: str) -> Generator[Watch, None, None]:
        """Watch a task."""
        watch = Watch()
        self.follow(id, watch)
        try:
            yield watch
        finally:
            self.unfollow(id, watch)

    def publish(self, task: Task) -> None:
        """Tell those who follow a task that it has changed, and those who work on it or might."""
        for leg in list(self._legs):
            if leg.id == task.id and not task.runs(leg.number):
                leg.lose()
        if task.due is not None and task.runner is None:
            self._poke()
        for follower in list(self._followers.get(task.id, ())):
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
        self._poke()
        known = {*self._followers, *(leg.id for leg in self._legs)}
        if self._looking is None and (known if id is None else id in known):
            self._looking = self.loop.start(self._look())

    async def _look(self) -> None:
        """Look at every task that somebody here waits for, or works on."""
        await anyio.sleep(0.01)  # changes come in crowds
        self._looking = None
        try:
            store = await self.store()
            for id in {*self._followers, *(leg.id for leg in self._legs)}:
                task = await store.get(id)
                if task is not None:
                    self.publish(task)
        except StoreAway as error:
            self._note_away(error)

    # --- those who work ---------------------------------------------------------------------------

    def _poke(self) -> None:
        if self._poked is not None:
            self._poked.set()

    async def _work(self, store: TaskStore) -> None:
        """Begin legs of what is due."""
        while True:
            self._poked = anyio.Event()
            room = self.settings.max_running - len(self._legs)
            try:
                due = await store.claim(room, self.settings.lease) if room > 0 else ()
                self._is_away = False
            except StoreAway as error:
                self._note_away(error)
                await anyio.sleep(_GLANCE_S)
                continue
            for task in due:
                leg = Leg(self, task)
                self._legs[leg] = None
                leg.start()
            with anyio.move_on_after(_GLANCE_S if store.is_shared else None):
                await self._poked.wait()

    def ended(self, leg: Leg) -> None:
        """Note that a leg has ended, so that there is room for another."""
        was_full = len(self._legs) >= self.settings.max_running
        self._legs.pop(leg, None)
        if was_full:
            self._poke()

    async def _keep(self, store: TaskStore) -> None:
        """Let the legs go on that run, and forget tasks whose time is over."""
        lease = self.settings.lease
        swept = reached = monotonic()
        while True:
            await anyio.sleep(lease / 3)
            # Those that are claimed while the store is asked are not among these.
            legs = {(leg.id, leg.number): leg for leg in self._legs}
            asked = monotonic()
            try:
                kept = set(await store.keep([*legs], lease)) if legs else set[tuple[str, int]]()
                reached = asked
                if asked - swept > _SWEEP_S:
                    swept = asked
                    await store.sweep()
            except StoreAway as error:
                self._note_away(error)
                if asked - reached < lease:
                    continue  # they may go on until somebody else begins
                kept = set[tuple[str, int]]()
            for place, leg in legs.items():
                if place not in kept:
                    leg.lose()


def _store_maker(server: Server) -> Callable[[], TaskStore]:
    store = server.settings.tasks.store
    if store is None:
        from mcpkit.tasks.memory import MemoryStore

        return lambda: MemoryStore(server.shelf)
    if not isinstance(store, str):
        return store
    from mcpkit.tasks.places import make_store

    return lambda: make_store(store, server.info.name)


@asynccontextmanager
async def serving_tasks(server: Server, loop: Loop) -> AsyncGenerator[tuple[Server, Tasks], None]:
    """Look after the tasks of a server for as long as it is served.

    Args:
        server: With the state of its lifespan.
        loop: That it is served on.

    Yields:
        The server with its tasks, and these.
    """
    threads = Threads(loop, server.settings.max_threads)
    tasks = Tasks(server, loop, threads, _store_maker(server))
    tasks.server = server.with_tasks(tasks)
    tasks.serve()
    server.looked_after.append(tasks)
    try:
        yield tasks.server, tasks
    finally:
        server.looked_after.remove(tasks)
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
        found = next((each for each in self._server.looked_after if each.loop.on_loop()), None)
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
            request = _request_of(NOBODY, PastOrigin(principal, principal.id if principal else ""))
        elif ctx.request.revision.tasks == "none":
            request = _request_of(ctx.request.client, ctx.request.origin)
        else:
            request = ctx.request
        task = await found.begin(named_or_made, arguments or {}, request, ttl=ttl, given={})
        return task.id


def _request_of(client: ClientFacts, origin: Origin | None) -> Request:
    """Return the request that a task without a call seems to have begun with."""
    revision = PER_REQUEST[-1]
    known = revision.methods["tools/call"]
    return Request("", "tools/call", known, {}, {}, revision, client, origin=origin)
