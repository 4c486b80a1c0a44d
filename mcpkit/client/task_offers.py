"""Tasks the other way round: a client's answers to a server's questions, as tasks (2025-11-25).

A user may think about a question for longer than anybody wants to hold a request open. So a server
may wish for a task, gets it at once, and fetches the answer with ``tasks/result``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timezone
from typing import Any, Final

import anyio

from mcpkit._utils.json import is_object
from mcpkit._utils.text import quote_name
from mcpkit.errors import InternalError, InvalidParams, ProtocolError

__all__ = ["OFFERED", "ClientTasks", "offer_of"]

Params = Mapping[str, Any]

OFFERED: Final = frozenset({"elicitation/create", "sampling/createMessage"})
"""The questions that may be answered with a task."""

_MOST: Final = 100
"""Tasks at a time; a server that wishes for more is answered at once instead."""

_TTL_MS: Final = 60 * 60 * 1000
_POLL_MS: Final = 1000
_RELATED: Final = "io.modelcontextprotocol/related-task"


def offer_of(methods: Mapping[str, object]) -> dict[str, Any]:
    """Return the capability ``tasks`` of a client that answers these methods (TASKL-1)."""
    requests: dict[str, dict[str, Any]] = {}
    for method in sorted(OFFERED & methods.keys()):
        family, _, name = method.partition("/")
        requests[family] = {name: {}}
    return {"list": {}, "cancel": {}, "requests": requests} if requests else {}


class _Offered:
    """A question that is being answered."""

    def __init__(self, ttl: int) -> None:
        self.id = secrets.token_urlsafe(24)
        self.created = self.updated = time.time()
        self.ttl = ttl
        self.status = "working"
        self.message: str | None = None
        self.result: Params | None = None
        self.error: ProtocolError | None = None
        self.over = anyio.Event()
        self.stop: Callable[[], object] = lambda: None

    def end(self, status: str, message: str | None = None) -> None:
        """Note what came of it, once (TASKL-5)."""
        if not self.over.is_set():
            self.status, self.message, self.updated = status, message, time.time()
            self.over.set()

    def to_wire(self) -> dict[str, Any]:
        """Return the task as the server is told of it (TASKL-10)."""
        told: dict[str, Any] = {"taskId": self.id, "status": self.status}
        if self.message is not None:
            told["statusMessage"] = self.message
        told["createdAt"], told["lastUpdatedAt"] = _time(self.created), _time(self.updated)
        return {**told, "ttl": self.ttl, "pollInterval": _POLL_MS}


def _time(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ClientTasks:
    """The tasks that a client has made of a server's questions.

    Args:
        start: Runs a coroutine beside everything else; the result cancels it.
        answer: From the method and params of a question to the result.
    """

    def __init__(
        self,
        start: Callable[[Coroutine[Any, Any, None]], Callable[[], object]],
        answer: Callable[[str, Params], Awaitable[Params]],
    ) -> None:
        self._start = start
        self._answer = answer
        self._tasks: dict[str, _Offered] = {}

    async def take(self, method: str, params: Params) -> Params | None:
        """Answer a request of the server; None if it has nothing to do with tasks.

        Raises:
            ProtocolError: It names a task that is not there, or is over.
        """
        self._forget_old()
        if method in OFFERED and is_object(params.get("task")) and len(self._tasks) < _MOST:
            return self._begin(method, params)
        own = {
            "tasks/get": self._get,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
            "tasks/result": self._result,
        }.get(method)
        return None if own is None else await own(params)

    def _forget_old(self) -> None:
        now = time.time()
        for task in list(self._tasks.values()):
            if task.created + task.ttl / 1000 <= now:
                del self._tasks[task.id]
                task.end("cancelled", "Its time is over")
                task.stop()

    def _begin(self, method: str, params: Params) -> Params:
        wish = params["task"].get("ttl")
        is_number = isinstance(wish, (int, float)) and not isinstance(wish, bool) and wish > 0
        task = _Offered(min(_TTL_MS, round(wish)) if is_number else _TTL_MS)
        self._tasks[task.id] = task
        asked = {name: value for name, value in params.items() if name != "task"}
        task.stop = self._start(self._work(task, method, asked))
        return {"task": {**task.to_wire(), "status": "working"}}  # TASKL-4

    async def _work(self, task: _Offered, method: str, params: Params) -> None:
        try:
            task.result = await self._answer(method, params)
        except ProtocolError as error:
            task.error = error
            task.end("failed", error.message)
        except Exception:
            # What went wrong may hold secrets, and is for this side to read.
            task.error = InternalError("The client failed")
            task.end("failed", task.error.message)
        else:
            task.end("completed")

    def _found(self, params: Params) -> _Offered:
        id = params.get("taskId")
        task = self._tasks.get(id) if isinstance(id, str) else None
        if task is None:
            raise InvalidParams(f"Unknown task: {quote_name(id)}")  # TASKL-12
        return task

    async def _get(self, params: Params) -> Params:
        return self._found(params).to_wire()

    async def _list(self, params: Params) -> Params:
        if params.get("cursor") is not None:
            raise InvalidParams("The cursor is malformed")  # all are on one page
        return {"tasks": [each.to_wire() for each in self._tasks.values()]}

    async def _cancel(self, params: Params) -> Params:
        task = self._found(params)
        if task.over.is_set():
            raise InvalidParams(f"The task is over already: {task.status}")  # TASKL-11
        task.end("cancelled")
        task.stop()
        return task.to_wire()

    async def _result(self, params: Params) -> Params:
        task = self._found(params)
        await task.over.wait()
        if task.error is not None:
            raise task.error
        if task.result is None:
            raise InvalidParams("The task was cancelled, so that nothing came of it")
        meta = {**task.result.get("_meta", {}), _RELATED: {"taskId": task.id}}
        return {**task.result, "_meta": meta}
