"""The sessions that this process holds, and the facts about others that their ids do not say.

A session is held while it is in use or has state. The id of any other session says everything that
is known of it, but for its end and the state that was stored when it had been idle.
"""

from __future__ import annotations

import heapq
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads
from mcpkit._protocol.connection import Connection, Request
from mcpkit._server.channel import NO_STATE, SessionState, do_nothing
from mcpkit._server.server import Server
from mcpkit._server.session import Session
from mcpkit._utils.logs import log
from mcpkit._utils.text import quote
from mcpkit.transports.http.exchange import CHANNEL, ExchangeChannel
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import EndpointQuotas, TooManyWatched, watch
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
"""Seconds after which it is worth trying again, where the exact time would take long to find."""


# --- sessions that are not held -------------------------------------------------------------------


class LocalStore:
    """The facts about sessions that are not held, kept in memory: their ends and their states.

    Args:
        settings: The settings of the endpoint.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._max_states = settings.limits.max_sessions
        self._ended: set[str] = set()
        self._by_owner: dict[str, list[tuple[float, str]]] = {}
        """The ends of each owner, as a heap: the first expires first."""
        self._states: OrderedDict[str, tuple[SessionState, float]] = OrderedDict()
        self._size = 0
        """Bytes of the states, about."""

    def ended(self, key: str) -> bool:
        """Return True if the session of a key has been ended (HTTPL-17)."""
        return key in self._ended

    def end(self, key: str, expires: float, owner: str) -> None:
        """Remember for as long as its id is valid that a session has ended, and drop its state.

        Args:
            key: The key of the session.
            expires: The time until which its id is valid, in seconds since the epoch.
            owner: The owner who ends it; the ends of one owner are bounded.

        Raises:
            HttpError: The end cannot be remembered, so the session has not ended.
        """
        if key in self._ended:
            return
        ends = self._by_owner.get(owner, [])
        now = time.time()
        self._drop_ends(ends, now)
        is_own = len(ends) >= MAX_ENDS_EACH
        if is_own or len(self._ended) >= MAX_ENDS:
            # To forget an end before its id expires would make an ended session valid again.
            raise HttpError(
                429 if is_own else 503,
                "The session has not ended: the server remembers as many that have as it can",
                retry_after(ends[0][0] - now if is_own else _RETRY_END),
            )
        heapq.heappush(ends, (expires, key))
        self._by_owner[owner] = ends
        self._ended.add(key)
        self._drop_state(key)

    def _drop_ends(self, ends: list[tuple[float, str]], now: float) -> None:
        while ends and ends[0][0] < now:
            self._ended.discard(heapq.heappop(ends)[1])

    def put(self, key: str, state: SessionState, until: float) -> None:
        """Store a state until a time since the epoch; the one stored first makes room for it."""
        self._drop_state(key)
        self._states[key] = state, until
        self._size += state.size
        while len(self._states) > self._max_states or self._size > MAX_STORED_BYTES:
            self._drop_state(next(iter(self._states)))

    def take(self, key: str) -> SessionState:
        """Take out the state of a session; `NO_STATE` if there is none."""
        state, until = self._drop_state(key)
        return state if until > time.time() else NO_STATE

    def _drop_state(self, key: str) -> tuple[SessionState, float]:
        found = self._states.pop(key, (NO_STATE, 0.0))
        self._size -= found[0].size
        return found

    def drop_expired(self) -> None:
        """Forget ends whose ids are not valid any more, and states that were kept long enough."""
        now = time.time()
        for owner, ends in list(self._by_owner.items()):
            self._drop_ends(ends, now)
            if not ends:
                del self._by_owner[owner]
        for key, (_, until) in list(self._states.items()):
            if until < now:
                self._drop_state(key)


# --- sessions that are held -----------------------------------------------------------------------


class LiveSession(ExchangeChannel):
    """A session that is in use or has state.

    Args:
        id: The content of its id.
        token: The id itself, as the client sends it.
        table: The table that it is in.
        owner: The owner that it is counted to.
    """

    def __init__(self, id: SessionId, token: str, table: SessionTable, owner: str) -> None:
        self.id = id
        self.owner = owner
        self.watched = table.quotas.watched.charge(owner)
        self.place = table.quotas.sessions.charge(owner, 1)
        self.token = token
        self.session: Session
        self.standalone: Stream | None = None
        self.used = time.monotonic()
        self.ordered = -math.inf
        """The time at which it was put behind all that were used before it."""
        self._streams: dict[int, Stream] = {}
        self._stop_waiting: Callable[[], object] = do_nothing
        """Ends the wait for a client that has disconnected from its standalone stream."""
        self._limits = table.settings.limits
        self._table = table

    @property
    def is_needed(self) -> bool:
        """True if it holds anything that its id does not say."""
        return bool(
            self._streams
            or self.standalone is not None
            or self.session.busy
            or self.session.has_state
        )

    @property
    def in_use(self) -> bool:
        """True if a request runs in it, or a client reads its stream."""
        standalone = self.standalone
        return self.session.busy or (standalone is not None and standalone.response is not None)

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

    def _new_stream(self, name: str) -> Stream:
        table = self._table
        return Stream(
            f"{table.tag}.{name}", table.buffer, owner=self.owner, unread=table.quotas.unread
        )

    def open_stream(self) -> Stream:
        """Return a stream for the response to a request, which the client may resume."""
        number = next(self._table.numbers)
        stream = self._streams[number] = self._new_stream(f"{number}")
        if self.id.revision.polling:
            stream.put_retry(self._table.settings.retry)
        return stream

    def open_standalone(self) -> Stream:
        """Return the stream of messages that belong to no request (HTTPL-10)."""
        if self.standalone is None:
            self.standalone = self._new_stream(f"s{next(self._table.numbers)}")
            self.session.start_notifying()
        return self.standalone

    def resume(self, last: str) -> Stream:
        """Return the stream of an event, set back to what followed the event (HTTPL-13).

        Args:
            last: The id of the event.

        Raises:
            HttpError: The event is not, or no longer, known here.
        """
        tag, _, rest = last.partition(".")
        name, _, number = rest.partition(".")
        known = number.isdecimal() and len(number) < 16
        if name.startswith("s"):
            standalone = self.open_standalone()
            if standalone.name == f"{tag}.{name}" and known:
                standalone.rewind(int(number))
            return standalone  # what another process held is lost; what follows is not
        stream = self._streams.get(int(name)) if name.isdecimal() and len(name) < 16 else None
        if tag != self._table.tag or stream is None:
            where = "is no longer kept" if tag == self._table.tag else "is held by another worker"
            raise HttpError(
                400,
                f"The stream of event {quote(last)} {where}: send the request again, "
                f"or route sessions to workers by Mcp-Session-Id",
            )
        if not (known and stream.rewind(int(number))):
            raise HttpError(400, f"What followed event {quote(last)} is no longer kept")
        return stream

    def retire(self, stream: Stream) -> None:
        """Keep the stream of a request that has been answered for only as long as it is of use."""
        seconds = self._limits.replay_time
        if not stream.has_more:
            seconds = min(_DELIVERED, seconds)
        stop = self._table.loop.later(seconds, lambda: self._drop(stream))

        def drop() -> None:
            stop()
            self._drop(stream)

        stream.on_spent = drop
        stream.spare()

    def _drop(self, stream: Stream) -> None:
        stream.on_spent = None
        if stream.response is not None:
            self.retire(stream)  # a client is reading it
            return
        for number, each in list(self._streams.items()):
            if each is stream:
                del self._streams[number]
        stream.discard()
        self.finish()

    def leave_standalone(self) -> None:
        """Keep for a while the messages that belong to no request: the client's GET has ended."""
        stream = self.standalone
        if stream is None or stream.response is not None:
            return
        if not stream.number and not self.session.has_state:
            self._drop_standalone(stream)
        else:
            self._stop_waiting()
            self._stop_waiting = self._table.loop.later(
                self._limits.replay_time, lambda: self._drop_standalone(stream)
            )

    def _drop_standalone(self, stream: Stream) -> None:
        if stream.response is None and self.standalone is stream:
            stream.discard()
            self.standalone = None
            self.session.stop_notifying()
            self.finish()

    def finish(self) -> None:
        """Note that a use of the session has ended."""
        now = self.used = time.monotonic()
        if now - self.ordered >= _FINE:
            self._table.put_last(self)

    def discard(self) -> None:
        """End all streams, and keep nothing of the session."""
        self.watched.release()
        for stream in [*self._streams.values(), self.standalone]:
            if stream is not None:
                stream.end()
                stream.discard()
        self._streams.clear()
        self.standalone = None


