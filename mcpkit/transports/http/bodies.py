"""The bodies of POSTs: read within their time and size, and parsed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine, Generator, MutableMapping
from types import CoroutineType, coroutine
from typing import Any, Final, TypeAlias, cast

import anyio

from mcpkit._protocol.messages import parse, parse_leniently
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


async def read_body(
    receive: Receive, http: HttpRequest, open_requests: OpenRequests
) -> bytes | None:
    """Return the body of a POST; None if the client has disconnected.

    Raises:
        HttpError: The body is too long or too slow, or too much arrives at once.
    """
    limits, quotas = open_requests.limits, open_requests.quotas
    message: _Message | None = None
    following: Awaitable[_Message] = receive()
    if open_requests.starts_early and type(cast("object", following)) is CoroutineType:
        # A small body has arrived with its headers: neither a wait nor a clock is needed.
        started = cast("Coroutine[Any, Any, _Message]", following)
        try:
            following = _resume(started, started.send(None))
        except StopIteration as end:
            message = end.value
    if message is not None and not message.get("more_body"):
        if message["type"] == "http.disconnect":
            return None
        body: bytes = message.get("body", b"")
        if len(body) > limits.max_body:
            raise HttpError(413, TOO_LONG % limits.max_body)
        return body
    # It takes the slot of a request until it is there. Its bytes are counted once they are many, so
    # that a small body is served whatever others send.
    owner = owner_of(http)
    slot, counted = quotas.requests.charge(owner, 1), quotas.bodies.charge(owner)
    rest = _read_rest(message, following, receive, limits.max_body, counted)
    try:
        if sys.version_info >= (3, 11) and open_requests.starts_early:
            # A middleware's receive may have opened a scope of anyio's that it is still in: one of
            # ours would be closed before that inner one.
            async with asyncio.timeout(limits.body_timeout):
                return await rest
        with anyio.fail_after(limits.body_timeout):
            return await rest
    except TimeoutError:
        raise HttpError(408, "The body did not arrive in time") from None
    finally:
        slot.release()
        counted.release()


async def _read_rest(
    message: _Message | None,
    following: Awaitable[_Message],
    receive: Receive,
    limit: int,
    counted: Reservation,
) -> bytes | None:
    """Return a body that has not arrived yet, or only its first part, which is in `message`."""
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
        raise not_json(body, error) from None


def not_json(body: bytes, error: ParseError) -> HttpError:
    """Return the error of a body that is not JSON, with the id of its request if it shows one."""
    return HttpError(400, error).about(parse_leniently(body))


@coroutine
def _resume(started: Coroutine[Any, Any, _Message], step: Any) -> Generator[Any, Any, _Message]:
    """Await a coroutine that has taken its first step, which was to yield something."""
    while True:
        try:
            yield step  # asyncio sends nothing back
        except BaseException as error:
            try:
                step = started.throw(error)
            except StopIteration as end:
                return cast("_Message", end.value)
        else:
            return cast("_Message", (yield from started))
