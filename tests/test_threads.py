"""Worker threads: what a function that blocks, and its caller, can rely on."""

from __future__ import annotations

import contextvars
import gc
import random
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import anyio._backends._asyncio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
import sniffio

from mcpkit._concurrency import threads as module
from mcpkit._concurrency.loop import Loop, open_loop
from mcpkit._concurrency.threads import ThreadCall, Threads
from mcpkit.errors import ConnectionClosed
from tests.kit import PATIENCE, ThreadGate, eventually, until

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
async def loop(anyio_backend: str) -> AsyncIterator[Loop]:
    async with open_loop() as opened:
        yield opened


@pytest.fixture
async def threads(loop: Loop) -> Threads:
    return Threads(loop, 4)


async def abandon(threads: Threads, function: Any, gate: ThreadGate) -> bool:
    """Run a function, and cancel the call once it waits at its gate; True if that ended it."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, function)
            await until(gate.started.is_set)
            scope.cancel()
    return scope.cancelled_caught


async def all_of(threads: Threads, functions: list[Callable[[], Any]]) -> list[Any]:
    """Run functions at once, and return their results in order."""
    results: list[Any] = [None] * len(functions)

    async def one(number: int) -> None:
        results[number] = await threads.run(functions[number])

    async with anyio.create_task_group() as group:
        for number in range(len(functions)):
            group.start_soon(one, number)
    return results


async def is_unharmed(threads: Threads, most: int) -> bool:
    """Return True if as many functions as ever run at once, and not one more."""
    barrier = threading.Barrier(most, timeout=PATIENCE)
    running: list[int] = []
    seen: list[int] = []

    def meet() -> None:
        running.append(1)
        barrier.wait()
        seen.append(len(running))
        barrier.wait()
        running.pop()

    await all_of(threads, [meet] * (3 * most))
    await until(lambda: not threads.busy)
    return max(seen) == most


class TestOutcome:
    @pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit])
    async def test_an_exception_reaches_the_caller(
        self, threads: Threads, kind: type[BaseException]
    ) -> None:
        def fail() -> None:
            raise kind("so")

        with pytest.raises(kind, match="so") as caught:
            await threads.run(fail)
        assert caught.traceback[-1].name == "fail"
        assert await threads.run(lambda: 1) == 1

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, StopIteration])
    async def test_an_exception_with_a_meaning_for_the_loop_is_an_error(
        self, threads: Threads, kind: type[BaseException]
    ) -> None:
        def fail() -> None:
            raise kind

        with pytest.raises(RuntimeError) as caught:
            await threads.run(fail)
        assert isinstance(caught.value.__cause__, kind)

    async def test_an_exception_is_gone_with_its_last_reference(self, threads: Threads) -> None:
        class FaultError(Exception):
            pass

        def fail() -> None:
            raise FaultError

        async def from_loop() -> None:
            raise FaultError

        gc.collect()
        gc.disable()
        try:
            for function in (fail, lambda: threads.run_on_loop(from_loop)):
                found: list[weakref.ref[Exception]] = []
                try:
                    await threads.run(function)
                except FaultError as error:
                    found.append(weakref.ref(error))
                await until(lambda found=found: found[0]() is None)  # type: ignore[misc]
        finally:
            gc.enable()


class TestContext:
    async def test_a_worker_is_started_in_no_context_of_a_caller(self, threads: Threads) -> None:
        """A worker outlives the call, and would keep what its variables hold."""

        class Thing:
            pass

        holding: contextvars.ContextVar[Thing] = contextvars.ContextVar("holding")

        def hold() -> weakref.ref[Thing]:
            thing = Thing()
            holding.set(thing)
            return weakref.ref(thing)

        async def call() -> None:
            seen.append(hold())
            await threads.run(lambda: None)

        seen: list[weakref.ref[Thing]] = []
        async with anyio.create_task_group() as group:
            group.start_soon(call)
        await until(lambda: (gc.collect(), seen[0]() is None)[1])

    async def test_no_event_loop_is_found_in_a_thread(
        self, threads: Threads, anyio_backend: str
    ) -> None:
        def library() -> str:
            try:
                return sniffio.current_async_library()
            except sniffio.AsyncLibraryNotFoundError:
                return "none"

        sniffio.current_async_library_cvar.set(anyio_backend)
        assert await threads.run(library) == "none"
        assert sniffio.current_async_library() == anyio_backend

    async def test_context_variables_pass_in_both_directions(self, threads: Threads) -> None:
        """By `anyio.from_thread`, and by `run_on_loop`."""

        async def on_loop(name: str) -> tuple[str, int]:
            await anyio.lowlevel.checkpoint()
            return variable.get() + name, threading.get_ident()

        def work() -> list[Any]:
            found = [anyio.from_thread.run(on_loop, "!")]
            variable.set("of the thread")
            found.append(threads.run_on_loop(on_loop, "?"))
            return [*found, anyio.from_thread.run_sync(threading.get_ident)]

        variable.set("here")
        with pytest.raises(RuntimeError, match="event loop's own thread"):
            threads.run_on_loop(on_loop, "")
        loop = threading.get_ident()
        assert await threads.run(work) == [("here!", loop), ("of the thread?", loop), loop]


async def test_as_many_calls_as_may_run_at_once_do(loop: Loop) -> None:
    """Each is in the queue behind another that blocks."""
    threads = Threads(loop, 16)
    assert await is_unharmed(threads, 16)
    assert await is_unharmed(threads, 16)
    assert threads.size == 16


class TestOwners:
    """No owner has all workers, however many calls it makes."""

    async def test_a_call_of_another_need_not_wait_for_those_of_one(self, loop: Loop) -> None:
        threads = Threads(loop, 8)
        gates = [ThreadGate() for _ in range(20)]
        async with anyio.create_task_group() as group:
            for gate in gates:
                group.start_soon(threads.run, gate, "greedy")
            await until(lambda: sum(gate.started.is_set() for gate in gates) == 6)
            assert await threads.run(lambda: "served", "modest") == "served"
            assert sum(gate.started.is_set() for gate in gates) == 6
            for gate in gates:
                gate.open()
        assert all(gate.ended.is_set() for gate in gates)

    async def test_owners_take_turns(self, loop: Loop) -> None:
        threads = Threads(loop, 1)
        gate = ThreadGate()
        order: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, gate)
            await until(gate.started.is_set)
            for name in ("a", "a", "a", "b", "b", "c"):
                group.start_soon(threads.run, partial(order.append, name), name)
                await anyio.wait_all_tasks_blocked()
            gate.open()
        assert order == ["a", "b", "c", "a", "b", "a"]


class TestGivingUp:
    async def test_a_call_that_is_cancelled_in_the_queue_never_runs(self, loop: Loop) -> None:
        threads = Threads(loop, 1)
        gate = ThreadGate()
        ran: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, gate)
            await until(gate.started.is_set)
            call = ThreadCall(lambda: ran.append("cancelled"))
            with anyio.move_on_after(0.01):
                await threads.run(call)
            assert not call.then(lambda: None)
            assert not list(threads._queue)
            gate.open()
        await threads.run(lambda: ran.append("next"))
        assert ran == ["next"]
        assert not call.returned
        assert threads._quota.used == 0

    async def test_a_call_that_is_cancelled_while_it_runs_is_left_at_once(self, loop: Loop) -> None:
        """It keeps its place until it ends, or cancelled calls would pile up threads."""
        threads = Threads(loop, 1)
        gate = ThreadGate()
        assert await abandon(threads, gate, gate)
        assert not gate.ended.is_set()
        assert threads.busy == 1
        ran: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, partial(ran.append, "next"))
            await anyio.wait_all_tasks_blocked()
            assert ran == []
            gate.open()
        assert ran == ["next"]
        assert threads.busy == 0

    async def test_a_function_may_follow_another_in_its_place(self, loop: Loop) -> None:
        threads = Threads(loop, 1)
        gate = ThreadGate(threading.get_ident)
        call: ThreadCall[Any] = ThreadCall(gate)
        seen: list[Any] = []
        assert await abandon(threads, call, gate)
        worker = threading.get_ident()

        def after() -> None:
            nonlocal worker
            worker = threading.get_ident()
            seen.append((call.returned, gate.ended.is_set(), threads.busy))

        assert call.then(after)
        gate.open()
        assert await threads.run(threading.get_ident) == worker
        assert seen == [(True, True, 1)]
        assert not call.then(after)

    async def test_the_end_can_be_waited_for_in_spite_of_a_cancellation(
        self, threads: Threads
    ) -> None:
        gate = ThreadGate()
        call: ThreadCall[Any] = ThreadCall(gate)
        assert ThreadCall(lambda: 1)() == 1
        await call.ended()  # since it has not started
        assert not call.then(lambda: None)
        seen: list[bool] = []
        async with anyio.create_task_group() as group:

            async def work() -> None:
                try:
                    await threads.run(call)
                finally:
                    await call.ended()
                    seen.append(gate.ended.is_set())

            group.start_soon(work)
            await until(gate.started.is_set)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                assert seen == []
                gate.open()
        assert seen == [True]
        await call.ended()


class TestOnLoop:
    @pytest.mark.parametrize("kind", [KeyError, SystemExit, KeyboardInterrupt])
    async def test_an_exception_reaches_the_thread(
        self, threads: Threads, kind: type[BaseException]
    ) -> None:
        async def fail() -> None:
            await anyio.lowlevel.checkpoint()
            raise kind

        def work() -> None:
            with pytest.raises(kind):
                threads.run_on_loop(fail)

        await threads.run(work)

    async def test_a_thread_that_waits_for_another_needs_no_second_place(self, loop: Loop) -> None:
        threads = Threads(loop, 1)

        def nested(depth: int) -> int:
            if not depth:
                return threads.busy
            found: int = threads.run_on_loop(threads.run, partial(nested, depth - 1))
            return found

        assert await threads.run(partial(nested, 5)) == 6
        assert threads.busy == 0
        assert await is_unharmed(threads, 1)

    async def test_a_thread_may_wait_for_several_at_once(self, loop: Loop) -> None:
        threads = Threads(loop, 1)
        barrier = threading.Barrier(3, timeout=PATIENCE)

        async def wait_for_all() -> int:
            return len(await all_of(threads, [barrier.wait] * 3))

        assert await threads.run(lambda: threads.run_on_loop(wait_for_all)) == 3


class TestWorkers:
    async def test_idle_workers_end(
        self, threads: Threads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_IDLE", 0.01)
        assert await is_unharmed(threads, 4)
        await until(lambda: threads.size == 0)
        assert await threads.run(lambda: "again") == "again"

    async def test_workers_that_are_about_to_end_lose_no_call(
        self, threads: Threads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_IDLE", 0.0005)
        for number in range(100):
            await anyio.sleep(0.0005)
            assert await threads.run(lambda number=number: number) == number  # type: ignore[misc]

    async def test_a_thread_that_cannot_be_started_is_an_error(
        self, threads: Threads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(anyio.to_thread, "run_sync", fail)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="can't start"):
                    await threads.run(lambda: None)
        assert await is_unharmed(threads, 4)

    async def test_the_loop_is_woken_for_many_results_at_once(self, loop: Loop) -> None:
        counting: Any = Counting(loop)
        threads = Threads(counting, 4)
        await threads.run(lambda: None)
        counting.woken = counting.summoned = 0
        await all_of(threads, [lambda: None] * 100)
        assert 1 <= counting.woken <= 30
        assert 1 <= counting.summoned <= 30


class Counting:
    """A loop that counts how often a thread wakes it, and it a thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.woken = 0
        self.summoned = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def soon(self, function: Callable[[], object]) -> bool:
        self.woken += not self._loop.on_loop()
        return self._loop.soon(function)

    def before_waiting(self, function: Callable[[], object]) -> None:
        self.summoned += 1
        self._loop.before_waiting(function)


