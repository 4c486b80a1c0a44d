"""The endpoint: an ASGI application that serves every revision of Streamable HTTP at one path."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    MutableMapping,
    Sequence,
)
from functools import partial
from types import CoroutineType
from typing import Any, Final, Protocol, TypeAlias, cast

import anyio

from mcpkit.errors import (
    InternalError,
    InvalidRequest,
    ParseError,
    ProtocolError,
)
from mcpkit.http import HttpRequest, HttpSettings, Scope
from mcpkit.protocol.connection import Connection, Request, announces_itself, wants_answer
from mcpkit.protocol.messages import Id, check_envelope, encode, error_text, parse, readable_id
from mcpkit.protocol.revisions import HANDSHAKE, PER_REQUEST
from mcpkit.sealing import SealBroken
from mcpkit.server import log
from mcpkit.session import Session
from mcpkit.transports.http.exchange import LARGE, Exchange, Lanes, write_answer
from mcpkit.transports.http.guard import Guard, RateLimit, principal_of
from mcpkit.transports.http.hub import Conversation, Hub, LocalHub, Unknown
from mcpkit.transports.http.ids import SessionId, SessionIds
from mcpkit.transports.http.runtime import Life, Runtime
from mcpkit.transports.http.streams import Connection as StreamConnection
from mcpkit.transports.http.streams import Receive, Send, Stream, Unread
from mcpkit.types import UNSET, Unset, is_array, is_object

__all__ = ["Endpoint", "Expiring", "Refusal", "Serving", "accept", "parse_body", "refuse"]

_Pairs: TypeAlias = list[tuple[bytes, bytes]]

_LEGACY: Final = {each.version.encode(): each for each in HANDSHAKE}
_MODERN: Final = frozenset(each.version.encode() for each in PER_REQUEST)
_NO_META: Final[Mapping[str, Any]] = {}
_METHODS: Final = b"GET, POST, DELETE"
_BODIES: Final = 8
"""How many bodies of the greatest length may arrive, or be served, at once."""

_LARGE_BODY: Final = 64 * 1024
"""Bytes from which on a body is counted for that, and takes a while to parse."""

_TOO_LONG: Final = "The body is longer than %d bytes (the server's setting is max_body)"
_LANES: Final = Lanes()
_WORKERS: Final = "MCPKIT_WORKERS"
"""How many processes serve the app, if more than one: set by who starts them."""


class Refusal(Exception):
    """A request that is answered with a status and an error, and not served.

    Args:
        status: Of HTTP.
        error: For the body.
        id: Of the request, if it is known by then (ERR-5).
        headers: Of the response, in addition.
    """

    def __init__(
        self,
        status: int,
        error: ProtocolError | str,
        id: Id | Unset = UNSET,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        if isinstance(error, str):
            error = InvalidRequest(error) if status < 500 else InternalError(error)
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.id = id
        self.headers = headers


class Endpoint:
    """An ASGI application at one path.

    Args:
        runtime: Serves the app.
        settings: Of this endpoint.
        loopback: Whether the server listens on loopback addresses only; None if that is not known.
    """

    def __init__(
        self, runtime: Runtime, settings: HttpSettings, *, loopback: bool | None = None
    ) -> None:
        self.settings = settings
        self._runtime = runtime
        self._guard = Guard(settings, loopback)
        self._principal = settings.principal or principal_of
        self._rate = None if settings.rate_limit is None else RateLimit(settings.rate_limit)
        self._serving: Serving | None = None

    async def serving(self) -> Serving:
        """What serves in this event loop.

        Raises:
            Refusal: The app could not be begun; the log says why, and the next request tries again.
        """
        try:
            life = await self._runtime.life()
        except RuntimeError:
            raise Refusal(500, "The server could not begin; its log says why") from None
        serving = self._serving
        if serving is None or serving.life is not life:
            serving = self._serving = Serving(life, self.settings)
        return serving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        http = HttpRequest(scope)
        try:
            self.admit(http)
            serving = self._serving
            if serving is None or not serving.life.is_here:
                serving = await self.serving()
            method = scope["method"]
            if method == "POST":
                await serving.post(http, receive, send)
            elif method == "GET":
                await serving.get(http, receive, send)
            elif method == "DELETE":
                await serving.delete(http, send)
            else:
                raise Refusal(405, f"There is no {method} here", headers=((b"allow", _METHODS),))
        except Refusal as refusal:
            await refuse(send, refusal)
        except Unread:
            log.debug("a client does not read its answer")

    def admit(self, http: HttpRequest) -> None:
        """Check who asks, before anything is read or kept for them.

        Raises:
            Refusal: They may not ask, or not now.
        """
        why = self._guard.refusal(http)
        if why is not None:
            raise Refusal(403, why)
        http.principal = self._principal(http)
        if self._rate is not None:
            client = http.client
            wait = self._rate.wait(http.principal or (client[0] if client else ""))
            if wait:
                raise Refusal(429, "Too many requests", headers=_retry_after(wait))


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with a refusal: an error as JSON-RPC has it (MSG-8)."""
    body = error_text(refusal.id, refusal.error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _retry_after(seconds: float) -> _Pairs:
    return [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))]


