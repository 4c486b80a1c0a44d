"""The HTTP request that a message arrived in, and the settings of an endpoint."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit.auth.verifiers import Auth

__all__ = [
    "FindPrincipal",
    "Headers",
    "HttpOptions",
    "HttpRequest",
    "HttpSettings",
    "Scope",
    "by_name",
]

Scope = MutableMapping[str, Any]
"""The ``scope`` of an ASGI application."""


class Headers(Mapping[str, str]):
    """The headers of a request: names in any case, values decoded as Latin-1 (RFC 9110, 5.5).

    Args:
        raw: The headers by lower-case name.
    """

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[name.lower().encode("latin-1")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self)}>"  # values may be secrets


def by_name(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers of an ASGI scope by name.

    A header that was sent twice has both values, as ``first, second`` (RFC 9110, section 5.3), so
    that it equals neither: a proxy may have read the one and a server the other.

    Args:
        pairs: Lower-case names and values, in the order in which they arrived.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        values: dict[bytes, list[bytes]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        found = {name: b", ".join(each) for name, each in values.items()}
    return found


class HttpRequest:
    """The HTTP request that a message arrived in; handlers find it as ``ctx.http``.

    Args:
        scope: The scope of the ASGI connection, as the server and the host's middleware have filled
            it.
        principal: The principal who sent it, as the host's authentication or the endpoint's option
            ``principal`` says; None if neither does.
        raw: The headers by lower-case name, as `by_name` returns them, if they are at hand.
    """

    __slots__ = ("_headers", "principal", "raw", "scope")

    def __init__(
        self,
        scope: Scope,
        principal: Principal | None = None,
        raw: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.scope = scope
        self.principal = principal
        self._headers: Headers | None = None
        if raw is None:
            pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
            raw = {}
            for name, value in pairs:  # dict(pairs) takes twice as long
                raw[name] = value
            if len(raw) != len(pairs):
                raw = by_name(pairs)
        self.raw: Mapping[bytes, bytes] = raw
        """The headers by lower-case name, as bytes."""

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path}>"

    @property
    def headers(self) -> Headers:
        """The headers, by names in any case."""
        if self._headers is None:
            self._headers = Headers(self.raw)
        return self._headers

    @property
    def method(self) -> str:
        """The method, such as ``POST``."""
        method: str = self.scope["method"]
        return method

    @property
    def path(self) -> str:
        """The path as the server gives it: decoded, with the prefix that the app is mounted at."""
        path: str = self.scope["path"]
        return path

    @property
    def client(self) -> tuple[str, int] | None:
        """The address and port of the client; None if the server does not know them."""
        found: Sequence[Any] | None = self.scope.get("client")
        return None if found is None else (found[0], found[1])

    @property
    def state(self) -> Any:
        """The state that the host keeps with it: ``request.state`` of Starlette and FastAPI."""
        return self.scope.get("state", {})

    @property
    def user(self) -> Any:
        """The user whom the host's authentication has found; None without one."""
        return self.scope.get("user")


FindPrincipal = Callable[
    [HttpRequest], "str | Principal | Awaitable[str | Principal | None] | None"
]
"""A function, async or not, that returns the principal of a request, or its id as text.

None is nobody. It may raise `mcpkit.errors.AccessDenied`, or an exception of a web framework that
has a ``status_code`` of 401 or 403.
"""


class HttpOptions(TypedDict, total=False):
    """The settings of an endpoint, as keywords; see `HttpSettings`."""

    path: str
    sse: bool
    health: str | bool
    cors: bool
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    principal: FindPrincipal | None
    auth: Auth | None
    public_url: str | None
    max_body: int
    max_values: int
    body_timeout: float
    max_batch: int
    max_requests: int
    max_parked: int
    max_share: float
    request_timeout: float | None
    rate_limit: float | None
    max_streams: int
    max_unread: int
    write_timeout: float
    stream_after: float
    keep_alive: float
    max_sessions: int
    session_lifetime: float
    session_idle: float
    replay_buffer: int
    replay_time: float
    retry: float
    grace: float


_AT_LEAST_ONE: Final = (
    "max_body",
    "max_values",
    "max_batch",
    "max_requests",
    "max_parked",
    "max_sessions",
)
_ABOVE_ZERO: Final = (
    "body_timeout",
    "max_share",
    "request_timeout",
    "rate_limit",
    "write_timeout",
    "keep_alive",
    "session_lifetime",
)
_NOT_NEGATIVE: Final = (
    "max_streams",
    "max_unread",
    "stream_after",
    "session_idle",
    "replay_buffer",
    "replay_time",
    "retry",
    "grace",
)
_MAY_BE_NONE: Final = ("request_timeout", "rate_limit")


