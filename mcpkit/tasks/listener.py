"""The tasks that one client follows: their states on its streams, and the messages of each."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from mcpkit._protocol.connection import Request
from mcpkit._server.subscriptions import Subscriptions, tag_of
from mcpkit._utils.logs import log
from mcpkit.errors import Forbidden, InvalidParams, ProtocolError
from mcpkit.tasks.protocol import check_declared, detailed, task_members
from mcpkit.tasks.record import Task
from mcpkit.tasks.service import TaskListener, TaskService


class SessionTasks(TaskListener):
    """The tasks that the client of one session follows; see `mcpkit.extension.Extension.follow`."""

    def __init__(self, tasks: TaskService, subscriptions: Subscriptions) -> None:
        self._tasks = tasks
        self._subscriptions = subscriptions
        self._streams: dict[Request, dict[str, bool]] = {}
        """The tasks that are followed on each stream, and if its client may certainly see them."""
        self._waiting: dict[str, Request] = {}
        """The request that waits for the outcome of each task, if one does."""
        self._ended = False

    # --- subscriptions/listen ---------------------------------------------------------------------

    def accept(self, wanted: Mapping[str, Any], request: Request) -> Mapping[str, list[str]]:
        """Return the ids of the tasks to follow."""
        if "taskIds" not in wanted:
            return {}
        check_declared(request.client)  # SUB-10
        ids = list(dict.fromkeys(self._subscriptions.strings(wanted, "taskIds")))
        return {"taskIds": ids} if ids else {}

    def opened(self, request: Request, accepted: Mapping[str, Any]) -> None:
        """Announce the states of tasks on the stream of a request from now on."""
        ids: list[str] = accepted.get("taskIds", [])
        self._streams[request] = dict.fromkeys(ids, False)
        for id in ids:
            self._tasks.follow(id, self)
            self._subscriptions.loop.start(self._announce_state(id, request))

    def closed(self, request: Request) -> None:
        """Stop announcing on the stream of a request."""
        for id in self._streams.pop(request, ()):
            self._tasks.unfollow(id, self)

    def end(self) -> None:
        """Stop for good: the session ends."""
        self._ended = True
        self._tasks.drop(self)

    # --- calls and their outcomes -----------------------------------------------------------------

    @property
    def _has_statuses(self) -> bool:
        """True if the client is notified of the status of tasks that it has created."""
        revision = self._subscriptions.connection.revision
        return revision is not None and revision.tasks == "client" and not self._ended

    def announce(self, id: str) -> None:
        """Pass on the changes of a task that the client has created (2025-11-25)."""
        if self._has_statuses:
            self._tasks.follow(id, self)

    @contextmanager
    def attached(self, id: str, request: Request) -> Generator[None, None, None]:
        """Send the messages of a task with a request that waits for it, inside the context."""
        self._tasks.follow(id, self)
        self._waiting[id] = request
        try:
            yield
        finally:
            if self._waiting.get(id) is request:
                del self._waiting[id]
            self._tasks.unfollow(id, self)

    # --- changes ----------------------------------------------------------------------------------

    def task_changed(self, task: Task) -> None:
        """Notify the client of the state of a task."""
        revision = self._subscriptions.connection.revision
        if revision is not None and self._has_statuses:
            params = task_members(task, revision, self._tasks.settings.poll_interval)
            waiting = self._waiting.get(task.id)
            self._subscriptions.notify("notifications/tasks/status", params, waiting)
        for request, ids in list(self._streams.items()):
            if ids.get(task.id):
                self._announce_details(task, request)
            elif task.id in ids:
                self._subscriptions.loop.start(self._announce_state(task.id, request))

    def task_notifies(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Pass on a notification of the handler of a task."""
        if not self._ended:
            self._subscriptions.notify(method, params, self._waiting.get(id))

    async def _announce_state(self, id: str, request: Request) -> None:
        """Announce the state of a task on a new stream, if its client may see the task."""
        tasks = self._tasks
        server = self._subscriptions.server.view_for(request.origin, request)
        try:
            task = await tasks.get(id, tasks.owner_of(request))
            await tasks.admit(task, server, request.origin)
        except (InvalidParams, Forbidden):  # there is none, or it is not for this client
            if id in self._streams.get(request, ()):
                del self._streams[request][id]
                tasks.unfollow(id, self)
        except ProtocolError:
            pass  # the next change will be announced
        else:
            if id in self._streams.get(request, ()):
                self._streams[request][id] = True
                self._announce_details(task, request)

    def _announce_details(self, task: Task, request: Request) -> None:
        """Announce the state of a task on a stream, if its client owns the task."""
        tasks = self._tasks
        if task.owner == tasks.owner_of(request):
            try:
                details = from_json(
                    b"{%b}"
                    % detailed(task, request.revision, tasks.settings.poll_interval, tasks.open)
                )
            except ProtocolError as error:  # another secret
                log.warning("the task %s: %s", task.id, error)
                return
            params = {**details, "_meta": tag_of(request)}
            self._subscriptions.notify("notifications/tasks", params, request)
