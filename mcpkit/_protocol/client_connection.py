"""One conversation as the client sees it; the counterpart of `mcpkit._protocol.connection`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from mcpkit._protocol import messages
from mcpkit._protocol.connection import CAPABILITIES_KEY, CLIENT_INFO_KEY, VERSION_KEY, Response
from mcpkit._protocol.messages import Id
from mcpkit._protocol.revisions import PER_REQUEST, Revision
from mcpkit._utils.json import Unset, has_more_values, is_array, is_object
from mcpkit.errors import InvalidRequest, ParseError, ProtocolError


class ServerRequest(NamedTuple):
    """A request of the server (handshake revisions)."""

    id: Id
    method: str
    params: Mapping[str, Any]


class Notification(NamedTuple):
    """A notification of the server."""

    method: str
    params: Mapping[str, Any]


class InvalidMessage(NamedTuple):
    """Bytes that are not a valid message, or an error without an id."""

    error: ProtocolError


MAX_BATCH: Final = 100
"""Messages that a batch may have."""

MAX_VALUES: Final = 2_000_000
"""JSON values that a message of a server may have: each may take a hundred bytes of memory."""

Event: TypeAlias = Response | ServerRequest | Notification | InvalidMessage


IsAnswered: TypeAlias = Callable[[], bool]
"""Returns True once the answer to a request has arrived."""


class OutgoingMessage(NamedTuple):
    """A message to the server, and the facts that a transport may repeat in headers."""

    text: bytes
    id: Id | None = None  # of a request
    method: str | None = None
    version: str | None = None  # None in sessions with a handshake
    params: Mapping[str, Any] = {}

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt, or the URI of the resource, in the params."""
        known = PER_REQUEST[-1].methods.get(self.method or "")
        found = self.params.get(known.mirrored or "") if known is not None else None
        return found if isinstance(found, str) else None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of a call of a tool."""
        found = self.params.get("arguments")
        return found if self.method == "tools/call" and is_object(found) else {}


def parse(text: bytes) -> Any:
    """Return the JSON value in a text of a server.

    Raises:
        ProtocolError: It is not JSON, or has too many values.
    """
    if has_more_values(text, MAX_VALUES):
        raise InvalidRequest(f"A message may have {MAX_VALUES} values")
    return messages.parse(text)


class ClientProtocol:
    """The client's side of a conversation."""

    def __init__(self, info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> None:
        self.info = info
        self.capabilities = capabilities
        self.revision: Revision | None = None
        self.next_id = 1
        """The id that the next request will have; it can serve as its progress token."""

    def receive(self, text: bytes) -> Sequence[Event]:
        """Return the events of one message from the server; an array is a batch of 2025-03-26.

        A batch that is too long is one event, and so is an array where there are no batches.
        """
        try:
            message = parse(text)
        except ProtocolError as error:
            events: list[Event] = [InvalidMessage(error)]
            if isinstance(error, ParseError):  # else it has too many values to look at them again
                shown = messages.parse_leniently(text)
                id = messages.readable_id(shown)
                if not isinstance(id, Unset) and messages.is_response(shown):
                    events.append(Response(id, None, error))
            return events
        if not is_array(message):
            return (self._one(message),)
        if self.revision is None or not self.revision.batching:
            return (InvalidMessage(InvalidRequest("An array, but this revision has no batches")),)
        if len(message) > MAX_BATCH:
            problem = f"A batch of {len(message)} messages; it may have {MAX_BATCH}"
            return (InvalidMessage(InvalidRequest(problem)),)
        return [self._one(part) for part in message]

    def _one(self, message: Any) -> Event:
        if not is_object(message):
            return InvalidMessage(ProtocolError("Not a message"))
        error = message.get("error")
        if error is not None and message.get("id") is None:
            return InvalidMessage(ProtocolError.from_wire(error))
        try:
            messages.check_envelope(message)
        except ProtocolError as wrong:
            return InvalidMessage(wrong)
        params: Mapping[str, Any] = message.get("params") or {}
        if "method" in message:
            if "id" in message:
                return ServerRequest(message["id"], message["method"], params)
            return Notification(message["method"], params)
        if error is not None:
            return Response(message["id"], None, ProtocolError.from_wire(error))
        return Response(message["id"], message["result"], None)

    def send_request(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> OutgoingMessage:
        """Return a request, whose ``_meta`` has more members in a revision without handshake."""
        id, self.next_id = self.next_id, self.next_id + 1
        merged, version = self._announced(meta), self._version
        sent = {**params, "_meta": merged} if merged else dict(params)
        text = messages.request_text(id, method, sent or None)
        return OutgoingMessage(text, id, method, version, params)

    def _announced(self, meta: Mapping[str, Any] | None) -> dict[str, Any]:
        merged = dict(meta or {})
        if self._version is not None:
            merged[VERSION_KEY] = self._version
            merged.setdefault(CAPABILITIES_KEY, self.capabilities)
            merged[CLIENT_INFO_KEY] = self.info
        return merged

    @property
    def by_handshake(self) -> bool:
        """True if the session has a handshake, or none has been tried yet."""
        return self.revision is None or self.revision.handshake

    @property
    def _version(self) -> str | None:
        """The version in each message; None if there was a handshake."""
        return None if self.by_handshake or self.revision is None else self.revision.version

    def send_notification(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> OutgoingMessage:
        """Return a notification; one of an extension announces its client as requests do."""
        if self._version is not None and PER_REQUEST[-1].notices.get(method) is None:
            params = {**(params or {}), "_meta": self._announced((params or {}).get("_meta"))}
        text = messages.notification_text(method, params)
        return OutgoingMessage(text, method=method, version=self._version)

    def send_result(self, id: Id, result: Mapping[str, Any]) -> OutgoingMessage:
        """Return the result of a request of the server."""
        return OutgoingMessage(
            messages.result_text(id, messages.members(result)), version=self._version
        )

    def send_error(self, id: Id, error: ProtocolError) -> OutgoingMessage:
        """Return the error response to a request of the server."""
        return OutgoingMessage(messages.error_text(id, error), version=self._version)