@pytest.mark.usefixtures("anyio_backend")
class TestTheEnd:
    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let no worker end merely because it is idle."""
        monkeypatch.setattr(module, "_IDLE", 3 * PATIENCE)

    async def test_workers_end_with_the_loops_tasks(self) -> None:
        gate = ThreadGate()
        with anyio.fail_after(PATIENCE):
            async with open_loop() as loop:
                threads = Threads(loop, 4)
                assert await is_unharmed(threads, 4)
                assert await abandon(threads, gate, gate)
            await until(lambda: threads.size == 0)
            assert threads.busy == 1
            gate.open()
            await until(lambda: threads.busy == 0)

    @pytest.mark.parametrize("used", [False, True])
    async def test_a_task_that_cleans_up_may_use_a_thread(self, used: bool) -> None:
        seen: list[str] = []
        started = anyio.Event()

        async def work(threads: Threads) -> None:
            try:
                started.set()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    for _ in range(3):
                        await threads.run(lambda: seen.append("cleaned"))

        with anyio.fail_after(PATIENCE):
            async with open_loop() as loop:
                threads = Threads(loop, 4)
                if used:
                    await threads.run(lambda: None)
                loop.start(work(threads))
                await started.wait()
            assert seen == ["cleaned"] * 3
            await until(lambda: threads.size == 0)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_thread_gets_errors_when_the_loop_ends_and_afterwards(backend: str) -> None:
    gate = ThreadGate()
    seen: list[type[BaseException]] = []

    async def main() -> None:
        waiting = anyio.Event()

        async def wait() -> None:
            waiting.set()
            await anyio.sleep_forever()

        def work() -> None:
            for _ in range(2):
                try:
                    pool.run_on_loop(wait)
                except BaseException as error:
                    seen.append(type(error))
                gate()

        async with open_loop() as loop:
            pool = Threads(loop, 4)
            async with anyio.create_task_group() as group:
                group.start_soon(pool.run, work)
                await waiting.wait()
                group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert eventually(lambda: seen) == [ConnectionClosed]
    gate.open()
    assert eventually(lambda: seen[1:]) == [ConnectionClosed]


async def test_a_thread_gets_an_error_if_its_coroutine_is_closed() -> None:
    wait = module._Wait(anyio.sleep_forever, None)
    work = wait.run()
    work.send(None)
    work.close()
    with pytest.raises(ConnectionClosed):
        wait.outcome()


@pytest.mark.parametrize("seed", range(3))
async def test_no_call_is_lost(loop: Loop, seed: int) -> None:
    """Random calls: quick and slow, failing and nested ones, canceled at any time."""
    threads = Threads(loop, 5)
    chance = random.Random(seed)
    outcomes: list[str] = []
    started: list[int] = []
    ended: list[int] = []

    def random_function(depth: int = 0) -> Callable[[], str]:
        kind = chance.choice(["quick", "slow", "fails", "nested", "nested"])
        pause = chance.random() / 500
        inner = random_function(depth + 1) if kind == "nested" and depth < 3 else None

        def work() -> str:
            started.append(1)
            try:
                if kind == "slow":
                    time.sleep(pause)
                if kind == "fails":
                    raise LookupError
                if inner is not None:
                    threads.run_on_loop(threads.run, inner)
                return "returned"
            finally:
                ended.append(1)

        return work

    async def call() -> None:
        patience = chance.choice([0, 0.001, 0.003, PATIENCE, PATIENCE])
        function = random_function()
        await anyio.sleep(chance.random() / 50)
        outcome = "canceled"
        with anyio.move_on_after(patience):
            try:
                outcome = await threads.run(function)
            except LookupError:
                outcome = "failed"
        outcomes.append(outcome)

    async with anyio.create_task_group() as group:
        for _ in range(250):
            group.start_soon(call)
    await until(lambda: threads.busy == 0)
    assert len(outcomes) == 250
    assert {*outcomes} == {"returned", "failed", "canceled"}
    assert len(started) == len(ended)
    assert not list(threads._queue)
    assert await is_unharmed(threads, 5)
