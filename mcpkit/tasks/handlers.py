"""The handlers of tasks: of calls that create one, and of the methods of tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import anyio
from pydantic_core import from_json

from mcpkit._input_requests.replay import StatelessReplay
from mcpkit._input_requests.task_replay import RelayedRequest
from mcpkit._protocol.connection import TASKS_EXTENSION, Request, RequestSource
from mcpkit._protocol.messages import Encoded, members
from mcpkit._server.failures import error_result
from mcpkit._server.registry import read_cursor, write_cursor
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._utils.json import is_object
from mcpkit.context import Context
from mcpkit.errors import (
    Forbidden,
    InputRequestRefused,
    InvalidArguments,
    InvalidInputResponse,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
)
from mcpkit.middleware import Handler, Params
from mcpkit.tasks.protocol import (
    check_declared,
    declares,
    detailed,
    may_list_tasks,
    outcome_field,
    question_id,
    refusal,
    related,
    reply,
    request_of,
    requested_ttl,
    split_outcome,
    task_members,
)
from mcpkit.tasks.record import Task
from mcpkit.tasks.service import TaskService, Unavailable, service_of
from mcpkit.tasks.shares import OtherSecret
from mcpkit.tasks.support import support_of
from mcpkit.tools import Tool

if TYPE_CHECKING:
    from mcpkit._server.run import Run

_PAGE_SIZE: Final = 100
"""Tasks on a page of a list, unless the server's settings say otherwise."""


def call_tool(handler: Handler, server: Server, params: Params, context: Context[Any]) -> Any:
    """``tools/call``: creates a task, or leaves the call to the handler.

    Raises `ProtocolError` if the tool cannot be called in this way (TASKL-3, TASKX-3).
    """
    name: Any = params.get("name")
    tool = server.catalog.tools.get(name) if type(name) is str else None
    if context.task is None:  # else the task itself runs the tool
        arguments: Any = params.get("arguments")
        if arguments is None:
            arguments = {}
        if tool is not None and arguments.__class__ is dict:  # else the handler reports it
            created = _create_task_if_requested(tool, params, arguments, server, context)
            if created is not None:
                return created
    return handler(server, params, context)


def _create_task_if_requested(
    tool: Tool,
    params: Params,
    arguments: dict[str, Any],
    server: Server,
    context: Context[Any],
) -> Awaitable[Encoded | Rendered] | None:
    """Return the result of a call that creates a task; None if the call runs the tool itself."""
    request = context.request
    way, support = request.revision.tasks, support_of(tool).mode
    if way == "extension" and support != "forbidden":
        if declares(request.client):
            return _create_when_answered(tool, arguments, server, context)
        if support == "required":
            check_declared(request.client)
        return None  # TASKX-2
    if way == "client" and "task" in params:
        if support == "forbidden":
            raise MethodNotFound(f"The tool {tool.name} does not run as a task")
        return _create_as_requested(tool, params["task"], arguments, server, context)
    if support == "required":
        how = {
            "client": "call it with params.task",
            "none": f"which revision {request.revision.version} does not have",
        }
        raise MethodNotFound(f"The tool {tool.name} runs as a task only; {how.get(way, '')}")
    return None


async def _create_as_requested(
    tool: Tool, task: object, arguments: dict[str, Any], server: Server, context: Context[Any]
) -> Encoded:
    """Create a task at once, if the call is allowed (TASKL-4)."""
    ttl = requested_ttl(task)
    try:
        await tool.admit(arguments, context.request.origin)
    except InvalidArguments as error:
        raise InvalidParams(str(error)) from None
    return await _create(tool, arguments, server, context, ttl=ttl, given={})


async def _create_when_answered(
    tool: Tool, arguments: dict[str, Any], server: Server, context: Context[Any]
) -> Encoded | Rendered:
    """Create a task once its declared input requests have been answered (TASKX-15)."""
    try:
        await tool.prepare(arguments, context)
    except Exception as error:
        return await error_result(tool, context, error)
    asker = cast("Run", context.backend).asker
    given: Mapping[str, Any] = asker.answers if isinstance(asker, StatelessReplay) else {}
    return await _create(tool, arguments, server, context, ttl=None, given=given)


