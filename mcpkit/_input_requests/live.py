"""Requests to the client while the handler waits, in the revisions with a handshake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from mcpkit._input_requests.requester import Requester
from mcpkit._protocol.connection import Connection, Request, Response, State
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.messages import Id, notification_text
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit.errors import (
    ConnectionClosed,
    InputRequestError,
    InputRequestRefused,
    InputRequestTimeout,
    InvalidInputResponse,
)
from mcpkit.roots import Root, Roots

RootsHandler = Callable[[list[Root]], "Awaitable[object] | object"]


@dataclass(slots=True, eq=False)
class _PendingRequest:
    cause: Request | None
    arrived: anyio.Event = field(default_factory=anyio.Event)
    answer: Response | None = None


class PendingRequests:
    """The requests of one session to its client that wait for their responses.

    `wait_for_client` notes that a request waits for its client, and returns the function that ends
    that; it raises `InputRequestError` if too many wait. `on_sent` is called after each request,
    and `calling` traces each, if it is given.
    """

    def __init__(
        self,
        connection: Connection,
        send: Callable[[bytes, Request | None], None],
        wait_for_client: Callable[[Request], Callable[[], None]],
        timeout: float,
        on_sent: Callable[[], None],
        calling: Any = None,
    ) -> None:
        self._connection = connection
        self._on_sent = on_sent
        self._calling = calling
        self._send = send
        self._wait_for_client = wait_for_client
        self._timeout = timeout
        self._open: dict[Id, _PendingRequest] = {}
        self._held: dict[Id, tuple[bytes, Request | None]] = {}
        self._disconnected = False
        self._roots: list[Root] | None = None
        self._roots_version = 0

    def __bool__(self) -> bool:
        """True if any request waits for its response."""
        return bool(self._open)

    def __contains__(self, id: Id) -> bool:
        """True if the request of this id waits for its response."""
        return id in self._open

    async def ask(
        self,
        ask: InputRequest[Any],
        revision: Revision,
        client: ClientProfile,
        cause: Request | None = None,
    ) -> Any:
        """Send a request to the client, and return the answer.

        `cause` is the client's request whose handler asks. Raises `MissingClientCapability`
        (S2C-1), `InputRequestError` if there is no usable answer (S2C-4), and `ConnectionClosed`.
        """
        ask.check(revision, client)
        cached = isinstance(ask, Roots) and client.supports("roots", "listChanged")
        if cached and self._roots is not None:
            return list(self._roots)
        if self._disconnected:
            raise ConnectionClosed("The client is gone")
        end_wait = None if cause is None else self._wait_for_client(cause)
        version = self._roots_version
        try:
            value = ask.parse_result(await self._exchange(ask, revision, cause))
        finally:
            if end_wait is not None:
                end_wait()
        if cached and version == self._roots_version:
            self._roots = list(value)
        return value

    async def _exchange(
        self, ask: InputRequest[Any], revision: Revision, cause: Request | None
    ) -> Mapping[str, Any]:
        """Send a request to the client, and return its result."""
        params = ask.params(revision)
        if self._calling is None:
            return await self._send_request(ask, params, cause)
        meta = {**params.get("_meta", {})}
        with self._calling(ask.METHOD, params, meta):
            return await self._send_request(ask, {**params, "_meta": meta}, cause)

    async def _send_request(
        self, ask: InputRequest[Any], params: Mapping[str, Any], cause: Request | None
    ) -> Mapping[str, Any]:
        timeout = self._timeout if ask.timeout is None else ask.timeout
        id, text = self._connection.send_request(ask.METHOD, params, ask.request_id)
        pending = self._open[id] = _PendingRequest(cause)
        if self._connection.state is State.OPENING:
            self._held[id] = text, cause  # LIFE-6
        else:
            self._send(text, cause)
        self._on_sent()
        try:
            with anyio.fail_after(timeout):
                await pending.arrived.wait()
            answer = pending.answer
            if answer is None:
                if self._disconnected:
                    raise ConnectionClosed("The client left before it answered")
                raise InputRequestError(
                    "The client gave up on the request that this question belongs to"
                )
        except TimeoutError:
            self._cancel(id, "timeout", cause)
            raise InputRequestTimeout(f"The client did not answer {ask.METHOD} in time") from None
        except BaseException:
            self._cancel(id, "cancelled", cause)
            raise
        finally:
            del self._open[id]
        if answer.error is not None:
            raise InputRequestRefused(answer.error.message, answer.error.code)
        if answer.result is None:
            raise InvalidInputResponse("the client's answer is malformed")
        return answer.result

    def _cancel(self, id: Id, reason: str, cause: Request | None) -> None:
        """Cancel a request to the client: its response is not needed any more (CANC-9)."""
        if self._held.pop(id, None) is None and not self._disconnected:
            params = {"requestId": id, "reason": reason}
            text = notification_text("notifications/cancelled", params)
            self._send(text, cause)

    def answered(self, answer: Response) -> None:
        """Take a response of the client, which may be late or answer nothing."""
        pending = self._open.get(answer.id)
        if pending is not None and pending.answer is None:
            pending.answer = answer
            pending.arrived.set()

    def release(self) -> None:
        """Send the requests that were held back until the client was ready."""
        for text, cause in self._held.values():
            self._send(text, cause)
        self._held.clear()

    def forget_roots(self) -> None:
        """Note that the client's roots have changed."""
        self._roots = None
        self._roots_version += 1

    def abandon(self, cause: Request) -> None:
        """End every wait of a request that the client cancelled, since a thread may wait."""
        for pending in self._open.values():
            if pending.cause is cause:
                pending.arrived.set()

    def disconnect(self) -> None:
        """End every wait: the client disconnected."""
        self._disconnected = True
        for pending in self._open.values():
            pending.arrived.set()


class LiveRequester(Requester):
    """Sends requests to the client while the handler waits."""

    def __init__(self, request: Request, open: PendingRequests) -> None:
        super().__init__(request)
        self._open = open

    async def gather(self, asks: Sequence[InputRequest[Any]]) -> list[Any]:
        """Send several requests at once; the first that fails cancels the others."""
        self.check(asks)
        request = self._request
        answers: list[Any] = [None] * len(asks)
        failures: dict[int, Exception] = {}

        async def fetch(index: int, ask: InputRequest[Any]) -> None:
            try:
                answers[index] = await self._open.ask(
                    ask, request.revision, request.client, request
                )
            except Exception as error:
                failures[index] = error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index, ask in enumerate(asks):
                group.start_soon(fetch, index, ask)
        if failures:
            raise failures[min(failures)]
        return answers

    def abandon(self) -> None:
        """End every wait: the client cancelled the request."""
        self._open.abandon(self._request)
