"""An async context manager that is entered once for all who hold it, on whatever event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import anyio

from mcpkit._concurrency.loop import current_loop, soon_on, spawn
from mcpkit._utils.logs import log


class _Holder:
    def __init__(self) -> None:
        self.loop = current_loop()
        self.decided = anyio.Event()
        self.failure: BaseException | None = None

    def decide(self, failure: BaseException | None = None) -> None:
        """Let it go on, or fail. In any thread."""
        self.failure = failure
        soon_on(self.loop, self.decided.set)


class _Term:
    """The time from entering until leaving, in a task on one event loop."""

    def __init__(self) -> None:
        self.loop = current_loop()
        self.started = False
        self.over = anyio.Event()
        self.ended = anyio.Event()
        self.scope = anyio.CancelScope()
        self.failure: BaseException | None = None
        self.task: Any = None  # event loops hold tasks only weakly

    @property
    def is_lost(self) -> bool:
        """True if its event loop was closed without ending it."""
        return getattr(self.loop, "is_closed", bool)() is True


class Held:
    """Enters a context manager for its first holder, and leaves it after the last one.

    That happens in a task on the event loop of the first holder. If no holder is left there, but on
    another event loop, it is left and entered again on that one.
    """

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._enter = enter
        self._holders: list[_Holder] = []
        self._term: _Term | None = None
        self._lock = threading.Lock()

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None, None]:
        """Hold it inside the ``async with``; raises what entering or leaving it raises."""
        holder = _Holder()
        with self._lock:
            self._holders.append(holder)
            if self._term is None or self._term.is_lost:
                self._begin()
            elif self._term.started and not self._term.over.is_set():
                holder.decide()
        try:
            await holder.decided.wait()
            if holder.failure is not None:
                raise holder.failure
            yield
        finally:
            await self._leave(holder)

    async def _leave(self, holder: _Holder) -> None:
        with self._lock:
            self._holders.remove(holder)
            term = self._term
            if term is None or term.loop is not holder.loop or self._on(term.loop):
                return
            term.over.set()
            if not term.started:
                term.scope.cancel()
        try:
            await term.ended.wait()
        finally:
            if not term.ended.is_set():  # this task is cancelled
                term.scope.cancel()
                with anyio.CancelScope(shield=True):
                    await term.ended.wait()
        if term.failure is not None and term.started:
            raise term.failure

    def _on(self, loop: object) -> list[_Holder]:
        return [each for each in self._holders if each.loop is loop]

    def _begin(self) -> None:
        """Begin a term on the running event loop, which has a holder."""
        self._term = term = _Term()
        term.task = spawn(lambda: self._live(term))

    async def _live(self, term: _Term) -> None:
        loop_ends = False
        try:
            with term.scope:
                async with self._enter():
                    with self._lock:
                        term.started = True
                        waiting = [*self._holders]
                    for each in waiting:
                        each.decide()
                    await term.over.wait()
        except anyio.get_cancelled_exc_class():
            loop_ends = True
            raise
        except BaseException as error:  # also of sys.exit(), which ends the app
            term.failure = error
        finally:
            self._end(term, loop_ends=loop_ends)

    def _end(self, term: _Term, *, loop_ends: bool) -> None:
        with self._lock:
            self._term = None
            left = self._on(term.loop)
            waiting = [each for each in left if not each.decided.is_set()]
            others: set[object] = {each.loop for each in self._holders} - {term.loop}
            if waiting and not loop_ends and (term.started or term.failure is None):
                self._begin()  # they have come while it was being left
                others.clear()
        if term.failure is not None and not term.started:
            for each in waiting:
                each.decide(term.failure)
        elif term.failure is not None and len(left) > len(waiting):
            log.error("a lifespan ended", exc_info=term.failure)
        term.ended.set()
        for loop in others:
            soon_on(loop, partial(spawn, self._take_over))

    async def _take_over(self) -> None:
        with self._lock:
            if self._term is None and self._on(current_loop()):
                self._begin()
