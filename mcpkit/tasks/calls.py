"""Calls with a key: each runs once, and its record is in the store of tasks.

    (none) ──added──▶ working ──its result or error──▶ completed
                       │   ▲ └──cancelled, or its process has ended──▶ cancelled: outcome unknown
             it asks ──▼   │ the retry with the answers, here or in another process
                   input_required

To the store it is a task that a process runs already. So its lease is renewed with those of tasks,
and if the process ends, another claims the record: not to run it, but to note that its outcome is
unknown. The number of the attempt is the fence.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from time import time
from typing import Any

import anyio
from pydantic_core import from_json, to_json

from mcpkit._input_requests.replay import StatelessReplay
from mcpkit._input_requests.steps import Suspended
from mcpkit._protocol import wire
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import PER_REQUEST
from mcpkit._server.failures import error_result, leaves, unwrap
from mcpkit._signature.output import Rendered
from mcpkit._stores.base import RecordExists, StoreUnavailable, TooManyRecords
from mcpkit._utils.logs import log
from mcpkit.context import Context
from mcpkit.errors import ProtocolError, ToolError, UrlElicitationRequired
from mcpkit.idempotency import DEFAULT, KeyedCall
from mcpkit.tasks.protocol import caller_name, split_outcome
from mcpkit.tasks.record import CALL, Status, Task
from mcpkit.tasks.runs import RETRY_S, RunningTask
from mcpkit.tasks.service import TaskService, Unavailable
from mcpkit.tasks.shares import OtherSecret
from mcpkit.tasks.transitions import Change, TaskStore


async def call_once(
    tasks: TaskService, call: KeyedCall, context: Context[Any], run: Callable[[], Awaitable[Any]]
) -> Rendered:
    """Run a call, and record its result; or return the recorded one.

    Raises:
        ToolError: The key belongs to other arguments; its call waits for an answer, or its outcome
            is unknown; or the call cannot be recorded and has not run.
        ProtocolError: The one that the first call has raised.
    """
    claim, rules = _Claim(tasks, call, context), call.rules
    while True:
        try:
            found = await claim.wait()
            if found is not None and found.outcome is not None:
                return _recorded(tasks, found)
        except (Unavailable, OtherSecret):
            raise ToolError(
                "The call has not run, because its key cannot be stored or read at the moment; "
                "repeat it later"
            ) from None
        if found is not None:
            break
        rendered = await claim.run(run)
        if rendered is not None:
            return rendered
    if found.is_over:
        raise ToolError(
            f"The outcome of {rules.first} is unknown: it was interrupted while it ran. Check if "
            f"it has taken effect; {rules.other} to call again"
        )
    raise ToolError(
        f"The answer to a question of {rules.first} is missing; answer it, or {rules.other} to "
        f"call again"
    )


def _recorded(tasks: TaskService, task: Task) -> Rendered:
    is_error, data = split_outcome(tasks.open(task, task.outcome or b"", "outcome"))
    if is_error:
        raise ProtocolError.from_wire(from_json(data))
    content: Any
    content, structured, *rest = from_json(data)
    if content is not None and not isinstance(content, str):
        content = [wire.block_from_wire(each) for each in content]
    return Rendered(content, None if structured is None else structured.encode(), *rest)


def _dump(rendered: Rendered) -> bytes:
    """Return a result as bytes that `_recorded` reads, for every revision."""
    content: Any = rendered.content
    if content is not None and not isinstance(content, str):
        content = [wire.block_to_wire(each, PER_REQUEST[-1]) for each in content]
    structured = None if rendered.structured is None else rendered.structured.decode()
    rest = (rendered.is_error, rendered.meta, rendered.is_object, rendered.is_raw)
    return b"r" + encode([content, structured, *rest])


class _Held(RunningTask):
    """The record of a call that this process has a lease on.

    Its request runs and ends it, and its own retry brings the answers.
    """

    is_suspended = True  # it takes no place of a task

    def __init__(self, tasks: TaskService, id: str, number: int) -> None:
        super().__init__(id, number)
        self._tasks = tasks

    def end(self, change: Change) -> None:
        """Store the end of the call. In a task of its own, because its request may be cancelled."""
        self._tasks.loop.start(self._store_end(change))

    async def _store_end(self, change: Change) -> None:
        try:
            await self._change(change)
        except StoreUnavailable:
            pass  # the server stops, and its leases end
        except Exception:
            log.exception("the outcome of a call could not be stored")
        finally:
            self._tasks.runs.ended(self)
            self.ended.set()

    async def _change(self, change: Change) -> Task | None:
        """Change the record; retry while the store is unavailable, until the server stops."""
        while True:
            try:
                return await self._tasks.change(self.id, change)
            except KeyError:
                return None  # its time is over
            except StoreUnavailable:
                if self._tasks.is_closing:
                    raise
                await anyio.sleep(RETRY_S)

    def _own(self, edit: Change) -> Change:
        """Return a change that applies while no other process runs the call, and it is not over."""
        number = self.number
        return lambda task, now: None if task.attempt != number or task.is_over else edit(task, now)

    def _leave(self, status: Status, kept: float, outcome: bytes | None = None) -> Change:
        """Return the change after which the call runs nowhere, and is `kept` for some seconds.

        One that is cancelled has an unknown outcome.
        """
        return self._own(
            lambda task, now: replace(
                task,
                status=status,
                outcome=outcome,
                worker=None,
                lease_expires=0.0,
                ttl=now - task.created + kept,
            )
        )


class LostCall(_Held):
    """A call whose process has ended, claimed by this one."""

    def __init__(self, tasks: TaskService, task: Task) -> None:
        super().__init__(tasks, task.id, task.attempt)
        self._task = task

    def start(self) -> None:
        """Note that its outcome is unknown, unless it belongs to a task that may run again."""
        self._tasks.loop.start(self._conclude())

    async def _conclude(self) -> None:
        run_id, lifetime = "", DEFAULT
        with suppress(OtherSecret):
            data = self._tasks.open(self._task, self._task.call, "call")
            _, run_id, lifetime = from_json(data)
        change = self._leave("cancelled", lifetime)
        try:
            task = await (await self._tasks.store()).get(run_id)
            is_left = task is not None and not task.is_over
        except StoreUnavailable:
            is_left = True
        if is_left:  # to the task, and looked at again
            change = self._own(
                lambda task, now: replace(task, worker=None, lease_expires=now + RETRY_S, crashes=0)
            )
        self.end(change)


class _Claim(_Held):
    """A call, and its claim to be the one that runs: told when it waits for its client."""

    def __init__(self, tasks: TaskService, call: KeyedCall, context: Context[Any]) -> None:
        request, server = context.request, context.backend.server
        owner = tasks.owner_of(request, "calls")
        named = json.dumps([server.info.name, call.tool.name, owner, call.key])
        super().__init__(tasks, CALL + sha256(named.encode()).hexdigest()[:48], 0)
        self._call = call
        self._context = context
        caller = caller_name("" if request.origin is None else request.origin.owner)
        self._task = Task(id=self.id, owner=owner, caller=caller or owner, call=b"", ttl=None)
        self._asker = context.backend.requester()
        self._run_id = ""  # of a run that another process may go on with
        if context.task is not None:
            self._run_id = context.task.id
        elif isinstance(self._asker, StatelessReplay):
            self._run_id = self._asker.call
        self._worker = ""
        self._is_paused = self._is_lost = self._is_ending = False
        self._pausing = anyio.Lock()

    # --- the claim --------------------------------------------------------------------------------

    async def wait(self) -> Task | None:
        """Return None once the call is to run here, else the record once it does not run.

        Raises:
            ToolError: The record belongs to other arguments, or there is no room for one.
            OtherSecret: The record cannot be read.
            Unavailable: The store cannot be used.
        """
        has_waited = False
        while True:
            with self._tasks.watching(self.id) as waiter:  # again: an ended call is not watched
                try:
                    found = await self._take()
                    if found is None or found.status != "working":
                        return found
                except Unavailable:
                    if not has_waited:
                        raise
                has_waited = True
                await waiter.wait()

    async def _take(self) -> Task | None:
        """Return None if the call is to run here now, else its record."""
        tasks, is_expired = self._tasks, False
        async with tasks.reached() as store:
            self._worker = store.worker
            while True:
                found = await store.get(self.id)
                if found is not None and not self._goes_on(found):
                    return found
                if found is None and self._is_lost:
                    return replace(self._task, status="cancelled")
                # Not one of an earlier record of the key, and above that of an earlier run.
                self.number = 1 + secrets.randbits(32) + (found.attempt if found else 0)
                # Before it is stored: the leases of what is here are renewed.
                tasks.runs.running[self] = None
                try:
                    if found is None:
                        await self._add(store)
                        return None
                    if await store.change(self.id, self._resume(found)) is not None:
                        return None
                except RecordExists:
                    if is_expired:
                        await store.sweep()
                    is_expired = True
                except KeyError:
                    pass
                except TooManyRecords:
                    if not await store.sweep():
                        tasks.runs.ended(self)
                        raise ToolError("Too many calls are recorded; try again later") from None
                except BaseException:  # it may have been stored
                    tasks.runs.ended(self)
                    undo = self._leave("cancelled", 0) if found is None else self._pause()
                    _Held(tasks, self.id, self.number).end(undo)
                    raise
                tasks.runs.ended(self)

    async def _add(self, store: TaskStore) -> None:
        tasks, call, settings = self._tasks, self._call, self._tasks.settings
        if not tasks.kept_calls.has_room(self._task.caller):
            raise TooManyRecords
        about = to_json([call.digest, self._run_id, call.rules.lifetime])
        task = replace(self._task, attempt=self.number, call=tasks.seal(self._task, about, "call"))
        await store.add(
            lambda now: self._running(replace(task, created=now), now),
            limit=settings.max_tasks,
            limit_per_holder=settings.max_tasks_each,
        )

    def _goes_on(self, found: Task) -> bool:
        """Return True if a record is of this very run, which waits for this process to go on."""
        digest, run_id, _ = from_json(self._tasks.open(found, found.call, "call"))
        if digest != self._call.digest:
            raise ToolError(
                f"The arguments of {self._call.rules.first} were others; repeat those, or "
                f"{self._call.rules.other} for another call"
            )
        # Tasks have a fence of their own: one that runs again runs nowhere else.
        is_free = found.status == "input_required" or self._context.task is not None
        is_own = run_id == self._run_id != "" and not self._is_lost
        return is_own and is_free and found.outcome is None

    def _resume(self, found: Task) -> Change:
        number = self.number
        return lambda task, now: (
            self._running(replace(task, attempt=number), now) if task == found else None
        )

    def _running(self, task: Task, now: float) -> Task:
        lease = now + self._tasks.settings.lease
        started = replace(task, status="working", worker=self._worker, lease_expires=lease)
        return replace(started, updated=now, ttl=None)

    # --- the run ----------------------------------------------------------------------------------

    async def run(self, run: Callable[[], Awaitable[Any]]) -> Rendered | None:
        """Run the handler and record its outcome; None if another process goes on with the call."""
        tool, outer = self._call.tool, self._asker.pausing
        self._asker.pausing = self
        try:
            try:
                rendered: Rendered = tool.output.render(await run())
                outcome = _dump(rendered)
            except Exception as error:
                if isinstance(unwrap(error), UrlElicitationRequired):
                    # The handler is to be called again, when the page was opened.
                    await self._conclude(self._leave("cancelled", 0))
                    raise
                rendered = await error_result(tool, self._context, error)
                outcome = _dump(rendered)
            await self._record(outcome)
            return rendered
        except UrlElicitationRequired:
            raise
        except ProtocolError as error:
            await self._record(b"e" + encode(error.to_wire()))
            raise
        except BaseException as error:
            if self._is_lost and any(isinstance(each, Suspended) for each in leaves(error)):
                return None
            if not self._is_paused and not self._is_ending:
                self.end(self._leave("cancelled", self._call.rules.lifetime))
            raise
        finally:
            self._asker.pausing = outer

    async def _record(self, outcome: bytes) -> None:
        limit, lifetime = self._tasks.settings.max_bytes, self._call.rules.lifetime
        if len(outcome) > limit:
            text = f"The call has run, but its result has more than {limit} bytes: it is not kept"
            outcome = _dump(Rendered(text, is_error=True))
        sealed = self._tasks.seal(self._task, outcome, "outcome")
        await self._conclude(self._leave("completed", lifetime, sealed))
        kept = replace(self._task, created=time(), ttl=lifetime, outcome=sealed)
        self._tasks.kept_calls.note(kept)

    async def _conclude(self, change: Change) -> None:
        """Store the end of the call, and wait for that, unless its handler is to be replayed."""
        if self._is_paused and self._asker.is_suspended:
            return
        self._is_ending = True
        self.end(change)
        await self.ended.wait()

    # --- questions --------------------------------------------------------------------------------

    def _pause(self) -> Change:
        settings = self._context.backend.server.settings
        kept = self._call.rules.lifetime + max(settings.state_lifetime, settings.ask_timeout)
        return self._leave("input_required", kept)

    async def pause(self) -> None:
        """Record that the call waits for its client: another process may go on with it."""
        async with self._pausing:
            if not self._is_paused:
                await self._change_own(self._pause())
                self._is_paused = True
                self._tasks.runs.ended(self)

    async def go_on(self) -> None:
        """Record that the call has its answers; raise `Suspended` if another process goes on."""
        async with self._pausing:
            if self._is_paused:
                self._tasks.runs.running[self] = None
                await self._change_own(self._own(self._running))
                self._is_paused = False

    async def _change_own(self, change: Change) -> None:
        if await self._change(change) is None:
            self._tasks.runs.ended(self)
            self._is_lost = True
            raise Suspended
