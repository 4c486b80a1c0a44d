"""``mcpkit tasks``: list, show, await and cancel tasks."""

from __future__ import annotations

from typing import Any, Final

import typer

from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE
from mcpkit._utils.text import single_line
from mcpkit.cli._options import TARGET, argument
from mcpkit.cli._render import put, put_json
from mcpkit.cli._session import ServerSession, server_command
from mcpkit.cli._terminal import BAD_NEWS, fail, note
from mcpkit.cli.call import show_result
from mcpkit.client.client import Client
from mcpkit.client.results import TaskStatus

_ACTIONS: Final = ("list", "show", "result", "cancel")


@server_command
async def tasks(
    session: ServerSession,
    action: str = argument(f"One of {', '.join(_ACTIONS)}", "ACTION"),
    target: str = TARGET,
    id: str | None = argument("The task, except for list", "ID", None),
) -> None:
    """List, show, await and cancel tasks.

    mcpkit call TARGET TOOL --detach starts one. result prints the result, and asks the questions,
    like mcpkit call; Ctrl-C stops the waiting, not the task.

    A server that is started here remembers tasks only in a file or a database. A task belongs to
    the revision in which it was started, and only 2025-11-25 has a list.

    \b
    Examples:
      mcpkit tasks show https://example.com/mcp 5bM3Zl0c
      mcpkit tasks result https://example.com/mcp 5bM3Zl0c --answer approve=yes
      mcpkit tasks cancel server.py 5bM3Zl0c --env MCPKIT_TASKS=tasks.db
    """
    if action not in _ACTIONS:
        fail(f"there is no action {action!r}; use one of {', '.join(_ACTIONS)}")
    if (id is None) is not (action == "list"):
        fail("list takes no id" if id else f"{action} needs the id of a task")
    async with session.connected() as client:
        if not client._has_tasks:
            fail(f"{target} has no tasks in {client.revision}")
        if id is None:
            await _list(client, as_json=session.as_json)
            return
        task = client.task(id)
        if action == "result":
            with session.waiting(f"the task {id}", "and goes on"):
                result = await session.outcome(task, is_ours=False)
            show_result(result, "task", session.saver, as_json=session.as_json)
            return
        if action == "cancel":
            await task.cancel()
        status = await task.look()
        if session.as_json:
            put_json(status.raw)
        else:
            put(_line(status))
        if action == "cancel":
            if status.is_over and status.status != "cancelled":
                note("the task was over already")
                raise typer.Exit(BAD_NEWS)
        elif not session.as_json:
            kept = "for ever" if status.ttl is None else f"for {status.ttl:g} s"
            started, changed = (
                at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
                for at in (status.created, status.updated)
            )
            put(f"  started {started}, changed {changed}, kept {kept}")
            if status.status == "input_required":
                for question in (await task.questions()).values():
                    message: Any = question.params.get("message")
                    text = message if isinstance(message, str) else question.method
                    put(f"  asks: {single_line(text)}")


async def _list(client: Client, *, as_json: bool) -> None:
    if BY_VERSION[client.revision].tasks != "client":
        older = next(each.version for each in HANDSHAKE if each.tasks == "client")
        fail(
            f"{client.revision} has no list of tasks; --revision {older} lists those that were "
            f"started in it"
        )
    found = [each.status for each in await client.tasks() if each.status is not None]
    if as_json:
        put_json({"tasks": [each.raw for each in found]})
    elif not found:
        note("there are no tasks")
    else:
        put("\n".join(map(_line, found)))


def _line(status: TaskStatus) -> str:
    message = f"  {single_line(status.message)}" if status.message else ""
    return f"{single_line(status.id)}  {status.status}{message}"
