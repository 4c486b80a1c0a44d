"""One app with something of everything: the scenarios serve it in memory and as a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from pydantic import BaseModel

from mcpkit import (
    Annotations,
    AssistantMessage,
    Audio,
    BlobResourceContents,
    CallNext,
    Complete,
    Context,
    EmbeddedResource,
    Extension,
    Icon,
    Image,
    MCPKit,
    Message,
    ProtocolError,
    ResourceLink,
    ResourceNotFound,
    SyncContext,
    TextContent,
    TextResourceContents,
    ToolError,
    ToolResult,
    UserMessage,
)

FILES = Path(__file__).parent / "files"
PNG = b"\x89PNG\r\n\x1a\n\x00\x01"
WAV = b"RIFF\x04\x00\x00\x00WAVE\x00\x01"
SECRET = "the password is swordfish"
"""In the exceptions that a client must never see."""

STREETS = [f"Street {number}" for number in range(150)]
TOWNS = {"Portugal": ["Lisbon", "Porto"], "Norway": ["Oslo"]}


@dataclass
class State:
    """What the lifespan yields."""

    entered: int
    gates: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    cancelled: list[str] = field(default_factory=list[str])
    kept: Context[Any] | None = None


class Town:
    """A plain class."""

    def __init__(self, name: str) -> None:
        self.name = name


class Weather(BaseModel):
    """Structured output that is an object."""

    city: str
    celsius: float
    rain: bool = False


def towns(typed: str, country: str | None) -> Iterable[str]:
    known = TOWNS.get(country or "", [])
    return [town for town in known if town.startswith(typed)]


def make_app() -> MCPKit[State]:
    """A new app, with state of its own."""
    entered = 0

    @asynccontextmanager
    async def lifespan(app: MCPKit[Any]) -> AsyncIterator[State]:
        nonlocal entered
        entered += 1
        yield State(entered)

    app: MCPKit[State] = MCPKit(
        "scenarios",
        version="1.2.3",
        title="Scenarios",
        instructions="Ask for anything.",
        description="Something of everything.",
        website_url="https://example.com/",
        icons=[Icon("https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])],
        lifespan=lifespan,
        page_size=10,
        cache_ttl=30,
        cache_scope="public",
    )
    _add_results(app)
    _add_failures(app)
    _add_waiting(app)
    _add_talking(app)
    _add_changing(app)
    _add_resources(app)
    _add_prompts(app)
    app.extend(_geo())
    return app


def _geo() -> Extension:
    """An extension of a vendor's own."""
    places = MCPKit("places")
    geo = Extension("com.example/geo", settings={"units": ["km"]}, entries=[places])

    @geo.request("geo/weather", cache_ttl=60)
    async def weather(city: str, ctx: Context, days: int = 1) -> Weather:
        geo.notify(ctx, "notifications/geo/looked", {"city": city, "days": days, "level": 3})
        return Weather(city=city, celsius=21.5)

    @geo.request("geo/moves", revisions=["2025-06-18", "2026-07-28"])
    def moves() -> dict[str, Any]:
        return {"moves": [], "resultType": "mine", "_meta": {"example.com/count": 0}}

    @geo.request("geo/fail")
    async def fail(how: str) -> Any:
        if how == "list":
            return [1]
        if how == "meta":
            return {"_meta": "text"}
        raise ProtocolError("closed", code=-31000, data=how) if how == "told" else OSError(SECRET)

    here: dict[str, Any] = {}

    @geo.notification("notifications/geo/moved")
    def moved(client: str, lat: float, ctx: Context) -> None:
        if lat > 90:
            raise OSError(SECRET)
        here[client] = lat

    @geo.request("geo/here")
    def find(client: str) -> dict[str, Any]:
        return {"lat": here.get(client)}

    @geo.entry_meta("tools", "prompts")
    def place(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return {"com.example/place": entry["name"]} if entry["name"] in ("where", "add") else None

    @geo.around("tools/call")
    async def mark(ctx: Context, call_next: CallNext) -> Any:
        result = await call_next()
        if (declared := geo.declared_by(ctx)) is not None:
            result.meta = {**(result.meta or {}), "com.example/geo": declared}
        return result

    @places.tool
    def where() -> str:
        """A tool that comes with the extension."""
        return "here"

    return geo


def _add_results(app: MCPKit[State]) -> None:
    @app.tool(
        title="Adder",
        read_only=True,
        icons=[Icon("https://example.com/add.png")],
        meta={"example.com/kind": "sum"},
    )
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: The one.
            b: The other.
        """
        return a + b

    @app.tool
    def weather(city: str) -> Weather:
        """Tell the weather."""
        return Weather(city=city, celsius=21.5)

    @app.tool
    async def cities() -> list[str]:
        """List the cities."""
        return ["Lisbon", "Oslo"]

    @app.tool
    async def perhaps(number: int | None = None) -> int | None:
        """Give back a number, or nothing."""
        return number

    app.add_tool(cities, name="raw_cities", structured_output="raw")
    app.add_tool(perhaps, name="raw_perhaps", structured_output="raw")

    @app.tool
    def silence() -> None:
        """Return nothing."""

    @app.tool
    async def echo(text: str) -> str:
        """Return a text as it is."""
        return text

    @app.tool
    def picture() -> Image:
        """Return an image."""
        return Image(PNG)

    @app.tool
    def sound() -> Audio:
        """Return a sound."""
        return Audio(WAV)

    @app.tool
    def document() -> EmbeddedResource:
        """Return a text resource inside the result."""
        contents = TextResourceContents("note://hello", "hello", mime_type="text/plain")
        return EmbeddedResource(contents)

    @app.tool
    def archive() -> EmbeddedResource:
        """Return a binary resource inside the result."""
        contents = BlobResourceContents("note://bytes", b"\x00\xff", mime_type="application/zip")
        return EmbeddedResource(contents)

    @app.tool
    def pointer() -> ResourceLink:
        """Return a link to a resource."""
        return ResourceLink(
            "note://hello",
            "hello",
            title="Hello",
            description="A greeting.",
            mime_type="text/plain",
            size=5,
        )

    @app.tool
    def everything() -> list[TextContent | Image | str]:
        """Return content of several kinds, with annotations."""
        notes = Annotations(audience=["user"], priority=0.5, last_modified="2025-01-01T00:00:00Z")
        text = TextContent("read me", annotations=notes, meta={"example.com/note": 1})
        return [text, Image(PNG, annotations=notes), "plain"]

    @app.tool
    def whole() -> ToolResult:
        """Decide every part of the result."""
        return ToolResult("done", structured_content={"n": 1}, meta={"example.com/cost": 3})

    @app.tool(max_result=1000)
    def lengthy() -> list[str]:
        """Return more than its budget."""
        return [f"item {number}" for number in range(400)]

    @app.tool
    async def facts(ctx: Context[State]) -> dict[str, Any]:
        """Tell what the server knows of this request."""
        info = ctx.client.info
        return {
            "id": ctx.request_id,
            "method": ctx.method,
            "revision": ctx.revision,
            "client": None if info is None else info.name,
            "sampling": ctx.client.supports("sampling"),
            "entered": ctx.state.entered,
            "meta": {key: value for key, value in ctx.meta.items() if "example.com" in key},
        }

    @app.tool
    def in_a_thread(ctx: SyncContext[State]) -> str:
        """Log, report progress and read a resource from a worker thread."""
        ctx.info("from a thread")
        ctx.progress(1)
        found = ctx.read_resource("note://hello")[0]
        assert isinstance(found, TextResourceContents)
        return found.text


def _add_failures(app: MCPKit[State]) -> None:
    @app.tool
    def complain(message: str) -> str:
        """Fail with a message for the model."""
        raise ToolError(message)

    @app.tool
    def crash() -> str:
        """Fail unexpectedly."""
        raise RuntimeError(SECRET)

    @app.tool
    def plain_object() -> Any:
        """Return an object of a plain class."""
        return Town("Oslo")

    @app.tool
    def mismatch() -> int:
        """Return what the annotation does not allow."""
        value: Any = "not a number"
        return value  # type: ignore[no-any-return]

    @app.tool
    def refuse() -> str:
        """Answer with a protocol error of one's own."""
        raise ProtocolError("No such customer", code=4004, data={"customer": 7})

    @app.tool
    async def raise_cancelled() -> str:
        """Let a cancellation of its own escape."""
        raise asyncio.CancelledError


def _add_waiting(app: MCPKit[State]) -> None:
    @app.tool
    async def hold(gate: str, ctx: Context[State]) -> str:
        """Wait until `release` is called; say so with progress."""
        event = ctx.state.gates.setdefault(gate, anyio.Event())
        ctx.progress(1)
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class():
            ctx.state.cancelled.append(gate)
            ctx.progress(2)
            raise
        return f"released {gate}"

    @app.tool
    async def release(gate: str, ctx: Context[State]) -> str:
        """Let `hold` return."""
        ctx.state.gates.setdefault(gate, anyio.Event()).set()
        return gate

    @app.tool
    async def cancelled(ctx: Context[State]) -> list[str]:
        """Tell which calls of `hold` were cancelled."""
        return ctx.state.cancelled


def _add_talking(app: MCPKit[State]) -> None:
    @app.tool
    async def speak(level: str, ctx: Context[State], data: Any = "words") -> str:
        """Log something at a level."""
        await ctx.log(level, data, logger="speaker")  # type: ignore[arg-type]
        return level

    @app.tool
    async def march(steps: list[float], ctx: Context[State]) -> str:
        """Report the given progress."""
        for step in steps:
            await ctx.progress(step, 10, f"at {step:g}")
        return "there"

    @app.tool
    async def keep(ctx: Context[State]) -> str:
        """Keep the context after the call is over."""
        ctx.progress(1)
        ctx.state.kept = ctx
        return "kept"

    @app.tool
    async def use_kept(ctx: Context[State]) -> str:
        """Use the context of a call that is over."""
        assert ctx.state.kept is not None
        ctx.state.kept.progress(2)
        ctx.state.kept.log("emergency", "too late")
        return "used"


def _add_changing(app: MCPKit[State]) -> None:
    def offered() -> str:
        """Something new."""
        return "new"

    @app.tool
    async def grow(kind: Literal["tool", "prompt", "resource"], name: str) -> str:
        """Offer something more."""
        if kind == "tool":
            app.add_tool(offered, name=name)
        elif kind == "prompt":
            app.add_prompt(offered, name=name)
        else:
            app.add_resource(offered, f"new://{name}", name=name)
        return name

    @app.tool
    async def shrink(kind: Literal["tool", "prompt", "resource"], name: str) -> str:
        """Take back what `grow` has offered."""
        if kind == "tool":
            app.remove_tool(name)
        elif kind == "prompt":
            app.remove_prompt(name)
        else:
            app.remove_resource(f"new://{name}")
        return name

    @app.tool
    def touch(uri: str) -> str:
        """Say, from a worker thread, that a resource has changed."""
        app.notify_resource_updated(uri)
        return uri


def _add_resources(app: MCPKit[State]) -> None:
    @app.resource("note://hello", size=5, priority=0.9, cache_ttl=120, cache_scope="private")
    def hello() -> str:
        """A greeting."""
        return "hello"

    @app.resource("note://bytes", mime_type="application/zip")
    def binary() -> bytes:
        """Some bytes."""
        return b"\x00\xff"

    @app.resource("note://json")
    def json() -> dict[str, int]:
        """Some data."""
        return {"n": 1}

    @app.resource("note://all")
    def several() -> list[Any]:
        """A text and some bytes."""
        return [
            TextResourceContents("note://hello", "hello", mime_type="text/plain"),
            BlobResourceContents("note://bytes", b"\x00", mime_type="application/zip"),
        ]

    @app.resource("diary://{year}/{month}")
    def diary(year: int, month: Annotated[str, Complete(["May", "June"])]) -> str:
        """A page of a diary."""
        if year < 2000:
            raise ResourceNotFound
        return f"{month} {year}"

    @app.resource("note://broken")
    def broken() -> str:
        """A resource that fails unexpectedly."""
        raise RuntimeError(SECRET)

    app.files(FILES, "lib://files")

    @app.resource("note://{path*}/raw")
    def whole_path(path: str) -> str:
        """Return the path.

        Args:
            path: Slashes included.
        """
        return path


def _add_prompts(app: MCPKit[State]) -> None:
    @app.prompt(title="Greeting")
    def greet(name: str, style: Literal["short", "long"] = "short", times: int = 1) -> str:
        """Greet a person.

        Args:
            name: Whom.
        """
        return f"{style}: " + f"hello {name} " * times

    @app.prompt
    def chat() -> list[Message]:
        """A conversation with content of several kinds."""
        contents = TextResourceContents("note://hello", "hello", mime_type="text/plain")
        return [
            UserMessage(Image(PNG)),
            AssistantMessage("I see."),
            UserMessage(EmbeddedResource(contents)),
            UserMessage(Audio(WAV)),
        ]

    @app.prompt
    def address(
        street: Annotated[str, Complete(STREETS)],
        town: Annotated[str, Complete(towns)],
        country: str = "",
    ) -> str:
        """Write an address."""
        return f"{street}, {town}, {country}"

    @app.prompt
    def broken_prompt() -> str:
        """A prompt that fails unexpectedly."""
        raise RuntimeError(SECRET)


app = make_app()

if __name__ == "__main__":
    app.run(backend=sys.argv[1])
