"""Where the token of a request comes from, and the requests to issuers."""

from __future__ import annotations

import inspect
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from mcpkit._utils.addresses import check_address, is_loopback_name
from mcpkit._utils.fetch import FetchError, Response, fetch, is_public, is_token, shorten
from mcpkit.errors import ConnectionClosed

DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
TIMEOUT: Final = 15.0  # seconds for a request to an issuer
MAX_BODY: Final = 256 * 1024


class AuthorizationFailed(ConnectionClosed):
    """The client cannot get a token; the message says why, and contains no secret."""


class HttpRequest(NamedTuple):
    """A request that is about to be sent, or was rejected.

    Args:
        method: The HTTP method.
        url: The URL of the request.
        server: The URL of the server as the client was given it. Some requests go to another URL of
            the same host, because of a redirect or of HTTP+SSE.
    """

    method: str
    url: str
    server: str


TextOrFunction: TypeAlias = "str | Callable[[], str | Awaitable[str]]"

ResponseHeaders: TypeAlias = Mapping[str, "list[str]"]
"""Names in lower case, each with all of its values."""


class HttpAuth(ABC):
    """Adds a token to the requests of a client, and gets another one if it is rejected."""

    @abstractmethod
    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the headers to add to a request; empty if there is no token yet.

        Raises:
            AuthorizationFailed: The client cannot get a token.
        """

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: ResponseHeaders
    ) -> bool:
        """Return True if a rejected request may be sent again, with another token.

        Args:
            request: The request.
            sent: The headers that `headers` returned for it.
            status: 401 or 403.
            answer: The headers of the response.

        Raises:
            AuthorizationFailed: The client cannot get a token.
        """
        return False


class BearerToken(HttpAuth):
    """A token from elsewhere.

    Args:
        token: The token, or a function, async or not, that returns it for every request.

    Raises:
        ValueError: The token has characters that a header cannot have.
    """

    def __init__(self, token: TextOrFunction) -> None:
        self._token = token
        if isinstance(token, str):
            _check_token(token)

    def __repr__(self) -> str:
        return "<BearerToken>"

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token, unless it would be sent unencrypted (SEC-16).

        Raises:
            ValueError: It would, or the function has returned something that is not a token.
        """
        check_address(server_key(request.url), "the URL of a server that gets a token")
        found = await current(self._token)
        _check_token(found)
        return {"Authorization": f"Bearer {found}"}


def http_auth(auth: Any) -> HttpAuth:
    """Return the `HttpAuth` for the option ``auth`` of a client."""
    if isinstance(auth, HttpAuth):
        return auth
    if isinstance(auth, str) or (callable(auth) and not isinstance(auth, type)):
        return BearerToken(cast("TextOrFunction", auth))
    raise TypeError(
        f"auth= takes an OAuth(…), a token, or a function that returns one, "
        f"not {type(auth).__name__}"
    )


async def current(given: TextOrFunction) -> object:
    """Return a text as it is, and otherwise what the function returns at the moment."""
    found: Any = given if isinstance(given, str) else given()
    return await found if inspect.isawaitable(found) else found


def _check_token(token: object) -> None:
    if not is_token(token):
        raise ValueError("a token is a text of printable ASCII without blanks")


def server_key(url: str) -> str:
    """Return the normalized URL under which the credentials for a server are stored."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    host = parts.netloc.lower().rpartition("@")[2].removesuffix(DEFAULT_PORTS.get(scheme, ""))
    return f"{scheme}://{host}{parts.path or '/'}"


# --- requests to issuers --------------------------------------------------------------------------


async def request(url: str, name: str, server: str, **options: Any) -> Response:
    """Send a request to an issuer, or for metadata, to a URL that `check_named` allows.

    The options are those of `mcpkit._utils.fetch.fetch`.
    """
    check_named(url, name, server)
    try:
        return await fetch(url, timeout=TIMEOUT, max_body=MAX_BODY, **options)
    except FetchError as error:
        raise AuthorizationFailed(f"{name}: {error}") from None


def check_named(url: object, name: str, server: str) -> None:
    """Reject an address to which a server, or its issuer, must not send this client or its user.

    A remote server must not name addresses on this machine, nor addresses in private networks
    unless its own is one (SSRF). Names are not resolved: their hosts have to prove by a certificate
    that the name is theirs before they receive anything (SEC-16), and behind a proxy this machine
    could not resolve them.
    """
    try:
        check_address(url, name)
    except ValueError as error:
        raise AuthorizationFailed(shorten(error)) from None
    own = urlsplit(server).hostname or ""
    if not server or is_loopback_name(own):
        return
    host = (urlsplit(str(url)).hostname or "").rstrip(".")
    address, own_address = _literal(host), _literal(own)
    is_inside = own_address is not None and not is_public(own_address)
    if is_loopback_name(address or host):
        where = "on this machine"
    elif address is None or is_public(address) or is_inside:
        return
    else:
        where = "in a private network"
    raise AuthorizationFailed(f"{name}: a remote server names {shorten(url)}, {where}")


def _literal(host: str) -> str | None:
    """Return the IP address that a host is written as, in any notation; None for a name."""
    with suppress(ValueError):
        return str(ip_address(host.partition("%")[0]))
    with suppress(OSError, ValueError):
        return socket.inet_ntoa(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433
    return None


def describe_error(document: Mapping[str, Any]) -> str:
    """Return the error in an issuer's response: its description, if there is one, and its code."""
    code = shorten(document.get("error", ""))
    description = shorten(document.get("error_description", "")).strip(" .")
    return f"{description} ({code})" if description else code
