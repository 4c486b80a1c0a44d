"""``mcpkit tasks``: look after tasks that have been begun before."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import typer

from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE
from mcpkit._utils.text import single_line
from mcpkit.cli._options import TargetArgument
from mcpkit.cli._render import put, put_json
from mcpkit.cli._session import ServerSession, talking
from mcpkit.cli._terminal import BAD_NEWS, fail, note
from mcpkit.cli.call import show_result
from mcpkit.client.client import Client
from mcpkit.client.results import TaskQuestion, TaskStatus
from mcpkit.client.tasks import TaskHandle

__all__ = ["tasks"]

_ACTIONS: Final = ("list", "show", "result", "cancel")


@talking
async def tasks(
    talk: ServerSession,
    action: Annotated[str, typer.Argument(metavar="ACTION", help=f"One of {', '.join(_ACTIONS)}")],
    target: TargetArgument,
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Of the task; for all but list")
    ] = None,
) -> None:
    """List, show, await and cancel tasks that have been begun before.

    mcpkit call TARGET TOOL --detach begins one. What result shows, and what it asks, is as with
    mcpkit call; Ctrl-C ends the waiting, and not the task.

    A server that is started here knows tasks of another run only if it keeps them in a file or a
    database. A task is known in the revision it was begun in, and only 2025-11-25 has a list.

    \b
    Examples:
      mcpkit tasks show https://example.com/mcp 5bM3Zl0c
      mcpkit tasks result https://example.com/mcp 5bM3Zl0c --answer approve=yes
      mcpkit tasks cancel server.py 5bM3Zl0c --env MCPKIT_TASKS=tasks.db
    """
    if action not in _ACTIONS:
        fail(f"{action!r} is nothing to do with tasks; use one of {', '.join(_ACTIONS)}")
    if (id is None) is not (action == "list"):
        fail("list takes no id" if id else f"say which task to {_verb(action)}: its id")
    async with talk.connected() as client:
        if not client._has_tasks:
            fail(f"{target} has no tasks in {client.revision}")
        if action == "list":
            await _list(client, as_json=talk.as_json)
            return
        assert id is not None
        task = client.task(id)
        if action == "show":
            await _show(task, as_json=talk.as_json)
        elif action == "cancel":
            await _cancel(task, as_json=talk.as_json)
        else:
            with talk.waiting(f"the task {id}", "and goes on"):
                result = await talk.outcome(task, is_ours=False)
            show_result(result, "task", talk.saver, as_json=talk.as_json)


def _verb(action: str) -> str:
    return "wait for" if action == "result" else action


async def _list(client: Client, *, as_json: bool) -> None:
    if BY_VERSION[client.revision].tasks != "wished":
        older = next(each.version for each in HANDSHAKE if each.tasks == "wished")
        fail(
            f"{client.revision} has no list of tasks; --revision {older} lists those that were "
            f"begun in it"
        )
    found = [each.status for each in await client.tasks() if each.status is not None]
    if as_json:
        put_json({"tasks": [each.raw for each in found]})
        return
    for each in found:
        put(_line(each))
    if not found:
        note("there are no tasks")


async def _show(task: TaskHandle, *, as_json: bool) -> None:
    status = await task.look()
    if as_json:
        put_json(status.raw)
        return
    put(_line(status))
    kept = "for ever" if status.ttl is None else f"for {status.ttl:g} s"
    put(f"  begun {_time(status.created)}, changed {_time(status.updated)}, kept {kept}")
    if status.status == "input_required":
        for question in (await task.questions()).values():
            put(f"  asks: {_words(question)}")


async def _cancel(task: TaskHandle, *, as_json: bool) -> None:
    await task.cancel()
    status = await task.look()
    if as_json:
        put_json(status.raw)
    else:
        put(_line(status))
    if status.is_over and status.status != "cancelled":
        note("the task was over already")
        raise typer.Exit(BAD_NEWS)


def _line(status: TaskStatus) -> str:
    said = f"  {single_line(status.message)}" if status.message else ""
    return f"{single_line(status.id)}  {status.status}{said}"


def _time(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _words(question: TaskQuestion) -> str:
    """Return what a question says to people, or else its method."""
    message: Any = question.params.get("message")
    return single_line(message if isinstance(message, str) else question.method)
