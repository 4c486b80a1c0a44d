"""What the tests of the wire serve: a little of everything that a client can notice over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from mcpkit import Context, MCPKit, MirroredHeader, MissingClientCapability
from mcpkit.elicitation import Elicitation
from tests.transports.http.wire import Stage


def said(answer: Elicitation[Any]) -> str:
    return str(answer.data) if answer.accepted else type(answer).__name__


def make_app(stage: Stage, **options: Any) -> MCPKit[None]:
    """A new app, whose handlers wait for what the stage says."""
    app: MCPKit[None] = MCPKit("wire", **options)
    _add_plain(app)
    _add_streaming(app, stage)
    _add_asking(app, stage)
    return app


def _add_plain(app: MCPKit[None]) -> None:
    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def large(size: int) -> str:
        return "x" * size

    @app.tool
    async def routed(
        region: Annotated[str | None, MirroredHeader("Region")] = None,
        count: Annotated[int | None, MirroredHeader("Count")] = None,
        really: Annotated[bool | None, MirroredHeader("Really")] = None,
        method: Annotated[str | None, MirroredHeader("Method")] = None,
    ) -> str:
        return f"{region} {count} {really} {method}"

    @app.tool
    async def who(ctx: Context) -> dict[str, Any]:
        """What is known of the client and its request."""
        assert ctx.http is not None
        info = ctx.client.info
        return {
            "name": None if info is None else info.name,
            "sampling": ctx.client.supports("sampling"),
            "principal": None if ctx.principal is None else ctx.principal.id,
            "revision": ctx.revision,
            "agent": ctx.http.headers.get("user-agent"),
        }

    @app.tool
    async def offer(name: str) -> str:
        """Add a tool."""

        async def added() -> str:
            """Was added."""
            return "added"

        app.add_tool(added, name=name)
        return name

    @app.tool
    async def touch(uri: str) -> str:
        """Say that a resource has changed."""
        app.notify_resource_updated(uri)
        return uri

    @app.resource("wire://{name}")
    async def part(name: str) -> str:
        return name

    @app.prompt
    async def greet(name: str) -> str:
        return f"Greet {name}"


def _add_streaming(app: MCPKit[None], stage: Stage) -> None:
    @app.tool
    async def tell(texts: list[str], ctx: Context) -> str:
        """Log, one text after the other."""
        for text in texts:
            await ctx.info(text)
        return "told"

    @app.tool
    async def advance(steps: int, ctx: Context) -> str:
        for step in range(1, steps + 1):
            await ctx.progress(step, steps)
        return "advanced"

    @app.tool
    async def hold(name: str) -> str:
        """Wait until the test lets it go on."""
        await stage.wait(name)
        return f"{name} went on"

    @app.tool
    async def chat(name: str, before: list[str], after: list[str], ctx: Context) -> str:
        """Log, wait until the test lets it go on, and log."""
        for text in before:
            await ctx.info(text)
        await stage.wait(name)
        for text in after:
            await ctx.info(text)
        return f"{name} went on"

    @app.tool
    async def leave(name: str, ctx: Context, retry: float | None = None) -> str:
        """Close the stream, and wait until the test lets it go on."""
        ctx.close_stream(retry)
        await stage.wait(name)
        return f"{name} went on"


def _add_asking(app: MCPKit[None], stage: Stage) -> None:
    @app.tool
    async def user(name: str, ctx: Context) -> str:
        """Ask the user."""
        stage.signal("begun", name)
        try:
            return said(await ctx.elicit("What?", str, key="what"))
        except BaseException:
            stage.signal("failed", name)
            raise

    @app.tool
    async def users(ctx: Context) -> str:
        """Ask the user twice, one after the other."""
        first = said(await ctx.elicit("First?", str, key="first"))
        second = said(await ctx.elicit("Second?", str, key="second"))
        return f"{first} {second}"

    @app.tool
    async def model(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Say something")).text

    @app.tool
    async def needs_sampling(ctx: Context, first: str | None = None) -> str:
        if first is not None:
            await ctx.info(first)
        if not ctx.client.supports("sampling"):
            raise MissingClientCapability({"sampling": {}})
        return "fine"

    @app.tool
    async def watch_roots(name: str, ctx: Context) -> str:
        """From now on, signal when the roots have been read again."""

        def seen(roots: Any) -> None:
            stage.signal(f"seen {roots[0].uri}", name)

        ctx.roots_changed(seen)
        return "watching"
