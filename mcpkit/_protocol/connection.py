"""One conversation as the server sees it: `take()` returns events, `send_…()` returns text.

It knows the order of messages: the handshake, which revision a request belongs to, batches, ids in
flight, and which requests may still be answered. It does not run anything.

    NEW ──initialize──▶ OPENING ──notifications/initialized──▶ OPEN ──initialize──▶ OPENING …

Requests that announce themselves (2026-07-28) are served in every state, beside the handshake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from mcpkit._protocol import messages
from mcpkit._protocol.messages import Id
from mcpkit._protocol.revisions import (
    BY_VERSION,
    HANDSHAKE,
    PER_REQUEST,
    REVISIONS,
    UNKNOWN_CLIENT,
    ClientProfile,
    Method,
    Notice,
    Revision,
)
from mcpkit._utils.json import UNSET, Unset, is_array, is_object
from mcpkit._utils.text import quote, truncate
from mcpkit.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from mcpkit.types import LOG_RANK, Principal

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"
"""The member of ``_meta`` that names the task of a message (TASKL-8)."""

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
"""The names of extensions, in capabilities (TASKX-1)."""

_TRACE: Final = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

INITIALIZE_IN_BATCH: Final = "initialize cannot be in a batch"

# These methods exist only where requests announce themselves: a request for one without the members
# of `_meta` is malformed, not early. The newest handshake has every method of the earlier ones.
_MODERN_ONLY: Final = PER_REQUEST[-1].methods.keys() - HANDSHAKE[-1].methods.keys()


ExtensionMethods: TypeAlias = Mapping[tuple[str, str], Method]
"""The methods that extensions add to those of a revision, by name and version."""


class _NoId(str):
    """The id of a notification that is served as requests are: equal to no other id."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class State(Enum):
    """The progress of the handshake."""

    NEW = "new"
    OPENING = "opening"
    OPEN = "open"


class RequestSource(Protocol):
    """The source of a message, on a transport that others can reach."""

    @property
    def http(self) -> Any:
        """The `mcpkit.http.HttpRequest`."""
        ...

    @property
    def principal(self) -> Principal | None:
        """The caller; None if it is not known."""
        ...

    @property
    def owner(self) -> str:
        """The owner of the quotas that it is counted in; see `mcpkit._utils.quota`."""
        ...


class Batch:
    """The responses of one batch, sent together when the last is known (MSG-12)."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._responses: list[bytes] = []

    def complete(self, response: bytes | None) -> bytes | None:
        """Add a response, None if it was cancelled. Returns the text once none is missing."""
        if response is not None:
            self._responses.append(response)
        self._missing -= 1
        if self._missing or not self._responses:
            return None
        return b"[" + b",".join(self._responses) + b"]"


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """A request of the client."""

    id: Id
    method: str
    known: Method  # the method in the request's revision
    params: dict[str, Any]
    meta: dict[str, Any]  # params._meta
    revision: Revision
    _client: ClientProfile | None  # None: it is in `meta`
    log_level: str | None = None  # None: the session decides, or the client wants no messages
    batch: Batch | None = None
    origin: RequestSource | None = None  # None: of the only client, for whom scopes do not apply
    operation: Any = None  # what observers learn of it, if there are any
    trace: Any = None  # the `mcpkit.telemetry.Trace` that it belongs to, if it is traced

    def __repr__(self) -> str:
        return f"<Request {self.id!r} {self.method} {self.revision.version}>"

    @property
    def client(self) -> ClientProfile:
        """The facts that the client has stated about itself."""
        if self._client is None:  # few handlers need it
            meta = self.meta
            self._client = ClientProfile(meta[CAPABILITIES_KEY], meta.get(CLIENT_INFO_KEY))
        return self._client

    @property
    def principal(self) -> Principal | None:
        """The caller; None if it is not known, as on stdio."""
        return None if self.origin is None else self.origin.principal

    @property
    def trace_id(self) -> str | None:
        """The id of its trace: 32 hex digits (W3C Trace Context); None if it has none."""
        if self.trace is not None:
            return cast("str", self.trace.id)
        given = self.meta.get("traceparent")
        if given is None and self.origin is not None:
            given = self.origin.http.raw.get(b"traceparent", b"").decode("latin-1")
        found = _TRACE.fullmatch(given) if isinstance(given, str) else None
        return None if found is None else found[1]

    @property
    def streams(self) -> bool:
        """False if its host passes a response on only when it is complete."""
        http = None if self.origin is None else self.origin.http
        return http is None or http.streams


class Notification(NamedTuple):
    """A notification of the client."""

    notice: Notice


class Cancelled(NamedTuple):
    """The client cancelled a request; nothing more is sent for it (CANC-4)."""

    request: Request


class Response(NamedTuple):
    """The client's response to a request of the server: a result, or an error."""

    id: Id
    result: Mapping[str, Any] | None
    error: ProtocolError | None


