"""The sessions that this process holds, and the facts about others that their ids do not say.

A session is held while it is in use or has state. The id of any other session says everything that
is known of it, but for its end and the state that was stored when it had been idle.
"""

from __future__ import annotations

import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import count
from typing import Any, Final

from mcpkit._protocol.connection import Connection, Request
from mcpkit._server.channel import NO_STATE, Channel, SessionState, size_of
from mcpkit._server.session import Session
from mcpkit._utils.logs import log
from mcpkit._utils.quota import Quota, QuotaExceeded, Reservation
from mcpkit._utils.text import quote
from mcpkit.errors import InternalError
from mcpkit.transports.http.exchange import CHANNEL, ExchangeChannel
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import watch
from mcpkit.transports.http.requests import OpenRequests
from mcpkit.transports.http.session_ids import SessionId
from mcpkit.transports.http.streams import ReplayBuffer, Stream

MAX_IDLE: Final = 128
"""Sessions without state that are held, because the next request often comes soon."""

MAX_ENDS_EACH: Final = 10_000
"""Ends of sessions that are remembered of one owner: about 2 MB."""

MAX_ENDS: Final = 100_000
"""Ends of sessions that are remembered of all owners together: about 20 MB."""

MAX_STORED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the states that are stored."""

_FINE: Final = 0.25
"""Seconds up to which the order of the sessions by their last use may be wrong."""

_SWEEP: Final = 30.0
"""Seconds between two searches for unused sessions."""

_DELIVERED: Final = 30.0
"""Seconds for which a response is kept that was written, but perhaps was not read."""

_RETRY_END: Final = 60.0
"""Seconds after which it is worth trying again to end a session."""


# --- sessions that are not held -------------------------------------------------------------------


class LocalStore:
    """The facts about sessions that are not held, kept in memory: their ends and their states."""

    def __init__(self, settings: HttpSettings) -> None:
        self.ends: dict[str, tuple[float, Reservation]] = {}
        """The keys of sessions that have ended (HTTPL-17), until the times at which they expire."""
        self._quota = Quota(MAX_ENDS, MAX_ENDS_EACH)
        self._max_states = settings.limits.max_sessions
        self._states: OrderedDict[str, tuple[SessionState, float]] = OrderedDict()
        self._size = 0
        """Bytes of the states, about."""

    def end(self, key: str, expires: float, owner: str) -> None:
        """Remember until its id expires that an owner has ended a session, and drop its state.

        Raises:
            HttpError: The end cannot be remembered, so the session has not ended.
        """
        if key in self.ends:
            return
        try:
            self.ends[key] = expires, self._quota.take(owner)
        except QuotaExceeded as full:
            # To forget an end before its id expires would make an ended session valid again.
            raise HttpError(
                429 if full.own else 503,
                "The session was not ended: too many ended sessions are stored; try again later",
                retry_after(_RETRY_END),
            ) from None
        self._drop_state(key)

    def put(self, key: str, state: SessionState, until: float) -> None:
        """Store a state until a time since the epoch; the one stored first makes room for it."""
        self._drop_state(key)
        self._states[key] = state, until
        self._size += size_of(state.watched)
        while len(self._states) > self._max_states or self._size > MAX_STORED_BYTES:
            self._drop_state(next(iter(self._states)))

    def take(self, key: str) -> SessionState:
        """Take out the state of a session; `NO_STATE` if there is none."""
        state, until = self._drop_state(key)
        return state if until > time.time() else NO_STATE

    def _drop_state(self, key: str) -> tuple[SessionState, float]:
        found = self._states.pop(key, (NO_STATE, 0.0))
        self._size -= size_of(found[0].watched)
        return found

    def drop_expired(self) -> None:
        """Forget ends whose ids are not valid any more, and states that were kept long enough."""
        now = time.time()
        for key, (expires, slot) in list(self.ends.items()):
            if expires < now:
                slot.release()
                del self.ends[key]
        for key, (_, until) in list(self._states.items()):
            if until < now:
                self._drop_state(key)


# --- sessions that are held -----------------------------------------------------------------------


class LiveSession(ExchangeChannel):
    """A session that is in use or has state; `token` is its id, and `id` the content of that."""

    def __init__(self, id: SessionId, token: str, table: SessionTable, owner: str) -> None:
        self.id = id
        self.token = token
        self.owner = owner
        self.watched = table.quotas.watched.charge(owner)
        self.slot = table.quotas.sessions.charge(owner, 1)
        self.session = new_session(
            table.open_requests, self, Connection(id.revision, id.client, ids=table.ids)
        )
        self.standalone: Stream | None = None
        self.used = time.monotonic()
        """The time of its last use, about; it is put behind all others then."""
        self._streams: dict[str | None, Stream] = {}
        self._open_requests = table.open_requests
        self._table = table

    @property
    def is_needed(self) -> bool:
        """True if it holds anything that its id does not say."""
        return bool(self._streams or self.session.in_flight or self.session.has_state)

    @property
    def is_listening(self) -> bool:
        """True if its client reads the stream of messages that belong to no request."""
        return self.standalone is not None and self.standalone.response is not None

    @property
    def in_use(self) -> bool:
        """True if a request runs in it, or its client listens."""
        return bool(self.session.in_flight) or self.is_listening

    def send(self, text: bytes, request: Request | None = None) -> None:
        """Put a message on the stream of its request, else on the one that a GET opens."""
        if request is not None:
            super().send(text, request)
        else:
            self.open_standalone().put(text)

    def reserve(self, size: int, request: Request) -> None:
        """Count bytes that are kept for the client."""
        watch(self.watched, size)

    # --- streams ----------------------------------------------------------------------------------

    def _new_stream(self, kind: str = "") -> Stream:
        table = self._table
        name = f"{table.tag}.{kind}{next(table.numbers)}"
        stream = Stream(name, table.buffer, owner=self.owner, unread=table.quotas.unread)
        self._streams[name] = stream
        return stream

    def open_stream(self) -> Stream:
        """Return a stream for the response to a request, which the client may resume."""
        stream = self._new_stream()
        if self.id.revision.polling:
            stream.put_retry(self._open_requests.settings.retry)
        return stream

    def open_standalone(self) -> Stream:
        """Return the stream of messages that belong to no request (HTTPL-10)."""
        if self.standalone is None:
            self.standalone = self._new_stream("s")
            self.session.subscriptions.start_notifying()
        return self.standalone

    def resume(self, last: str) -> Stream:
        """Return the stream of the last event, set back to what followed it (HTTPL-13).

        Raises:
            HttpError: The event is not, or no longer, known here.
        """
        name, _, digits = last.rpartition(".")
        number = int(digits) if digits.isdecimal() and len(digits) < 16 else sys.maxsize
        tag, _, kind = name.partition(".")
        stream = self._streams.get(name)
        if stream is None and kind.startswith("s"):
            return self.open_standalone()  # what has been missed is lost; what follows is not
        if stream is None:
            where = "is no longer kept" if tag == self._table.tag else "is held by another worker"
            raise HttpError(
                400,
                f"The stream of event {quote(last)} {where}: send the request again, "
                f"or route sessions to workers by Mcp-Session-Id",
            )
        if not stream.rewind(number) and stream is not self.standalone:
            raise HttpError(400, f"What followed event {quote(last)} is no longer kept")
        return stream

    def leave(self, stream: Stream) -> None:
        """Keep a stream for only as long as it is of use: its request, or its GET, has ended."""
        seconds = self._open_requests.limits.replay_time
        if stream is not self.standalone:
            stream.on_spent = lambda: self._drop(stream)
            seconds = seconds if stream.has_more else min(_DELIVERED, seconds)
        elif stream.response is None and not stream.number and not self.session.has_state:
            self._drop(stream)
            return
        stream.stop_timer()
        stream.stop_timer = self._open_requests.loop.later(seconds, lambda: self._drop(stream))
        stream.spare()

    def _drop(self, stream: Stream) -> None:
        if stream.response is not None:
            self.leave(stream)  # a client is reading it
            return
        if stream is self.standalone:
            self.standalone = None
            self.session.subscriptions.stop_notifying()
        self._streams.pop(stream.name, None)
        stream.discard()
        self.finish()

    def finish(self) -> None:
        """Note that a use of the session has ended."""
        now = time.monotonic()
        if now - self.used >= _FINE:
            self.used = now
            self._table.put_last(self)

    def discard(self) -> None:
        """End all streams, and keep nothing of the session."""
        self.watched.release()
        for stream in self._streams.values():
            stream.end()
            stream.discard()
        self._streams.clear()
        self.standalone = None


def new_session(
    open_requests: OpenRequests, channel: Channel, connection: Connection | None = None
) -> Session:
    """Return a session that does not notify its client of changes yet."""
    return Session(
        open_requests.server,
        channel,
        open_requests.loop,
        connection=connection,
        threads=open_requests.threads,
        notifying=False,
    )


def stateless_session(open_requests: OpenRequests) -> Session:
    """Return a session that knows no client, for requests that announce themselves."""
    return new_session(open_requests, CHANNEL, Connection(announced=True))


class SessionTable:
    """The sessions that one process holds; a store has the states of idle ones."""

    def __init__(self, open_requests: OpenRequests) -> None:
        self.open_requests = open_requests
        self.store = LocalStore(open_requests.settings)
        self.quotas = open_requests.quotas
        self.tag = os.urandom(4).hex()
        """A name of this process, in the ids of events and questions."""
        self.numbers = count(1)
        self.ids = (f"{self.tag}.{number}" for number in count(1))
        """The ids of questions to clients."""
        self.buffer = ReplayBuffer(self.quotas.replay)
        self._idle_time = open_requests.limits.session_idle
        self._loop = open_requests.loop
        self._known: OrderedDict[str, LiveSession] = OrderedDict()
        self.find: Callable[[str], LiveSession | None] = self._known.get
        """Returns the session of a token; None if it is not held here."""
        self._idle: OrderedDict[str, None] = OrderedDict()
        """The tokens of sessions that hold nothing, or are about to be used."""
        self._stop_sweeping = self._loop.later(_SWEEP, self._sweep)

    def open(self, id: SessionId, token: str, owner: str) -> LiveSession:
        """Hold a session from now on; see `LiveSession`.

        Raises:
            HttpError: There is no room, because all sessions are in use.
        """
        while not self.quotas.sessions.has_room(owner):
            self._make_room(owner)
        live = LiveSession(id, token, self, owner)
        state = self.store.take(id.key)
        try:
            watch(live.watched, size_of(state.watched))
        except InternalError:
            state = replace(state, watched=frozenset())
        live.session.restore(state)
        self._known[token] = live
        self._keep_idle(token)
        return live

    def discard(self, live: LiveSession) -> Coroutine[Any, Any, None]:
        """Forget a session, and return the work that cancels its requests."""
        self._remove(live)
        live.discard()
        return live.session.aclose()

    def _remove(self, live: LiveSession) -> None:
        self._known.pop(live.token, None)
        live.slot.release()
        self._idle.pop(live.token, None)
        if not live.is_needed:
            live.session.drop_channel()  # the two would keep each other until they are found

    def _keep_idle(self, token: str) -> None:
        if token not in self._idle and len(self._idle) >= MAX_IDLE:
            self._drop_idle()  # not this one, which may be about to be used
        self._idle[token] = None
        self._idle.move_to_end(token)

    def _drop_idle(self) -> bool:
        """Forget the session that has held nothing for longest; return False if none has."""
        while self._idle:
            token, _ = self._idle.popitem(last=False)
            live = self._known[token]
            if not live.is_needed:
                self._remove(live)
                return True
        return False

    def _make_room(self, owner: str) -> None:
        """Forget the session that has been unused for longest, and store its state.

        It is one of an owner who has as many as it may, so that no owner can evict others'.

        Raises:
            HttpError: All sessions are in use.
        """
        if self._drop_idle():
            return
        sessions = self.quotas.sessions
        own = sessions.used < sessions.total
        unused = (
            each
            for each in self._known.values()
            if not each.in_use and (not own or each.owner == owner)
        )
        live = next(unused, None)
        if live is None:
            whose = "of your sessions" if own else "sessions"
            number = sessions.held(owner) if own else sessions.total
            raise HttpError(
                503,
                f"{number} {whose} are in use; try again later (the server's limit is "
                f"max_sessions)",
                retry_after(10),
            )
        state = live.session.state
        if state:
            left = self._idle_time - (time.monotonic() - live.used)
            self.store.put(live.id.key, state, time.time() + left)
        log.debug("a session that is not in use makes room for another")
        self._loop.start(self.discard(live))

    def put_last(self, live: LiveSession) -> None:
        """Put a session behind all others: it was used last."""
        token = live.token
        if self._known.get(token) is not live:
            return
        self._known.move_to_end(token)
        if live.is_needed:
            self._idle.pop(token, None)
        else:
            self._keep_idle(token)

    def _sweep(self) -> None:
        now = time.monotonic()
        for each in list(self._known.values()):
            is_over = each.id.key in self.store.ends
            is_idle = not each.is_needed or now - each.used > self._idle_time
            if is_over or (is_idle and not each.in_use):
                self._loop.start(self.discard(each))
        self.store.drop_expired()
        self._stop_sweeping = self._loop.later(_SWEEP, self._sweep)

    def check_answer(self, answer: str) -> None:
        """Accept an answer that came too late for a question of this process.

        Raises:
            HttpError: The question was asked by another process, which waits for the answer.
        """
        if not answer.startswith(f"{self.tag}."):
            raise HttpError(
                409,
                f"The question {quote(answer)} was put by another worker, which waits for its "
                f"answer: route sessions to workers by Mcp-Session-Id, or run one worker",
            )

    async def aclose(self) -> None:
        """End all sessions."""
        self._stop_sweeping()
        for live in list(self._known.values()):
            await self.discard(live)
