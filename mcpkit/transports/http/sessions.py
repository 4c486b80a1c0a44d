"""The sessions that this process holds: those in use, and those that have state here.

No process holds any other session; its id says all that is known of it.
"""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads
from mcpkit._protocol.connection import Connection, Request
from mcpkit._protocol.messages import Id
from mcpkit._server.server import Server, log
from mcpkit._server.session import Session
from mcpkit._utils.quota import Holder
from mcpkit._utils.text import quote
from mcpkit.http import HttpSettings
from mcpkit.transports.http.exchange import ExchangeChannel
from mcpkit.transports.http.quotas import Accounts, TooMuchWatched, Watched
from mcpkit.transports.http.session_ids import SessionId
from mcpkit.transports.http.session_store import SessionStore
from mcpkit.transports.http.streams import ReplayBuffer, Stream

__all__ = ["LiveSession", "SessionTable", "Unknown"]

_MOST_AT_HAND: Final = 128
"""Sessions without state that are kept at hand, because the next request often comes soon."""

_FINE: Final = 0.25
"""Seconds up to which it does not matter which session was used last."""

_SWEEP: Final = 30.0
"""Seconds between two searches for sessions that nobody uses any more."""

_DELIVERED: Final = 30.0
"""Seconds for which an answer is kept that was written, but perhaps was not read."""


class Unknown(Exception):
    """A client refers to something that this process does not know; the message says what to do."""


class LiveSession(ExchangeChannel):
    """A session that is in use or has state.

    Args:
        id: The content of its id.
        token: The id itself, as the client sends it.
        settings: The settings of the endpoint.
        table: The table that it is in.
        holder: Whoever has caused it.
    """

    def __init__(
        self, id: SessionId, token: str, settings: HttpSettings, table: SessionTable, holder: Holder
    ) -> None:
        self.id = id
        self.holder = holder
        self.watched = Watched(table.accounts.watched, holder)
        self.token = token
        self.session: Session
        self.standalone: Stream | None = None
        self.used = time.monotonic()
        self.ordered = -math.inf
        """The time at which it was put behind all that were used before it."""
        self._streams: dict[int, Stream] = {}
        self._stop_waiting: Callable[[], object] = _do_nothing
        """Ends the wait for a client that has left its standalone stream."""
        self._settings = settings
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

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Put a message on the stream of its request, else on the one that a GET opens."""
        if about is not None:
            super().send(text, about)
        else:
            self.open_standalone().put(text)

    # --- streams ----------------------------------------------------------------------------------

    def reserve(self, size: int, about: Request) -> None:
        """Count bytes that are kept for the client."""
        self.watched.grow(size)

    def _new_stream(self, name: str) -> Stream:
        table = self._table
        return Stream(
            f"{table.tag}.{name}", table.buffer, holder=self.holder, unread=table.accounts.unread
        )

    def open_stream(self, holder: Holder) -> Stream:
        """Return a stream for the answer to a request, which the client may come back to."""
        del holder  # it is this session, whoever sends the request
        number = next(self._table.numbers)
        stream = self._new_stream(f"{number}")
        self._streams[number] = stream
        if self.id.revision.polling:
            stream.prime(self._settings.retry)
        return stream

    def open_standalone(self) -> Stream:
        """Return the stream of messages that belong to no request (HTTPL-10)."""
        if self.standalone is None:
            number = next(self._table.numbers)
            self.standalone = self._new_stream(f"s{number}")
            self.session.attach()
        return self.standalone

    def resume(self, last: str) -> Stream:
        """Return the stream of an event, set back to what followed the event (HTTPL-13).

        Args:
            last: The id of the event.

        Raises:
            Unknown: The event is not, or no longer, known here.
        """
        tag, _, rest = last.partition(".")
        name, _, number = rest.partition(".")
        known = number.isdecimal() and len(number) < 16
        if name.startswith("s"):
            standalone = self.open_standalone()
            if standalone.name == f"{tag}.{name}" and known:
                standalone.rewind(int(number))
            return standalone  # what another process held is lost, what comes is not
        stream = self._streams.get(int(name)) if name.isdecimal() and len(name) < 16 else None
        if tag != self._table.tag or stream is None:
            where = "is no longer kept" if tag == self._table.tag else "is held by another worker"
            raise Unknown(
                f"The stream of event {quote(last)} {where}: send the request again, "
                f"or route sessions to workers by Mcp-Session-Id"
            )
        if not (known and stream.rewind(int(number))):
            raise Unknown(f"What followed event {quote(last)} is no longer kept")
        return stream

    def retire(self, stream: Stream) -> None:
        """Keep the stream of a request that has been answered for only as long as it is of use."""
        patience = self._settings.replay_time
        if not stream.has_more:
            patience = min(_DELIVERED, patience)
        stop = self._table.loop.later(patience, lambda: self._drop(stream))

        def drop() -> None:
            stop()
            self._drop(stream)

        stream.on_spent = drop
        stream.spare()

    def _drop(self, stream: Stream) -> None:
        stream.on_spent = None
        if stream.response is not None:
            self.retire(stream)  # somebody is reading it
            return
        for number, each in list(self._streams.items()):
            if each is stream:
                del self._streams[number]
        stream.discard()
        self.settle()

    def leave_standalone(self) -> None:
        """Keep for a while the messages that no request belongs to: the client's GET has ended."""
        stream = self.standalone
        if stream is None or stream.response is not None:
            return
        if not stream.number and not self.session.has_state:
            self._drop_standalone(stream)
        else:
            self._stop_waiting()
            self._stop_waiting = self._table.loop.later(
                self._settings.replay_time, lambda: self._drop_standalone(stream)
            )

    def _drop_standalone(self, stream: Stream) -> None:
        if stream.response is None and self.standalone is stream:
            stream.discard()
            self.standalone = None
            self.session.detach()
            self.settle()

    def settle(self) -> None:
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


