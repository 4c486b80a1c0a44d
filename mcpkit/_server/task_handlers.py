"""Tasks, as the protocol has them: calls that become one, and the methods that look after them.

Two revisions have tasks. In 2025-11-25 a client wishes for one with each call, and fetches its
outcome with ``tasks/result``; in 2026-07-28 they are an extension: the server makes a task of a
call, and ``tasks/get`` has all there is to know.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import anyio
from pydantic_core import from_json, to_json

from mcpkit._entries import Tool
from mcpkit._input_requests.task_replay import (
    RelayedRequest,
    question_id,
    read_question_id,
    refusal,
    reply,
    request_of,
)
from mcpkit._protocol.connection import ClientProfile, Request
from mcpkit._protocol.messages import members
from mcpkit._protocol.revision import Revision
from mcpkit._server.encoding import Encoded
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._utils.text import named
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
from mcpkit.types import is_object

if TYPE_CHECKING:
    from mcpkit._input_requests.rounds import Rounds
    from mcpkit._server.run import Run
    from mcpkit.tasks.record import Task
    from mcpkit.tasks.service import Tasks

__all__ = [
    "EXTENSION",
    "RELATED",
    "create_task_if_requested",
    "declares",
    "detailed",
    "may_list_tasks",
    "owner_name",
    "related",
    "take_answer",
    "task_capabilities",
    "task_members",
]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The name of the extension, in capabilities (TASKX-1)."""

RELATED: Final = "io.modelcontextprotocol/related-task"
"""The member of ``_meta`` that says which task a message belongs to (TASKL-8)."""

_PAGE: Final = 100
"""Tasks on a page of a list, unless the server's settings say otherwise."""

_LONGEST_ID: Final = 100
_LONGEST_TTL_MS: Final = 10**15

Params = Mapping[str, Any]
Failed: TypeAlias = Callable[[Tool, Context[Any], BaseException], Awaitable[Rendered]]


def owner_name(revision: Revision, principal: str | None) -> str:
    """Return the name of whoever a task belongs to: a principal, in one shape of tasks.

    Tasks of one shape are none in the other (TASKX-18).
    """
    return sha256(f"{revision.tasks}\0{principal or ''}".encode()).hexdigest()[:32]


def related(id: str) -> dict[str, Any]:
    """Return the ``_meta`` of a message that belongs to a task."""
    return {RELATED: {"taskId": id}}


def declares(client: ClientProfile) -> bool:
    """Return True if a client knows the extension."""
    extensions = client.capabilities.get("extensions")
    return is_object(extensions) and is_object(extensions.get(EXTENSION))


def task_capabilities(revision: Revision, *, lists: bool) -> dict[str, Any]:
    """Return the capabilities of a server with tasks, as a revision has them (TASKL-1, TASKX-1).

    Args:
        revision: The revision.
        lists: Whether the client may list its tasks.
    """
    if revision.tasks == "extension":
        return {"extensions": {EXTENSION: {}}}
    found: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    if lists:
        found["list"] = {}
    return {"tasks": found}


def may_list_tasks(request: Request) -> bool:
    """Return True if it is known whose tasks are listed (TASKL-13).

    What has no origin is a channel of its own, which only one client has.
    """
    return request.origin is None or request.principal is not None


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


def _wished_ttl(wish: object) -> float | None:
    """Return for how many seconds a client wishes its task to be kept; None: it does not say."""
    if not is_object(wish):
        raise InvalidParams('"task" must be an object')
    ttl = wish.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 <= ttl < inf:
        raise InvalidParams('"task.ttl" must be a number of milliseconds')
    return min(ttl, _LONGEST_TTL_MS) / 1000


async def _begin_as_wished(
    tool: Tool, wish: object, arguments: dict[str, Any], server: Server, context: Context[Any]
) -> Encoded:
    """Make a task at once, if the call may be (TASKL-4)."""
    ttl = _wished_ttl(wish)
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
    task = await tasks.begin(tool, arguments, request, ttl=ttl, given=given or {})
    run = cast("Run", context.peer)
    run.session.announce_task(task.id)
    found = task_members(task, request.revision, tasks)
    if request.revision.tasks == "extension":
        return Encoded(members(found), kind=b"task")
    return Encoded(members({"task": found}))


