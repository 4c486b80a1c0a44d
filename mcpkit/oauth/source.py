"""Where the tokens of a client come from, as its way to a server sees it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from mcpkit.auth.fetch import check_address

__all__ = ["BearerToken", "HttpAuth", "http_auth"]


class HttpAuth(ABC):
    """Adds a token to the requests of a client, and gets another one if it is refused."""

    @abstractmethod
    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return what to add to a request; empty if there is no token yet.

        Args:
            method: Of the request.
            url: Of the server.

        Raises:
            AuthorizationFailed: There is no token to be had.
        """

    async def refused(
        self, method: str, url: str, sent: Mapping[str, str], status: int, answer: Answer
    ) -> bool:
        """Return True if a request that was refused may be sent again, with another token.

        Args:
            method: Of the request.
            url: Of the server.
            sent: What `headers` had returned for it.
            status: 401 or 403.
            answer: The headers of the answer, by name in lower case, with all values of each.

        Raises:
            AuthorizationFailed: There is no token to be had.
        """
        del method, url, sent, status, answer
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

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the token, unless others could read it on its way (SEC-16)."""
        del method
        check_address(url.partition("#")[0], "the URL of a server that gets a token")
        found: Any = self._token if isinstance(self._token, str) else self._token()
        if inspect.isawaitable(found):
            found = await found
        _check_token(found)
        return {"Authorization": f"Bearer {found}"}


def _check_token(token: object) -> None:
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ValueError("a token is a text of printable ASCII without blanks")
    if " " in token:
        raise ValueError("a token is a text of printable ASCII without blanks")


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
