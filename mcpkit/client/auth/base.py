"""Where the tokens of a client come from, as its way to a server sees it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from mcpkit._utils.fetch import check_address

__all__ = ["BearerToken", "HttpAuth", "HttpRequest", "http_auth", "is_token", "place_of"]

_USUAL: Final = {"http": ":80", "https": ":443"}


class HttpRequest(NamedTuple):
    """A request that is about to be sent, or was refused.

    Args:
        method: Of HTTP.
        url: Where it goes.
        server: The URL of the server, as the client was told it. Requests go elsewhere on the same
            host where the server says so: by a redirect, or by HTTP+SSE.
    """

    method: str
    url: str
    server: str


class HttpAuth(ABC):
    """Adds a token to the requests of a client, and gets another one if it is refused."""

    @abstractmethod
    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return what to add to a request; empty if there is no token yet.

        Raises:
            AuthorizationFailed: There is no token to be had.
        """

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: Answer
    ) -> bool:
        """Return True if a request that was refused may be sent again, with another token.

        Args:
            request: The request.
            sent: What `headers` had returned for it.
            status: 401 or 403.
            answer: The headers of the answer, by name in lower case, with all values of each.

        Raises:
            AuthorizationFailed: There is no token to be had.
        """
        del request, sent, status, answer
        return False


Answer: TypeAlias = Mapping[str, "list[str]"]


class BearerToken(HttpAuth):
    """A token that somebody else has got.

    Args:
        token: The token, or a function, async or not, that returns it for every request.

    Raises:
        ValueError: The token cannot stand in a header.
    """

    def __init__(self, token: str | Callable[[], str | Awaitable[str]]) -> None:
        self._token = token
        if isinstance(token, str):
            _check_token(token)

    def __repr__(self) -> str:
        return "<BearerToken>"

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token, unless others could read it on its way (SEC-16).

        Raises:
            ValueError: They could, or the function has returned what is no token.
        """
        check_address(place_of(request.url), "the URL of a server that gets a token")
        found: Any = self._token if isinstance(self._token, str) else self._token()
        if inspect.isawaitable(found):
            found = await found
        _check_token(found)
        return {"Authorization": f"Bearer {found}"}


def is_token(text: object) -> bool:
    """Return True if a text can be a token, and so stand in a header (SEC-18)."""
    return (
        isinstance(text, str)
        and text.isascii()
        and text.isprintable()
        and text != ""
        and " " not in text
    )


def _check_token(token: object) -> None:
    if not is_token(token):
        raise ValueError("a token is a text of printable ASCII without blanks")


def place_of(url: str) -> str:
    """Return the URL of a server as it is kept by: without what is no part of its name."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.netloc.lower().rpartition("@")[2].removesuffix(_USUAL.get(scheme, ""))
    return f"{scheme}://{host}{parts.path or '/'}"


def http_auth(given: Any) -> HttpAuth:
    """Return what the option ``auth`` of a client means.

    Raises:
        TypeError: It means nothing.
    """
    if isinstance(given, HttpAuth):
        return given
    if isinstance(given, str) or (callable(given) and not isinstance(given, type)):
        return BearerToken(cast("str | Callable[[], str | Awaitable[str]]", given))
    raise TypeError(
        f"auth= takes an OAuth(…), a token, or a function that returns one, "
        f"not {type(given).__name__}"
    )
