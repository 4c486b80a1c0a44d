"""Where a session's work runs: what a coroutine can rely on, whichever way it was started."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcpkit._concurrency.loop import AsyncioLoop, Loop, open_loop, run_loop
from tests.kit import PATIENCE, turns, until

EAGER = sys.version_info >= (3, 11)

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
async def loop(anyio_backend: str) -> AsyncIterator[Loop]:
    with anyio.fail_after(PATIENCE):
        async with open_loop() as opened:
            yield opened


only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")


class Probe(list[Any]):
    """Collects the words of work, and waits for them."""

    say = list.append

    async def has(self, *words: Any) -> None:
        await until(lambda: all(word in self for word in words))


@pytest.fixture
async def probe() -> Probe:
    return Probe()


class TestStart:
    async def test_takes_the_first_step_at_once_and_runs_to_the_end(
        self, loop: Loop, probe: Probe, anyio_backend: str
    ) -> None:
        async def work() -> None:
            probe.say("started")
            await anyio.lowlevel.checkpoint()
            probe.say("done")

        loop.start(work())
        if EAGER and anyio_backend == "asyncio":
            assert probe == ["started"]
        await probe.has("done")

    async def test_work_may_start_work(self, loop: Loop, probe: Probe) -> None:
        """Also in its first step, where it ends as well."""

        async def inner() -> None:
            probe.say("inner")

        async def outer() -> None:
            loop.start(inner())
            loop.start(inner())
            probe.say("outer")

        for _ in range(3):
            loop.start(outer())
        await probe.has("outer", "inner")
        await turns()
        assert sorted(probe) == ["inner"] * 6 + ["outer"] * 3

    @only_asyncio
    async def test_a_task_that_waits_is_not_collected(self, loop: Loop, probe: Probe) -> None:
        """The event loop itself refers to tasks only weakly."""

        async def work() -> None:
            await asyncio.get_running_loop().create_future()

        gc.freeze()  # what other tests have left would be looked through as well
        try:
            loop.start(work())
            await turns()
            gc.collect()
        finally:
            gc.unfreeze()
        alive = [repr(task) for task in asyncio.all_tasks()]
        # Not just "work", which may be in the path of the checkout.
        assert any(".work()" in each or "._steps()" in each for each in alive), alive


class TestCurrentTask:
    """On asyncio a good deal hangs on which task is the current one."""

    pytestmark = only_asyncio

    async def test_each_work_keeps_its_own_over_a_wait(self, loop: Loop, probe: Probe) -> None:
        found: set[int] = set()

        async def work() -> None:
            before = asyncio.current_task()
            found.add(id(before))
            await asyncio.sleep(0.01)
            probe.say((before is asyncio.current_task() is not None, len(found)))

        loop.start(work())
        loop.start(work())
        await probe.has((True, 2))

    if sys.version_info >= (3, 11):

        @pytest.mark.parametrize("delay", [-1, 0, 0.01])
        async def test_a_timeout_of_asyncio(self, loop: Loop, probe: Probe, delay: float) -> None:
            async def work() -> None:
                try:
                    async with asyncio.timeout(delay):
                        await asyncio.sleep(PATIENCE)
                except TimeoutError:
                    probe.say("timed out")

            loop.start(work())
            await probe.has("timed out")

        async def test_a_task_group_of_asyncio(self, loop: Loop, probe: Probe) -> None:
            async def fail() -> None:
                raise ValueError

            async def work() -> None:
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(fail())
                        await asyncio.sleep(PATIENCE)
                except BaseException as error:
                    probe.say(type(error).__name__)

            loop.start(work())
            await probe.has("ExceptionGroup")

    @pytest.mark.parametrize("waits", [True, False])
    async def test_work_that_cancels_itself(self, loop: Loop, probe: Probe, waits: bool) -> None:
        """The next work is not affected by it, wherever it runs."""

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if waits:
                await asyncio.sleep(PATIENCE)

        async def work() -> None:
            await asyncio.sleep(0)
            probe.say("done")

        loop.start(cancels_itself())
        loop.start(work())
        await probe.has("done")


async def test_a_cancel_scope_with_a_deadline_works_inside(loop: Loop, probe: Probe) -> None:
    async def work() -> None:
        with anyio.move_on_after(0.01):
            await anyio.sleep(PATIENCE)
        await anyio.lowlevel.checkpoint()
        probe.say("moved on")

    loop.start(work())
    await probe.has("moved on")


class TestContextVariables:
    @staticmethod
    async def exchange(probe: Probe, value: str, waits: int) -> None:
        for _ in range(waits):
            await anyio.lowlevel.checkpoint()
        probe.say((value, variable.get()))
        variable.set(value)
        await turns(waits)
        assert variable.get() == value

    @pytest.mark.parametrize("waits", [0, 1])
    async def test_one_that_is_set_does_not_reach_the_next(
        self, loop: Loop, probe: Probe, waits: int
    ) -> None:
        for value in "abc":
            loop.start(self.exchange(probe, value, waits))
        await probe.has(("a", "unset"), ("b", "unset"), ("c", "unset"))
        assert variable.get() == "unset"

    async def test_one_of_the_caller_is_seen(self, loop: Loop, probe: Probe) -> None:
        """Each work sees those of the place it was started from, also after others ran."""

        async def look() -> None:
            probe.say(variable.get())
            await anyio.lowlevel.checkpoint()
            probe.say(variable.get() + ", still")

        loop.start(look())
        contextvars.copy_context().run(lambda: (variable.set("A"), loop.start(look())))
        contextvars.copy_context().run(lambda: (variable.set("B"), loop.start(look())))
        loop.start(look())
        await probe.has("A, still", "B, still")
        await turns()
        assert sorted(probe) == sorted(
            ["A", "A, still", "B", "B, still", *["unset", "unset, still"] * 2]
        )

    async def test_one_whose_values_cannot_be_compared(self, loop: Loop, probe: Probe) -> None:
        class Array:
            def __eq__(self, other: object) -> Any:
                raise ValueError("ambiguous")

            __hash__ = None  # type: ignore[assignment]

        holder: contextvars.ContextVar[Any] = contextvars.ContextVar("holder")
        holder.set(Array())

        async def work() -> None:
            holder.set(Array())
            probe.say("set")

        loop.start(work())
        loop.start(work())
        await probe.has("set")


class TestCancel:
    @staticmethod
    async def wait(probe: Probe) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await turns()
            probe.say("cleaned up")
            raise

    async def test_at_once(self, loop: Loop, probe: Probe) -> None:
        """It starts all the same, and is cancelled where it first waits."""
        loop.start(self.wait(probe))()
        await probe.has("cleaned up")

    @only_asyncio
    @pytest.mark.parametrize("later", [False, True])
    async def test_reaches_the_task_that_is_awaited(
        self, loop: Loop, probe: Probe, later: bool
    ) -> None:
        """As `asyncio.Task.cancel` does: a task that is awaited is cancelled itself."""

        async def work() -> None:
            await asyncio.ensure_future(self.wait(probe))

        cancel = loop.start(work())
        await turns(5 if later else 2)
        cancel()
        await probe.has("cleaned up")

    @only_asyncio
    async def test_reaches_a_future_in_the_same_turn(self, loop: Loop, probe: Probe) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            await future

        loop.start(work())()
        await turns()
        assert future.cancelled()

    async def test_work_that_has_ended(self, loop: Loop, probe: Probe) -> None:
        async def work() -> None:
            probe.say("done")

        cancel = loop.start(work())
        await probe.has("done")
        cancel()
        loop.start(work())
        await turns()
        assert probe == ["done", "done"]


class TestEnd:
    async def test_work_that_still_runs_is_cancelled_and_awaited(self, anyio_backend: str) -> None:
        probe = Probe()

        async def work(loop: Loop) -> None:
            probe.say(loop.is_ending)
            try:
                await TestCancel.wait(probe)
            finally:
                probe.say(loop.is_ending)

        async with open_loop() as loop:
            loop.start(work(loop))
            await turns()
        assert probe == [False, "cleaned up", True]

    @only_asyncio
    async def test_nothing_is_left_behind(self, anyio_backend: str) -> None:
        """Also if work was started with other context variables."""

        async def do_nothing() -> None:
            pass

        before = asyncio.all_tasks()
        async with open_loop() as loop:
            loop.start(asyncio.sleep(0))
            loop.start(do_nothing())
            contextvars.copy_context().run(lambda: (variable.set("A"), loop.start(do_nothing())))
            await turns()
        assert asyncio.all_tasks() == before


class TestSoon:
    async def test_it_will_be_called(self, loop: Loop, probe: Probe) -> None:
        assert loop.soon(lambda: probe.say("on the loop"))
        assert await anyio.to_thread.run_sync(loop.soon, lambda: probe.say("in a thread"))
        await probe.has("on the loop", "in a thread")

    def test_after_the_loop_has_ended_it_will_not(self) -> None:
        async def main() -> Loop:
            async with open_loop() as loop:
                return loop

        for backend in ("asyncio", "trio"):
            loop = anyio.run(main, backend=backend)
            found: list[bool] = []
            thread = threading.Thread(target=lambda: found.append(loop.soon(lambda: None)))  # noqa: B023
            thread.start()
            thread.join(PATIENCE)
            assert found == [False]


async def test_a_task_waits_for_a_future(loop: Loop, probe: Probe) -> None:
    future = loop.future()

    async def work() -> None:
        await future
        probe.say("done")

    loop.start(work())
    await turns()
    assert not future.done()
    assert probe == []
    future.set_result(None)
    assert future.done()
    await probe.has("done")
    await future  # again, and at once


@pytest.mark.parametrize("eager", [False, True])
def test_an_event_loop_in_debug_mode(eager: bool) -> None:
    """It looks more closely at tasks: names, sources, which thread calls."""
    done: list[Callable[[], object]] = []

    async def work() -> None:
        if not eager:
            await asyncio.sleep(0)
        done.append(asyncio.current_task)

    async def main() -> None:
        loop = AsyncioLoop(asyncio.get_running_loop())
        for _ in range(3):
            loop.start(work())
        await turns()
        assert all(map(repr, asyncio.all_tasks()))
        await loop.aclose()

    asyncio.run(main(), debug=True)
    assert len(done) == 3


# --- running a loop -------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_result_of_the_function_is_returned(backend: str) -> None:
    async def add(one: int, two: int) -> int:
        await anyio.sleep(0)
        return one + two

    assert run_loop(add, 1, 2, backend=backend) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="has no signal of this kind")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_is_an_interrupt_on_every_python(backend: str) -> None:
    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep(20)

    with pytest.raises(KeyboardInterrupt):
        run_loop(interrupted, backend=backend)
