"""Tasks, as the protocol has them: calls that become one, and the methods that look after them.

Two revisions have tasks. In 2025-11-25 a client wishes for one with each call, and fetches its
outcome with ``tasks/result``; in 2026-07-28 they are an extension: the server makes a task of a
call, and ``tasks/get`` has all there is to know.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio
from pydantic_core import from_json, to_json

from mcpkit._input_requests.task_replay import (
    RelayedRequest,
    question_id,
    refusal,
    reply,
    request_of,
)
from mcpkit._protocol.messages import members
from mcpkit._server.encoding import Encoded
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._utils.json import is_object
from mcpkit._utils.text import quote_name
from mcpkit.context import Context
from mcpkit.errors import (
    InputRequestRefused,
    InvalidArguments,
    InvalidInputResponse,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingClientCapability,
    ProtocolError,
)
from mcpkit.tasks.protocol import (
    EXTENSION,
    declares,
    detailed,
    may_list_tasks,
    related,
    requested_ttl,
    split_outcome,
    task_members,
)
from mcpkit.tools import Tool

if TYPE_CHECKING:
    from mcpkit._input_requests.rounds import Rounds
    from mcpkit._server.run import Run
    from mcpkit.tasks.record import Task
    from mcpkit.tasks.service import TaskService

__all__ = ["create_task_if_requested"]


_PAGE: Final = 100
"""Tasks on a page of a list, unless the server's settings say otherwise."""

_LONGEST_ID: Final = 100

Params = Mapping[str, Any]
Failed: TypeAlias = Callable[[Tool, Context[Any], BaseException], Awaitable[Rendered]]


# --- calls ----------------------------------------------------------------------------------------


def create_task_if_requested(
    tool: Tool,
    params: Params,
    arguments: dict[str, Any],
    server: Server,
    context: Context[Any],
    failed: Failed,
) -> Awaitable[Encoded | Rendered] | None:
    """Return the answer to a call that becomes a task; None if it is to be answered as any other.

    Args:
        tool: That is called.
        params: Of the call.
        arguments: In these.
        server: As the call sees it.
        context: Of the call.
        failed: Makes a result of an exception.

    Raises:
        ProtocolError: The tool cannot be called in this way (TASKL-3, TASKX-3).
    """
    request = context.request
    if context.peer.task is not None:
        return None  # it is one
    way, support = request.revision.tasks, tool.task
    if way == "extension" and support != "forbidden":
        if declares(request.client):
            return _begin_when_answered(tool, arguments, server, context, failed)
        if support == "required":
            raise MissingClientCapability({"extensions": {EXTENSION: {}}})
        return None  # TASKX-2
    if way == "wished" and "task" in params:
        if support == "forbidden":
            raise MethodNotFound(f"The tool {tool.name} does not run as a task")
        return _begin_as_wished(tool, params["task"], arguments, server, context)
    if support == "required":
        how = {
            "wished": "call it with params.task",
            "none": f"which revision {request.revision.version} does not have",
        }
        raise MethodNotFound(f"The tool {tool.name} runs as a task only; {how.get(way, '')}")
    return None


async def _begin_as_wished(
    tool: Tool, wish: object, arguments: dict[str, Any], server: Server, context: Context[Any]
) -> Encoded:
    """Make a task at once, if the call may be (TASKL-4)."""
    ttl = requested_ttl(wish)
    try:
        await tool.admit(arguments, context)
    except InvalidArguments as error:
        raise InvalidParams(str(error)) from None
    return await _begin(tool, arguments, server, context, ttl=ttl)


async def _begin_when_answered(
    tool: Tool,
    arguments: dict[str, Any],
    server: Server,
    context: Context[Any],
    failed: Failed,
) -> Encoded | Rendered:
    """Make a task once its declared questions have been answered by rounds (TASKX-15)."""
    try:
        await tool.prepare(arguments, context)
    except Exception as error:
        return await failed(tool, context, error)
    asker = cast("Rounds | None", getattr(context.peer, "asker", None))
    given: Mapping[str, tuple[str, Any]] = getattr(asker, "answers", {})
    return await _begin(tool, arguments, server, context, given=given)


async def _begin(
    tool: Tool,
    arguments: dict[str, Any],
    server: Server,
    context: Context[Any],
    *,
    ttl: float | None = None,
    given: Mapping[str, tuple[str, Any]] | None = None,
) -> Encoded:
    request = context.request
    tasks = tasks_of(server)
    task = await tasks.begin(
        tool.name, arguments, request, ttl=ttl, tool_ttl=tool.task_ttl, given=given or {}
    )
    run = cast("Run", context.peer)
    run.session.announce_task(task.id)
    found = task_members(task, request.revision, tasks.settings.poll_interval)
    if request.revision.tasks == "extension":
        return Encoded(members(found), kind=b"task")
    return Encoded(members({"task": found}))


def tasks_of(server: Server) -> TaskService:
    """Return what looks after the tasks of a server."""
    found: TaskService | None = server.tasks
    if found is None:
        raise InvalidRequest("This server is not served in a way that has tasks")
    return found


# --- a task on the wire ---------------------------------------------------------------------------


# --- methods --------------------------------------------------------------------------------------