def tasks_of(server: Server) -> Tasks:
    """Return what looks after the tasks of a server."""
    found: Tasks | None = server.tasks
    if found is None:
        raise InvalidRequest("This server is not served in a way that has tasks")
    return found


# --- a task on the wire ---------------------------------------------------------------------------


def _time(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def task_members(task: Task, revision: Revision, tasks: Tasks) -> dict[str, Any]:
    """Return what a client is told of every task (TASKL-10)."""
    suffix = "Ms" if revision.tasks == "extension" else ""
    found: dict[str, Any] = {"taskId": task.id, "status": task.status}
    if task.message is not None:
        found["statusMessage"] = task.message
    found["createdAt"] = _time(task.created)
    found["lastUpdatedAt"] = _time(task.updated)
    found[f"ttl{suffix}"] = None if task.ttl is None else _milliseconds(task.ttl)
    found[f"pollInterval{suffix}"] = _milliseconds(tasks.settings.poll_interval)
    return found


def _milliseconds(seconds: float) -> int:
    # Not fewer, since a task must not be forgotten early (TASKX-17), and never none.
    return ceil(round(seconds * 1000, 3))


def detailed(task: Task, revision: Revision, tasks: Tasks) -> bytes:
    """Return the encoded members of a task with all there is to know of it (2026-07-28)."""
    found = task_members(task, revision, tasks)
    if task.status == "input_required":  # TASKX-7
        found["inputRequests"] = {key: request_of(tasks.open(task.asks[key])) for key in task.open}
    text = members(found)
    if task.outcome is None:
        return text
    is_error, outcome = split_outcome(tasks.open(task.outcome))
    if is_error:
        return b'%b,"error":%b' % (text, outcome)
    return b'%b,"result":{%b}' % (text, outcome)


def split_outcome(outcome: bytes) -> tuple[bool, bytes]:
    """Return True and an encoded error object; or False and the encoded members of a result."""
    return outcome[:1] == b"e", outcome[1:]


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
        raise InvalidParams(f"Unknown task: {named(id)}")
    return id


async def _get_task(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/get``: how it stands with a task, and what came of it in 2026-07-28."""
    tasks, request = tasks_of(server), context.request
    task = await tasks.get(_id_of(params), tasks.owner_of(request), polled=True)
    if request.revision.tasks == "extension":
        return Encoded(detailed(task, request.revision, tasks))
    return Encoded(members(task_members(task, request.revision, tasks)))


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
    return Encoded(members(task_members(task, request.revision, tasks)))


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
        "tasks": [task_members(each, request.revision, tasks) for each in page]
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
                        question = request_of(tasks.open(task.asks[key]))
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
    tasks: Tasks,
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


def take_answer(
    tasks: Tasks | None, revision: Revision, principal: str | None, message: Mapping[str, Any]
) -> bool:
    """Take a client's answer to a question of a task, wherever that was put (TASKL-9).

    Args:
        tasks: Of the process.
        revision: Of the session that the answer belongs to.
        principal: Whose session that is.
        message: The answer.

    Returns:
        True if it is one for a task; whether the task is there, and theirs, is seen later.
    """
    found = read_question_id(message.get("id"))
    if found is None or tasks is None:
        return False
    id, key = found
    error, result = message.get("error"), message.get("result")
    if is_object(error):
        said = ProtocolError.from_wire(error)
        answer = refusal(InputRequestRefused(said.message, said.code))
    elif is_object(result):
        answer = reply(result)
    else:
        return False
    tasks.answer_later(id, owner_name(revision, principal), {key: answer})
    return True


TASK_OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "get_task": _checked(_get_task),
    "update_task": _checked(_update_task),
    "cancel_task": _checked(_cancel_task),
    "list_tasks": _list_tasks,
    "task_result": _task_result,
}