def stateless_session(server: Server, loop: Loop, threads: Threads) -> Session:
    """Return a session that knows no client, for requests that announce themselves."""
    connection = Connection(announced=True)
    return Session(server, CHANNEL, loop, connection=connection, threads=threads, notifying=False)


class SessionTable:
    """The sessions that one process holds.

    Args:
        server: The server that answers.
        settings: The settings of the endpoint.
        loop: The event loop.
        threads: The worker threads that all sessions share.
        store: The store of the states of idle sessions.
        quotas: The quotas of the endpoint.
    """

    def __init__(
        self,
        server: Server,
        settings: HttpSettings,
        loop: Loop,
        threads: Threads,
        store: LocalStore,
        quotas: EndpointQuotas,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.quotas = quotas
        self.tag = os.urandom(4).hex()
        """A name of this process, in the ids of events and questions."""
        self.numbers = count(1)
        self.buffer = ReplayBuffer(quotas.replay)
        self._server = server
        self._threads = threads
        self._store = store
        self._known: OrderedDict[str, LiveSession] = OrderedDict()
        self.find: Callable[[str], LiveSession | None] = self._known.get
        """Returns the session of a token; None if it is not held here."""
        self._tokens: dict[str, str] = {}
        """The tokens of the sessions, by their keys."""
        self._idle: OrderedDict[str, None] = OrderedDict()
        """The tokens of sessions that hold nothing, or are about to be used."""
        self._stop_sweeping = loop.later(_SWEEP, self._sweep)
        self._ids = (f"{self.tag}.{number}" for number in count(1))

    def open(self, id: SessionId, token: str, owner: str) -> LiveSession:
        """Hold a session from now on.

        Args:
            id: The content of its id.
            token: The id itself.
            owner: The owner that it is counted to.

        Raises:
            HttpError: There is no room, because all sessions are in use.
        """
        while not self.quotas.sessions.has_room(owner):
            self._make_room(owner)
        live = LiveSession(id, token, self, owner)
        live.session = Session(
            self._server,
            live,
            self.loop,
            connection=Connection(id.revision, id.client, ids=self._ids),
            threads=self._threads,
            notifying=False,
        )
        state = self._store.take(id.key)
        try:
            watch(live.watched, state.size)
        except TooManyWatched:
            state = replace(state, watched=frozenset())
        live.session.restore(state)
        self._known[token] = live
        self._tokens[id.key] = token
        self._keep_idle(token)
        return live

    async def close(self, id: SessionId) -> None:
        """Discard a session that has ended, and cancel its requests."""
        token = self._tokens.get(id.key)
        if token is not None:
            live = self._remove(token)
            live.discard()
            await live.session.aclose()

    def _remove(self, token: str) -> LiveSession:
        live = self._known.pop(token)
        live.place.release()
        self._tokens.pop(live.id.key, None)
        self._idle.pop(token, None)
        if not live.is_needed:
            live.session.drop_channel()  # the two would keep each other until they are found
        return live

    def _keep_idle(self, token: str) -> None:
        self._idle[token] = None
        self._idle.move_to_end(token)
        if len(self._idle) > MAX_IDLE:
            self._drop_idle()

    def _drop_idle(self) -> bool:
        """Forget the session that has held nothing for longest; return False if none has."""
        while self._idle:
            token, _ = self._idle.popitem(last=False)
            if not self._known[token].is_needed:
                self._remove(token)
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
            token
            for token, each in self._known.items()
            if not each.in_use and (not own or each.owner == owner)
        )
        longest = next(unused, None)
        if longest is None:
            whose = "of your sessions" if own else "sessions"
            number = sessions.held(owner) if own else sessions.total
            raise HttpError(
                503,
                f"{number} {whose} are in use; try again later (the server's limit is "
                f"max_sessions)",
                retry_after(10),
            )
        live = self._remove(longest)
        state = live.session.state
        if state:
            idle = time.monotonic() - live.used
            until = time.time() + self.settings.limits.session_idle - idle
            self._store.put(live.id.key, state, until)
        self._forget(live)

    def _forget(self, live: LiveSession) -> None:
        log.debug("the state of an idle session is dropped")
        live.discard()
        self.loop.start(live.session.aclose())

    def put_last(self, live: LiveSession) -> None:
        """Put a session behind all others: it was used last."""
        token = live.token
        if self._known.get(token) is not live:
            return
        live.ordered = live.used
        self._known.move_to_end(token)
        if live.is_needed:
            self._idle.pop(token, None)
        else:
            self._keep_idle(token)

    def _sweep(self) -> None:
        now = time.monotonic()
        for token, each in list(self._known.items()):
            idle = not each.in_use and (
                not each.is_needed or now - each.used > self.settings.limits.session_idle
            )
            if idle or self._store.ended(each.id.key):
                self._forget(self._remove(token))
        self._store.drop_expired()
        self._stop_sweeping = self.loop.later(_SWEEP, self._sweep)

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
            live.discard()
            await live.session.aclose()
        for token in list(self._known):
            self._remove(token)
