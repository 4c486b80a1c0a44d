"""Logins: how an authorization server finds out who somebody is.

The server knows clients, codes and tokens; a `Login` knows users. For each attempt the server makes
a `LoginAttempt`
and asks `Login.begin`. What comes back is a page, the address of another site, or the
user. The answers of the browser (a form, or the return from another site) go to `Login.answer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcpkit.errors import MCPKitError

__all__ = [
    "Login",
    "LoginAttempt",
    "LoginRefused",
    "Outcome",
    "Page",
    "ProviderUnavailable",
    "Redirect",
    "UpstreamTokens",
    "User",
]


class LoginRefused(MCPKitError):
    """Somebody may not log in; the client is told ``access_denied`` (RFC 6749, 4.1.2.1)."""


class ProviderUnavailable(MCPKitError):
    """A provider does not answer, so its tokens cannot be renewed at the moment."""


@dataclass(frozen=True)
class UpstreamTokens:
    """What another authorization server has issued for a user; it never leaves the server.

    Args:
        access_token: For the API of that provider.
        refresh_token: To get another one, if there is one.
        expires_at: When the access token ends, in seconds since the epoch; None: not known.
        scopes: That it is good for.
        provider: The `Login.key` of the login that they came from.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    scopes: frozenset[str] = frozenset()
    provider: str = ""


@dataclass(frozen=True)
class User:
    """Whoever has logged in.

    Args:
        id: Theirs alone and for ever; it becomes the subject of their tokens.
        name: Shown to them on the page that asks for their consent; the id by default.
        claims: Facts about them, for `Principal.claims`.
        scopes: The most that they may be given; None: whatever they consent to.
        upstream: What the provider has issued that they came from.
    """

    id: str
    name: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, hash=False)
    scopes: frozenset[str] | None = None
    upstream: UpstreamTokens | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True)
class Page:
    """A page to show, sent with the headers that all pages of the server have.

    Args:
        body: HTML for the element ``<main>``; every text of others in it is escaped.
        title: Of the page, escaped by the server.
        status: Of the answer.
    """

    body: str
    title: str = "Log in"
    status: int = 200


@dataclass(frozen=True)
class Redirect:
    """The address of another site, where the browser goes next; https, or http on loopback."""

    url: str


@dataclass
class LoginAttempt:
    """One attempt of a browser to log in. It lasts ten minutes, and belongs to that browser.

    Args:
        state: Stands for the visit: the ``state`` that another site must return, and the value of
            the hidden field ``state`` of a form.
        action: The absolute URL that forms are posted to, and that other sites return to.
        client_name: What the client calls itself; not to be believed, and to be escaped.
        server_name: What the MCP server is called.
        scopes: That the client asks for.
        fields: What the browser sent: the fields of a form or a query, each once. Empty in `begin`.
        place: What stands behind the path that it was sent to: the `Login.key` of a login that is
            one of several, or nothing.
        posted: True if it was a form.
        memory: JSON that the login wants back in the next step, such as a nonce. It is kept on the
            server.
    """

    state: str
    action: str
    client_name: str
    scopes: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    posted: bool = False
    memory: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    place: str = ""
    server_name: str = ""


Outcome: TypeAlias = "User | Page | Redirect"


class Login(ABC):
    """Finds out who sits before a browser."""

    label = "Log in"
    """What users choose it by, where there are several."""

    key = ""
    """What it is known by to the tokens of its provider, if it has one."""

    @abstractmethod
    async def begin(self, visit: LoginAttempt) -> Outcome:
        """Show a page with a form, send the browser elsewhere, or say who it is at once.

        Raises:
            LoginRefused: Nobody may log in.
        """

    @abstractmethod
    async def answer(self, visit: LoginAttempt) -> Outcome:
        """Take what the browser has sent; a page again if it does not do.

        There are 50 answers to a visit at most, but visits are cheap: whoever can guess an answer
        has to count guesses by what they are about, as `Users` does.

        Raises:
            LoginRefused: They may not log in; the message is for them.
        """

    async def still(self, user: User) -> User | None:
        """Return a user as they are now; None if they may no longer come in.

        The server asks whenever a client renews a token of theirs. Of the user it knows the id and
        the claims; what counts of the answer are its scopes.
        """
        return user

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Get new tokens of the provider.

        Raises:
            LoginRefused: The provider has ended the login.
            ProviderUnavailable: It does not answer at the moment.
        """
        raise LoginRefused("This login has no provider")
