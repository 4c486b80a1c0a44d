"""Verifiers of tokens, and the settings of a resource server that has some."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcpkit._utils.fetch import check_address
from mcpkit._utils.names import with_suggestions
from mcpkit.errors import MCPKitError
from mcpkit.permissions import scopes_of
from mcpkit.types import Principal

__all__ = [
    "LOGINS",
    "Auth",
    "EmbeddedServer",
    "Place",
    "ResourceServer",
    "Verifier",
    "VerifierUnavailable",
    "Verify",
    "resource_server",
]


LOGINS: Final = "MCPKIT_LOGINS"
"""The environment variable with the store of an authorization server that does not say its own."""


class VerifierUnavailable(MCPKitError):
    """A verifier could not find out whether a token is valid; the request is answered with 503."""


class Verifier(ABC):
    """Finds out whose token it is that a request brings along.

    Derive from it what `JWT`, `Introspection` and `Keys` do not know.
    """

    authorization_servers: Sequence[str] = ()
    """The issuers whose tokens it takes, for the metadata of the resource."""

    required_scopes: tuple[str, ...] = ()
    """The scopes that every token needs."""

    cache_time: float = 300
    """Seconds for which a token that was verified is known, unless it expires before."""

    needs_resource: bool = False
    """True if it cannot do without the URL of the resource."""

    @abstractmethod
    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return whoever a token belongs to; None if it is not valid.

        Args:
            token: As it was sent.
            resource: The URL of the endpoint, as ``public_url`` says; None if it does not.

        Raises:
            VerifierUnavailable: Nobody can tell at the moment.
        """

    async def aclose(self) -> None:  # noqa: B027  # most have nothing open
        """Let go of what is open when a server ends; the next use opens it again."""


class Place(NamedTuple):
    """Where an endpoint is, and what it is, for an authorization server beside it.

    Args:
        base: The URL that everything of the app is below; the issuer.
        resource: The URL of the endpoint.
        name: Of the app, for people.
        scopes: That something needs.
        required: That everything needs.
        caller: The network that the request comes from, to count it by.
    """

    base: str
    resource: str
    name: str
    scopes: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    caller: str = ""


class EmbeddedServer(Verifier):
    """A verifier that is an authorization server itself, and answers beside the endpoint."""

    paths: Collection[str] = ()
    """Where it answers, below everything of the app."""

    is_alone: bool = False
    """True if another process of the same app would know nothing of what this one has issued."""

    @abstractmethod
    async def serve(
        self, path: str, place: Place, scope: Mapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Answer a request, as an ASGI application.

        Args:
            path: One of `paths`.
            place: Where all of this is.
            scope: Of the request.
            receive: Its body.
            send: Takes the answer.
        """


Verify: TypeAlias = Callable[[str], "Principal | Awaitable[Principal | None] | None"]
"""A function, async or not, from a token to whoever it belongs to; None if it is not valid."""


class _Function(Verifier):
    """A function as a verifier."""

    def __init__(self, function: Verify) -> None:
        self._function = function

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Call the function."""
        del resource
        found = self._function(token)
        if inspect.isawaitable(found):
            found = await found
        if found is not None and not isinstance(found, Principal):
            raise TypeError(
                f"a function of auth= returns a Principal or None, not {type(found).__name__}"
            )
        return found


class ResourceServer:
    """The settings of a server that takes tokens; ``auth=`` takes its verifiers alone as well.

    Args:
        verifiers: Whoever knows tokens; they are asked in turn until one knows it.
        required_scopes: The scopes that every token needs, whatever it is for.
        authorization_servers: The issuers that clients may get tokens from; those of the verifiers
            by default. Without any, no metadata is served.
        scopes_supported: The scopes that are shown in the metadata; those that are needed anywhere
            by default.
        documentation: The URL of a page for developers.
        metadata_url: The URL of the metadata, where it is not the one that follows from the URL of
            the endpoint.
        cache_size: Tokens that are known at once.

    Raises:
        TypeError: There is no verifier, or something that is none.
        ValueError: A scope or a URL is malformed.
    """

    @with_suggestions()
    def __init__(
        self,
        *verifiers: Verifier | Verify,
        required_scopes: Iterable[str] = (),
        authorization_servers: Sequence[str] | None = None,
        scopes_supported: Sequence[str] | None = None,
        documentation: str | None = None,
        metadata_url: str | None = None,
        cache_size: int = 10_000,
    ) -> None:
        if not verifiers:
            raise TypeError("ResourceServer needs a verifier, such as JWT(…) or Keys(…)")
        self.verifiers = tuple(map(_verifier, verifiers))
        needed = [*scopes_of(required_scopes, "required_scopes")]
        for each in self.verifiers:
            needed += each.required_scopes
        self.required_scopes = tuple(dict.fromkeys(needed))
        if authorization_servers is None:
            found = [one for each in self.verifiers for one in each.authorization_servers]
            authorization_servers = list(dict.fromkeys(found))
        elif isinstance(authorization_servers, str):
            raise TypeError("authorization_servers must be a list of URLs")
        for url in authorization_servers:
            check_address(url, "authorization_servers")
        self.authorization_servers = tuple(authorization_servers)
        self.scopes_supported = (
            None if scopes_supported is None else scopes_of(scopes_supported, "scopes_supported")
        )
        self.documentation = documentation
        if metadata_url is not None:
            check_address(metadata_url, "metadata_url")
        self.metadata_url = metadata_url
        if cache_size < 0:
            raise ValueError("cache_size must be at least 0")
        self.cache_size = cache_size

    def __repr__(self) -> str:
        names = ", ".join(type(each).__name__.lstrip("_") for each in self.verifiers)
        return f"<ResourceServer: {names}>"


Auth: TypeAlias = "ResourceServer | Verifier | Verify | Sequence[Verifier | Verify]"
"""Whoever knows tokens: one verifier or several, or a `ResourceServer` with settings."""


def resource_server(auth: Any) -> ResourceServer:
    """Return the resource server that the option ``auth`` means.

    Raises:
        TypeError: It means none.
    """
    if isinstance(auth, ResourceServer):
        return auth
    if isinstance(auth, (list, tuple)):
        return ResourceServer(*cast("Sequence[Any]", auth))
    return ResourceServer(auth)


def _verifier(given: Any) -> Verifier:
    if isinstance(given, Verifier):
        return given
    if callable(given) and not isinstance(given, type):
        return _Function(cast("Verify", given))
    is_class = isinstance(given, type)
    named = given.__name__ if is_class else type(given).__name__
    instead = f"; call it: {named}(…)" if is_class else ""
    raise TypeError(
        f"auth= takes an AuthorizationServer(login=…), verifiers (JWT, Introspection, Keys) and "
        f"functions of a token, "
        f"not {'the class ' if is_class else ''}{named}{instead}"
    )