class Rejected(NamedTuple):
    """A message that is rejected; `text` is the response, None while a batch is incomplete."""

    error: ProtocolError
    id: Id | Unset
    text: bytes | None


class Ignored(NamedTuple):
    """A message that is neither served nor answered."""

    reason: str  # for the log
    answers: Id | None = None  # the server's request that it was meant to answer
    error: ProtocolError | None = None  # the fault, if it is malformed
    refused: bool = False  # True if the revision cannot express the error response


Event: TypeAlias = Request | Notification | Cancelled | Response | Rejected | Ignored


class Connection:
    """One conversation with a client.

    Args:
        revision: The revision of a session that was negotiated earlier.
        client: The client of that session.
        announced: True if every request has to announce itself: there is no handshake.
        ids: The ids of requests to the client; 1, 2, 3 … by default.
    """

    __slots__ = (
        *("_announced_only", "_ids", "_in_flight", "_resumed"),
        *("client", "extensions", "revision", "state"),
    )

    def __init__(
        self,
        revision: Revision | None = None,
        client: ClientProfile = UNKNOWN_CLIENT,
        *,
        announced: bool = False,
        ids: Iterator[Id] | None = None,
    ) -> None:
        self.revision = revision
        self.client = client
        self.state = State.NEW if revision is None else State.OPEN
        self.extensions: ExtensionMethods = {}
        self._in_flight: dict[Id, Request] = {}
        self._announced_only = announced
        self._resumed = revision is not None
        self._ids = count(1) if ids is None else ids

    # --- what arrives -----------------------------------------------------------------------------

    def take(self, message: Any, origin: RequestSource | None = None) -> Sequence[Event]:
        """Return the events of one parsed message; an invalid message is an event as well."""
        if type(message) is dict:
            return (self.take_one(cast("dict[str, Any]", message), origin),)
        if is_array(message) and self.revision is not None and self.revision.batching:
            return self._batch(message, origin)
        wrong = "Batches do not exist in this revision" if is_array(message) else "Not a message"
        return (self.reject(InvalidRequest(wrong)),)

    def _batch(self, parts: list[Any], origin: RequestSource | None) -> Sequence[Event]:
        if not parts:
            return (self.reject(InvalidRequest("A batch cannot be empty")),)
        if holds_initialize(parts):
            # MSG-10. Each request is rejected by itself: without its id there is no shape (MSG-8).
            error = InvalidRequest(INITIALIZE_IN_BATCH)
            parts = [part for part in parts if wants_answer(part)]
            batch = Batch(len(parts))
            return [self.reject(error, messages.readable_id(part), batch) for part in parts]
        batch = Batch(sum(map(wants_answer, parts)))
        return [
            self.take_one(part, origin, batch)
            if is_object(part)
            else self.reject(InvalidRequest("Not a message"), batch=batch)
            for part in parts
        ]

    def take_unreadable(self, text: bytes | bytearray, error: ProtocolError) -> Event:
        """Return the event of a text that is not JSON: an error with the id that it shows."""
        return self._reject(messages.parse_leniently(text), error)

    def take_one(
        self,
        message: dict[str, Any],
        origin: RequestSource | None = None,
        batch: Batch | None = None,
    ) -> Event:
        """Return the event of one message that is not a batch; see `take`."""
        try:
            messages.check_envelope(message)
            method = message.get("method")
            if method is None:
                return _response(message)
            params: Any = message.get("params")
            if params is None:
                params = {}
            id: Id | None = message.get("id")
            if id is None:
                return self._notification(method, params, origin)
            if params.__class__ is not dict:
                raise InvalidParams('The member "params" must be an object')
            if id in self._in_flight:
                raise InvalidRequest(
                    f"The id {quote(id)} belongs to a request that is still running"
                )
            request = self._request(id, method, params)
        except ProtocolError as error:
            return self._reject(message, error, batch)
        request.batch = batch
        request.origin = origin
        self._in_flight[id] = request
        return request

    def _reject(self, message: object, error: ProtocolError, batch: Batch | None = None) -> Event:
        stated_id = messages.readable_id(message)
        if is_object(message) and messages.is_response(message):
            # Its id belongs to a request of the server: the client would not expect an error.
            answers = None if isinstance(stated_id, Unset) else stated_id
            return Ignored(f"A malformed response: {error}", answers, error)
        return self.reject(error, stated_id, batch)

    def _request(self, id: Id, method: str, params: dict[str, Any]) -> Request:
        meta = _meta_of(params)
        client: ClientProfile | None = None
        level: str | None = None
        if self._announced_only or announces_itself(method, meta):
            revision, level = _announcement(meta)
        elif method == "initialize":
            revision, client = self._initialize(params)
        elif self.revision is not None:
            revision, client = self.revision, self.client
        elif method == "ping":
            revision, client = HANDSHAKE[-1], UNKNOWN_CLIENT  # PING-1: also before the handshake
        else:
            raise InvalidRequest("The first request must be initialize (or carry its own _meta)")
        known = revision.methods.get(method) or self.extensions.get((method, revision.version))
        if known is None or known.is_notification:
            raise MethodNotFound(f"Method not found: {truncate(method)}")
        return Request(id, method, known, params, meta, revision, client, level)

    def _initialize(self, params: dict[str, Any]) -> tuple[Revision, ClientProfile]:
        if self._resumed:
            # LIFE-11: the session id carries what was negotiated, so a new session is needed.
            raise InvalidRequest("This session is already initialized")
        # Without a session id the handshake may be repeated: bridges connect one client after the
        # other to the streams of one server. Earlier requests continue.
        wanted = params.get("protocolVersion")
        capabilities = params.get("capabilities")
        info = params.get("clientInfo")
        if not isinstance(wanted, str):
            raise InvalidParams('initialize needs "protocolVersion", a string')
        if not is_object(capabilities):
            raise InvalidParams('initialize needs "capabilities", an object')
        if not is_object(info):
            raise InvalidParams('initialize needs "clientInfo", an object')
        # LIFE-2: "If the server supports the requested protocol version, it MUST respond with the
        # same version." LIFE-3 and LIFE-4: otherwise the newest that has a handshake.
        found = BY_VERSION.get(wanted)
        self.revision = found if found is not None and found.handshake else HANDSHAKE[-1]
        self.client = ClientProfile(capabilities, info)
        self.state = State.OPENING
        return self.revision, self.client

    def _notification(self, method: str, params: Any, origin: RequestSource | None) -> Event:
        if not is_object(params):
            return Ignored(f"{truncate(method)}: params must be an object")
        revision = self.revision or PER_REQUEST[-1]
        notice = revision.notices.get(method)
        if notice is None:
            return self._extension_notification(method, params, origin)
        if notice == "initialized":
            self.state = State.OPEN
        if notice != "cancelled":
            return Notification(notice)
        # ERA-3: a cancellation does not announce its revision: any request may be meant.
        id = params.get("requestId")
        request = self._in_flight.get(id) if messages.is_id(id) else None
        if request is None:
            return Ignored(f"Nothing to cancel under id {quote(id)}")
        if request.method == "initialize":
            return Ignored("initialize cannot be cancelled")  # LIFE-9
        del self._in_flight[request.id]
        return Cancelled(request)

    def _extension_notification(
        self, method: str, params: dict[str, Any], origin: RequestSource | None
    ) -> Event:
        """Return a request without a response for a notification of an extension."""
        if all(name != method for name, _ in self.extensions):
            return Ignored(f"Unknown notification: {truncate(method)}")
        client: ClientProfile | None = self.client
        revision = self.revision or PER_REQUEST[-1]
        try:
            meta = _meta_of(params)
            if announces_itself(method, meta):
                client, (revision, _) = None, _announcement(meta)
        except ProtocolError as error:
            return Ignored(f"{truncate(method)}: {error}", error=error)
        known = self.extensions.get((method, revision.version))
        if known is None or not known.is_notification:
            return Ignored(f"{truncate(method)} does not exist in {revision.version}")
        request = Request(_NoId(), method, known, params, meta, revision, client, origin=origin)
        self._in_flight[request.id] = request
        return request

    def reject(
        self, error: ProtocolError, id: Id | Unset = UNSET, batch: Batch | None = None
    ) -> Rejected | Ignored:
        """Return the event of an invalid message, which may be part of a batch."""
        revision = self.revision
        if id is UNSET and revision is not None and not revision.errors_without_id:
            # MSG-8: this revision has no shape for an error without an id.
            completed = None if batch is None else batch.complete(None)
            if completed is None:
                return Ignored(str(error), error=error, refused=True)
            return Rejected(error, id, completed)
        text: bytes | None = messages.error_text(id, error)
        if batch is not None:
            text = batch.complete(text)
        return Rejected(error, id, text)

    # --- what is sent -----------------------------------------------------------------------------

    def is_in_flight(self, request: Request) -> bool:
        """Return True if the request may still be answered."""
        return self._in_flight.get(request.id) is request

    def requests(self) -> list[Request]:
        """Return the requests that may still be answered, in the order of their arrival."""
        return list(self._in_flight.values())

    def send_result(self, request: Request, members: bytes) -> bytes | None:
        """Return the response to a request.

        Args:
            request: As it was received.
            members: The encoded members of the result object, without braces.

        Returns:
            The text; None if nothing is to be sent, because the request was cancelled or because
            other responses of its batch are missing.
        """
        return self._complete(request, messages.result_text(request.id, members))

    def send_error(self, request: Request, error: ProtocolError) -> bytes | None:
        """Return the error response to a request; None as in `send_result`."""
        return self._complete(request, messages.error_text(request.id, error))

    def forget(self, request: Request) -> bytes | None:
        """Drop a request without a response. Returns the text of its batch if that completes it."""
        return self._complete(request, None)

    def _complete(self, request: Request, response: bytes | None) -> bytes | None:
        if self._in_flight.get(request.id) is request:
            del self._in_flight[request.id]
        else:
            response = None
        if request.known.is_notification:
            response = None
        batch = request.batch
        if batch is None:
            return response
        request.batch = None
        return batch.complete(response)

    def send_request(
        self, method: str, params: Mapping[str, Any] | None = None, id: Id | None = None
    ) -> tuple[Id, bytes]:
        """Return the id and the text of a request to the client (handshake only)."""
        if id is None:
            id = next(self._ids)
        return id, messages.request_text(id, method, params)


