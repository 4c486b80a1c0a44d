"""The questions a session has put to its client, in revisions where a server may send requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import isinf
from typing import Any

import anyio

from mcpkit._input_requests.rounds import Step
from mcpkit._protocol.connection import Answer, Connection, Request, State
from mcpkit._protocol.input_request import Ask
from mcpkit._protocol.messages import Id
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._utils.json import is_object
from mcpkit.errors import (
    ConnectionClosed,
    InputRequestError,
    InputRequestRefused,
    InputRequestTimeout,
    InvalidInputResponse,
    UrlElicitationRequired,
)
from mcpkit.roots import Root, Roots

__all__ = ["LiveRequester", "Questions", "RootsHandler"]

RootsHandler = Callable[[list[Root]], "Awaitable[object] | object"]


class _Question:
    """A question that waits for its answer."""

    __slots__ = ("answer", "arrived", "cause")

    def __init__(self, cause: Request | None) -> None:
        self.arrived = anyio.Event()
        self.answer: Answer | None = None
        self.cause = cause


class Questions:
    """The questions that have been asked and are not answered yet.

    Args:
        connection: Makes the requests.
        send: Takes their texts, and the request that they belong to.
        park: Notes that a request waits for its client, or raises `InputRequestError` if too
            many do. The function that it returns ends that.
        timeout: Seconds to wait for an answer, unless the ask says otherwise.
        on_asked: Called when a question has been put.
    """

    __slots__ = (
        "_changes",
        "_connection",
        "_held",
        "_lost",
        "_on_asked",
        "_open",
        "_park",
        "_roots",
        "_send",
        "_timeout",
    )

    def __init__(
        self,
        connection: Connection,
        send: Callable[[bytes, Request | None], None],
        park: Callable[[Request], Callable[[], None]],
        timeout: float,
        on_asked: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._on_asked = on_asked
        self._send = send
        self._park = park
        self._timeout = timeout
        self._open: dict[Id, _Question] = {}
        self._held: dict[Id, tuple[bytes, Request | None]] = {}
        self._lost = False
        self._roots: list[Root] | None = None
        self._changes = 0

    @property
    def open(self) -> bool:
        """True if any question waits for its answer."""
        return bool(self._open)

    def awaits(self, id: Id) -> bool:
        """Return True if a question of this id is open."""
        return id in self._open

    async def ask(
        self,
        ask: Ask[Any],
        revision: Revision,
        client: ClientProfile,
        cause: Request | None = None,
    ) -> Any:
        """Ask the client, and wait for what it answers.

        Args:
            ask: The question.
            revision: Which it is put in.
            client: Who is asked.
            cause: The request whose handler asks.

        Raises:
            MissingClientCapability: It did not declare that it can be asked (S2C-1).
            InputRequestRefused, InputRequestTimeout, InvalidInputResponse: There is no usable
                answer (S2C-4).
            InputRequestError: The client gave up on the request that the question belongs to.
            InputRequestError: Too many questions are open.
            ConnectionClosed: The client is gone.
        """
        ask.check(revision, client)
        cached = isinstance(ask, Roots) and _announces_roots(client)
        if cached and self._roots is not None:
            return list(self._roots)
        if self._lost:
            raise ConnectionClosed("The client is gone")
        unpark = _do_nothing if cause is None else self._park(cause)
        try:
            return await self._put(ask, revision, client, cause, cached)
        finally:
            unpark()

    async def _put(
        self,
        ask: Ask[Any],
        revision: Revision,
        client: ClientProfile,
        cause: Request | None,
        cached: bool,
    ) -> Any:
        """Put a question, and wait for its answer."""
        changes = self._changes
        timeout = self._timeout if ask.timeout is None else ask.timeout
        params = ask.params(revision)
        if revision.tasks == "wished" and _takes_tasks(client, ask.METHOD):
            # A person may think about it for as long as the question waits, and no longer.
            wish = {} if isinf(timeout) else {"ttl": round(timeout * 1000)}
            params = {**params, "task": wish}
        result = await self._exchange(ask.METHOD, params, timeout, cause, ask.request_id)
        task = result.get("task") if "task" in params else None
        if is_object(task) and isinstance(task.get("taskId"), str):
            result = await self._outcome(task["taskId"], timeout, cause)
        value = ask.read(result)
        if cached and changes == self._changes:
            self._roots = list(value)
        return value

    async def _outcome(self, task: str, timeout: float, cause: Request | None) -> Mapping[str, Any]:
        """Wait for what comes of a task of the client."""
        about = {"taskId": task}
        try:
            return await self._exchange("tasks/result", about, timeout, cause)
        except InputRequestRefused:
            raise
        except BaseException:
            if not self._lost:
                _, text = self._connection.send_request("tasks/cancel", about)
                self._send(text, cause)  # whose answer nobody needs
            raise

    async def _exchange(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float,
        cause: Request | None,
        id: Id | None = None,
    ) -> Mapping[str, Any]:
        """Send a request to the client, and return the result."""
        id, text = self._connection.send_request(method, params, id)
        question = self._open[id] = _Question(cause)
        if self._connection.state is State.OPENING:
            self._held[id] = text, cause  # LIFE-6
        else:
            self._send(text, cause)
        self._on_asked()
        try:
            with anyio.fail_after(timeout):
                await question.arrived.wait()
        except TimeoutError:
            self._abandon(id, "timeout", cause)
            raise InputRequestTimeout(f"The client did not answer {method} in time") from None
        except BaseException:
            self._abandon(id, "cancelled", cause)
            raise
        finally:
            del self._open[id]
        answer = question.answer
        if answer is None:
            if not self._lost:
                self._abandon(id, "cancelled", cause)
                raise InputRequestError(
                    "The client gave up on the request that this question belongs to"
                )
            raise ConnectionClosed("The client left before it answered")
        if answer.error is not None:
            raise InputRequestRefused(answer.error.message, answer.error.code)
        if answer.result is None:
            raise InvalidInputResponse("the client's answer is malformed")
        return answer.result

    def _abandon(self, id: Id, reason: str, cause: Request | None) -> None:
        """Tell the client that nobody waits for its answer any more (CANC-9)."""
        if self._held.pop(id, None) is None and not self._lost:
            params = {"requestId": id, "reason": reason}
            text = self._connection.send_notification("notifications/cancelled", params)
            self._send(text, cause)

    def answered(self, answer: Answer) -> None:
        """The client answered something; it may be late, or never have been asked."""
        question = self._open.get(answer.id)
        if question is not None and question.answer is None:
            question.answer = answer
            question.arrived.set()

    def release(self) -> None:
        """The client is ready for requests."""
        for text, cause in self._held.values():
            self._send(text, cause)
        self._held.clear()

    def forget_roots(self) -> None:
        """The client's roots have changed."""
        self._roots = None
        self._changes += 1

    def give_up(self, cause: Request) -> None:
        """The client gave up on a request: a thread that serves it must not go on waiting."""
        for question in self._open.values():
            if question.cause is cause:
                question.arrived.set()

    def lose(self) -> None:
        """The client is gone: nothing will be answered any more."""
        self._lost = True
        for question in self._open.values():
            question.arrived.set()


