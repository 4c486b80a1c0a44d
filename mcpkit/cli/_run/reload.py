"""``mcpkit run --reload`` on stdio: the app is imported again when a file changes.

The process and its session continue, with handshake, log level and subscriptions, and only the
entries are replaced. A running call finishes with the function that it started with.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from mcpkit._server.changes import Changes
from mcpkit._server.registry import Registry
from mcpkit._server.server import Server
from mcpkit._utils.sealing import SECRET, new_secret, secrets_from_environment
from mcpkit._utils.targets import TargetError
from mcpkit.app import MCPKit
from mcpkit.cli._run.files import FileWatcher
from mcpkit.cli._terminal import in_daemon, note
from mcpkit.context import CallNext, Context, ContextBackend, ListKind
from mcpkit.errors import MethodNotFound, MissingEnvironment
from mcpkit.transports import load
from mcpkit.transports.stdio.reader import is_deserted
from mcpkit.transports.stdio.redirect import take_over

_HOLD_S: Final = 4.0
"""Seconds that a request waits for a new version. Some hosts time out after five."""

_FINISH_S: Final = 3.0
"""Seconds after which the lifespan of a replaced version is exited, even if calls still run."""


def serve_with_reload(
    import_app: Callable[[], MCPKit[Any]], watched: FileWatcher, *, debug: bool = False
) -> int:
    """Serve an app on stdio, and import it again when a file changes; return the exit code.

    It is 2 if the host leaves before the app can be imported.
    """
    if not secrets_from_environment():  # for all versions
        os.environ[SECRET] = new_secret()
    served = _Reloaded(import_app, watched, debug)
    if not served.wait_for_first():
        return 2
    load("stdio")[0].run(served)
    return 0


@dataclass
class _Version:
    server: Server
    replaced: anyio.Event = field(default_factory=anyio.Event)
    running: set[ContextBackend] = field(default_factory=set["ContextBackend"])


class _Reloaded:
    """An app for a transport, whose entries follow its files."""

    def __init__(
        self, import_app: Callable[[], MCPKit[Any]], watched: FileWatcher, debug: bool
    ) -> None:
        self._import_app, self._watched, self._debug = import_app, watched, debug
        self._app: MCPKit[Any] | None = None
        self._registry = Registry()
        self._changes = Changes()
        self._version: _Version | None = None
        self._front: Server | None = None
        self._importing: anyio.Event | None = None

    @property
    def name(self) -> str:
        """The name of the version that was imported last."""
        return "" if self._app is None else self._app.name

    def wait_for_first(self) -> bool:
        """Import the target, again after changes; return False if the host leaves before."""
        reader = take_over().reader
        while not self._load():
            note("it reloads when a file changes")
            while not (changes := self._watched.changes()):
                if is_deserted(reader):
                    return False
                time.sleep(self._watched.pause)
            note(f"{self._watched.describe(changes)} changed: reloading")
        return True

    def _load(self) -> bool:
        """Import the target again; return False, and keep the current version, if that fails."""
        ours = {
            name: module
            for name, module in sys.modules.items()
            if self._watched.covers(getattr(module, "__file__", None))
        }
        for name in ours:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            app = self._import_app()
            app.check_environment()
        except (TargetError, MissingEnvironment) as error:
            sys.modules.update(ours)
            if self._debug:
                traceback.print_exception(error.__cause__ or error)
            note(str(error))
            return False
        self._app = app
        return True

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Server, None]:
        """Serve the imported version, and each one that follows it."""
        async with anyio.create_task_group() as versions:
            await versions.start(self._live)
            assert self._version is not None
            front = self._front = copy(self._version.server)
            front.registry = front.catalog = self._registry
            front.middleware, front.composed = (self._forward,), {}
            front.changes = self._changes
            front.extensions, front.choosers = [*front.extensions], [*front.choosers]
            front.extension_methods = {**front.extension_methods}
            offered = self._registry.advertised

            def announce(kind: ListKind) -> None:
                if kind in offered:  # the host knows of no other list (LIFE-8)
                    front.changes.list_changed(kind)

            self._registry.on_change = announce
            async with anyio.create_task_group() as following:
                following.start_soon(self._follow, versions, front)
                yield front
                following.cancel_scope.cancel()
            self._version.replaced.set()

    async def _live(self, *, task_status: TaskStatus[None]) -> None:
        """Serve a version until another one replaces it and its calls have ended."""
        assert self._app is not None
        async with self._app.running() as server:
            before, version = self._version, _Version(server)
            self._version, registry = version, server.registry
            server.load(self._registry.advertised)  # the host goes on to use what it knows
            self._take_over(server)
            server.changes.forward(self._changes)
            registry.on_commit = lambda: self._take_over(server)
            registry.on_change = lambda kind: self._take_over(server)
            if before is not None:
                before.server.changes.stop_forwarding(self._changes)
                before.server.registry.on_commit = lambda: None
                before.server.registry.on_change = lambda kind: None
                before.replaced.set()
            task_status.started()
            await version.replaced.wait()
            with anyio.move_on_after(_FINISH_S):
                while version.running:
                    self._evict(version.running)
                    await anyio.sleep(0.05)

    def _take_over(self, server: Server) -> None:
        """Serve the entries and the extensions of a version."""
        self._registry.take_over(server.registry)
        if self._front is not None:
            self._front.choosers[:] = server.choosers
        if self._front is not None and self._front.extensions != server.extensions:
            self._front.declare_extensions_of(server)

    def _evict(self, runs: Container[ContextBackend] | None = None) -> None:
        """Do not hold runs any more: a retry replays them with the next version."""
        for each in [] if self._front is None else self._front.all_services:
            each.server.suspended.evict_all("the server was reloaded", runs)

    async def _follow(self, versions: TaskGroup, front: Server) -> None:
        while True:
            await anyio.sleep(self._watched.pause)
            if changes := await to_thread.run_sync(self._watched.changes):
                self._importing = imported = anyio.Event()
                note(f"{self._watched.describe(changes)} changed: reloading")
                try:
                    await self._renew(versions, front)
                finally:
                    self._importing = None
                    imported.set()

    async def _renew(self, versions: TaskGroup, front: Server) -> None:
        known = self._registry.advertised
        self._evict()
        if not await in_daemon(self._load):
            note("the previous version continues")
            return
        try:
            await versions.start(self._live)
        except Exception as error:
            note(f"the new lifespan failed: {error}; the previous version continues")
            return
        assert self._version is not None
        if new := sorted(self._registry.advertised - known):
            note(
                f"the server has {' and '.join(new)} now, which its host does not know; "
                f"the host has to reconnect for that"
            )

    async def _forward(self, context: Context[Any], _: CallNext) -> Any:
        """Wait for a version that is being imported, then call the current one."""
        if self._importing is not None and context.method != "ping":
            with anyio.move_on_after(_HOLD_S):
                await self._importing.wait()
        version = self._version
        assert version is not None
        context.backend.states = version.server.states
        handler = version.server.handlers().get(context.request.known.operation)
        if handler is None:  # of an extension that this version does not have
            raise MethodNotFound(f"Method not found: {context.method}")
        version.running.add(context.backend)
        try:
            value = handler(context.backend.server, context.request.params, context)
            return await value if inspect.isawaitable(value) else value
        finally:
            version.running.discard(context.backend)
