"""The conversation between a host and the versions of a server, passed on and remembered.

The host has one conversation. Behind it, versions of the server come and go: one of them is the
current one, a new one is told what the host has agreed on with those before it, and an old one may
finish what it has begun. Nothing here reads, waits or starts anything; lines are put into outlets,
which take them without waiting. Every method may be called from any thread.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from mcpkit.errors import InternalError, InvalidRequest, ParseError
from mcpkit.protocol.connection import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)
from mcpkit.protocol.messages import Id, encode, error_text, notification_text, parse, request_text
from mcpkit.protocol.revisions import PER_REQUEST
from mcpkit.types import is_array, is_object

__all__ = ["Outlet", "Relay", "Step", "Version"]

KINDS: Final = ("tools", "resources", "prompts")
"""The capabilities that have lists."""

_FILTERS: Final = {f"{kind}ListChanged": kind for kind in KINDS}

_MAX_HELD_MESSAGES: Final = 1000
"""Messages that may wait for a version; further ones stay unread."""

_MAX_HELD_BYTES: Final = 16 * 1024 * 1024

# The shapes that mcpkit itself writes, so that a large result need not be parsed to be passed on.
_ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(result|error)":')
_NOTIFICATION: Final = re.compile(rb'\{"jsonrpc":"2\.0","method":"([ !#-\[\]-~]+)"')

_LISTEN: Final = "subscriptions/listen"
_SESSION: Final = frozenset(
    {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Methods whose success the versions that follow have to know of."""

_REPEATABLE: Final = _SESSION | {
    "ping",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
}
"""Methods that a new version may answer although an old one has been asked first."""


class Outlet(Protocol):
    """Takes lines without waiting."""

    def put(self, line: bytes) -> bool:
        """Take a line, without its newline; return False if nobody takes lines any more."""
        ...


class Version:
    """A process that serves, or is about to, as far as the conversation is concerned.

    Args:
        outlet: To its stdin.
    """

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.idle = threading.Event()
        """Set while no request waits for its answer."""
        self.idle.set()
        self.greeting: Mapping[str, Any] | None = None
        """The version's result of ``initialize``, which the host has sent or the relay."""
        self.opened = False
        self.level: Mapping[str, Any] | None = None
        self.watched: dict[str, Mapping[str, Any]] = {}
        self.listening: dict[Id, SimpleQueue[bytes | None]] = {}
        """Streams it was told of → its first message of each; None for an acknowledgement."""
        self.honoured: dict[Id, Mapping[str, Any]] = {}
        self.asked: dict[Id, Id] = {}
        """Open questions of the version: its own id → the id that the host knows."""
        self.questions: dict[Id, SimpleQueue[dict[str, Any] | None]] = {}
        """Open requests of the relay itself: id → the answer, or None if there is none."""
        self.in_flight = 0
        self.took_over = False
        self.given_up = False
        """True once the host has been answered in the version's place."""
        self.over = False

    def count(self, more: int) -> None:
        """Add to the number of requests that wait for the version's answer."""
        self.in_flight += more
        if self.in_flight:
            self.idle.clear()
        else:
            self.idle.set()


class Step(NamedTuple):
    """A message that a version needs before it can take over.

    Args:
        method: Of a request, or of a notification if there is no `done`.
        params: As on the wire.
        done: Called with the result, or None if the answer was an error.
        id: The host's id, for a stream of changes, whose first message is awaited.
    """

    method: str
    params: Mapping[str, Any] | None
    done: Callable[[Mapping[str, Any] | None], None] | None = None
    id: Id | None = None