async def _create(
    tool: Tool, arguments: dict[str, Any], server: Server, context: Context[Any], **options: Any
) -> Encoded:
    tasks = _tasks_of(server, context.request)
    task = await tasks.begin(
        *(tool.name, arguments, context.request),
        tool_ttl=support_of(tool).ttl,
        by_arguments=tool.allow is not None,
        **options,
    )
    if context.request.revision.tasks == "client":
        _followed_by(context, server).announce(task.id)
    found = _members_of(task, tasks, context)
    if context.request.revision.tasks == "extension":
        return Encoded(members(found), kind=b"task")
    return Encoded(members({"task": found}))


def _followed_by(context: Context[Any], server: Server) -> Any:
    """Return the `SessionTasks` that the client of a session follows."""
    session: Any = cast("Run", context.backend).session  # tasks themselves do not use tasks
    return session.subscriptions.follower_of(server.extension(TASKS_EXTENSION))


def _tasks_of(server: Server, request: Request) -> TaskService:
    """Return the tasks, if the client knows them (TASKX-4)."""
    if request.revision.tasks == "extension":
        check_declared(request.client)
    tasks = service_of(server)
    if tasks is None:
        raise InvalidRequest("Tasks are not available on this server")
    return tasks


# --- methods --------------------------------------------------------------------------------------


def _id_of(params: Params) -> str:
    id = params.get("taskId")
    if not isinstance(id, str):
        raise InvalidParams('"taskId" must be a string')
    return id


async def _task_of(
    server: Server, tasks: TaskService, params: Params, context: Context[Any], **options: bool
) -> Task:
    """Return the task that params name, if the caller owns it and may call its tool."""
    task = await tasks.get(_id_of(params), tasks.owner_of(context.request), **options)
    await tasks.admit(task, server, context.request.origin)
    return task


def _members_of(task: Task, tasks: TaskService, context: Context[Any]) -> dict[str, Any]:
    return task_members(task, context.request.revision, tasks.settings.poll_interval)


