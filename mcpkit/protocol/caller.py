"""One conversation as the client sees it: requests out, answers and the server's wishes in.

The counterpart of `mcpkit.protocol.connection`, equally without input or output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcpkit.errors import ProtocolError
from mcpkit.protocol import messages
from mcpkit.protocol.connection import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY
from mcpkit.protocol.messages import Id
from mcpkit.protocol.revision import Revision
from mcpkit.types import is_array, is_object

__all__ = ["Answered", "Asked", "Caller", "Told", "Unreadable"]


@dataclass(frozen=True, slots=True)
class Answered:
    """The server answered a request: a result, or the error it gave instead."""

    id: Id
    result: Mapping[str, Any] | None
    error: ProtocolError | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The server asks something (handshake revisions)."""

    id: Id
    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """The server tells something."""

    method: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What arrived is no message, or an error without an id."""

    error: ProtocolError


Event: TypeAlias = Answered | Asked | Told | Unreadable


class Caller:
    """The client's side of a conversation.

    Args:
        info: ``clientInfo`` as it is sent.
        capabilities: ``clientCapabilities`` as they are sent.
    """

    def __init__(self, info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> None:
        self.info = info
        self.capabilities = capabilities
        self.revision: Revision | None = None
        self._next_id = 0

    @property
    def next_id(self) -> Id:
        """The id that the next request will have; it can serve as its progress token."""
        return self._next_id + 1

    def receive(self, text: bytes) -> Sequence[Event]:
        """What one message from the server means; an array is a batch of 2025-03-26."""
        try:
            message = messages.parse(text)
        except ProtocolError as error:
            return (Unreadable(error),)
        parts = message if is_array(message) else [message]
        return [self._one(part) for part in parts]

    def _one(self, message: Any) -> Event:
        if not is_object(message):
            return Unreadable(ProtocolError("Not a message"))
        error = message.get("error")
        if error is not None and message.get("id") is None:
            return Unreadable(ProtocolError.from_wire(error))
        try:
            messages.check_envelope(message)
        except ProtocolError as wrong:
            return Unreadable(wrong)
        params: Mapping[str, Any] = message.get("params") or {}
        if "method" in message:
            if "id" in message:
                return Asked(message["id"], message["method"], params)
            return Told(message["method"], params)
        if error is not None:
            return Answered(message["id"], None, ProtocolError.from_wire(error))
        return Answered(message["id"], message["result"], None)

    def send_request(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> tuple[Id, bytes]:
        """A request: its id and its text.

        Args:
            method: As on the wire.
            params: Without ``_meta``.
            meta: Put into ``_meta``, beside what a revision without handshake wants there.
        """
        self._next_id += 1
        merged = dict(meta or {})
        if self.revision is not None and not self.revision.handshake:
            merged[VERSION_KEY] = self.revision.version
            merged[CAPABILITIES_KEY] = self.capabilities
            merged[CLIENT_INFO_KEY] = self.info
        sent = {**params, "_meta": merged} if merged else dict(params)
        return self._next_id, messages.request_text(self._next_id, method, sent or None)

    def send_notification(self, method: str, params: Mapping[str, Any] | None = None) -> bytes:
        """The text of a notification."""
        return messages.notification_text(method, params)

    def send_result(self, id: Id, result: Mapping[str, Any]) -> bytes:
        """The text that answers a request of the server."""
        return messages.result_text(id, messages.members(result))

    def send_error(self, id: Id, error: ProtocolError) -> bytes:
        """The text that refuses a request of the server."""
        return messages.error_text(id, error)