class LiveRequester:
    """Asks by requests to the client, while the handler waits (handshake revisions).

    Args:
        questions: Of the session.
        request: On whose behalf.
    """

    __slots__ = ("_questions", "_request")

    repeats = False
    is_waiting = False
    used_input = False

    def __init__(self, questions: Questions, request: Request) -> None:
        self._questions = questions
        self._request = request

    async def ask(self, ask: Ask[Any]) -> Any:
        """Ask something and wait for the answer."""
        request = self._request
        return await self._questions.ask(ask, request.revision, request.client, request)

    async def gather(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Ask several things side by side; the first that fails ends the others."""
        request = self._request
        for ask in asks:
            ask.check(request.revision, request.client)
            ask.params(request.revision)
        answers: list[Any] = [None] * len(asks)
        failures: dict[int, Exception] = {}

        async def fetch(place: int, ask: Ask[Any]) -> None:
            try:
                answers[place] = await self.ask(ask)
            except Exception as error:
                failures[place] = error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for place, ask in enumerate(asks):
                group.start_soon(fetch, place, ask)
        if failures:
            raise failures[min(failures)]
        return answers

    async def begin_step(self, key: str) -> Step | None:
        """Return None: handlers run once."""
        del key
        return None

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Return the error: the client opens the page by itself."""
        return error

    def give_up(self) -> None:
        """End every wait: a thread that serves the request must not go on waiting."""
        self._questions.give_up(self._request)

    def input_required(self) -> dict[str, Any]:
        """Return nothing: a run that asks by requests waits for nothing when it ends."""
        return {}


def _do_nothing() -> None:
    """Do nothing: no request waits for the client."""


def _takes_tasks(client: ClientProfile, method: str) -> bool:
    """Return True if a client answers a question with a task (TASKL-1)."""
    found: Any = client.capabilities.get("tasks")
    for name in ("requests", *method.split("/")):
        found = found.get(name) if is_object(found) else None
    return is_object(found)


def _announces_roots(client: ClientProfile) -> bool:
    roots = client.capabilities.get("roots")
    return is_object(roots) and roots.get("listChanged") is True
