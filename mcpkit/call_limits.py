"""Limits of calls: how long a function may run, how many calls of it run at once, and how often.

Before a function runs, its call passes a gate: that of its entry, then those of the apps that offer
the entry. It has a place in each until the function has ended, and while it waits for an answer of
the client it has none. A gate is shared by all event loops of a process, and by no other process.
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mcpkit._protocol.wire import some
from mcpkit._utils.logs import log
from mcpkit._utils.quota import ANONYMOUS, Quota, Window, largest_share, limited
from mcpkit.errors import ConnectionClosed, LimitExceeded, PublicError, RegistrationError
from mcpkit.limits import NotesGiven, check_number

if TYPE_CHECKING:
    from anyio import CancelScope

T = TypeVar("T")

_RATE: Final = re.compile(r"([1-9][0-9]{0,5})/(s|min|h)")
_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, kw_only=True)
class CallLimits(NotesGiven):
    """The limits of the calls of one tool, resource or prompt, or of all of an app together.

    ``@app.tool(call_limits=CallLimits(concurrency_each=2))`` or ``MCPKit(call_limits=…)``. A client
    is a principal, else the network of its address; without HTTP all clients are one.

    Args:
        timeout: Seconds for which the function may run. The one of an entry replaces its app's.
        concurrency: Calls that run at once; more wait.
        rate: Calls in any second, minute or hour: ``"10/s"``, ``"100/min"``, ``"1000/h"``.
        concurrency_each: Calls of one client that run at once. If it is less than `concurrency`,
            the last eighth of that is for clients without a call.
        rate_each: As `rate`, for each client.
        max_waiting: Calls that may wait, three quarters of them of one client; more are rejected.
        max_wait: Seconds for which a call may wait; it is rejected then.

    Raises:
        ValueError: A limit is wrong; the message names it.
    """

    timeout: float | None = None
    concurrency: int | None = None
    rate: str | None = None
    concurrency_each: int | None = None
    rate_each: str | None = None
    max_waiting: int = 100
    max_wait: float = 10

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if value is None and each.default is None:
                continue
            if name in _BOUNDS:
                check_number(name, value, *_BOUNDS[name])
            elif not isinstance(value, str) or _RATE.fullmatch(value) is None:
                raise ValueError(
                    f'{name} is a number of calls and a time, such as "10/s", "100/min" or '
                    f'"1000/h", not {value!r}'
                )


_BOUNDS: Final = {
    "timeout": ("more than 0", "a number of seconds"),
    "concurrency": ("at least 1", "a whole number"),
    "concurrency_each": ("at least 1", "a whole number"),
    "max_waiting": ("at least 0", "a whole number"),
    "max_wait": ("at least 0", "a number of seconds"),
}


def gate_of(options: Mapping[str, Any], name: str, at: str, *, inline: bool) -> Gate:
    """Return the gate of an entry with the options of its function.

    Raises `RegistrationError` for wrong ones.
    """
    limits: Any = options.get("call_limits")
    if limits is not None and not isinstance(limits, CallLimits):
        raise RegistrationError(f"{at}: call_limits= is a CallLimits, not {limits!r:.50}")
    own = some(**{each: options.get(each) for each in ("timeout", "concurrency", "rate")})
    try:
        limits = replace(limits or CallLimits(), **own)
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    if inline and limits.timeout is not None:
        raise RegistrationError(
            f"{at}: inline=True blocks the event loop, so timeout= cannot work; omit one of them"
        )
    return Gate(limits, f" of {name}")


# --- places ---------------------------------------------------------------------------------------

# One for all gates. Reentrant, because garbage collection may end a call at any point.
_lock: Final = threading.RLock()


class _Waiter:
    """A call that waits for a place."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.is_admitted = False
        self.wake: Callable[[], object] | None = None