async def _get_task(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/get``: the status of a task, and in 2026-07-28 its questions and outcome."""
    request = context.request
    tasks = _tasks_of(server, request)
    task = await _task_of(server, tasks, params, context, polled=True)
    if request.revision.tasks == "extension":
        return Encoded(detailed(task, request.revision, tasks.settings.poll_interval, tasks.open))
    return Encoded(members(_members_of(task, tasks, context)))


async def _update_task(server: Server, params: Params, context: Context[Any]) -> Params:
    """``tasks/update``: answers to the input requests of a task (TASKX-9)."""
    tasks = _tasks_of(server, context.request)
    responses = params.get("inputResponses")
    if not is_object(responses):
        raise InvalidParams('"inputResponses" must be an object')
    # A malformed response counts as none, as elsewhere (MRTR-11).
    answers = {key: reply(each) for key, each in responses.items() if is_object(each)}
    admit = partial(tasks.admit, server=server, origin=context.request.origin)
    await tasks.answer(_id_of(params), tasks.owner_of(context.request), answers, admit)
    return {}


async def _cancel_task(server: Server, params: Params, context: Context[Any]) -> Params:
    """``tasks/cancel``: cancels a task that is not over (TASKL-11, TASKX-11)."""
    request = context.request
    tasks = _tasks_of(server, request)
    task = await _task_of(server, tasks, params, context)
    task, changed = await tasks.cancel(task.id, task.owner)
    if request.revision.tasks == "extension":
        return {}
    if not changed:
        raise InvalidParams(f"The task is over already: {task.status}")
    return _members_of(task, tasks, context)


async def _list_tasks(server: Server, params: Params, context: Context[Any]) -> Params:
    """``tasks/list``: the tasks of the caller whose tools it may call, the oldest first."""
    request = context.request
    tasks = _tasks_of(server, request)
    if not may_list_tasks(request):
        raise MethodNotFound("Tasks are listed only for authenticated clients")
    cursor = params.get("cursor")
    after = None if cursor is None else read_cursor("tasks", cursor, float)
    size = server.settings.page_size or _PAGE_SIZE
    async with tasks.reached() as store:
        found = await store.list(tasks.owner_of(request), after, size + 1)
    page = found[:size]
    shown: list[dict[str, Any]] = []
    for each in page:
        with suppress(Forbidden, OtherSecret):
            await tasks.admit(each, server, request.origin)
            shown.append(_members_of(each, tasks, context))
    result: dict[str, Any] = {"tasks": shown}
    if len(found) > size:
        result["nextCursor"] = write_cursor("tasks", page[-1].created, page[-1].id)
    return result


async def _task_result(server: Server, params: Params, context: Context[Any]) -> Encoded:
    """``tasks/result``: waits for the outcome, and relays input requests (TASKL-6, TASKL-9)."""
    request = context.request
    tasks = _tasks_of(server, request)
    task = await _task_of(server, tasks, params, context)
    followed = _followed_by(context, server)
    with tasks.watching(task.id) as waiter, followed.attached(task.id, request):
        async with anyio.create_task_group() as group:
            relayed: dict[str, anyio.CancelScope] = {}
            outages = tasks.outages
            while not task.is_over:
                # Answered elsewhere; or its answer may be lost with the process that took it.
                asks_again, outages = outages != tasks.outages, tasks.outages
                for key in [each for each in relayed if asks_again or each not in task.open]:
                    relayed.pop(key).cancel()
                for key in task.open:
                    if key not in relayed:
                        relayed[key] = anyio.CancelScope()
                        group.start_soon(_relay, tasks, task, key, relayed[key], context)
                await waiter.wait()
                with suppress(Unavailable):  # the outcome will be stored when it is back
                    task = await tasks.get(task.id, task.owner)
            group.cancel_scope.cancel()
    if task.outcome is None:
        raise InvalidRequest("The task was cancelled")
    is_error, outcome = split_outcome(tasks.open(task, task.outcome, *outcome_field(task)))
    if is_error:
        raise ProtocolError.from_wire(from_json(outcome))
    meta = related(task.id)
    if b'"_meta":' not in outcome:
        return Encoded(outcome, meta)
    result: dict[str, Any] = from_json(b"{%b}" % outcome)
    own = result.pop("_meta", {})
    return Encoded(members(result), {**own, **meta})


async def _relay(
    tasks: TaskService, task: Task, key: str, scope: anyio.CancelScope, context: Context[Any]
) -> None:
    """Send an input request of a task to the client that waits for its outcome."""
    answer: bytes | None = None
    with scope:
        try:
            asked = RelayedRequest(
                request_of(tasks.open(task, task.input_requests[key], "question", key)),
                related(task.id),
                question_id(task.id, key),
            )
            result: Mapping[str, Any] = await context.backend.ask(asked)
            answer = reply(result)
        except InputRequestRefused as error:
            answer = refusal(error)
        except InvalidInputResponse:
            answer = reply(None)  # the task asks once more, or gives up
    if answer is not None:
        await tasks.answer_at_last(task.id, task.owner, {key: answer})


TASK_HANDLERS: Final[Mapping[str, Handler]] = {
    "get_task": _get_task,
    "update_task": _update_task,
    "cancel_task": _cancel_task,
    "list_tasks": _list_tasks,
    "task_result": _task_result,
}


class AnswerToTask(NamedTuple):
    """An answer to a question of a task, which any session and any process may take."""

    server: Server
    tasks: TaskService
    id: str
    owner: str
    answers: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return sum(map(len, self.answers.values()))

    async def store(
        self, origin: RequestSource, on_admitted: Callable[[], None], *, at_last: bool = False
    ) -> None:
        """Store the answer, if its sender may give it.

        Args:
            origin: The source of the message.
            on_admitted: Called before it is stored.
            at_last: True to wait while the store is unavailable, and to raise nothing.

        Raises:
            InternalError: The store is unavailable.
            ProtocolError: The answer is not accepted.
        """

        async def admit(task: Task) -> None:
            await self.tasks.admit(task, self.server.view_for(origin), origin)
            on_admitted()

        store = self.tasks.answer_at_last if at_last else self.tasks.answer
        await store(self.id, self.owner, self.answers, admit)
