"""The commands that talk to a server: a connection that shows progress and answers requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, closing, contextmanager, suppress
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, Final

import anyio
import typer

from mcpkit.cli import _options as options
from mcpkit.cli._answers import Answers
from mcpkit.cli._connection import ConnectionOptions, run_async
from mcpkit.cli._progress import ProgressDisplay
from mcpkit.cli._render import Saver
from mcpkit.cli._terminal import BAD_NEWS, fail, note
from mcpkit.client.client import Client
from mcpkit.client.results import CallResult
from mcpkit.client.tasks import TaskHandle
from mcpkit.errors import MCPKitError, TaskCancelled

_CANCEL_S: Final = 5.0
"""Seconds that the cancellation of a task may take."""


class ServerSession:
    """One command's session with a server."""

    def __init__(self, target: str, given: dict[str, Any]) -> None:
        connection = (given[name] for name in ("revision", "header", "env", "timeout", "token"))
        self.options = ConnectionOptions(target, *connection)
        self.as_json: bool = given["as_json"]
        self.quiet: bool = given["quiet"]
        self.saver = Saver(given["save"])
        self.display = ProgressDisplay(self.quiet)
        self._limit: anyio.CancelScope | None = None
        self._answers = Answers(given["answer"], given["sampling_command"], self.display.paused)
        self._roots = [e if "://" in e else Path(e).expanduser() for e in given["roots"] or ()]
        for each in self._roots:
            if isinstance(each, Path) and not each.exists():
                fail(f"--roots {each}: there is no such file or folder")

    def connected(self) -> AbstractAsyncContextManager[Client]:
        """Connect a client that answers the server's requests, as `ConnectionOptions.connected`."""
        roots = [str(each) for each in self._roots] or None
        log = self.display.log
        return self.options.connected(**self._answers.options, roots=roots, on_log=log)

    @contextmanager
    def waiting(
        self, name: str, outcome: str = "and has been cancelled"
    ) -> Generator[None, None, None]:
        """Wait for a response inside the context; the request itself must have no timeout."""
        timeout = self.options.timeout
        with closing(self.display), anyio.move_on_after(timeout) as self._limit:
            yield
        if self._limit.cancelled_caught:
            fail(f"{name} did not answer within {timeout:g} s, {outcome}")

    async def outcome(self, task: TaskHandle, *, is_ours: bool) -> CallResult:
        """Wait for a task and show its status."""
        try:
            async for status in task:
                self.display.status(status.message)
            return await task
        except TaskCancelled as error:
            self.display.close()
            note(f"{error} ({error.id})")
            raise typer.Exit(BAD_NEWS) from None
        except BaseException:
            if not task.is_over:
                self.display.close()
                with anyio.CancelScope(shield=True):
                    await self._leave(task, is_ours=is_ours)
            raise

    async def _leave(self, task: TaskHandle, *, is_ours: bool) -> None:
        outcome = "goes on"
        if is_ours:
            outcome = "could not be cancelled"
            with anyio.move_on_after(_CANCEL_S), suppress(MCPKitError, TimeoutError, ValueError):
                await task.cancel()
                if self._limit is not None and self._limit.cancel_called:
                    return  # `waiting` prints a message
                outcome = "has been cancelled"
        note(f"the task {task.id} {outcome}")


_SHARED: Final[dict[str, tuple[Any, Any]]] = {
    "as_json": (bool, options.AS_JSON),
    "save": (Path | None, options.SAVE),
    "quiet": (bool, options.QUIET),
    "answer": (list[str] | None, options.ANSWERS),
    "sampling_command": (str | None, options.SAMPLING_COMMAND),
    "roots": (list[str] | None, options.ROOTS),
    "revision": (str | None, options.REVISION),
    "header": (list[str] | None, options.HEADERS),
    "token": (str | None, options.TOKEN),
    "env": (list[str] | None, options.ENV),
    "timeout": (float | None, options.TIMEOUT),
}
"""Name → type and declaration of the options of every command that talks to a server."""


def server_command(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of an async function."""
    _, *own = signature(command, eval_str=True).parameters.values()
    parameters = own + [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        for name, (kind, default) in _SHARED.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        session = ServerSession(given["target"], {name: given.pop(name) for name in _SHARED})
        run_async(partial(command, session, **given))

    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
