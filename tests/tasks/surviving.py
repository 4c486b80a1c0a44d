"""A server whose tasks outlive it: ``python -m mcpkit run tests/tasks/surviving.py --http``.

``SURVIVING`` names the file that says what has happened, and the app; ``LEASE`` is in seconds;
``LOOP`` may be ``uvloop``.
"""

from __future__ import annotations

import os
import time

import anyio

from mcpkit import Context, MCPKit, TaskOptions, TaskSupport
from mcpkit._stores import plain_name
from mcpkit._stores.redis import RedisStore
from mcpkit.tasks.options import STORE

if os.environ.get("LOOP") == "uvloop":
    import uvloop

    uvloop.install()
NAME = os.environ["SURVIVING"]
options: TaskOptions = {"poll_interval": 0.05, "lease": float(os.environ.get("LEASE", "30"))}
if (url := os.environ.get(STORE, "")).startswith("unix:"):
    options["store"] = lambda: RedisStore(url, prefix=f"mcpkit:{plain_name(NAME)}", alive=1.0)
app = MCPKit(NAME, tasks=options)


def say(what: str) -> None:
    """Write a line, at once and as a whole."""
    lines = os.open(NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(lines, f"{os.getpid()} {what}\n".encode())
    os.close(lines)


@app.tool(task=TaskSupport(resumable=True))
async def work(name: str, asks: bool, ctx: Context) -> str:
    """Three steps, and perhaps a question between them."""

    async def step(key: str) -> str:
        say(f"{name} {key}")
        await anyio.sleep(0.03)
        return key

    done = [await ctx.step("one", step, "one")]
    if asks:
        answer = await ctx.elicit("Go on?", str)
        done.append(str(answer.data))
    done += [await ctx.step("two", step, "two"), await ctx.step("three", step, "three")]
    return " ".join(done)


@app.tool(task="optional")
async def once(name: str, ctx: Context, seconds: float = 300) -> str:
    """Cannot be run again, and has a step that blocks."""
    say(f"{name} started")
    await ctx.step("wait", time.sleep, seconds)
    return "done"