def _checked(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Have an operation refuse clients without the extension, before all else (TASKX-4)."""

    def check(server: Server, params: Params, context: Context[Any]) -> Any:
        request = context.request
        if request.revision.tasks == "extension" and not declares(request.client):
            raise MissingClientCapability({"extensions": {EXTENSION: {}}})
        return operation(server, params, context)

    return check


def _id_of(params: Params) -> str:
    id = params.get("taskId")
    if not isinstance(id, str):
        raise InvalidParams('"taskId" must be a string')
    if len(id) > _LONGEST_ID:
        raise InvalidParams(f"Unknown task: {quote_name(id)}")
    return id


async def _get_task(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/get``: how it stands with a task, and what came of it in 2026-07-28."""
    tasks, request = tasks_of(server), context.request
    task = await tasks.get(_id_of(params), tasks.owner_of(request), polled=True)
    if request.revision.tasks == "extension":
        return Encoded(detailed(task, request.revision, tasks.settings.poll_interval, tasks.open))
    return Encoded(members(task_members(task, request.revision, tasks.settings.poll_interval)))


async def _update_task(server: Server, params: Params, context: Context[Any]) -> Mapping[str, Any]:
    """``tasks/update``: answers to what a task asks (TASKX-9)."""
    responses = params.get("inputResponses")
    if not is_object(responses):
        raise InvalidParams('"inputResponses" must be an object')
    # What is malformed counts as no answer, as elsewhere (MRTR-11).
    answers = {key: reply(each) for key, each in responses.items() if is_object(each)}
    tasks = tasks_of(server)
    await tasks.answer(_id_of(params), tasks.owner_of(context.request), answers)
    return {}


async def _cancel_task(server: Server, params: Params, context: Context[Any]) -> Any:
    """``tasks/cancel``: what is not over yet is cancelled from now on (TASKL-11, TASKX-11)."""
    tasks, request = tasks_of(server), context.request
    task, changed = await tasks.cancel(_id_of(params), tasks.owner_of(request))
    if request.revision.tasks == "extension":
        return {}
    if not changed:
        raise InvalidParams(f"The task is over already: {task.status}")
    return Encoded(members(task_members(task, request.revision, tasks.settings.poll_interval)))


async def _list_tasks(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/list``: the tasks of whoever asks, the oldest first."""
    tasks, request = tasks_of(server), context.request
    if not may_list_tasks(request):
        raise MethodNotFound("Tasks are listed for clients that have logged in only")
    cursor = params.get("cursor")
    after = None if cursor is None else _read_cursor(cursor)
    size = server.settings.page_size or _PAGE
    found = await tasks.list(tasks.owner_of(request), after, size + 1)
    page = found[:size]
    result: dict[str, Any] = {
        "tasks": [
            task_members(each, request.revision, tasks.settings.poll_interval) for each in page
        ]
    }
    if len(found) > size:
        result["nextCursor"] = _write_cursor((page[-1].created, page[-1].id))
    return Encoded(members(result))


def _write_cursor(place: tuple[float, str]) -> str:
    return urlsafe_b64encode(to_json(place)).decode()


def _read_cursor(cursor: object) -> tuple[float, str]:
    if isinstance(cursor, str) and len(cursor) <= _LONGEST_ID * 2:
        try:
            created, id = from_json(urlsafe_b64decode(cursor.encode("ascii")))
            place = float(created), str(id)
        except (ValueError, TypeError, binascii.Error):
            pass
        else:
            if _write_cursor(place) == cursor:
                return place
    raise InvalidParams("The cursor is malformed")


async def _task_result(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/result``: waits for the end of a task, and asks what it asks (TASKL-6, TASKL-9)."""
    tasks, request = tasks_of(server), context.request
    owner = tasks.owner_of(request)
    task = await tasks.get(_id_of(params), owner)
    run = cast("Run", context.peer)
    with tasks.watching(task.id) as watch, run.session.attach_task(task.id, request):
        async with anyio.create_task_group() as group:
            asked: dict[str, anyio.CancelScope] = {}
            while not task.is_over:
                for key in asked.keys() - task.open:
                    asked.pop(key).cancel()  # it was answered elsewhere
                for key in task.open:
                    if key not in asked:
                        asked[key] = anyio.CancelScope()
                        question = request_of(tasks.open(task.input_requests[key]))
                        group.start_soon(_relay, tasks, task, key, question, asked[key], context)
                await watch.wait()
                task = await tasks.get(task.id, owner)
            group.cancel_scope.cancel()
    if task.outcome is None:
        raise InvalidRequest("The task was cancelled, so that nothing came of it")
    is_error, outcome = split_outcome(tasks.open(task.outcome))
    if is_error:
        raise ProtocolError.from_wire(from_json(outcome))
    meta = related(task.id)
    if b'"_meta":' not in outcome:
        return Encoded(outcome, meta)
    result: dict[str, Any] = from_json(b"{%b}" % outcome)
    own = result.pop("_meta", {})
    return Encoded(members(result), {**own, **meta})


async def _relay(
    tasks: TaskService,
    task: Task,
    key: str,
    question: Mapping[str, Any],
    scope: anyio.CancelScope,
    context: Context[Any],
) -> None:
    """Put a question of a task to the client that waits for its outcome."""
    with scope:
        try:
            asked = RelayedRequest(question, related(task.id), question_id(task.id, key))
            answer = reply(await context.peer.ask(asked))
        except InputRequestRefused as error:
            answer = refusal(error)
        except InvalidInputResponse:
            answer = reply(None)  # the task asks once more, or gives up
        await tasks.answer(task.id, task.owner, {key: answer})


TASK_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "get_task": _checked(_get_task),
    "update_task": _checked(_update_task),
    "cancel_task": _checked(_cancel_task),
    "list_tasks": _list_tasks,
    "task_result": _task_result,
}
