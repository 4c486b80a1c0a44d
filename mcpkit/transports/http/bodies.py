"""The bodies of POSTs: read within their time and size, and parsed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from functools import partial
from types import CoroutineType
from typing import Any, Final, TypeAlias, cast

import anyio

from mcpkit._protocol.messages import parse
from mcpkit._utils.json import CollectorPause, excess_of_digits, has_more_values
from mcpkit._utils.quota import Exhausted, Hold
from mcpkit.errors import ParseError
from mcpkit.http import HttpRequest, HttpSettings
from mcpkit.transports.http.headers import TOO_LONG
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.quotas import Accounts, Occupant
from mcpkit.transports.http.streams import Receive

__all__ = ["LARGE_BODY", "Bodies", "parse_body"]

LARGE_BODY: Final = 64 * 1024
"""Bytes from which on a body takes a while to parse, and is counted until it is served."""

_TOO_MANY: Final = "The body has more than %d values (the server's setting is max_values)"

_Message: TypeAlias = MutableMapping[str, Any]


class Bodies:
    """The bodies that arrive at an endpoint.

    Args:
        settings: The settings of the endpoint.
        token: The event loop, or a token of it.
        accounts: Of whoever sends them.
    """

    def __init__(self, settings: HttpSettings, token: object, accounts: Accounts) -> None:
        self.arriving = 0
        """The number of bodies that are being waited for."""
        self._settings = settings
        self._accounts = accounts
        self._begins_early = sys.version_info >= (3, 11) and isinstance(
            token, asyncio.AbstractEventLoop
        )

    async def read(self, receive: Receive, http: HttpRequest) -> bytes | None:
        """Return the body of a POST; None if the client has gone.

        Args:
            receive: The receive function of the ASGI application.
            http: The POST.

        Raises:
            HttpError: The body is too long or too slow, or too much arrives at once.
        """
        message: _Message | None = None
        first: Awaitable[_Message] = receive()
        if self._begins_early and _is_coroutine(first):
            # A small body has arrived with its headers: neither a wait nor a clock is needed.
            begun = cast("Coroutine[Any, Any, _Message]", first)
            try:
                first = _Begun(begun, begun.send(None))
            except StopIteration as end:
                message = end.value
        if message is None or message.get("more_body"):
            return await self._read_slowly(message, first, receive, http)
        if message["type"] == "http.disconnect":
            return None
        body: bytes = message.get("body", b"")
        if len(body) > self._settings.max_body:
            raise HttpError(413, TOO_LONG % self._settings.max_body)
        return body

    async def _read_slowly(
        self,
        message: _Message | None,
        following: Awaitable[_Message],
        receive: Receive,
        http: HttpRequest,
    ) -> bytes | None:
        """Read a body that has not arrived yet, or not all of it, within its time."""
        seconds = self._settings.body_timeout
        arriving = Arriving(http, self._accounts)
        self.arriving += 1
        try:
            if sys.version_info >= (3, 11) and self._begins_early:
                # A middleware's receive may have opened a scope of anyio's, and is still in it: one
                # of ours would be closed before that inner one.
                async with asyncio.timeout(seconds):
                    return await self._read_parts(message, following, receive, arriving)
            with anyio.fail_after(seconds):
                return await self._read_parts(message, following, receive, arriving)
        except TimeoutError:
            raise HttpError(408, "The body did not arrive in time") from None
        finally:
            self.arriving -= 1
            arriving.end()

    async def _read_parts(
        self,
        message: _Message | None,
        following: Awaitable[_Message],
        receive: Receive,
        arriving: Arriving,
    ) -> bytes | None:
        limit = self._settings.max_body
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
                arriving.grow(size)
            if not message.get("more_body"):
                return b"".join(parts)
            message, following = None, receive()


class Arriving(Occupant):
    """A body that arrives.

    It takes the place of a request meanwhile. Its bytes are counted once they are many, so that a
    small body is served whatever others send.

    Args:
        http: The POST.
        accounts: Of whoever sends it.
    """

    def __init__(self, http: HttpRequest, accounts: Accounts) -> None:
        super().__init__(http)
        self._bytes = Hold(accounts.bodies, self.holder)
        self.occupy(accounts.requests)

    def grow(self, size: int) -> None:
        """Count the bytes that have arrived.

        Raises:
            HttpError: There is no room for them.
        """
        try:
            self._bytes.grow(size - self._bytes.amount)
        except Exhausted as full:
            raise HttpError(
                429 if full.own else 503,
                "Too much is being sent at once (the server's settings are max_body and max_share)",
                headers=retry_after(1),
            ) from None

    def end(self) -> None:
        """Count it no more: it has arrived, or never will."""
        self.occupy(None)
        self._bytes.release()


def parse_body(body: bytes, most: int) -> Any:
    """Return the JSON value in a body.

    Args:
        body: The body.
        most: The values that it may have.

    Raises:
        HttpError: The body is no JSON, or has too much in it.
    """
    # A value takes at least two bytes, with what parts it from the next one.
    if len(body) >= 2 * most and has_more_values(body, most):
        raise HttpError(413, _TOO_MANY % most)
    try:
        return parse(body) if len(body) <= LARGE_BODY else _parse_large(body)
    except ParseError as error:
        raise HttpError(400, error) from None


def _parse_large(body: bytes) -> Any:
    if excess := excess_of_digits(body):
        raise HttpError(413, f"The body has {excess}")
    # A million new objects would set off the garbage collector again and again, for nothing: it
    # takes four times as long as parsing, and meanwhile nobody is served.
    with CollectorPause():
        return parse(body)


def _is_coroutine(value: object) -> bool:
    return type(value) is CoroutineType


class _Begun:
    """A coroutine that has taken its first step, to be awaited like one that has not.

    Args:
        coroutine: The coroutine, which waits for something.
        step: The object that it has yielded to the event loop.
    """

    __slots__ = ("_coroutine", "_step")

    def __init__(self, coroutine: Coroutine[Any, Any, _Message], step: Any) -> None:
        self._coroutine = coroutine
        self._step = step

    def __await__(self) -> Generator[Any, Any, _Message]:
        coroutine, step = self._coroutine, self._step
        while True:
            try:
                sent = yield step
            except BaseException as error:
                go_on: Callable[[], Any] = partial(coroutine.throw, error)
            else:
                go_on = partial(coroutine.send, sent)
            try:
                step = go_on()
            except StopIteration as end:
                received: _Message = end.value
                return received
