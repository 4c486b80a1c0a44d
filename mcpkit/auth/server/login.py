"""The interface of logins: how an authorization server authenticates users.

The server knows clients, codes and tokens; a `Login` knows users. For each attempt the server
creates a `LoginAttempt` and calls `Login.begin`, which returns a page, a redirect, or the user. The
browser's answers (a form, or the redirect back) go to `Login.answer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcpkit.errors import MCPKitError


class LoginRefused(MCPKitError):
    """The user may not log in; the client gets ``access_denied`` (RFC 6749, 4.1.2.1)."""


class ProviderUnavailable(MCPKitError):
    """A provider does not answer, so its tokens cannot be refreshed at the moment."""


@dataclass(frozen=True)
class UpstreamTokens:
    """Tokens that a provider has issued for a user; they never leave the server.

    Args:
        access_token: For the API of the provider.
        refresh_token: For the next access token, if there is one.
        expires_at: When the access token expires, in seconds since the epoch; None: unknown.
        scopes: The scopes of the access token.
        provider: The `Login.key` of the login with that provider.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    scopes: frozenset[str] = frozenset()
    provider: str = ""


@dataclass(frozen=True)
class User:
    """A user who has logged in.

    Args:
        id: Unique, and never reused; it becomes the subject of their tokens.
        name: Shown to them on the consent page; the id by default.
        claims: For `Principal.claims`.
        scopes: The scopes that they may grant; None: all.
        upstream: The tokens of the provider that they logged in with.
    """

    id: str
    name: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, hash=False)
    scopes: frozenset[str] | None = None
    upstream: UpstreamTokens | None = field(default=None, repr=False, hash=False)


@dataclass(frozen=True)
class Page:
    """A page to show, sent with the headers of all pages of the server.

    Args:
        body: HTML for the element ``<main>``; escape all foreign text in it.
        title: The title of the page, which the server escapes.
        status: The HTTP status.
    """

    body: str
    title: str = "Log in"
    status: int = 200


@dataclass(frozen=True)
class Redirect:
    """A redirect to another site; its URL is https, or http on loopback."""

    url: str


@dataclass
class LoginAttempt:
    """One attempt of a browser to log in. It lasts ten minutes, and belongs to that browser.

    Args:
        state: The id of the attempt: the ``state`` that another site must return, and the value of
            the hidden field ``state`` of a form.
        action: The absolute URL for forms, and for redirects back from other sites.
        client_name: The client's name for itself: do not trust it, and escape it.
        server_name: The name of the MCP server.
        caller: The network of the browser.
        scopes: The scopes that the client requests.
        fields: The fields of the form or the query, each once. Empty in `begin`.
        place: The end of the request's path: the `Login.key` of one of several logins, or empty.
        posted: True if the fields are those of a form.
        memory: JSON that the login needs in the next step, such as a nonce. It is stored on the
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
    caller: str = ""


Outcome: TypeAlias = User | Page | Redirect


class Login(ABC):
    """Authenticates the user of a browser."""

    label = "Log in"
    """Shown to users who choose among several logins."""

    key = ""
    """The name of its provider in tokens and ids of users; empty if it has none."""

    @abstractmethod
    async def begin(self, attempt: LoginAttempt) -> Outcome:
        """Return a page with a form, a redirect to another site, or the user.

        Raises:
            LoginRefused: The user may not log in.
        """

    @abstractmethod
    async def answer(self, attempt: LoginAttempt) -> Outcome:
        """Handle a submitted form or a redirect. Returns the user, or the form with an error.

        An attempt has at most 50 answers, but attempts are cheap: a login whose answers could be
        guessed has to count failures by user, as `Users` does.

        Raises:
            LoginRefused: The user may not log in; the message is for the user.
        """

    async def still(self, user: User) -> User | None:
        """Return the current state of a user; None if they may no longer log in.

        Called at each token refresh, with a user who has an id and claims only. Of the result only
        the scopes are used.
        """
        return user

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Return new tokens of the provider.

        Raises:
            LoginRefused: The provider has ended the login.
            ProviderUnavailable: The provider does not answer at the moment.
        """
        raise LoginRefused("The provider of these tokens is not configured")
