"""Readiness: tells a load balancer if requests should be sent to this process."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import anyio
import anyio.to_thread

from mcpkit._protocol.messages import encode
from mcpkit._server.server import Server
from mcpkit._utils.logs import log
from mcpkit._utils.text import single_line
from mcpkit.http import Receive, Scope, Send
from mcpkit.transports.http.http_error import JSON, HttpError, respond, send_error
from mcpkit.transports.http.lifespan import Lifespan, Lifespans

_TIMEOUT: Final = 5.0
"""Seconds that a store has to respond, and the app to start."""

_FRESH: Final = 0.5
"""Seconds for which results are reused, so that callers cannot load what the checks ask."""


class _Round:
    """One run of all checks, which all requests of the time wait for."""

    def __init__(self, lifespan: Lifespan) -> None:
        self.lifespan = lifespan
        self.over = anyio.Event()
        self.expires = math.inf
        self.failed: list[str] = []


class Readiness:
    """An ASGI application: 200 if the app is served and all checks pass, else 503.

    Args:
        lifespans: Of the app.
        stores: Functions that raise an exception if a store cannot be reached, by its name.
    """

    def __init__(self, lifespans: Lifespans, stores: Mapping[str, Callable[[], Any]]) -> None:
        self._lifespans = lifespans
        self._stores = stores
        self._round: _Round | None = None
        self._in_threads: set[Callable[..., Any]] = set()
        """The checks that run in a thread, which may have been abandoned."""
        self._failing: set[str] = set()
        """The checks of whose failure the log tells already."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer that the process is ready, or why it is not."""
        if scope["method"] not in ("GET", "HEAD"):
            error = HttpError(405, "Only GET is answered here", [(b"allow", b"GET")])
            await send_error(send, error)
            return
        found = await self._find()
        status = 200 if found["status"] == "ok" else 503
        headers = [JSON, (b"cache-control", b"no-store")]
        await respond(send, status, headers, encode(found), head=scope["method"] == "HEAD")

    async def _find(self) -> dict[str, Any]:
        try:
            with anyio.fail_after(_TIMEOUT):
                # Starts it where the host sends no lifespan events: no request would, while a
                # load balancer waits for this.
                lifespan = await self._lifespans.current()
        except (RuntimeError, TimeoutError):
            return {"status": "starting"}
        if not lifespan.is_leaving:
            current, now = self._round, time.monotonic()
            if current is None or current.lifespan is not lifespan or now >= current.expires:
                current = self._round = _Round(lifespan)
                # A task of its own: the client of this request may disconnect.
                lifespan.loop.start(self._run(current))
            await current.over.wait()
            if current.failed and not lifespan.is_leaving:
                return {"status": "unavailable", "failed": sorted(current.failed)}
        return {"status": "draining" if lifespan.is_leaving else "ok"}

    async def _run(self, current: _Round) -> None:
        try:
            async with anyio.create_task_group() as group:
                for check in self._checks(current.lifespan.server):
                    group.start_soon(self._check, current, *check)
        finally:
            current.expires = time.monotonic() + _FRESH
            current.over.set()

    def _checks(self, server: Server) -> Iterator[tuple[str, Callable[..., Any], float]]:
        """Yield the name, the function and the timeout of every check."""
        if server.services is not None:
            for identifier, service in server.services.running.items():
                yield identifier.rpartition("/")[2], service.check_store, _TIMEOUT
        for name, function in self._stores.items():
            yield name, function, _TIMEOUT
        for function, timeout in server.ready_checks:
            yield getattr(function, "__name__", "check"), function, timeout

    async def _check(
        self, current: _Round, name: str, function: Callable[..., Any], timeout: float
    ) -> None:
        needed = [each.default for each in inspect.signature(function).parameters.values()]
        state = current.lifespan.server.states[None]
        arguments = [state] if inspect.Parameter.empty in needed else []
        reason = f"no result after {timeout:g} seconds"
        try:
            with anyio.move_on_after(timeout):
                if inspect.iscoroutinefunction(function):
                    result = await function(*arguments)
                elif function in self._in_threads:
                    result = False
                    await anyio.sleep_forever()  # it holds its only thread
                else:
                    self._in_threads.add(function)
                    result = await anyio.to_thread.run_sync(
                        self._call, function, arguments, abandon_on_cancel=True
                    )
                reason = "it returned False" if result is False else ""
            if not reason:
                self._failing.discard(name)
                return
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        current.failed.append(name)
        if name not in self._failing:
            self._failing.add(name)
            log.warning("not ready: the check %s failed: %s", name, single_line(reason))

    def _call(self, function: Callable[..., Any], arguments: list[Any]) -> Any:
        try:
            return function(*arguments)
        finally:
            self._in_threads.discard(function)
