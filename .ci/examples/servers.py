"""The servers of the official SDKs' examples, on mcpkit: a factory for each, by its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypedDict

import anyio

from mcpkit import (
    AssistantMessage,
    Complete,
    Context,
    MCPKit,
    Message,
    ProtocolError,
    ToolError,
    UserMessage,
)

LANGUAGES = ["python", "pytorch", "rust", "go", "typescript"]


class Sum(TypedDict):
    """The result of `calc`."""

    op: str
    result: float


class Countdown(TypedDict):
    """The result of `countdown`."""

    completed: int
    total: int


@dataclass
class Added:
    """A note that was added."""

    id: str
    uri: str


@dataclass
class Cleared:
    """Whether and how many notes were removed."""

    status: str
    removed: int


@dataclass
class Confirmation:
    """What a user confirms."""

    confirm: bool


def tools() -> MCPKit:
    """Two tools, one with structured output."""
    app = MCPKit("tools-example")

    @app.tool(title="Calculator", read_only=True, idempotent=True)
    def calc(op: Literal["add", "sub", "mul"], a: float, b: float) -> Sum:
        return {"op": op, "result": {"add": a + b, "sub": a - b, "mul": a * b}[op]}

    @app.tool
    def echo(text: str) -> str:
        return text

    return app


def resources() -> MCPKit:
    """A resource and a template."""
    app = MCPKit("resources-example")

    @app.resource("config://app", mime_type="application/json")
    def app_config() -> str:
        return '{"feature": true}'

    @app.resource("greeting://{name}")
    def greeting(name: str) -> str:
        return f"Hello, {name}!"

    return app


def prompts() -> MCPKit:
    """Two prompts, one with completion."""
    app = MCPKit("prompts-example")

    def begin(typed: str) -> list[str]:
        return [each for each in LANGUAGES if each.startswith(typed)]

    @app.prompt
    def greet(name: str) -> str:
        return f"Write a one-line greeting for {name}."

    @app.prompt(title="Code Review")
    def code_review(language: Annotated[str, Complete(begin)], code: str) -> list[Message]:
        return [
            UserMessage(f"Review this {language} code for bugs and idioms:\n\n{code}"),
            AssistantMessage("I'll review it. Let me read through the code first."),
        ]

    return app


def lifespan() -> MCPKit:
    """State that the lifespan yields."""

    @asynccontextmanager
    async def opened(_: object) -> AsyncIterator[dict[str, str]]:
        yield {"alpha": "one", "beta": "two"}

    app = MCPKit("lifespan-example", lifespan=opened)

    @app.tool
    async def lookup(key: str, ctx: Context[dict[str, str]]) -> str:
        return ctx.state[key]

    return app


def pagination() -> MCPKit:
    """Three pages of resources."""
    app = MCPKit("pagination-example", page_size=2)

    def read(word: str) -> str:
        return word

    for word in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"):
        app.add_resource(partial(read, word), f"word://{word}", name=word)
    return app


def error_handling() -> MCPKit:
    """An error for the model, and one of the protocol."""
    app = MCPKit("error-handling-example")

    @app.tool(structured_output=False)
    def divide(a: float, b: float) -> float:
        if b == 0:
            raise ToolError("cannot divide by zero")
        return a / b

    @app.tool
    def restricted() -> str:
        raise ProtocolError("this tool is gated", code=-32602, data={"reason": "demo"})

    return app


def streaming() -> MCPKit:
    """Progress, log messages and cancellation."""
    app = MCPKit("streaming-example")

    @app.tool
    async def countdown(steps: int, ctx: Context) -> Countdown:
        for step in range(1, steps + 1):
            await ctx.progress(step, steps, f"step {step}/{steps}")
            await ctx.info(f"step {step}/{steps}", logger="countdown")
        return {"completed": steps, "total": steps}

    return app


def parallel_calls() -> MCPKit:
    """Calls of two clients that wait for each other."""
    app = MCPKit("parallel-calls-example")
    arrivals: dict[str, anyio.Event] = defaultdict(anyio.Event)

    @app.tool
    async def meet(tag: str, party: list[str], ctx: Context) -> str:
        arrivals[tag].set()
        for peer in party:
            await arrivals[peer].wait()
        await ctx.progress(1, 1, tag)
        return tag

    return app


def stickynotes() -> MCPKit:
    """Notes that are resources, added and removed by tools."""
    app = MCPKit("stickynotes-example", offers=["resources"])
    notes: dict[str, str] = {}
    numbers = iter(range(1, 1000))

    def drop(note_id: str) -> bool:
        if notes.pop(note_id, None) is None:
            return False
        app.remove_resource(f"note:///{note_id}")
        return True

    @app.tool
    async def add_note(text: str) -> Added:
        id = str(next(numbers))
        notes[id] = text
        app.add_resource(lambda: notes[id], f"note:///{id}", name=f"note-{id}")
        return Added(id, f"note:///{id}")

    @app.tool
    async def remove_note(note_id: str) -> bool:
        return drop(note_id)

    @app.tool
    async def remove_all(ctx: Context) -> Cleared:
        if not notes:
            return Cleared("empty", 0)
        answer = await ctx.elicit(f"Remove all {len(notes)} note(s)?", Confirmation)
        if answer.action == "cancel":
            return Cleared("cancelled", 0)
        if not answer.accepted or not answer.data.confirm:
            return Cleared("declined", 0)
        return Cleared("cleared", sum(map(drop, list(notes))))

    return app


def subscriptions() -> MCPKit:
    """Changes of a resource, and of the list of tools."""
    app = MCPKit("subscriptions-example")
    notes = {"todo": "buy milk", "journal": "day one"}

    @app.resource("note://{name}")
    def note(name: str) -> str:
        return notes[name]

    @app.tool
    async def edit_note(name: str, text: str, ctx: Context) -> str:
        notes[name] = text
        ctx.notify_resource_updated(f"note://{name}")
        return "saved"

    def search(query: str) -> str:
        return "\n".join(name for name, text in notes.items() if query in text)

    @app.tool
    async def enable_search() -> str:
        app.add_tool(search)
        return "search is live"

    return app


def roots() -> MCPKit:
    """The roots of the client."""
    app = MCPKit("roots-example")

    @app.tool
    async def show_roots(ctx: Context) -> str:
        return "\n".join(f"{each.uri} ({each.name or 'unnamed'})" for each in await ctx.roots())

    return app


def sampling() -> MCPKit:
    """The model of the client."""
    app = MCPKit("sampling-example")

    @app.tool
    async def summarize(text: str, ctx: Context) -> str:
        return (await ctx.sample(f"Summarize in one sentence:\n\n{text}", max_tokens=200)).text

    return app


def simple_task() -> MCPKit:
    """A tool that runs as a task only."""
    app = MCPKit("simple-task-server")

    @app.tool(task="required")
    async def long_running_task(ctx: Context) -> str:
        for step in ("Starting work...", "Processing step 1...", "Processing step 2..."):
            await ctx.progress(0, message=step)
            await anyio.sleep(0.3)
        return "Task completed!"

    return app


def simple_task_interactive() -> MCPKit:
    """Tasks that ask the user and the model."""
    app = MCPKit("simple-task-interactive")

    @app.tool(task="required")
    async def confirm_delete(filename: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"Are you sure you want to delete '{filename}'?", Confirmation)
        confirmed = answer.accepted and answer.data.confirm
        return f"Deleted '{filename}'" if confirmed else "Deletion cancelled"

    @app.tool(task="required")
    async def write_haiku(topic: str, ctx: Context) -> str:
        return f"Haiku:\n{(await ctx.sample(f'Write a haiku about {topic}', max_tokens=50)).text}"

    return app


def sse_polling_demo() -> MCPKit:
    """A call whose stream is closed at checkpoints."""
    app = MCPKit("sse-polling-demo")

    @app.tool
    async def process_batch(items: int, checkpoint_every: int, ctx: Context) -> str:
        for item in range(1, items + 1):
            ctx.info(f"item {item}")
            if item % checkpoint_every == 0:
                ctx.close_stream(retry=0.1)
        return f"Processed {items} items"

    return app


def notification_stream() -> MCPKit:
    """Log messages at an interval, in milliseconds."""
    app = MCPKit("simple-streamable-http-server")

    @app.tool(name="start-notification-stream")
    async def start(interval: int, count: int, ctx: Context, caller: str = "") -> str:
        for number in range(1, count + 1):
            ctx.info(f"{caller} notification {number}")
            await anyio.sleep(min(interval, 20) / 1000)
        return f"Started sending {count} notifications"

    return app
