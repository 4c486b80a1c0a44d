"""Requests of revisions with sessions: the handshake, POSTs in a session, its stream and end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpkit._protocol.connection import INITIALIZE_IN_BATCH, holds_initialize, wants_answer
from mcpkit._protocol.messages import check_envelope, error_text, readable_id
from mcpkit._utils.json import UNSET, Unset, is_object
from mcpkit.errors import InternalError, InvalidRequest, ProtocolError
from mcpkit.http import HttpRequest, Receive, Send
from mcpkit.transports.http.exchange import CHANNEL, Exchange
from mcpkit.transports.http.headers import (
    accepts,
    check_repeated,
    has_session_version,
    is_announced,
)
from mcpkit.transports.http.http_error import HttpError, respond
from mcpkit.transports.http.quotas import owner_of
from mcpkit.transports.http.requests import OpenRequests
from mcpkit.transports.http.security import principal_id
from mcpkit.transports.http.session_ids import SessionId, SessionIds
from mcpkit.transports.http.sessions import (
    LiveSession,
    SessionTable,
    new_session,
    stateless_session,
)
from mcpkit.transports.http.streams import Stream

if TYPE_CHECKING:
    from mcpkit.tasks.handlers import AnswerToTask

_WORKERS: Final = "MCPKIT_WORKERS"
"""The number of processes that serve the app, if more than one: set by the one that starts them."""

_MAX_UNSTORED: Final = 16 * 1024 * 1024
"""Bytes of answers that wait for their store after the client was told to repeat them."""


class SessionExchange(Exchange):
    """A POST in a session, which continues if its client disconnects, and may be resumed."""

    live: LiveSession

    outlasts = True

    def open_stream(self) -> Stream:
        """Return a stream for the response, which the client may resume."""
        return self.live.open_stream()

    def close(self) -> None:
        """Give back everything that it holds, and keep its stream until its client reconnects."""
        Exchange.close(self)
        if self.stream is not None:
            self.live.leave(self.stream)
        self.live.finish()


class LegacySessions:
    """The server of requests in sessions."""

    def __init__(self, open_requests: OpenRequests) -> None:
        self.table = SessionTable(open_requests)
        self._open_requests = open_requests
        self._server = server = open_requests.server
        self._unstored = 0
        self._ids = SessionIds(server.sealer("session"), open_requests.limits.session_lifetime)
        self._workers = int(os.environ.get(_WORKERS) or 1)
        self._stateless = stateless_session(open_requests)
        """The session of messages that are accepted, and need nothing else."""

    # --- POST -------------------------------------------------------------------------------------

    def start(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        """Start to serve a message, or a batch; an exception says that nothing was done."""
        raw = http.raw
        if b"mcp-session-id" not in raw:
            if isinstance(message, dict):
                return self._start_handshake(message, http)
            if holds_initialize(message):
                raise HttpError(400, INITIALIZE_IN_BATCH)  # MSG-10
        token, id, live = self._session_of(http)
        if isinstance(message, list):
            if not id.revision.batching:
                raise HttpError(400, "Batches do not exist in this revision")  # MSG-11
            for part in message:
                if is_object(part) and is_announced(part):
                    # HTTPM-1: a batch has no headers of its own.
                    is_served = self._is_served_notice(part)
                    check_repeated(raw, part, self._server.registry, is_served=is_served)
            count = sum(map(wants_answer, message))
            size = count + sum(map(self._is_served_notice, message))
            self._open_requests.quotas.check("requests", http, max(1, size))
        else:
            if message.get("method") == "initialize":
                # LIFE-11: some bridges begin a session, and their client then begins one in it.
                return self._start_handshake(message, http)
            size = count = 1 if "method" in message and "id" in message else 0
            if "method" not in message and (found := self._late_answer(message, id)):
                return self._take_answer(found, message, live, http)
            is_served = count > 0 or self._is_served_notice(message)
            if not is_served and self._is_taken(message, live):
                return Exchange(http, self._stateless, self._open_requests, 0, per_request=True)
        if live is None:
            live = self.table.open(id, token, owner_of(http))
        if self._workers > 1 and isinstance(message, dict):
            self._check_worker(message, live)
        exchange = SessionExchange(
            http, live.session, self._open_requests, count, per_request=False
        )
        exchange.live = live
        exchange.size = size or 1
        exchange.take(message)
        return exchange

    def _start_handshake(self, message: dict[str, Any], http: HttpRequest) -> Exchange:
        """Begin a session; refuse any other request, because its client has lost the session id."""
        if message.get("method") != "initialize":
            raise HttpError(
                400,
                "The header Mcp-Session-Id is missing: begin with initialize, or send a request "
                "that carries its own _meta",
            )
        if "id" not in message:
            raise HttpError(400, "initialize is a request, and needs an id")
        session = new_session(self._open_requests, CHANNEL)
        exchange = Exchange(http, session, self._open_requests, 1, per_request=False)
        session.take(message, exchange)
        revision = session.connection.revision
        if revision is not None and exchange.error is None and exchange.status == 200:
            token = self._ids.mint(revision, session.connection.client, principal_id(http))
            exchange.headers = ((b"mcp-session-id", token.encode("ascii")),)
        return exchange

    def _late_answer(self, message: Mapping[str, Any], id: SessionId) -> AnswerToTask | None:
        """Return the answer in a message, if an extension has asked in any session."""
        for each in self._server.extensions:
            found: AnswerToTask | None
            found = each.answer_to(self._server, message, id.revision, id.principal)
            if found is not None:
                return found
        return None

    def _take_answer(
        self,
        answer: AnswerToTask,
        message: dict[str, Any],
        live: LiveSession | None,
        http: HttpRequest,
    ) -> Exchange:
        """Take an answer, wherever its question was asked; accept it once it is stored."""
        check_envelope(message)
        exchange = Exchange(http, self._stateless, self._open_requests, 1, per_request=True)
        exchange.may_stream = False

        def on_admitted() -> None:
            if live is not None and live.session.awaits(message["id"]):
                # Who asked knows the answer before the record says so, and does not withdraw it.
                asked = Exchange(http, live.session, self._open_requests, 0, per_request=True)
                live.session.take(message, asked)

        async def store() -> None:
            try:
                await answer.store(exchange, on_admitted)
            except InternalError:
                refused = HttpError(503, "The answer cannot be stored at the moment; send it again")
                exchange.complete(refused.body, None, refused.status)
            except ProtocolError as error:
                exchange.complete(error_text(UNSET, error), error, 400)
                return
            else:
                exchange.complete(None, None)
                return
            if self._unstored + answer.size <= _MAX_UNSTORED:  # not all clients do
                self._unstored += answer.size
                try:
                    await answer.store(exchange, on_admitted, at_last=True)
                finally:
                    self._unstored -= answer.size

        self._open_requests.loop.start(store())
        return exchange

    def _is_served_notice(self, message: object) -> bool:
        """Return True if a message is a notification that an extension serves."""
        method = message.get("method") if is_object(message) and "id" not in message else None
        known = self._server.extension_methods.items()
        return any(name == method and each.is_notification for (name, _), each in known)

    def _is_taken(self, message: Mapping[str, Any], live: LiveSession | None) -> bool:
        """Take an answer or a notification that no session here waits for; False if one does."""
        is_answer, answer = "method" not in message, readable_id(message)
        if live is not None and (
            not is_answer or (not isinstance(answer, Unset) and live.session.awaits(answer))
        ):
            return False
        check_envelope(message)
        # Nothing is kept of the session that a notification could change.
        if is_answer:
            if isinstance(answer, Unset):
                raise InvalidRequest("An answer without an id")
            self.table.check_answer(str(answer))
        return True

    def _check_worker(self, message: Mapping[str, Any], live: LiveSession) -> None:
        """Refuse to subscribe where no stream could carry the changes."""
        if message.get("method") == "resources/subscribe" and not live.is_listening:
            raise HttpError(
                409,
                f"This is one of {self._workers} workers, and not the one that holds the session's "
                f"stream: route sessions to workers by Mcp-Session-Id, or run one worker",
            )

    # --- sessions ---------------------------------------------------------------------------------

    def _session_of(self, http: HttpRequest) -> tuple[str, SessionId, LiveSession | None]:
        """Return the session id of a request, its content, and the session if it is held here."""
        token = http.raw.get(b"mcp-session-id", b"").decode("latin-1")
        if not token:
            raise HttpError(400, "The header Mcp-Session-Id is missing")
        live = self.table.find(token)
        id = self._ids.read(token) if live is None else live.id
        # One response for every cause (SEC-6): it must not reveal which ids exist.
        if (
            id is None
            or id.expires <= time.time()
            or id.key in self.table.store.ends
            or id.principal != principal_id(http)
        ):
            raise HttpError(404, "Session not found: begin again with initialize")
        return token, id, live

    # --- GET and DELETE ---------------------------------------------------------------------------

    async def get(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Open the stream of a session, or resume one that was lost (HTTPL-8, HTTPL-13)."""
        raw = http.raw
        if not has_session_version(raw):
            raise HttpError(405, "This revision has no GET", [(b"allow", b"POST")])
        if not accepts(raw.get(b"accept"), b"text/event-stream"):
            raise HttpError(406, "The Accept header must list text/event-stream")
        token, id, live = self._session_of(http)
        self._open_requests.check_room(http, "streams")
        if live is None:
            live = self.table.open(id, token, owner_of(http))
        last = raw.get(b"last-event-id")
        stream = live.open_standalone() if last is None else live.resume(last.decode("latin-1"))
        try:
            await self._open_requests.serve_stream(stream, http, receive, send)
        finally:
            if stream is live.standalone:
                live.leave(stream)
            live.finish()

    async def delete(self, http: HttpRequest, send: Send) -> None:
        """End a session (HTTPL-17)."""
        if not has_session_version(http.raw):
            raise HttpError(405, "This revision has no DELETE", [(b"allow", b"POST")])
        _, id, live = self._session_of(http)
        self.table.store.end(id.key, id.expires, owner_of(http))
        if live is not None:
            await self.table.discard(live)
        await respond(send, 204, [])