class Gate:
    """The limits of an entry or an app, with what is in use of them.

    `of` names the entry in messages.
    """

    def __init__(self, limits: CallLimits, of: str = "") -> None:
        self.limits = limits
        self.of = of
        total = limits.concurrency or sys.maxsize
        self.places = Quota(total, limits.concurrency_each or total)
        """The calls that run."""
        self.line = Quota(limits.max_waiting, largest_share(limits.max_waiting))
        """The calls that wait."""
        self._waiting: deque[_Waiter] = deque()
        self._windows: list[tuple[Window, bool]] = []
        for rate, is_each in ((limits.rate, False), (limits.rate_each, True)):
            if rate is not None:
                count, _, unit = rate.partition("/")
                self._windows.append((Window(int(count), _SECONDS[unit]), is_each))

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a place."""
        return len(self._waiting)

    def wait_for_rate(self, owner: str) -> float:
        """Return the seconds until an owner may call again; 0 if it may now."""
        return max((w.wait(owner if each else ANONYMOUS) for w, each in self._windows), default=0)

    def count(self, owner: str) -> None:
        """Count a call to the rates."""
        for window, is_each in self._windows:
            window.add(owner if is_each else ANONYMOUS)

    async def enter(self, owner: str, loop: Any, *, again: bool, is_patient: bool) -> None:
        """Take a place, in the order of arrival, and wait for one if there is none.

        A call that goes on `again` is the first in line. Neither that one nor a patient one is
        rejected.

        Raises:
            LimitExceeded: Too many calls wait, or this one has waited for too long.
        """
        waiter, may_wait = _Waiter(owner), again or is_patient
        with _lock:
            (self._waiting.appendleft if again else self._waiting.append)(waiter)
            self._admit()
            if waiter.is_admitted:
                return
            if not may_wait and not self.line.has_room(owner):
                self._waiting.remove(waiter)
                raise self._full()
            if not may_wait:
                self.line.add(owner)
            from anyio import Event, move_on_after  # importing an app should not load an event loop

            woken = Event()
            waiter.wake = partial(loop.soon, woken.set)
        is_over = False
        try:
            with move_on_after(math.inf if may_wait else self.limits.max_wait):
                await woken.wait()
            is_over = True
        finally:
            with _lock:
                if not may_wait:
                    self.line.add(owner, -1)
                if not waiter.is_admitted:
                    self._waiting.remove(waiter)
                elif not is_over:  # cancelled
                    self.leave(owner)
        if not waiter.is_admitted:
            raise self._full()

    def _admit(self) -> None:
        for waiter in tuple(self._waiting):
            if self.places.used >= self.places.total:
                return
            if self.places.has_room(waiter.owner):
                self._waiting.remove(waiter)
                self.places.add(waiter.owner)
                waiter.is_admitted = True
                if waiter.wake is not None:
                    waiter.wake()

    def leave(self, owner: str) -> None:
        """Give back a place."""
        with _lock:
            self.places.add(owner, -1)
            self._admit()

    def _full(self) -> LimitExceeded:
        return LimitExceeded(f"Too many calls{self.of} at once", self.limits.max_wait)


# --- calls ----------------------------------------------------------------------------------------


class Slot:
    """The places of one call, and its time."""

    def __init__(self, gates: Sequence[Gate], outer: Slot | None, owner: str, loop: Any) -> None:
        self.scope: CancelScope | None = None
        """Cancels the function when its time is over."""
        self.threads = 0
        """The threads that run the function."""
        # What a call does on the way, such as reading a resource, does not wait for itself.
        self.known: tuple[Gate, ...] = (*gates, *(outer.known if outer else ()))
        self._gates = [gate for gate in gates if outer is None or gate not in outer.known]
        self._outer = outer
        self._owner = owner
        self._loop = loop
        self._has_places = False
        self._is_over = False
        self._is_returning = False  # it waits for places to go on with
        self._questions = 0
        self._time_left = math.inf

    async def admit(self, *, is_patient: bool) -> None:
        """Wait for a place at every gate; a patient call also until the rates permit it.

        Raises:
            LimitExceeded: The call is rejected.
        """
        from anyio import sleep  # importing an app should not load an event loop

        while True:
            # Also before it waits in line for nothing.
            wait, gate = self._wait_for_rates()
            if not wait:
                await self._take(is_patient=is_patient)
                with _lock:
                    wait, gate = self._wait_for_rates()
                    if not wait:
                        for each in self._gates:
                            each.count(self._owner)
                        return
                    self._release()
            if not is_patient:
                raise LimitExceeded(f"Too many calls{gate.of}", wait)
            await sleep(wait)

    def _wait_for_rates(self) -> tuple[float, Gate]:
        with _lock:
            waits = [(each.wait_for_rate(self._owner), each) for each in self._gates]
        return max(waits, key=lambda each: each[0], default=(0, self.known[0]))

    async def _take(self, *, again: bool = False, is_patient: bool = False) -> None:
        taken: list[Gate] = []
        try:
            for gate in self._gates:
                await gate.enter(self._owner, self._loop, again=again, is_patient=is_patient)
                taken.append(gate)
        except BaseException:
            for gate in taken:
                gate.leave(self._owner)
            raise
        with _lock:
            self._has_places = True
            self._settle()

    def _release(self) -> None:
        with _lock:
            if self._has_places:
                self._has_places = False
                for gate in self._gates:
                    gate.leave(self._owner)

    def _settle(self) -> None:
        """Give the places back if the call does not run, or has ended."""
        with _lock:
            if self._questions or (self._is_over and not self.threads):
                self._release()

    def end(self) -> None:
        """Give the places back, once no thread runs the function any more."""
        self._is_over = True
        self._settle()

    def in_thread(self, fn: Callable[..., T], values: dict[str, Any]) -> T:
        """Call the function, in a thread that may go on when the call is over."""
        with _lock:
            if self._is_over:
                raise ConnectionClosed("The call was abandoned")
            self.threads += 1
        try:
            return fn(**values)
        finally:
            with _lock:
                self.threads -= 1
                self._settle()

    async def pause(self, answers: Awaitable[T]) -> T:
        """Wait for answers of the client, without a place, and while the time stands still."""
        if self._outer is not None:
            answers = self._outer.pause(answers)
        self._questions += 1
        if self.scope is not None and self._questions == 1 and not self._is_returning:
            from anyio import current_time

            self._time_left = self.scope.deadline - current_time()
            self.scope.deadline = math.inf
        self._settle()
        may_wait = True
        try:
            return await answers
        except BaseException as error:
            # The handler may have stopped to wait by itself, and cannot wait for a place now.
            may_wait = isinstance(error, Exception)
            raise
        finally:
            self._questions -= 1
            has_ended = self._is_over and not self.threads
            if not (self._questions or self._has_places or self._is_returning or has_ended):
                await self._go_on(may_wait=may_wait)

    async def _go_on(self, *, may_wait: bool) -> None:
        if may_wait:
            self._is_returning = True
            try:
                await self._take(again=True)
            finally:
                self._is_returning = False
        else:
            with _lock:
                self._has_places = True
                for gate in self._gates:
                    gate.places.add(self._owner)
        if self.scope is not None and not self._questions:
            from anyio import current_time

            self.scope.deadline = current_time() + self._time_left


async def run(
    call: Callable[[], Awaitable[T]], gates: Sequence[Gate], context: Any, name: str
) -> T:
    """Call a function within the limits of its gates; `name` is for the log.

    Tasks have no timeout, and wait as long as needed.

    Raises:
        LimitExceeded: The call is rejected.
        PublicError: The function has taken too long.
    """
    origin, is_task = context.request.origin, context.task is not None
    owner = ANONYMOUS if origin is None else origin.owner
    slot = Slot(gates, limited.get(), owner, context.backend.session.threads.loop)
    await slot.admit(is_patient=is_task)
    token = limited.set(slot)
    timeouts = [each.limits.timeout for each in gates if each.limits.timeout is not None]
    try:
        if is_task or not timeouts:
            return await call()
        from anyio import move_on_after

        with move_on_after(timeouts[0]) as slot.scope:
            return await call()
    finally:
        slot.end()
        with suppress(ValueError):  # garbage collection ends it in another context
            limited.reset(token)
    if slot.threads:
        log.warning(
            "%s goes on in its thread after its timeout of %g s, and keeps its place until it ends",
            *(name, timeouts[0]),
        )
    raise PublicError(f"The call took longer than {timeouts[0]:g} seconds")


def tracked(fn: Callable[..., T]) -> Callable[..., T]:
    """Return a function for a worker thread, whose call has its places until it ends."""

    @wraps(fn)
    def call(**values: Any) -> T:
        slot: Slot = limited.get()
        return slot.in_thread(fn, values)

    return call
