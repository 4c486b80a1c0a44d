"""Verifiers of tokens, the principals that they return, and the settings of a resource server."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcpkit._utils.addresses import check_address
from mcpkit._utils.json import is_array
from mcpkit._utils.names import with_suggestions
from mcpkit.errors import MCPKitError
from mcpkit.permissions import scopes_of
from mcpkit.types import Principal

LOGINS: Final = "MCPKIT_LOGINS"  # the variable with the default store of an authorization server
MAX_SUBJECT: Final = 1024  # characters of a subject, a part of session ids and keys of quotas


class VerifierUnavailable(MCPKitError):
    """A verifier cannot check tokens at the moment; the request is answered with status 503."""


class Verifier(ABC):
    """Checks the token of a request, and returns the principal that it belongs to.

    Subclass it for tokens that `JWT`, `Introspection` and `Keys` do not know.
    """

    authorization_servers: Sequence[str] = ()
    """The issuers whose tokens it accepts, for the metadata of the resource."""

    required_scopes: tuple[str, ...] = ()
    """The scopes that every token must have."""

    cache_time: float = 300
    """Seconds for which the principal of a token is cached, unless the token expires before."""

    needs_resource: bool = False
    """True if it requires the URL of the resource."""

    @abstractmethod
    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return the principal that a token belongs to; None if the token is not valid.

        Args:
            token: The token from the request.
            resource: The URL of the endpoint (``public_url``); None if it is not configured.

        Raises:
            VerifierUnavailable: The token cannot be checked at the moment.
        """

    async def aclose(self) -> None:  # noqa: B027  # most have nothing open
        """Close what is open when a server ends; the next use opens it again."""


class EndpointUrls(NamedTuple):
    """The URLs and the name of an endpoint, for an authorization server beside it."""

    base: str  # that all paths of the app are below; the issuer
    resource: str  # the URL of the endpoint
    name: str  # of the app, for people
    scopes: tuple[str, ...] = ()  # that some entry requires
    required: tuple[str, ...] = ()  # that every request requires
    caller: str = ""  # the network of the request, the key of its rate limits


class EmbeddedServer(Verifier):
    """A verifier that is an authorization server itself, beside the endpoint."""

    paths: Collection[str] = ()
    """The paths that it serves, below the base of the app."""

    is_alone: bool = False
    """True if another process of the same app would not know the tokens that this one issues."""

    @abstractmethod
    async def serve(
        self, path: str, urls: EndpointUrls, scope: Mapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Serve a request, as an ASGI application."""

    async def check_store(self) -> object:
        """Raise an exception if its store cannot be reached."""


Verify: TypeAlias = Callable[[str], "Principal | Awaitable[Principal | None] | None"]
"""A function, async or not, from a token to its principal; None if the token is not valid."""


class _FunctionVerifier(Verifier):
    def __init__(self, function: Verify) -> None:
        self._function = function

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        found = self._function(token)
        found = await found if inspect.isawaitable(found) else found
        if found is not None and not isinstance(found, Principal):
            raise TypeError("a function of auth= returns a Principal or None")
        return found


class ResourceServer:
    """The settings of a server that accepts tokens; ``auth=`` also takes verifiers alone.

    Args:
        verifiers: Asked in turn until one knows a token.
        required_scopes: The scopes that every token must have, whatever it is used for.
        authorization_servers: The issuers that clients may get tokens from; by default those of the
            verifiers. Without any, no metadata is served.
        scopes_supported: The scopes listed in the metadata; by default all that are required
            anywhere.
        documentation: The URL of a page for developers.
        metadata_url: The URL of the metadata, where it does not follow from the URL of the
            endpoint.
        cache_size: Limit of cached tokens.

    Raises:
        TypeError: There is no verifier, or something that is not a verifier.
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
        required = [*scopes_of(required_scopes, "required_scopes")]
        for each in self.verifiers:
            required += each.required_scopes
        self.required_scopes = tuple(dict.fromkeys(required))
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
"""The option ``auth``: one verifier or several, or a `ResourceServer` with settings."""


def resource_server(auth: Any) -> ResourceServer:
    """Return the resource server for the option ``auth``."""
    if isinstance(auth, ResourceServer):
        return auth
    if isinstance(auth, (list, tuple)):
        return ResourceServer(*cast("Sequence[Any]", auth))
    return ResourceServer(auth)


def _verifier(given: Any) -> Verifier:
    if isinstance(given, Verifier):
        return given
    if isinstance(given, type):
        raise TypeError(f"auth= is the class {given.__name__}; call it: {given.__name__}(…)")
    if callable(given):
        return _FunctionVerifier(cast("Verify", given))
    raise TypeError(
        "auth= takes an AuthorizationServer(login=…), verifiers (JWT, Introspection, Keys) and "
        f"functions of a token, not {type(given).__name__}"
    )


# --- claims ---------------------------------------------------------------------------------------


def principal_of(
    claims: Mapping[str, Any], issuer: str, expires_at: float | None
) -> Principal | None:
    """Return the principal for verified claims; None if they have no usable subject.

    The same subject of another issuer is another user (AUTH-17).
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        return None
    named: Any = claims.get("scope", claims.get("scp"))  # RFC 8693, 4.2; some issuers' scp
    scopes = named.split() if isinstance(named, str) else named
    known = [each for each in scopes if isinstance(each, str)] if is_array(scopes) else []
    client = claims.get("client_id", claims.get("azp"))
    return Principal(
        f"{issuer}|{subject}",
        frozenset(known),
        expires_at,
        claims,
        issuer=issuer,
        client_id=client if isinstance(client, str) else None,
    )
