"""A server whose tools run as tasks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio

from mcpkit import (
    Context,
    Depends,
    Elicit,
    MCPKit,
    ProtocolError,
    Sample,
    SyncContext,
    TaskSupport,
    ToolError,
)
from mcpkit.tasks.options import Store, TaskOptions


def make_app(store: Store | None = None) -> MCPKit[Any]:
    """The app; its tasks are kept where that says."""
    options: TaskOptions = {"poll_interval": 0.1, "max_bytes": 50_000}
    if store is not None:
        options["store"] = store
    app = MCPKit("tasks", tasks=options, page_size=3)
    happened: Counter[str] = Counter()

    def count(what: str) -> int:
        happened[what] += 1
        return happened[what]

    @app.tool
    def plain() -> str:
        """Never a task."""
        return "plain"

    @app.tool
    async def seen(what: str) -> int:
        """How often something has happened."""
        return happened[what]

    @app.tool(task="optional")
    async def add(a: int, b: int) -> int:
        """Either."""
        return a + b

    @app.tool(task="required")
    def only() -> str:
        """Always a task, in a thread."""
        return "done"

    @app.tool(task="optional")
    async def bad() -> str:
        """Fails for the model."""
        raise ToolError("no luck")

    @app.tool(task="optional")
    async def broken() -> str:
        """Fails with an error of the protocol."""
        raise ProtocolError("not today", code=-32007, data={"try": "tomorrow"})

    @app.tool(task="optional")
    async def forever(label: str, ctx: Context) -> str:
        """Goes on until it is stopped."""
        count(f"{label} started")
        try:
            await anyio.sleep_forever()
        finally:
            count(f"{label} stopped")
        return "never"

    @app.tool(task="optional")
    def in_thread(label: str, ctx: SyncContext) -> str:
        """Goes on in a thread until it sees that it is cancelled."""
        count(f"{label} started")
        pause = threading.Event()
        while not ctx.cancelled:
            pause.wait(0.01)
        count(f"{label} stopped")
        return "late"

    @app.tool(task="optional")
    async def ask(label: str, ctx: Context) -> str:
        """Asks between two steps."""
        first = await ctx.step("first", count, f"{label} first")
        answer = await ctx.elicit("How many?", int)
        second = await ctx.step("second", count, f"{label} second")
        amount = answer.data if answer.action == "accept" else answer.action
        return f"{amount}, {first}, {second}"

    @app.tool(task="optional")
    def ask_in_thread(label: str, ctx: SyncContext) -> str:
        """Asks from a thread."""
        first = ctx.step("first", count, f"{label} first")
        answer = ctx.elicit("How many?", int)
        return f"{answer.data}, {first}, {ctx.step('second', count, f'{label} second')}"

    @app.tool(task="optional")
    async def ask_both(ctx: Context) -> str:
        """Asks two things at once."""
        number, text = await ctx.gather(
            Elicit("A number?", int, key="n"), Sample("A word", key="w")
        )
        return f"{number.data} {text.text}"

    @app.tool(task="optional")
    async def ask_before(amount: Annotated[int, Elicit("How many?")], ctx: Context) -> str:
        """Wants to know something first, and something else later."""
        unit = await ctx.elicit("Of what?", str)
        return f"{amount} {unit.data}"

    @app.tool(task="optional")
    async def tell(ctx: Context) -> str:
        """Tells how far it is."""
        assert ctx.task is not None
        ctx.info("working on it")
        ctx.progress(1, 2, "half of it")
        await ctx.elicit("Go on?")
        ctx.task.status("nearly there")
        return "told"

    @asynccontextmanager
    async def connection() -> AsyncGenerator[str, None]:
        count("opened")
        yield "open"
        count("closed")

    @app.tool(task="optional")
    async def depending(with_: Annotated[str, Depends(connection)], ctx: Context) -> str:
        """Depends on something that is opened and closed."""
        await anyio.sleep(0)
        assert ctx.task is not None
        return f"{with_} in {ctx.task.id}"

    @app.tool(task=TaskSupport(ttl=0.5))
    async def soon_forgotten() -> str:
        """Is kept for a short time."""
        return "quick"

    return app


app = make_app()