class _Pending:
    """A request of the host that has not been answered."""

    __slots__ = ("batch", "id", "line", "method", "params", "promised", "version")

    def __init__(
        self, id: Id, method: str, params: Mapping[str, Any], line: bytes, batch: object | None
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.line = line if method == _LISTEN or method in _REPEATABLE else b""
        self.batch = batch
        self.version: Version | None = None
        self.promised: Mapping[str, Any] | None = None
        """The acknowledged notifications of a stream of changes; None before."""


class _Held(NamedTuple):
    """A message that waits for a version."""

    since: float
    line: bytes
    requests: tuple[_Pending, ...]


class Relay:
    """The conversation between a host and the versions of a server.

    Args:
        host: To the host.
        on_need: Called when a message waits and no version serves.
    """

    def __init__(self, host: Outlet, on_need: Callable[[], None]) -> None:
        self._host = host
        self._on_need = on_need
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)
        # Random, so that no id of the host begins with it.
        self._prefix = f"mcpkit-{secrets.token_hex(8)}-"
        self._count = 0
        self._current: Version | None = None
        self._holding = False
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._pending: dict[Id, _Pending] = {}
        self._asked: dict[Id, tuple[Version, Id]] = {}
        self._greeting: Mapping[str, Any] | None = None
        self._hello: Mapping[str, Any] = {}
        self._opened = False
        self._level: Mapping[str, Any] | None = None
        self._watched: dict[str, Mapping[str, Any]] = {}
        self._unannounced: set[str] = set()

    # --- what is known ----------------------------------------------------------------------------

    @property
    def waiting_since(self) -> float | None:
        """The time since which a message waits for a version (`time.monotonic`); None if none."""
        with self._lock:
            return self._held[0].since if self._held else None

    @property
    def has_audience(self) -> bool:
        """True if the host can be told that a list has changed."""
        with self._lock:
            return self._greeting is not None or any(self._listens())

    @property
    def missing(self) -> list[str]:
        """Kinds of lists that the current version has and its host was not told of."""
        with self._lock:
            version = self._current
            if self._greeting is None or version is None or version.greeting is None:
                return []
            told, known = _capabilities(self._greeting), _capabilities(version.greeting)
            return [kind for kind in KINDS if kind in known and kind not in told]

    def new_id(self) -> str:
        """Return an id that the host does not use."""
        with self._lock:
            self._count += 1
            return f"{self._prefix}{self._count}"

    def list_request(self, method: str, cursor: object) -> tuple[str, bytes]:
        """Return the id and the text of a request for a list, in the host's revision."""
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        if self._greeting is None:
            params["_meta"] = {
                VERSION_KEY: PER_REQUEST[-1].version,
                CAPABILITIES_KEY: {},
                CLIENT_INFO_KEY: {"name": "mcpkit", "version": "0"},
            }
        id = self.new_id()
        return id, request_text(id, method, params)

    # --- what the host says -----------------------------------------------------------------------

    def from_host(self, line: bytes) -> None:
        """Pass on a line of the host, or hold it back for a version that is to come."""
        message = _read(line)
        with self._lock:
            if is_array(message):
                self._batch(message, line)
            elif not is_object(message) or not self._one(message, line):
                self._pass_on(line)

    def wait_for_room(self) -> None:
        """Wait until few enough messages wait for a version."""
        with self._room:
            while len(self._held) > _MAX_HELD_MESSAGES or self._held_bytes > _MAX_HELD_BYTES:
                self._room.wait()

    def _one(self, message: Mapping[str, Any], line: bytes) -> bool:
        """Pass on a message; return False if it is one that only a server can refuse."""
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            if "id" not in message:
                self._notification(method, message, line)
                return True
            if not _is_id(id):
                return False
            if id in self._pending:
                self._host.put(_refusal(id))
                return True
            request = self._remembered(id, method, message, line)
            self._pass_on(line, (request,), urgent=method == "ping")
            return True
        return self._answer(message)

    def _remembered(
        self, id: Id, method: str, message: Mapping[str, Any], line: bytes, batch: object = None
    ) -> _Pending:
        params = message.get("params")
        request = _Pending(id, method, params if is_object(params) else {}, line, batch)
        self._pending[id] = request
        return request

    def _batch(self, parts: list[Any], line: bytes) -> None:
        """Pass on a batch without the answers to questions in it, and ids that are in use."""
        rest: list[Any] = []
        refused: list[bytes] = []
        requests: list[_Pending] = []
        batch = object()
        for part in parts:
            if not is_object(part):
                rest.append(part)
                continue
            method, id = part.get("method"), part.get("id")
            if not (isinstance(method, str) and _is_id(id)):
                if not self._answer(part):
                    rest.append(part)
            elif id in self._pending:
                refused.append(_refusal(id))
            else:
                requests.append(self._remembered(id, method, part, b"", batch))
                rest.append(part)
        if refused:
            self._host.put(b"[" + b",".join(refused) + b"]")
        if rest or not parts:
            self._pass_on(line if len(rest) == len(parts) else encode(rest), tuple(requests))

    def _answer(self, message: Mapping[str, Any]) -> bool:
        """Take the answer to a question of some version; return False if it is none."""
        id = message.get("id")
        if "method" in message or not _is_id(id):
            return False
        found = self._asked.pop(id, None)
        if found is None:
            # The version that asked is gone.
            return isinstance(id, str) and id.startswith(self._prefix)
        version, own = found
        version.asked.pop(own, None)
        version.outlet.put(encode({**message, "id": own}))
        return True

    def _notification(self, method: str, message: Mapping[str, Any], line: bytes) -> None:
        version = self._current
        if method == "notifications/cancelled":
            self._cancelled(message, line)
            return
        if method == "notifications/initialized":
            self._opened = True
            if any(each.method == "initialize" for held in self._held for each in held.requests):
                self._pass_on(line)
                return
            if version is not None:
                version.opened = True
        if version is not None:
            version.outlet.put(line)
        if self._opened and self._unannounced:
            kinds, self._unannounced = self._unannounced, set()
            self._announce_to_session(kinds)

    def _cancelled(self, message: Mapping[str, Any], line: bytes) -> None:
        params = message.get("params")
        id = params.get("requestId") if is_object(params) else None
        request = self._pending.get(id) if _is_id(id) else None
        if request is None or request.method == "initialize":  # LIFE-9
            return
        version = request.version
        if version is not None:
            version.outlet.put(line)
        elif request.batch is not None:
            self._pass_on(line)
            return
        else:
            held = next(each for each in self._held if request in each.requests)
            self._held.remove(held)
            self._held_bytes -= len(held.line)
            self._room.notify_all()
        self._forget(request)

    def _pass_on(
        self, line: bytes, requests: tuple[_Pending, ...] = (), *, urgent: bool = False
    ) -> None:
        version = self._current
        if (
            version is not None
            and (urgent or not self._holding)
            and self._give(version, line, requests)
        ):
            return
        self._held.append(_Held(time.monotonic(), line, requests))
        self._held_bytes += len(line)
        if version is None or version.over:
            self._on_need()

    @staticmethod
    def _give(version: Version, line: bytes, requests: tuple[_Pending, ...]) -> bool:
        if not version.outlet.put(line):
            return False
        for each in requests:
            each.version = version
            if each.method == _LISTEN:
                version.listening[each.id] = SimpleQueue()
        version.count(sum(each.method != _LISTEN for each in requests))
        return True

    def _forget(self, request: _Pending) -> None:
        if self._pending.pop(request.id, None) is None:
            return
        if request.version is not None and request.method != _LISTEN:
            request.version.count(-1)

    # --- what a version says ----------------------------------------------------------------------

    def from_version(self, version: Version, line: bytes) -> None:
        """Pass on a line of a version, as far as it is for the host."""
        with self._lock:
            if (found := _ANSWER.match(line)) and _is_id(id := _read(found[1])):
                if self._settled(version, id, found[2] == b"result", line):
                    self._host.put(line)
            elif found := _NOTIFICATION.match(line):
                self._told(version, found[1].decode(), line)
            else:
                self._from_version_otherwise(version, _read(line), line)

    def _from_version_otherwise(self, version: Version, message: Any, line: bytes) -> None:
        if is_array(message):
            ours = [
                is_object(part)
                and _is_id(id := part.get("id"))
                and self._settled(version, id, "result" in part, encode(part))
                for part in message
            ]
            if any(ours):
                self._host.put(line)
            return
        if not is_object(message):
            return
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str) and _is_id(id):
            if version.given_up:
                return
            known = self.new_id()
            self._asked[known] = (version, id)
            version.asked[id] = known
            self._host.put(encode({**message, "id": known}))
        elif isinstance(method, str):
            self._told(version, method, line)
        elif not _is_id(id):
            if version is self._current:
                self._host.put(line)
        elif self._settled(version, id, "result" in message, line):
            self._host.put(line)

    def _settled(self, version: Version, id: Id, succeeded: bool, line: bytes) -> bool:
        """Take an answer; return True if it is for the host."""
        question = version.questions.pop(id, None)
        if question is not None:
            question.put(_read(line))
            return False
        if isinstance(id, str) and id.startswith(self._prefix):
            return False  # nobody waits for it any more
        request = self._pending.get(id)
        if request is None:
            return version is self._current
        if request.version is not version:
            if id in version.listening:
                version.listening[id].put(line)
            return False
        self._forget(request)
        if request.method == _LISTEN:
            version.listening.pop(id, None)
        if succeeded and request.method in _SESSION:
            self._agreed(version, request, line)
        return True

    def _agreed(self, version: Version, request: _Pending, line: bytes) -> None:
        """Remember an agreement of the session, for the versions that follow."""
        params, uri = request.params, request.params.get("uri")
        if request.method == "initialize":
            self._hello = params
            self._greeting = version.greeting = _member(_read(line), "result")
        elif request.method == "logging/setLevel":
            self._level = version.level = params
        elif not isinstance(uri, str):
            return
        elif request.method == "resources/subscribe":
            self._watched[uri] = version.watched[uri] = params
        else:
            self._watched.pop(uri, None)
            version.watched.pop(uri, None)

    def _told(self, version: Version, method: str, line: bytes) -> None:
        if version.given_up:
            return  # PROG-3: what it talks about has been answered
        if method == "notifications/cancelled":
            self._gave_up(version, _read(line))
        elif method == "notifications/subscriptions/acknowledged":
            self._acknowledged(version, _read(line), line)
        else:
            self._host.put(line)

    def _gave_up(self, version: Version, message: Any) -> None:
        params = _member(message, "params")
        id = params.get("requestId")
        if not _is_id(id):
            return
        known = version.asked.pop(id, None)
        if known is not None:
            del self._asked[known]
            self._host.put(encode({**message, "params": {**params, "requestId": known}}))
            return
        request = self._pending.get(id)
        if request is not None and request.version is version:
            self._host.put(encode(message))  # SUB-7: it ends a stream

    def _acknowledged(self, version: Version, message: Any, line: bytes) -> None:
        params = _member(message, "params")
        id = _member(params, "_meta").get(SUBSCRIPTION_KEY)
        request = self._pending.get(id) if _is_id(id) else None
        if request is None or not _is_id(id):
            return
        version.honoured[id] = promised = _member(params, "notifications")
        if request.promised is None:
            request.promised = promised
            self._host.put(line)
        if id in version.listening:
            version.listening[id].put(None)

    # --- versions come and go ---------------------------------------------------------------------

    def hold(self) -> None:
        """Hold requests back for a version that is about to take over."""
        with self._lock:
            self._holding = True

    def release(self) -> None:
        """Hold requests back no longer from the version that serves, if there is one."""
        with self._lock:
            self._holding = False
            self._give_held()

    def _give_held(self) -> None:
        version = self._current
        while self._held and version is not None:
            held = self._held[0]
            if not self._give(version, held.line, held.requests):
                break
            self._held.popleft()
            self._held_bytes -= len(held.line)
        self._room.notify_all()

    def lacks(self, version: Version) -> list[Step]:
        """Return the next messages that a version needs before it can take over; none if it can."""
        with self._lock:
            if self._greeting is not None and version.greeting is None:

                def greeted(result: Mapping[str, Any] | None) -> None:
                    version.greeting = result if is_object(result) else {}

                return [Step("initialize", self._hello, greeted)]
            if self._greeting is not None and self._opened and not version.opened:
                version.opened = True
                return [Step("notifications/initialized", None)]
            steps: list[Step] = []
            if self._level is not None and self._level != version.level:
                version.level = self._level
                steps.append(Step("logging/setLevel", self._level, _ignore))
            for uri, params in self._watched.items():
                if uri not in version.watched:
                    # A resource that has gone may come back with another version.
                    version.watched[uri] = params
                    steps.append(Step("resources/subscribe", params, _ignore))
            for uri, params in list(version.watched.items()):
                if uri not in self._watched:
                    del version.watched[uri]
                    steps.append(Step("resources/unsubscribe", params, _ignore))
            for request in self._listens():
                if request.id not in version.listening:
                    version.listening[request.id] = SimpleQueue()
                    steps.append(Step(_LISTEN, request.params, None, request.id))
            return steps

    def switch(self, version: Version, changed: Iterable[str]) -> list[Step]:
        """Let a version take over, tell the host, and give it what was held back.

        Args:
            version: The one that is to serve.
            changed: The kinds of lists that are to be announced as changed.

        Returns:
            The messages that it needs before; none if it has taken over, or is over itself.
        """
        with self._lock:
            if version.over:
                return []
            if steps := self.lacks(version):
                return steps
            self._current = version
            version.took_over = True
            self._holding = False
            for request in list(self._pending.values()):
                before = request.version
                if before is None or before is version or request.batch is not None:
                    continue
                if request.method == _LISTEN:
                    before.listening.pop(request.id, None)
                    self._take_stream(version, request)
                elif request.method in _REPEATABLE:
                    before.count(-1)
                    request.version = version
                    version.count(1)
                    version.outlet.put(request.line)
            self._announce(set(changed))
            self._give_held()
            return []

    def _take_stream(self, version: Version, request: _Pending) -> None:
        request.version = version
        said = version.listening[request.id]
        while not said.empty():
            ended = said.get()
            if ended is not None:
                self._forget(request)
                self._host.put(ended)

    def _listens(self) -> list[_Pending]:
        return [
            each
            for each in self._pending.values()
            if each.method == _LISTEN and each.version is not None
        ]

    def _announce(self, kinds: set[str]) -> None:
        if self._opened:
            self._announce_to_session(kinds)
        elif self._greeting is not None:
            self._unannounced |= kinds  # LIFE-6
        for request in self._listens():
            wanted = request.params.get("notifications")
            version = request.version
            if not is_object(wanted) or version is None:
                continue
            promised = {**(request.promised or {}), **version.honoured.get(request.id, {})}
            for name, kind in _FILTERS.items():
                if kind in kinds and wanted.get(name) is True and promised.get(name) is True:
                    meta = {"_meta": {SUBSCRIPTION_KEY: request.id}}
                    self._host.put(notification_text(_changed(kind), meta))

    def _announce_to_session(self, kinds: set[str]) -> None:
        told = _capabilities(self._greeting or {})
        for kind in KINDS:
            flags = told.get(kind)
            if kind in kinds and is_object(flags) and flags.get("listChanged") is True:
                self._host.put(notification_text(_changed(kind)))

    def give_up(self, version: Version, why: str) -> None:
        """Answer in the place of a version, and ignore what it may still say.

        Args:
            version: One that does not serve any more.
            why: The message of the error for requests that it leaves unanswered.
        """
        with self._lock:
            version.given_up = True
            for known in version.asked.values():
                del self._asked[known]
                reason = {"requestId": known, "reason": "the server is started anew"}  # CANC-9
                self._host.put(notification_text("notifications/cancelled", reason))
            version.asked.clear()
            left = [
                each
                for each in self._pending.values()
                if each.version is version and each.method != _LISTEN
            ]
            self._refuse(left, why)

    def lost(self, version: Version, why: str) -> None:
        """Answer in the place of a version that says nothing any more.

        Args:
            version: One whose output has been read to its end.
            why: The message of the error for requests that it leaves unanswered.
        """
        with self._lock:
            version.over = True
            if version is self._current:
                self._current = None
            for question in list(version.questions.values()):
                question.put(None)
            for queue in list(version.listening.values()):
                queue.put(None)
            self.give_up(version, why)
            if self._held:
                self._on_need()

    def refuse_held(self, why: str, before: float) -> None:
        """Answer requests that have waited for a version for too long.

        Args:
            why: The message of the error.
            before: The time since which they have waited, at least (`time.monotonic`).
        """
        with self._lock:
            while self._held and self._held[0].since <= before:
                held = self._held.popleft()
                self._held_bytes -= len(held.line)
                self._refuse(held.requests, why)
            self._room.notify_all()

    def _refuse(self, requests: Iterable[_Pending], why: str) -> None:
        """Answer requests with an error, those of a batch together."""
        batches: dict[int, list[bytes]] = {}
        for request in requests:
            self._forget(request)
            text = error_text(request.id, InternalError(why))
            if request.batch is None:
                self._host.put(text)
            else:
                batches.setdefault(id(request.batch), []).append(text)
        for texts in batches.values():
            self._host.put(b"[" + b",".join(texts) + b"]")


def _read(line: bytes) -> Any:
    """Return the JSON value in a line; None if there is none, or one that a server refuses."""
    try:
        return parse(line)
    except ParseError:
        return None


def _member(value: object, name: str) -> Mapping[str, Any]:
    """Return a member that is an object; an empty one if it is not, or is not there."""
    found = value.get(name) if is_object(value) else None
    return found if is_object(found) else {}


def _refusal(id: Id) -> bytes:
    """Return the answer to a request whose id is in use: nobody could tell two answers apart."""
    return error_text(id, InvalidRequest("The id belongs to a request that is still running"))


def _is_id(value: object) -> TypeGuard[Id]:
    return type(value) is int or type(value) is str


def _capabilities(greeting: Mapping[str, Any]) -> Mapping[str, Any]:
    return _member(greeting, "capabilities")


def _changed(kind: str) -> str:
    return f"notifications/{kind}/list_changed"


def _ignore(result: Mapping[str, Any] | None) -> None:
    """Take no notice, because the version serves whether that succeeded or not."""
