"""The extension that serves tasks, in both of their shapes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpkit._protocol.connection import TASKS_EXTENSION
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.converters import Converters
from mcpkit._stores import scheme_of
from mcpkit.context import Context
from mcpkit.errors import InternalError
from mcpkit.extension import Extension
from mcpkit.middleware import Handler

if TYPE_CHECKING:
    from mcpkit._server.server import Server, Services
    from mcpkit._server.subscriptions import Subscriptions
    from mcpkit.tasks.handlers import AnswerToTask
    from mcpkit.tasks.listener import SessionTasks
    from mcpkit.tasks.record import Task
    from mcpkit.tasks.runs import RunningTask
    from mcpkit.tasks.service import TaskService


class Tasks(Extension):
    """Tasks: in 2025-11-25 a capability of the protocol, in 2026-07-28 an extension.

    An app has it as soon as a tool may run as a task or has ``max_result=``, or tasks have a store.
    What needs more than that is loaded when the app is served.
    """

    _is_official = True
    is_implicit = True

    def __init__(self) -> None:
        super().__init__(TASKS_EXTENSION)

    def capabilities(self, advertised: Collection[str], context: Context[Any]) -> dict[str, Any]:
        """Return the capability, or the extension, if the server has tools with tasks."""
        from mcpkit.tasks.protocol import may_list_tasks

        shape = context.request.revision.tasks
        if "tasks" not in advertised or shape == "none":  # TASKL-2
            return {}
        if shape == "extension":  # TASKX-1
            return {"extensions": {TASKS_EXTENSION: {}}}
        found: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}  # TASKL-1
        if may_list_tasks(context.request):
            found["list"] = {}
        return {"tasks": found}

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of the methods that the revisions have for tasks."""
        from mcpkit.tasks.handlers import TASK_HANDLERS

        return TASK_HANDLERS

    def wrap(
        self, handlers: Mapping[str, Handler], converters: Converters
    ) -> Mapping[str, Handler]:
        """Return handlers that create tasks, and those of truncated results, which it stores."""
        from mcpkit.tasks import budgets
        from mcpkit.tasks.handlers import call_tool

        within_budget = partial(budgets.call_tool, handlers["call_tool"])
        return {
            "call_tool": partial(call_tool, within_budget),
            "read_resource": partial(budgets.read_resource, handlers["read_resource"]),
        }

    async def call_once(self, call: Any, context: Context[Any], run: Any) -> Any:
        """Run a call that has a key, or return the result of the first one with that key."""
        from mcpkit.tasks.calls import call_once
        from mcpkit.tasks.service import service_of

        tasks = service_of(context.backend.server)
        if tasks is None:
            raise InternalError(f"{call.tool.name} cannot be called while the app is not served")
        return await call_once(tasks, call, context, run)

    def start(self, services: Services) -> None:
        """Run the tasks that are in the store already."""
        server = services.server
        location = server.settings.tasks and server.settings.tasks.store
        # Tools may have been removed whose tasks are still in a store, but hardly in a new file.
        is_new = (
            isinstance(location, str)
            and scheme_of(location) == "sqlite"
            and not os.path.exists(location.removeprefix("sqlite:///"))
        )
        if location is not None and ("tasks" in server.catalog.advertised or not is_new):
            services.get(TASKS_EXTENSION).serve()

    def make_service(self, services: Services) -> TaskService:
        """Return the tasks of an event loop."""
        from mcpkit.tasks.service import TaskService
        from mcpkit.tasks.task_runs import TaskRun, unfit

        server = services.server

        def run_task(task: Task, refused: str | None) -> RunningTask:
            if not task.is_call:
                return TaskRun(server, tasks, task, refused)
            from mcpkit.tasks.calls import LostCall  # loaded only if used

            return LostCall(tasks, task)

        tasks = TaskService(
            server, services.loop, run_task, lambda task: unfit(server, tasks, task)
        )
        return tasks

    def follow(self, subscriptions: Subscriptions) -> SessionTasks | None:
        """Return the tasks that a client follows."""
        from mcpkit.tasks.listener import SessionTasks
        from mcpkit.tasks.service import service_of

        tasks = service_of(subscriptions.server)
        return None if tasks is None else SessionTasks(tasks, subscriptions)

    def answer_to(
        self, server: Server, message: Mapping[str, Any], revision: Revision, principal: str | None
    ) -> AnswerToTask | None:
        """Return the answer in a message to a question of a task."""
        from mcpkit.tasks.handlers import AnswerToTask
        from mcpkit.tasks.protocol import owner_name, read_answer
        from mcpkit.tasks.service import service_of

        found, tasks = read_answer(message), service_of(server)
        if found is None or tasks is None:
            return None
        return AnswerToTask(
            server, tasks, found[0], owner_name(revision.tasks, principal), found[1]
        )