def _meta_of(params: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] | None = params.get("_meta")
    if meta is None:
        return {}
    if type(meta) is not dict:
        raise InvalidParams('The member "_meta" must be an object')
    if not (meta.get("progressToken") is None or messages.is_id(meta["progressToken"])):
        raise InvalidParams('"progressToken" must be a string or an integer, and short')
    return meta


def announces_itself(method: object, meta: Mapping[str, Any]) -> bool:
    """Return True if a request belongs to a revision without handshake by itself."""
    return VERSION_KEY in meta or CAPABILITIES_KEY in meta or method in _MODERN_ONLY


def _announcement(meta: dict[str, Any]) -> tuple[Revision, str | None]:
    """Return the revision and the log level that a request announces (META-1, VER-1)."""
    version: Any = meta.get(VERSION_KEY)
    info: Any = meta.get(CLIENT_INFO_KEY)
    level: Any = meta.get(LOG_LEVEL_KEY)
    if type(version) is not str:
        raise InvalidParams(f'"_meta" needs "{VERSION_KEY}", a string')
    if type(meta.get(CAPABILITIES_KEY)) is not dict:
        raise InvalidParams(f'"_meta" needs "{CAPABILITIES_KEY}", an object')
    if info is not None and type(info) is not dict:
        raise InvalidParams(f'"{CLIENT_INFO_KEY}" must be an object')
    revision = BY_VERSION.get(version)
    if revision is None:
        raise UnsupportedProtocolVersion(version, [each.version for each in REVISIONS])
    if revision.handshake:
        # ERA-2: -32022 would list this very version as supported and loop the client.
        raise InvalidParams(f"Version {version} starts with initialize, not with _meta")
    if level is not None and not (isinstance(level, str) and level in LOG_RANK):
        raise InvalidParams(f"Unknown log level: {quote(level)}; known: {', '.join(LOG_RANK)}")
    return revision, level


def _response(message: dict[str, Any]) -> Response:
    id: Id | None = message.get("id")
    if id is None:
        raise InvalidRequest("it has no id")
    name = "error" if "error" in message else "result"
    found = message[name]
    if not is_object(found):
        raise InvalidRequest(f'The member "{name}" must be an object')
    if name == "error":
        return Response(id, None, ProtocolError.from_wire(found))
    return Response(id, found, None)


def holds_initialize(message: object) -> bool:
    """Return True if a message is a batch with ``initialize`` in it."""
    return is_array(message) and any(
        is_object(part) and part.get("method") == "initialize" for part in message
    )


def wants_answer(part: Any) -> bool:
    """Return True if a part of a batch gets a response: a request, or an invalid part."""
    if not is_object(part):
        return True
    try:
        messages.check_envelope(part)
    except InvalidRequest:
        return not messages.is_response(part)
    return "method" in part and "id" in part
