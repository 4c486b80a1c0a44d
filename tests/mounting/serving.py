"""Applications that mcpkit apps are parts of, served by a real uvicorn in a thread."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from mcpkit import Context, MCPKit, SyncContext
from tests.transports.http.wire import Host, Site, Stage
from tests.uvicorns import listen, running

variable = contextvars.ContextVar("variable", default="unset")


class Diary:
    """What has become of an app's lifespan, which fails some times before it works."""

    def __init__(self, failures: int = 0) -> None:
        self.entries: list[str] = []
        self._failures = failures

    @property
    def lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[str]]:
        """To be given to an app; what follows the ``yield`` is not in a ``finally``."""

        @asynccontextmanager
        async def live(app: Any) -> AsyncGenerator[str, None]:
            if self._failures:
                self._failures -= 1
                self.entries.append("failed")
                raise OSError("the secret database is away")
            self.entries.append("entered")
            yield "state"
            self.entries.append("left")

        return live


def facts(ctx: Context | SyncContext) -> dict[str, Any]:
    """What a handler sees of the request, as JSON."""
    http = ctx.http
    assert http is not None
    return {
        "path": http.path,
        "client": http.client,
        "agent": http.headers.get("X-Agent"),
        "principal": None if ctx.principal is None else ctx.principal.id,
        "state": {key: value for key, value in dict(http.state).items() if key == "tenant"},
        "variable": variable.get(),
        "lifespan": ctx.state,
    }


def make_app(
    name: str = "mounted", stage: Stage | None = None, diary: Diary | None = None, **options: Any
) -> MCPKit[Any]:
    """A new app; its handlers wait for what the stage says, and write into the diary."""
    app: MCPKit[Any] = MCPKit(name, lifespan=None if diary is None else diary.lifespan, **options)

    @app.tool
    async def who() -> str:
        return name

    @app.tool
    async def tell(ctx: Context) -> str:
        """Stream."""
        await ctx.info("hello")
        return "told"

    @app.tool
    async def look(ctx: Context) -> dict[str, Any]:
        return facts(ctx)

    @app.tool
    def look_in_thread(ctx: SyncContext) -> dict[str, Any]:
        return facts(ctx)

    @app.tool
    async def wait(name: str) -> str:
        """Wait until the test says that it is enough."""
        assert stage is not None
        try:
            await stage.wait(name)
        finally:
            if diary is not None:
                diary.entries.append("call ended")
        return "waited"

    return app


def attached(app: MCPKit[Any], host: Any, *paths: str, **options: Any) -> Any:
    """A host, with an app attached to it."""
    for path in paths:
        app.attach(host, path, **options)
    return host


class Address(Host):
    """Where a host answers."""

    def site(self, path: str) -> Site:
        """What is at a path there."""
        return Site(self, MCPKit("elsewhere"), Stage(), path)


@contextmanager
def served(application: Any, *, lifespan: Any = "on", root_path: str = "") -> Iterator[Address]:
    """Serve an ASGI application until the end of the block.

    Args:
        application: Of any kind.
        lifespan: Whether lifespan events are sent: ``"on"`` or ``"off"``.
        root_path: As a proxy would take it away: clients' paths begin without it.
    """
    options = {"lifespan": lifespan, "root_path": root_path, "timeout_graceful_shutdown": 5}
    with listen() as listener:
        address = Address(listener.getsockname()[1])
        with running(application, listener, **options):
            try:
                yield address
            finally:
                address.close_all()
