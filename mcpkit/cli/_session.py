"""A connection to a server that may ask, and tells what it does, while it is at work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any, Final, get_type_hints

import anyio
import typer

from mcpkit.cli import _options as options
from mcpkit.cli._answers import Answers
from mcpkit.cli._connection import run_async
from mcpkit.cli._options import ConnectionOptions, roots_from
from mcpkit.cli._progress import ProgressDisplay, TimeLimit
from mcpkit.cli._render import Saver
from mcpkit.cli._terminal import BAD_NEWS, fail, note
from mcpkit.client.client import Client
from mcpkit.client.results import CallResult
from mcpkit.client.tasks import TaskHandle
from mcpkit.errors import MCPKitError, TaskCancelled

_CANCEL_S: Final = 5.0
"""Seconds that the cancellation of a task may take."""

_CANCELLED: Final = "and has been cancelled"


class ServerSession:
    """A call in progress: its client, its time limit, its questions and its progress.

    Args:
        target: The server.
        given: The shared options, as on the command line.

    Raises:
        typer.Exit: An option makes no sense; a message has said so.
    """

    def __init__(self, target: str, given: dict[str, Any]) -> None:
        reach = (given[name] for name in ("revision", "header", "env", "timeout", "token"))
        self.reach = ConnectionOptions(target, *reach)
        self.as_json: bool = given["as_json"]
        self.quiet: bool = given["quiet"]
        self.saver = Saver(given["save"])
        self.telling = ProgressDisplay(self.quiet)
        self._limit = TimeLimit(self.reach.timeout)
        self._asking = Answers(
            given["answer"], given["sampling_command"], self.telling, self._limit
        )
        self._roots = roots_from(given["roots"])

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Client, None]:
        """Connect a client that answers the server's requests, as `ConnectionOptions.connected`."""
        async with self.reach.connected(
            **self._asking.options, roots=self._roots, on_log=self.telling.log
        ) as client:
            yield client

    @contextmanager
    def waiting(self, what: str, left: str = _CANCELLED) -> Generator[None, None, None]:
        """Wait for an answer in here; the request itself must have no limit of its own.

        Args:
            what: The name of what is at work, for the message.
            left: What becomes of it if it takes too long, for the message.

        Raises:
            typer.Exit: It takes longer than it may; it was cancelled, and a message has said so.
        """
        try:
            with self.telling, self._limit.limited():
                yield
        except TimeoutError:
            if self.reach.timeout is None:
                raise
            fail(f"{what} did not answer within {self.reach.timeout:g} s, {left}")

    async def outcome(self, task: TaskHandle, *, is_ours: bool) -> CallResult:
        """Wait for a task, and show how it stands with it.

        Args:
            task: That is waited for.
            is_ours: True if this command has started it. It is then cancelled when the command
                stops waiting for it, and a message says so.

        Raises:
            typer.Exit: It was cancelled; a message has said so.
        """
        try:
            async for status in task:
                self.telling.status(status.message)
            return await task
        except TaskCancelled as error:
            self.telling.close()
            note(f"{error} ({error.id})")
            raise typer.Exit(BAD_NEWS) from None
        except BaseException:
            if not task.is_over:
                self.telling.close()
                with anyio.CancelScope(shield=True):
                    await self._leave(task, is_ours=is_ours)
            raise

    async def _leave(self, task: TaskHandle, *, is_ours: bool) -> None:
        said = f"the task {task.id} goes on"
        if is_ours:
            said = f"the task {task.id} could not be cancelled"
            with anyio.move_on_after(_CANCEL_S):
                try:
                    await task.cancel()
                except (MCPKitError, TimeoutError, ValueError):
                    pass
                else:
                    if self._limit.is_reached:
                        return  # which is said elsewhere
                    said = f"the task {task.id} has been cancelled"
        note(said)


_SHARED: Final[dict[str, tuple[Any, Any]]] = {
    "as_json": (options.AsJson, False),
    "save": (options.Save, None),
    "quiet": (options.Quiet, False),
    "answer": (options.Answers, None),
    "sampling_command": (options.SamplingCommand, None),
    "roots": (options.Roots, None),
    "revision": (options.Revision, None),
    "header": (options.Headers, None),
    "token": (options.Token, None),
    "env": (options.Env, None),
    "timeout": (options.Timeout, None),
}
"""Name → type and default of the options of every command that talks to a server."""


def talking(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of an async function.

    Its first parameter is a `ServerSession`, made from the shared options.
    They come after its own options.
    """
    hints = get_type_hints(command, include_extras=True)
    _, *own = signature(command).parameters.values()
    parameters = [each.replace(annotation=hints[each.name]) for each in own] + [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
        for name, (kind, default) in _SHARED.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        talk = ServerSession(given["target"], {name: given.pop(name) for name in _SHARED})
        run_async(partial(command, talk, **given))

    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