def _do_nothing() -> None:
    """Do nothing: there is no wait to end."""


class SessionTable:
    """The sessions that one process holds.

    Args:
        server: The server that answers.
        settings: The settings of the endpoint.
        loop: The event loop.
        threads: The worker threads that all sessions share.
        store: The store of the state of sessions that are put away.
        accounts: What the clients of the endpoint hold.
    """

    def __init__(
        self,
        server: Server,
        settings: HttpSettings,
        loop: Loop,
        threads: Threads,
        store: SessionStore,
        accounts: Accounts,
    ) -> None:
        self.loop = loop
        self.accounts = accounts
        self.tag = os.urandom(4).hex()
        """A name of this process, in the ids of events and questions."""
        self.numbers = count(1)
        self.buffer = ReplayBuffer(accounts.replay)
        self._server = server
        self._settings = settings
        self._threads = threads
        self._store = store
        self._known: OrderedDict[str, LiveSession] = OrderedDict()
        self.find: Callable[[str], LiveSession | None] = self._known.get
        """Returns the session of a token; None if it is not held here."""
        self._tokens: dict[str, str] = {}
        """The tokens of the sessions, by their keys."""
        self._spare: OrderedDict[str, None] = OrderedDict()
        """The tokens of sessions that hold nothing, or have begun to only now."""
        self._stop_sweeping = loop.later(_SWEEP, self._sweep)
        self._ids: Iterator[Id] = (f"{self.tag}.{number}" for number in count(1))

    async def close(self, id: SessionId) -> None:
        """Give up a session that has ended, and cancel its requests."""
        token = self._tokens.get(id.key)
        if token is not None:
            await self._close(self._remove(token))

    async def _close(self, live: LiveSession) -> None:
        live.discard()
        await live.session.aclose()

    def open(self, id: SessionId, token: str, holder: Holder) -> LiveSession:
        """Hold a session from now on.

        Args:
            id: The content of its id.
            token: The id itself.
            holder: Whoever has caused it.

        Raises:
            Unknown: There is no room, because all sessions are in use.
        """
        owner = Holder(holder.owner)
        budget = self.accounts.sessions
        while not budget.has_room(owner):
            self._make_room(owner)
        made = LiveSession(id, token, self._settings, self, holder)
        budget.add(owner)
        made.session = Session(
            self._server,
            made,
            self.loop,
            connection=Connection(id.revision, id.client, ids=self._ids),
            threads=self._threads,
            attached=False,
        )
        state = self._store.take(id.key)
        try:
            made.watched.grow(state.size)
        except TooMuchWatched:
            state = replace(state, watched=frozenset())
        made.session.restore(state)
        self._known[token] = made
        self._tokens[id.key] = token
        self._keep_at_hand(token)
        return made

    def _remove(self, token: str) -> LiveSession:
        found = self._known.pop(token)
        self.accounts.sessions.give_back(Holder(found.holder.owner))
        self._tokens.pop(found.id.key, None)
        self._spare.pop(token, None)
        if not found.is_needed:
            found.session.drop_channel()  # the two would keep each other until they are found
        return found

    def _keep_at_hand(self, token: str) -> None:
        self._spare[token] = None
        self._spare.move_to_end(token)
        if len(self._spare) > _MOST_AT_HAND:
            self._drop_spare()

    def _drop_spare(self) -> bool:
        """Forget the session that has held nothing for longest; return False if none has."""
        while self._spare:
            token, _ = self._spare.popitem(last=False)
            if not self._known[token].is_needed:
                self._remove(token)
                return True
        return False

    def _make_room(self, owner: Holder) -> None:
        """Put away the session that has not been used for the longest time.

        It is one of an owner who has as many as it may, so that nobody can put others' away.

        Raises:
            Unknown: All sessions are in use.
        """
        if self._drop_spare():
            return
        sessions = self.accounts.sessions
        own = sessions.used < sessions.total
        unused = (
            token
            for token, each in self._known.items()
            if not each.in_use and (not own or each.holder.owner == owner.owner)
        )
        longest = next(unused, None)
        if longest is None:
            whose = "of your sessions" if own else "sessions"
            count = sessions.held(owner.owner) if own else sessions.total
            raise Unknown(
                f"{count} {whose} are in use; come back later "
                f"(the server's setting is max_sessions)"
            )
        live = self._remove(longest)
        idle = time.monotonic() - live.used
        state = live.session.state
        if state:
            self._store.put(live.id.key, state, time.time() + self._settings.session_idle - idle)
        self._forget(live)

    def _forget(self, live: LiveSession) -> None:
        log.debug("the state of an idle session is given up")
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
            self._spare.pop(token, None)
        else:
            self._keep_at_hand(token)

    def _sweep(self) -> None:
        now = time.monotonic()
        for token, each in list(self._known.items()):
            idle = not each.in_use and (
                not each.is_needed or now - each.used > self._settings.session_idle
            )
            if idle or self._store.ended(each.id.key):
                self._forget(self._remove(token))
        self._store.drop_expired()
        self._stop_sweeping = self.loop.later(_SWEEP, self._sweep)

    def pass_on(self, id: SessionId, answer: Id, text: bytes) -> None:
        """Refuse an answer to a question of another process; drop one that came too late."""
        del id, text
        if not str(answer).startswith(f"{self.tag}."):
            raise Unknown(
                f"The question {quote(answer)} was put by another worker, which waits for its "
                f"answer: route sessions to workers by Mcp-Session-Id, or run one worker"
            )

    def sessions(self) -> Iterator[LiveSession]:
        """Return an iterator over the sessions."""
        return iter(list(self._known.values()))

    async def aclose(self) -> None:
        """End all sessions."""
        self._stop_sweeping()
        for live in self.sessions():
            await self._close(live)
        for token in list(self._known):
            self._remove(token)
