"""What tests of every kind share: waits that end, gates that hold calls, and a recorder."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")

PATIENCE: Final = 20.0
"""Seconds to wait for what must happen, also on a busy machine."""


def eventually(look: Callable[[], T], fits: Callable[[T], object] = bool) -> T:
    """Look at something that sends no notification until it fits, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not fits(found := look()):
        assert time.monotonic() < deadline, f"it is still {found!r}"
        time.sleep(0.01)
    return found


async def until(condition: Callable[[], object]) -> None:
    """Wait for what other threads or tasks do."""
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.002)


async def turns(count: int = 5) -> None:
    """Let the event loop do what is due."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def suspended_runs(app: Any) -> Any:
    """The runs that wait, of an app that is served in one event loop."""
    (services,) = app.server.all_services
    return services.server.suspended


async def at_once(count: int, call: Callable[[], Awaitable[T]]) -> list[T]:
    """The results of as many calls at the same time."""
    found: list[T] = []

    async def one() -> None:
        found.append(await call())

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return found


class Gate:
    """Holds calls of `pass_through`, a handler, until it is opened."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self._changed = anyio.Event()
        self._opened = anyio.Event()

    async def pass_through(self) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        self._changed.set()
        await self._opened.wait()
        self.running -= 1
        return "through"

    def open(self) -> None:
        self._opened.set()

    async def open_at(self, running: int) -> None:
        """Open as soon as this many calls are held, and all others wait for something as well."""
        await self.wait_for(running)
        await anyio.wait_all_tasks_blocked()
        self.open()

    async def wait_for(self, running: int) -> None:
        """Wait until this many calls are held."""
        with anyio.fail_after(PATIENCE):
            while self.running != running:
                self._changed = anyio.Event()
                await self._changed.wait()


class ThreadGate:
    """A function that blocks its thread until it is opened."""

    def __init__(self, result: Any = None) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self._opened = threading.Event()
        self._result = result

    def __call__(self) -> Any:
        self.started.set()
        assert self._opened.wait(PATIENCE)
        self.ended.set()
        return self._result

    def open(self) -> None:
        self._opened.set()


class Recorder:
    """A callback that records the arguments of its calls, one value or a tuple each."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self._called = anyio.Event()

    def __call__(self, *arguments: Any) -> None:
        self.calls.append(arguments[0] if len(arguments) == 1 else arguments)
        self._called.set()

    async def wait(self, count: int = 1) -> list[Any]:
        """Wait for this many calls, and return all of them."""
        with anyio.fail_after(PATIENCE):
            while len(self.calls) < count:
                self._called = anyio.Event()
                await self._called.wait()
        return self.calls
