"""The bodies of POSTs: read within their time and size, and parsed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from functools import partial
from types import CoroutineType, coroutine
from typing import Any, Final, TypeAlias, cast

import anyio

from mcpkit._concurrency.loop import AsyncioLoop
from mcpkit._protocol.messages import parse
from mcpkit._utils.json import CollectorPause, excess_of_digits, has_more_values
from mcpkit._utils.quota import QuotaExceeded, Reservation
from mcpkit.errors import ParseError
from mcpkit.http import HttpRequest, Receive
from mcpkit.transports.http.headers import TOO_LONG
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.quotas import owner_of
from mcpkit.transports.http.requests import OpenRequests

LARGE_BODY: Final = 64 * 1024
"""Bytes from which on a body takes a while to parse, and is counted until it is served."""

_Message: TypeAlias = MutableMapping[str, Any]


class Bodies:
    """The bodies that arrive at an endpoint."""

    def __init__(self, open_requests: OpenRequests) -> None:
        self.arriving = 0
        """The number of bodies that are being waited for."""
        self._limits = open_requests.limits
        self._quotas = open_requests.quotas
        self._starts_early = sys.version_info >= (3, 11) and isinstance(
            open_requests.loop, AsyncioLoop
        )

    async def read(self, receive: Receive, http: HttpRequest) -> bytes | None:
        """Return the body of a POST; None if the client has disconnected.

        Raises:
            HttpError: The body is too long or too slow, or too much arrives at once.
        """
        message: _Message | None = None
        first: Awaitable[_Message] = receive()
        if self._starts_early and type(cast("object", first)) is CoroutineType:
            # A small body has arrived with its headers: neither a wait nor a clock is needed.
            started = cast("Coroutine[Any, Any, _Message]", first)
            try:
                first = _resume(started, started.send(None))
            except StopIteration as end:
                message = end.value
        if message is None or message.get("more_body"):
            return await self._read_slowly(message, first, receive, http)
        if message["type"] == "http.disconnect":
            return None
        body: bytes = message.get("body", b"")
        if len(body) > self._limits.max_body:
            raise HttpError(413, TOO_LONG % self._limits.max_body)
        return body

    async def _read_slowly(
        self,
        message: _Message | None,
        following: Awaitable[_Message],
        receive: Receive,
        http: HttpRequest,
    ) -> bytes | None:
        """Read a body that has not arrived yet, or not all of it, within its time.

        It takes the slot of a request meanwhile. Its bytes are counted once they are many, so that
        a small body is served whatever others send.
        """
        seconds = self._limits.body_timeout
        owner = owner_of(http)
        slot = self._quotas.requests.charge(owner, 1)
        size = self._quotas.bodies.charge(owner)
        self.arriving += 1
        try:
            if sys.version_info >= (3, 11) and self._starts_early:
                # A middleware's receive may have opened a scope of anyio's that it is still in:
                # one of ours would be closed before that inner one.
                async with asyncio.timeout(seconds):
                    return await self._read_parts(message, following, receive, size)
            with anyio.fail_after(seconds):
                return await self._read_parts(message, following, receive, size)
        except TimeoutError:
            raise HttpError(408, "The body did not arrive in time") from None
        finally:
            self.arriving -= 1
            slot.release()
            size.release()

    async def _read_parts(
        self,
        message: _Message | None,
        following: Awaitable[_Message],
        receive: Receive,
        counted: Reservation,
    ) -> bytes | None:
        limit = self._limits.max_body
        parts: list[bytes] = []
        size = 0
        while True:
            if message is None:
                message = await following
            if message["type"] == "http.disconnect":
                return None
            part: bytes = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > limit:
                raise HttpError(413, TOO_LONG % limit)
            if size > LARGE_BODY:
                try:
                    counted.resize(size)
                except QuotaExceeded as full:
                    raise HttpError(
                        429 if full.own else 503,
                        "Too much is being sent at once; try again later "
                        "(the server's limits are max_body and max_bodies)",
                        retry_after(1),
                    ) from None
            if not message.get("more_body"):
                return b"".join(parts)
            message, following = None, receive()


def parse_body(body: bytes, max_values: int) -> Any:
    """Return the JSON value in a body; raise `HttpError` if it is not JSON, or too much."""
    # A JSON value takes at least two bytes, including its separator.
    if len(body) >= 2 * max_values and has_more_values(body, max_values):
        raise HttpError(
            413, f"The body has more than {max_values} values (the server's limit is max_values)"
        )
    try:
        if len(body) <= LARGE_BODY:
            return parse(body)
        if excess := excess_of_digits(body):
            raise HttpError(413, f"The body has {excess}")
        # A million new objects would start the garbage collector again and again, for nothing: it
        # takes four times as long as parsing, and no other request is served meanwhile.
        with CollectorPause():
            return parse(body)
    except ParseError as error:
        raise HttpError(400, error) from None


@coroutine
def _resume(started: Coroutine[Any, Any, _Message], step: Any) -> Generator[Any, Any, _Message]:
    """Await a coroutine that has taken its first step, which was to yield something."""
    while True:
        try:
            sent = yield step
        except BaseException as error:
            resume: Callable[[], Any] = partial(started.throw, error)
        else:
            resume = partial(started.send, sent)
        try:
            step = resume()
        except StopIteration as end:
            received: _Message = end.value
            return received