class Expiring(Protocol):
    """Something that clients wait for, and that may take too long."""

    def expire(self, why: str) -> None:
        """Stop it, and say why."""
        ...


class Serving:
    """An endpoint in an event loop: its sessions, and what is in flight.

    Args:
        life: Of the app.
        settings: Of the endpoint.
    """

    def __init__(self, life: Life, settings: HttpSettings) -> None:
        self.life = life
        self.settings = settings
        server = life.server
        self._server = server
        self._tasks = life.tasks
        self._begins_early = sys.version_info >= (3, 11) and isinstance(
            life.loop, asyncio.AbstractEventLoop
        )
        self._ids = SessionIds(server.sealer("session"), settings.session_lifetime)
        make_hub = settings.hub or LocalHub
        self.hub: Hub = make_hub(server, settings, life.tasks, life.threads)
        self.exchanges: set[Exchange] = set()
        self.streams: set[StreamConnection] = set()
        """Connections that clients hold open."""
        self.posted: set[Expiring] = set()
        """What is answered on such a connection, not where it was posted."""
        self._arriving = 0
        self._listening = 0
        self._body_bytes = 0
        self._workers = int(os.environ.get(_WORKERS) or 1)
        life.busy.append(lambda: bool(self._arriving or self.exchanges or self.posted))
        life.on_drain.append(self.drain)
        life.on_end.append(self.aclose)

    # --- POST -------------------------------------------------------------------------------------

    async def post(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Serve one message, or a batch."""
        raw = http.raw
        content_type = raw.get(b"content-type", b"")
        if content_type != b"application/json" and not _is_json(content_type):
            raise Refusal(415, "The Content-Type must be application/json")
        if not _accepts(raw.get(b"accept"), b"application/json", b"text/event-stream"):
            raise Refusal(406, "The Accept header must list application/json and text/event-stream")
        body = await self.read(raw, receive)
        if body is None:
            return  # the client has gone
        message = parse_body(body)
        large = len(body) if len(body) > _LARGE_BODY else 0
        del body
        if not large:
            await self._serve(message, http, receive, send)
            return
        self._body_bytes += large
        try:
            await self._serve(message, http, receive, send)
        finally:
            self._body_bytes -= large

    async def _serve(self, message: Any, http: HttpRequest, receive: Receive, send: Send) -> None:
        raw = http.raw
        if not is_object(message):
            if not is_array(message):
                raise Refusal(400, "A message is an object")
            self.check_batch(message)
        if self._is_modern(message, raw):
            await self._serve_modern(message, http, receive, send)
        elif b"mcp-session-id" not in raw and is_object(message):
            await self._serve_without_session(message, http, receive, send)
        else:
            await self._serve_in_session(message, http, receive, send)

    async def read(self, raw: Mapping[bytes, bytes], receive: Receive) -> bytes | None:
        """The body of a POST; None if the client has gone.

        Args:
            raw: The headers.
            receive: Of the ASGI application.

        Raises:
            Refusal: It is too long or too slow, or there is no room for one more request.
        """
        self._check_room()
        limit = self.settings.max_body
        length = raw.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            raise Refusal(413, _TOO_LONG % limit)
        message: MutableMapping[str, Any] | None = None
        first = receive()
        if self._begins_early and _is_coroutine(first):
            # A small body has arrived with its headers: neither a wait nor a clock is needed.
            begun = cast("Coroutine[Any, Any, MutableMapping[str, Any]]", first)
            try:
                first = _Begun(begun, begun.send(None))
            except StopIteration as end:
                message = end.value
        if message is None or message.get("more_body"):
            return await self._read_slowly(message, first, receive)
        if message["type"] == "http.disconnect":
            return None
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise Refusal(413, _TOO_LONG % limit)
        return body

    def _check_room(self) -> None:
        if self.life.draining:
            raise Refusal(503, "The server is about to stop", headers=_retry_after(1))
        running = self._arriving + len(self.exchanges) + len(self.posted)
        if running >= self.settings.max_requests:
            raise Refusal(
                503,
                f"{self.settings.max_requests} requests are being served; come back later "
                f"(the server's setting is max_requests)",
                headers=_retry_after(1),
            )

    def check_batch(self, message: Any) -> None:
        """Refuse a batch that is too long."""
        if is_array(message) and len(message) > self.settings.max_batch:
            raise Refusal(
                413,
                f"The batch has more than {self.settings.max_batch} messages "
                f"(the server's setting is max_batch)",
            )

    async def _read_slowly(
        self,
        message: MutableMapping[str, Any] | None,
        following: Awaitable[MutableMapping[str, Any]],
        receive: Receive,
    ) -> bytes | None:
        """Read a body that has not arrived yet, or not all of it, within its time."""
        seconds = self.settings.body_timeout
        self._arriving += 1
        try:
            if sys.version_info >= (3, 11) and self._begins_early:
                # A middleware's receive may have opened a scope of anyio's, and is still in it: one
                # of ours would be closed before that inner one.
                async with asyncio.timeout(seconds):
                    return await self._read_parts(message, following, receive)
            with anyio.fail_after(seconds):
                return await self._read_parts(message, following, receive)
        except TimeoutError:
            raise Refusal(408, "The body did not arrive in time") from None
        finally:
            self._arriving -= 1

    async def _read_parts(
        self,
        message: MutableMapping[str, Any] | None,
        following: Awaitable[MutableMapping[str, Any]],
        receive: Receive,
    ) -> bytes | None:
        limit = self.settings.max_body
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                if message is None:
                    message = await following
                if message["type"] == "http.disconnect":
                    return None
                part: bytes = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._body_bytes += len(part)
                if size > limit:
                    raise Refusal(413, _TOO_LONG % limit)
                if self._body_bytes > _BODIES * limit:
                    raise Refusal(503, "Too much is being sent at once", headers=_retry_after(1))
                if not message.get("more_body"):
                    return b"".join(parts)
                message, following = None, receive()
        finally:
            self._body_bytes -= size

    @staticmethod
    def _is_modern(message: Any, raw: Mapping[bytes, bytes]) -> bool:
        """Which era a message belongs to: the table of PROTOCOL §3.3, first match wins."""
        version = raw.get(b"mcp-protocol-version")
        legacy = version is None or version.strip(b" \t") in _LEGACY
        if not is_object(message):
            return not legacy
        method = message.get("method")
        params = message.get("params")
        meta = params.get("_meta") if is_object(params) else None
        if meta and is_object(meta) and announces_itself(None, meta):
            return True
        if method == "initialize":
            return False
        if version is not None and not legacy:
            version = version.strip(b" \t")
            if b"mcp-session-id" in raw and version not in _MODERN:  # HTTPL-18
                raise Refusal(
                    400,
                    f"Unsupported MCP-Protocol-Version: {version.decode('latin-1')!r}",
                    readable_id(message),
                )
            return True
        return isinstance(method, str) and announces_itself(method, _NO_META)

    async def _serve_modern(
        self, message: Any, http: HttpRequest, receive: Receive, send: Send
    ) -> None:
        id = readable_id(message)
        if not is_object(message):
            raise Refusal(400, "A single message is expected, not a batch")  # HTTPM-1
        if "method" not in message and ("result" in message or "error" in message):
            raise Refusal(400, "There is no question that this could answer")
        session = Session(
            self._server,
            _LANES,
            self._tasks,
            connection=Connection(announced=True),
            threads=self.life.threads,
            attached=False,
        )
        listens = message.get("method") == "subscriptions/listen"
        if listens:
            self.check_streams(id)
        count = 1 if "id" in message else 0

        def make() -> Exchange:
            return Exchange(http, session, self.settings, self._tasks, count, Stream, modern=True)

        answer = session.call_at_once(message, http, make)
        if type(answer) is bytes and len(answer) < LARGE:
            await write_answer(send, answer)
            return
        exchange = _begun(answer, session, message, make)
        self._listening += listens
        try:
            await self._answer(exchange, receive, send, [])
        finally:
            self._listening -= listens
            if listens:
                session.detach()

    async def _serve_without_session(
        self, message: dict[str, Any], http: HttpRequest, receive: Receive, send: Send
    ) -> None:
        """A handshake begins, or a client has forgotten its session id."""
        id = readable_id(message)
        if message.get("method") != "initialize":
            raise Refusal(
                400,
                "The header Mcp-Session-Id is missing: begin with initialize, or send a request "
                "that carries its own _meta",
                id,
            )
        session = Session(
            self._server,
            _LANES,
            self._tasks,
            threads=self.life.threads,
            attached=False,
        )
        exchange = Exchange(http, session, self.settings, self._tasks, 1, Stream, modern=False)
        session.take(message, exchange)
        headers: _Pairs = []
        revision = session.revision
        if revision is not None and exchange.error is None and exchange.status == 200:
            token = self._ids.mint(revision, session.client, http.principal)
            headers.append((b"mcp-session-id", token.encode("ascii")))
        await self._answer(exchange, receive, send, headers)

    async def _serve_in_session(
        self, message: Any, http: HttpRequest, receive: Receive, send: Send
    ) -> None:
        known, token, conversation = await self._session_of(http, message)
        batch = is_array(message)
        if batch and not known.revision.batching:
            raise Refusal(400, "Batches do not exist in this revision")  # MSG-11
        if is_object(message) and "method" not in message:
            about = readable_id(message)
            if (
                conversation is None
                or isinstance(about, Unset)
                or not (conversation.session.awaits(about))
            ):
                await self._pass_on(message, known)
                await accept(send)
                return
        count = (
            sum(map(wants_answer, message))
            if batch
            else int("id" in message and "method" in message)
        )
        if count == 0 and is_object(message) and conversation is None:
            # Nothing is kept for it that a notification could change.
            try:
                check_envelope(message)
            except InvalidRequest as error:
                raise Refusal(400, error) from None
            await accept(send)
            return
        if conversation is None:
            conversation = self._open(known, token, readable_id(message))
        if self._workers > 1 and is_object(message):
            self._check_worker(message, conversation, readable_id(message))
        talk = conversation

        def make() -> Exchange:
            return Exchange(
                http,
                talk.session,
                self.settings,
                self._tasks,
                count,
                talk.open_stream,
                modern=False,
            )

        answer = conversation.session.call_at_once(message, http, make)
        if type(answer) is bytes and len(answer) < LARGE:
            self.hub.settle(conversation)
            await write_answer(send, answer)
            return
        exchange = _begun(answer, conversation.session, message, make)
        try:
            await self._answer(exchange, receive, send, [])
        finally:
            if exchange.done:
                self._settle(conversation, exchange)
            else:
                # The client has left; what it asked for goes on, and is kept for its return.
                self.exchanges.add(exchange)
                exchange.on_done = lambda: self._settle(talk, exchange)

    def _settle(self, conversation: Conversation, exchange: Exchange) -> None:
        self.exchanges.discard(exchange)
        if exchange.stream is not None:
            conversation.retire(exchange.stream)
        self.hub.settle(conversation)

    def _open(self, known: SessionId, token: str, id: Id | Unset) -> Conversation:
        try:
            return self.hub.open(known, token)
        except Unknown as why:
            raise Refusal(503, str(why), id, _retry_after(10)) from None

    async def _session_of(
        self, http: HttpRequest, message: Any
    ) -> tuple[SessionId, str, Conversation | None]:
        """The session of a request: what its id says, and its state if it has any here."""
        token = http.raw.get(b"mcp-session-id", b"").decode("latin-1").strip(" \t")
        conversation = self.hub.find(token)
        if conversation is not None:
            known = conversation.id
            valid = known.expires > time.time()
        elif not token:
            raise Refusal(400, "The header Mcp-Session-Id is missing", readable_id(message))
        else:
            try:
                known = self._ids.read(token)
            except SealBroken:
                known, valid = _NOBODY, False
            else:
                valid = not await self.hub.is_ended(known)
        # One answer for every cause (SEC-6): nobody is to learn which ids exist.
        if not valid or known.principal != http.principal:
            raise Refusal(
                404, "Session not found: begin again with initialize", readable_id(message)
            )
        return known, token, conversation

    async def _pass_on(self, message: Mapping[str, Any], known: SessionId) -> None:
        """The client answers a question that nobody has put here."""
        try:
            check_envelope(message)
            answer = message.get("id")
            if answer is None:
                raise InvalidRequest("An answer without an id")
            await self.hub.pass_on(known, answer, encode(message))
        except InvalidRequest as error:
            raise Refusal(400, error) from None
        except Unknown as why:
            raise Refusal(409, str(why)) from None

    def _check_worker(
        self, message: Mapping[str, Any], conversation: Conversation, id: Id | Unset
    ) -> None:
        """Refuse to subscribe where no stream could tell of changes."""
        standalone = conversation.standalone
        here = standalone is not None and standalone.connection is not None
        if message.get("method") == "resources/subscribe" and not here:
            raise Refusal(
                409,
                f"This is one of {self._workers} workers, and not the one that holds the session's "
                f"stream: route sessions to workers by Mcp-Session-Id, or run one worker",
                id,
            )

    async def _answer(
        self, exchange: Exchange, receive: Receive, send: Send, headers: _Pairs
    ) -> None:
        if exchange.done and exchange.stream is None and not exchange.is_large:
            await exchange.write_json(send, headers)
            return
        self.exchanges.add(exchange)
        try:
            if exchange.stream is None and not exchange.done:
                await exchange.wait(receive)
            if exchange.stream is not None:
                await exchange.write_stream(send, receive, headers)
            elif exchange.done and not exchange.gone:
                await exchange.write_json(send, headers)
        finally:
            self.exchanges.discard(exchange)

    # --- GET and DELETE ---------------------------------------------------------------------------

    async def get(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Open the stream of a session, or go on with one that was lost (HTTPL-8, HTTPL-13)."""
        raw = http.raw
        version = raw.get(b"mcp-protocol-version")
        if version is not None and version.strip(b" \t") not in _LEGACY:
            raise Refusal(405, "This revision has no GET", headers=((b"allow", b"POST"),))
        if not _accepts(raw.get(b"accept"), b"text/event-stream"):
            raise Refusal(406, "The Accept header must list text/event-stream")
        known, token, conversation = await self._session_of(http, None)
        self.check_streams(UNSET)
        if conversation is None:
            conversation = self._open(known, token, UNSET)
        last = raw.get(b"last-event-id")
        try:
            if last is None:
                stream = conversation.open_standalone()
            else:
                stream = conversation.resume(last.decode("latin-1"))
        except Unknown as why:
            raise Refusal(400, str(why)) from None
        connection = self.hold(stream)
        try:
            await connection.serve(send, [], receive)
        finally:
            self.streams.discard(connection)
            if stream is conversation.standalone:
                conversation.leave_standalone()
            self.hub.settle(conversation)

    def hold(self, stream: Stream) -> StreamConnection:
        """A connection that a client holds open; to be discarded from `streams` in the end."""
        connection = StreamConnection(
            stream,
            self._tasks,
            keep_alive=self.settings.keep_alive,
            write_timeout=self.settings.write_timeout,
        )
        self.streams.add(connection)
        return connection

    def check_streams(self, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough."""
        if self.life.draining:
            raise Refusal(503, "The server is about to stop", id, _retry_after(1))
        if len(self.streams) + self._listening >= self.settings.max_streams:
            raise Refusal(
                503,
                f"{self.settings.max_streams} streams are open; come back later "
                f"(the server's setting is max_streams)",
                id,
                _retry_after(10),
            )

    async def delete(self, http: HttpRequest, send: Send) -> None:
        """End a session (HTTPL-17)."""
        version = http.raw.get(b"mcp-protocol-version")
        if version is not None and version.strip(b" \t") not in _LEGACY:
            raise Refusal(405, "This revision has no DELETE", headers=((b"allow", b"POST"),))
        known, _, _ = await self._session_of(http, None)
        await self.hub.end(known)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    # --- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take nothing new, end what only waits, and give calls their time."""
        for connection in list(self.streams):
            connection.let_go()
        for exchange in list(self.exchanges):
            exchange.session.end_listens(announce=False)
        if self.exchanges:
            log.info("waiting for %d requests", len(self.exchanges))
        self._tasks.later(self.settings.grace, self._expire_all)

    def _expire_all(self) -> None:
        for each in [*self.exchanges, *self.posted]:
            each.expire("The server is stopping")

    async def aclose(self) -> None:
        """End everything."""
        self._expire_all()
        for connection in list(self.streams):
            connection.let_go()
        await self.hub.aclose()


_NOBODY: Final = SessionId("", HANDSHAKE[0], Connection().client, None, 0)


def parse_body(body: bytes) -> Any:
    """The JSON value in a body.

    Raises:
        Refusal: There is none.
    """
    # A million new objects would set off the garbage collector again and again, for nothing: it
    # takes four times as long as parsing, and meanwhile nobody is served.
    pausing = len(body) > _LARGE_BODY and gc.isenabled()
    if pausing:
        gc.disable()
    try:
        return parse(body)
    except ParseError as error:
        raise Refusal(400, error) from None
    finally:
        if pausing:
            gc.enable()


def _begun(
    answer: bytes | Request | None, session: Session, message: Any, make: Callable[[], Exchange]
) -> Exchange:
    """The exchange of a message that was not, or not only, answered at once."""
    if answer is None:
        exchange = make()
        session.take(message, exchange)
    elif isinstance(answer, Request):
        exchange = cast("Exchange", answer.origin)
    else:
        exchange = make()
        exchange.settle(answer, None)
    return exchange


async def accept(send: Send) -> None:
    """Answer that a message has been taken."""
    await send(
        {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _accepts(accept: bytes | None, *wanted: bytes) -> bool:
    """Whether a client takes all of some media types (RFC 9110, 12.5.1)."""
    if accept is None:
        return True
    key = (accept, wanted)
    found = _accepted.get(key)
    if found is None:
        if len(_accepted) > 100:
            _accepted.clear()
        found = _accepted[key] = _judge(accept, wanted)
    return found


_accepted: Final[dict[tuple[bytes, tuple[bytes, ...]], bool]] = {}


def _judge(accept: bytes, wanted: Sequence[bytes]) -> bool:
    listed: set[bytes] = set()
    for part in accept.lower().split(b","):
        media, *parameters = (each.strip() for each in part.split(b";"))
        if not any(each.replace(b" ", b"") in (b"q=0", b"q=0.0") for each in parameters):
            listed.add(media)
    return all(
        not listed.isdisjoint((each, each.partition(b"/")[0] + b"/*", b"*/*")) for each in wanted
    )


def _is_coroutine(value: object) -> bool:
    return type(value) is CoroutineType


class _Begun:
    """A coroutine that has taken its first step, to be awaited like one that has not.

    Args:
        coroutine: Waits for something.
        step: What it has yielded to the event loop.
    """

    __slots__ = ("_coroutine", "_step")

    def __init__(self, coroutine: Coroutine[Any, Any, MutableMapping[str, Any]], step: Any) -> None:
        self._coroutine = coroutine
        self._step = step

    def __await__(self) -> Generator[Any, Any, MutableMapping[str, Any]]:
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
                received: MutableMapping[str, Any] = end.value
                return received
