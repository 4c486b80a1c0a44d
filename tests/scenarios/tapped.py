"""A client that keeps what the server sends, and holds it against the official schemas."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.client_connection import OutgoingMessage
from mcpkit._protocol.connection import VERSION_KEY
from mcpkit.client.connection import Link
from mcpkit.errors import ConnectionClosed, ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.messages import meta
from tests.schemas import check

PATIENCE = 10.0
"""Seconds to wait for what must arrive."""

HANDSHAKE = REVISIONS[:-1]
MODERN = REVISIONS[-1]

OF_EXTENSIONS = ("geo/", "notifications/geo/")
"""Methods that no schema of the protocol has."""

handshake = pytest.mark.revisions(*HANDSHAKE)
modern = pytest.mark.revisions(MODERN)

MODERN_META = meta()
"""The ``_meta`` of a request that no handshake precedes."""


def since(revision: str) -> tuple[str, ...]:
    """The revisions from this one on."""
    return tuple(each for each in REVISIONS if each >= revision)


def until(revision: str) -> tuple[str, ...]:
    """The revisions before this one."""
    return tuple(each for each in REVISIONS if each < revision)


class _Tap:
    """A link that notes which request an answer will be for."""

    def __init__(self, link: Link, client: TappedClient) -> None:
        self._link = link
        self._client = client

    async def exchange(
        self, sent: OutgoingMessage, answered: Callable[[], bool] | None = None
    ) -> None:
        self._client.note_sent(sent.text)
        await self._link.exchange(sent, answered)

    async def aclose(self) -> None:
        await self._link.aclose()


class TappedClient(AsyncTestClient):
    """Keeps every message of the server.

    Attributes:
        received: All messages, as objects, in order.
        notifications: Those notifications that no test has taken yet.
        violations: Where the server broke the schema of the revision.
    """

    def __init__(self, target: Any, *, revision: str, **options: Any) -> None:
        super().__init__(target, revision=revision, **options)
        self.spoken = revision
        self.forget()
        self.violations: list[str] = []
        self._asked: dict[str | int, tuple[str, str]] = {}
        self._arrived = anyio.Event()

    def forget(self) -> None:
        """Start again, for the next test."""
        self.received: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []

    @asynccontextmanager
    async def _open(self, loop: Loop) -> AsyncGenerator[Link, None]:
        async with super()._open(loop) as link:
            yield _Tap(link, self)

    def note_sent(self, text: bytes) -> None:
        """Remember method and revision of a request."""
        try:
            sent = json.loads(text)
        except ValueError:
            return
        for each in sent if isinstance(sent, list) else [sent]:
            if isinstance(each, dict) and isinstance(each.get("id"), (str, int)):
                params = each.get("params")
                own = (params.get("_meta") if isinstance(params, dict) else None) or {}
                version = own.get(VERSION_KEY)
                if version not in REVISIONS:
                    version = self.spoken
                self._asked[each["id"]] = (each.get("method", ""), version)

    def _receive(self, text: bytes) -> None:
        value = json.loads(text)
        for each in value if isinstance(value, list) else [value]:
            self._look_at(each)
        super()._receive(text)
        self._arrived.set()

    def _look_at(self, message: dict[str, Any]) -> None:
        self.received.append(message)
        method, version = self._asked.get(message.get("id", ""), (None, self.spoken))
        if "method" in message:
            self.notifications.append(message)
            tags = message.get("params", {}).get("_meta", {})
            if "io.modelcontextprotocol/subscriptionId" in tags:
                version = MODERN
        if message.get("method", "").startswith(OF_EXTENSIONS):
            return
        if method is not None and method.startswith(OF_EXTENSIONS):
            method = None
        try:
            check(message, version, method if "result" in message else None)
        except AssertionError as violation:
            self.violations.append(str(violation))

    # --- waiting ----------------------------------------------------------------------------------

    async def notification(self, method: str) -> dict[str, Any]:
        """The params of the next notification of this method that has not been taken yet."""
        with anyio.fail_after(PATIENCE):
            while True:
                for message in self.notifications:
                    if message["method"] == method:
                        self.notifications.remove(message)
                        params: dict[str, Any] = message.get("params", {})
                        return params
                self._arrived = anyio.Event()
                await self._arrived.wait()

    def told(self, method: str) -> list[dict[str, Any]]:
        """The params of all notifications of this method since the test began."""
        return [
            message.get("params", {})
            for message in self.received
            if message.get("method") == method
        ]

    async def exchange(self, message: Mapping[str, Any] | list[Any]) -> dict[str, Any]:
        """Send a message as it is, and wait for the answer under its id (the last one's)."""
        last = message[-1] if isinstance(message, list) else message
        await self.send(message)
        return await self.answer(last["id"])

    async def answer(self, id: str | int) -> dict[str, Any]:
        """Wait for the answer under an id."""
        with anyio.fail_after(PATIENCE):
            while True:
                for each in self.received:
                    same = each.get("id") == id and type(each["id"]) is type(id)
                    if same and "method" not in each:
                        return each
                self._arrived = anyio.Event()
                await self._arrived.wait()

    async def send(self, message: object) -> None:
        """Send a message as it is; the answer to a request is received later."""
        sent = _outgoing(message)
        if self._http is None or sent.id is None:
            await self.link.exchange(sent)
        else:
            assert self._loop is not None
            self._loop.start(self._exchange(sent))

    async def _exchange(self, sent: OutgoingMessage) -> None:
        with suppress(ConnectionClosed, ProtocolError):
            await self.link.exchange(sent)

    async def settle(self) -> None:
        """Two round trips: what was on its way before has arrived, if it was sent at all."""
        for _ in range(2):
            await self.request("tools/list")


def _outgoing(message: Any) -> OutgoingMessage:
    """A message of any shape, with the facts that HTTP repeats in headers."""
    text = json.dumps(message).encode()
    if not isinstance(message, dict):
        return OutgoingMessage(text)
    id, method, params = message.get("id"), message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    announced = params.get("_meta")
    version = announced.get(VERSION_KEY) if isinstance(announced, dict) else None
    return OutgoingMessage(
        text,
        id if isinstance(id, (str, int)) and method is not None else None,
        method if isinstance(method, str) else None,
        version if isinstance(version, str) else None,
        params,
    )
