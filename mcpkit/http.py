"""The HTTP request that a message arrived in, and the types of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

from mcpkit.types import Principal

Scope = MutableMapping[str, Any]
"""The ``scope`` of an ASGI application."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""The ``receive`` of an ASGI application."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""The ``send`` of an ASGI application."""

Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""

BUFFERED: Final = "mcpkit.buffered"
"""The member of a scope that says that an endpoint has been told that its host does not stream."""

_LAMBDA: Final = "aws.event"
"""The member of a scope with which Mangum passes on a whole response at a time."""


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
    """Return the headers of an ASGI scope by their lower-case names.

    A header that was sent twice has both values, as ``first, second`` (RFC 9110, section 5.3): it
    equals neither, because a proxy may have read the one and a server the other.
    """
    found: dict[bytes, bytes] = {}
    for name, value in pairs:  # dict(pairs) takes twice as long
        found[name] = value
    if len(found) != len(pairs):
        values: dict[bytes, list[bytes]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value)
        found = {name: b", ".join(each) for name, each in values.items()}
    return found


class HttpRequest:
    """The HTTP request that a message arrived in; handlers find it as ``ctx.http``.

    Args:
        scope: The scope of the ASGI connection, as the server and the host's middleware filled it.
        principal: Its sender, according to the host or to the endpoint's option ``principal``.
        raw: The headers as `by_name` returns them, if they are at hand.
    """

    __slots__ = ("principal", "raw", "scope")

    def __init__(
        self,
        scope: Scope,
        principal: Principal | None = None,
        raw: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.scope = scope
        self.principal = principal
        self.raw: Mapping[bytes, bytes] = by_name(scope["headers"]) if raw is None else raw
        """The headers by lower-case name, as bytes."""

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path}>"

    @property
    def headers(self) -> Headers:
        """The headers, by names in any case."""
        return Headers(self.raw)

    @property
    def method(self) -> str:
        """The method, such as ``POST``."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The path as the server gives it: decoded, with the prefix that the app is mounted at."""
        return str(self.scope["path"])

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
    def streams(self) -> bool:
        """False if the host passes a response on only when it is complete, as AWS Lambda does."""
        return not (BUFFERED in self.scope or _LAMBDA in self.scope)

    @property
    def user(self) -> Any:
        """The user whom the host's authentication has found; None without one."""
        return self.scope.get("user")