class HttpSettings(NamedTuple):
    """The settings of an endpoint, with their defaults. Times are in seconds, sizes in bytes.

    Args:
        path: The path at which the app answers when it is served alone.
        sse: True adds the two endpoints of 2024-11-05 (``/sse``, ``/messages``).
        health: A path that answers 200 to GET, below that which the app is attached or mounted at;
            True is ``/health``, False none.
        cors: True answers browsers' preflights for `allowed_origins`.
        allowed_origins: The web origins whose pages may call, such as ``https://app.example.com``;
            a port may be ``*``, and ``"*"`` alone allows every origin. Others are refused with 403;
            loopback origins are allowed where the server listens on loopback only.
        allowed_hosts: The names in ``Host`` that are answered on a loopback address, beside
            loopback names; ``"*"`` allows every name.
        principal: A function that finds whoever sent a request: a `Principal`, the id of one, or
            None; it may be async, and refuses by raising `mcpkit.errors.AccessDenied`. By default
            the user whom the host's authentication has put into ``scope["user"]``. One whose
            authentication has ended is refused with 401.
        auth: Whoever knows the bearer tokens of requests: `mcpkit.auth.JWT`, ``Introspection``,
            ``Keys``, a function, or several of them. A request without a valid token is refused
            with 401. Not together with `principal`.
        public_url: The URL of the endpoint as clients know it, such as
            ``https://example.com/mcp``. By default it is what each request says.
        max_body: The longest body that is read; 413 beyond.
        max_values: The JSON values that a message may have, members of arrays and objects included;
            413 beyond. Nobody else is served while they are parsed and validated.
        body_timeout: The time that a body may take to arrive; 408 then. Under mcpkit's own server
            also the time that headers may take; the connection is closed then.
        max_batch: The messages that a batch may have (2025-03-26); 413 beyond.
        max_requests: The requests that may be running or waiting for their client to read the
            answer; 503 beyond.
        max_parked: The requests that may wait for their client: for its answer to a question, or
            for its return (handshake revisions). Beyond, the question fails, or the request whose
            client has left is ended.
        max_share: The part that one client (its principal, else its network) may hold, while there
            is no other, of what this endpoint holds at once: of requests, parked requests, streams,
            sessions, bytes. It gets less as others come, so that there is always something left for
            whoever holds nothing: 429 beyond. A session gets this share of its client's. 1: any
            client may hold everything.
        request_timeout: The time that one may run; it is then cancelled and answered with an error.
        rate_limit: The requests a second that one client may make (its principal, else its
            address), with as many in reserve; 429 beyond. None: any number.
        max_streams: The streams that clients may hold open (GET and subscriptions); 503 beyond.
        max_unread: The bytes of answers and events that may wait for clients to read them. Beyond,
            an answer is 503, and a stream ends with its connection.
        write_timeout: The time that a client may take nothing of what is sent to it.
        stream_after: The time after which a request that is still running is answered with a
            stream.
        keep_alive: The time after which a silent stream carries a comment, so that proxies keep it.
        max_sessions: The sessions that are held for their state, such as subscriptions. The one
            that has been idle for the longest time makes room for another: its streams are dropped,
            its log level and subscriptions are put away, as many as this in all. 503 if none is
            idle.
        session_lifetime: The time for which a session id is valid.
        session_idle: The time for which the state of a session is kept that nobody uses.
        replay_buffer: The bytes that are kept of what clients have missed, of all together.
        replay_time: The time for which they are kept.
        retry: The time after which a client should come back to a stream that was closed.
        grace: The time that running requests may go on when the server is told to stop.
    """

    path: str = "/mcp"
    sse: bool = False
    health: str | bool = False
    cors: bool = False
    allowed_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    principal: FindPrincipal | None = None
    auth: Auth | None = None
    public_url: str | None = None
    max_body: int = 8 * 1024 * 1024
    max_values: int = 50_000
    body_timeout: float = 30
    max_batch: int = 100
    max_requests: int = 1000
    max_parked: int = 1000
    max_share: float = 0.5
    request_timeout: float | None = 3600
    rate_limit: float | None = None
    max_streams: int = 1000
    max_unread: int = 256 * 1024 * 1024
    write_timeout: float = 60
    stream_after: float = 5
    keep_alive: float = 15
    max_sessions: int = 10_000
    session_lifetime: float = 7 * 24 * 3600
    session_idle: float = 3600
    replay_buffer: int = 16 * 1024 * 1024
    replay_time: float = 300
    retry: float = 1
    grace: float = 5

    def check(self) -> None:
        """Refuse settings that no server can keep to.

        Raises:
            ValueError: A setting is wrong; the message names it.
        """
        for name in ("allowed_origins", "allowed_hosts"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(f"{name} must be a list, such as [{value!r}]")
        if self.auth is not None and self.principal is not None:
            raise ValueError(
                "auth= and principal= both say who sends a request; leave one of them out"
            )
        if not self.path.startswith("/"):
            raise ValueError(f"path must begin with a slash, as in {'/' + self.path!r}")
        for name in (*_AT_LEAST_ONE, *_ABOVE_ZERO, *_NOT_NEGATIVE):
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{name} must be a number, not {value!r}")
            if name in _AT_LEAST_ONE:
                least, fits = "at least 1", value >= 1
            elif name in _ABOVE_ZERO:
                least, fits = "more than 0", value > 0
            else:
                least, fits = "at least 0", value >= 0
            if not fits or value == math.inf:
                raise ValueError(f"{name} must be {least} and finite, not {value!r}")
        if self.max_share > 1:
            raise ValueError(f"max_share must be at most 1, not {self.max_share!r}")
