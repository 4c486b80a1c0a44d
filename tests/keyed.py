"""A server whose calls have keys, for `test_idempotency` and `tests.tasks.test_calls`.

``SURVIVING`` names a file that gets a line for each run, and the app.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Annotated

import anyio

from mcpkit import Context, Idempotent, MCPKit, TaskOptions, TaskSupport, ToolError
from mcpkit._stores import plain_name
from mcpkit._stores.redis import RedisStore
from mcpkit.tasks.options import STORE

NAME = os.environ.get("SURVIVING", "")


def run(key: str) -> None:
    """Note that a handler runs: at once and as a whole."""
    if NAME:
        lines = os.open(NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(lines, f"{os.getpid()} {key}\n".encode())
        os.close(lines)


def make_app() -> MCPKit[None]:
    options: TaskOptions = {}
    if (url := os.environ.get(STORE, "")).startswith("unix:"):
        options["store"] = lambda: RedisStore(url, prefix=f"mcpkit:{plain_name(NAME)}", alive=1.0)
    app: MCPKit[None] = MCPKit(NAME or "keyed", tasks=options)
    runs: Counter[str] = Counter()

    @app.tool
    async def pay(
        key: Annotated[str, Idempotent()], amount: int = 1, seconds: float = 0
    ) -> dict[str, int]:
        runs[key] += 1
        run(key)
        await anyio.sleep(seconds)
        if not amount:
            raise ToolError(f"nothing to pay in run {runs[key]}")
        return {"amount": amount, "run": runs[key]}

    @app.tool(once=lambda order, item: None if item == "any" else f"{order} {item}")
    def order(order: str, item: str = "tea", note: str = "") -> str:
        runs[f"{order} {item}"] += 1
        run(order)
        time.sleep(0.001)
        return f"{note} {runs[f'{order} {item}']}"

    @app.tool
    async def ask(key: Annotated[str, Idempotent()], ctx: Context) -> str:
        answer = await ctx.elicit("Really?", str)
        run(key)
        return f"{answer.data} {key}"

    @app.tool(task=TaskSupport("required", resumable=True))
    async def resume(key: Annotated[str, Idempotent()], ctx: Context) -> str:
        await ctx.step("once", run, f"{key} step")
        run(key)
        await ctx.elicit("Go on?", str)
        run(f"{key} asked")
        if not os.path.exists(f"{NAME} goes on"):
            await anyio.sleep_forever()
        return f"resumed {key}"

    return app


app = make_app()
