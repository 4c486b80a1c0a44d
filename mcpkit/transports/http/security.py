"""Checks of who may call: their host, web origin, principal and rate."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Iterable
from functools import lru_cache
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import urlsplit

from mcpkit._utils.addresses import check_address, is_loopback_name
from mcpkit._utils.logs import log
from mcpkit._utils.text import quote
from mcpkit.errors import AccessDenied, Forbidden
from mcpkit.http import HttpRequest
from mcpkit.permissions import is_scope
from mcpkit.transports.http.http_error import HttpError, Pairs
from mcpkit.transports.http.options import FindPrincipal, HttpSettings
from mcpkit.types import Principal

MAX_VERDICTS: Final = 32
"""Verdicts that are cached; few, since a host or an origin may be as long as a head."""

_EXPIRED: Final = [(b"www-authenticate", b'Bearer error="invalid_token"')]
"""The challenge of an authentication that has expired (RFC 6750, 3.1)."""

_AUTHORITY: Final = re.compile(
    r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_](?:[a-z0-9_.-]*)))(?::([0-9]{0,5}))?"
)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_PORTS: Final = {"http": "80", "https": "443"}


class Guard:
    """Checks of ``Host`` and ``Origin`` against DNS rebinding and foreign pages (SEC-1, SEC-3).

    Args:
        loopback: True if the server listens on loopback addresses only; None to go by the address
            that each connection has arrived at.
    """

    def __init__(self, settings: HttpSettings, loopback: bool | None = None) -> None:
        self._loopback = loopback
        self._any_host = "*" in settings.allowed_hosts
        self._hosts = {_host_setting(each) for each in settings.allowed_hosts if each != "*"}
        self._any_origin = "*" in settings.allowed_origins
        self._origins = {_origin_setting(each) for each in settings.allowed_origins if each != "*"}
        self.refusal = lru_cache(maxsize=MAX_VERDICTS)(self._judge)
        """Returns why a request is refused, or None, by its Host, its Origin and the address that
        it has arrived at, as the ASGI scope has it."""

    def _judge(self, host: bytes | None, origin: bytes | None, address: object) -> str | None:
        loopback = self._loopback
        if loopback is None:
            loopback = isinstance(address, str) and is_loopback_name(address)
        if loopback and not self._any_host and host is not None:
            said = host.decode("latin-1")
            authority = parsed_authority(said)
            if authority is None:
                return f"The Host {quote(said)} is malformed"
            name = authority[0]
            if not (is_loopback_name(name) or name in self._hosts):
                return (
                    f"The Host {quote(said)} is not answered on a loopback address; "
                    f"to allow it, set allowed_hosts=[{quote(name)}]"
                )
        if origin is None or self._any_origin:
            return None
        said = origin.decode("latin-1")
        parsed = _parsed_origin(said)
        if parsed is not None:
            scheme, name, _ = parsed
            if loopback and scheme in ("http", "https") and is_loopback_name(name):
                return None
            if parsed in self._origins or (scheme, name, "*") in self._origins:
                return None
        # A value that names no page cannot be allowed by name.
        setting = "*" if parsed is None else said
        return (
            f"Pages of the origin {quote(said)} may not call this server; "
            f"to allow them, set allowed_origins=[{quote(setting)}]"
        )


def parsed_authority(text: str) -> tuple[str, str] | None:
    """Return the name, in lower case and without brackets, and the port; None if it is malformed.

    This is stricter than a parser of URLs, which forgives what no client has a reason to send.
    """
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    address, name, port = found.groups()
    return address or name, port or ""


def _parsed_origin(text: str) -> tuple[str, str, str] | None:
    """Return scheme, host and port of an origin (RFC 6454, 6.1); None for ``null`` and the like."""
    scheme, separator, rest = text.lower().partition("://")
    authority = parsed_authority(rest)
    if not separator or authority is None or _SCHEME.fullmatch(scheme) is None:
        return None
    name, port = authority
    return scheme, name, port or _PORTS.get(scheme, "")


def _origin_setting(text: str) -> tuple[str, str, str]:
    any_port = text.endswith(":*")
    parsed = _parsed_origin(text.removesuffix(":*"))
    if parsed is None:
        raise ValueError(
            f"allowed_origins: {text!r} is not an origin, which looks like https://app.example.com"
        )
    return (*parsed[:2], "*") if any_port else parsed


def normalized_origin(setting: str) -> str:
    """Return an allowed origin as browsers spell it; its port may be ``*``."""
    scheme, name, port = _origin_setting(setting)
    name = f"[{name}]" if ":" in name else name
    return f"{scheme}://{name}{'' if port == _PORTS.get(scheme, '') else ':' + port}"


def _host_setting(text: str) -> str:
    address = text.removesuffix(":*")
    if address.count(":") > 1 and not address.startswith("["):
        address = f"[{address}]"
    parsed = parsed_authority(address)
    if parsed is None or parsed[1]:
        raise ValueError(
            f"allowed_hosts: {text!r} is not a name like app.example.com, without a port"
        )
    return parsed[0]


def authenticate(http: HttpRequest, find: FindPrincipal) -> Awaitable[Any] | None:
    """Find the principal of a request, and note it there.

    Returns:
        The result of the function for `finish_authentication`, if it has to be awaited.

    Raises:
        HttpError: The function refuses, or the authentication has expired.
        TypeError: The function returned something other than a principal.
    """
    try:
        found = find(http)
    except Exception as error:
        _refuse(error)
        raise
    if isawaitable(found):
        return found
    _note(http, found)
    return None


async def finish_authentication(http: HttpRequest, found: Awaitable[Any]) -> None:
    """Await the principal of a request, and note it there; see `authenticate`."""
    try:
        principal = await found
    except Exception as error:
        _refuse(error)
        raise
    _note(http, principal)


def _refuse(error: Any) -> None:
    """Raise an `HttpError` for an exception with which a function refuses a request."""
    status: Any = getattr(error, "status_code", None)
    if isinstance(error, AccessDenied):
        status, said, challenge = error.status, str(error), error.challenge
    elif status in (401, 403):
        # As FastAPI's and Starlette's security functions raise.
        said = str(getattr(error, "detail", "")) or "Not allowed"
        given: dict[Any, Any] = getattr(error, "headers", None) or {}
        own = {str(name).lower(): str(value) for name, value in given.items()}
        challenge = own.get("www-authenticate", "Bearer" if status == 401 else "")
    else:
        return
    header = (b"www-authenticate", challenge.encode("latin-1", "replace"))
    raise HttpError(status, said, headers=[header] if challenge else []) from None


def _note(http: HttpRequest, found: object) -> None:
    if not found:
        return
    if isinstance(found, str):
        found = Principal(found)
    elif not isinstance(found, Principal):
        raise TypeError(
            f"principal= must return a text, a Principal or None, not {type(found).__name__}"
        )
    if found.expires_at is not None and found.expires_at <= time.time():
        raise HttpError(401, "The authentication has expired", headers=_EXPIRED)
    http.principal = found


def principal_of(http: HttpRequest) -> str | None:
    """Return the id of the user that the host's authentication has found.

    The id is the attribute ``identity`` of Starlette's users, or ``username`` of Django's.

    Raises:
        HttpError: The user has neither. The display name is not an id: two people may have the
            same, and must not share sessions.
    """
    user = http.user
    if user is None or not getattr(user, "is_authenticated", False):
        return None
    for name in ("identity", "username"):
        try:
            found = getattr(user, name, None)
        except NotImplementedError:  # Starlette's BaseUser, where a subclass says nothing
            continue
        if found:
            return str(found)
    log.error(
        "the user %s has neither identity nor username; name the caller with the option principal=",
        type(user).__name__,
    )
    raise HttpError(500, "The server could not identify the caller; see its log")


def principal_id(http: HttpRequest) -> str | None:
    """Return the id of the principal of a request; None if it has none."""
    return None if http.principal is None else http.principal.id


def forbidden_challenge(authorization: Any, http: HttpRequest, error: Forbidden) -> Pairs:
    """Return the challenge of a request that is forbidden (AUTH-6).

    Args:
        authorization: Of the endpoint, if it takes tokens; otherwise the host authenticates.
        http: The request.
        error: The error, with the scopes that are missing. There is no challenge if no scope is.
    """
    code = "insufficient_scope" if error.status == 403 else None
    if code and not error.scopes:
        return []
    scopes = [each for each in error.scopes if is_scope(each)]
    if authorization is None:
        return bearer_challenge(code, scopes)
    found: Pairs = authorization.challenge(http, code, scopes)
    return found


def bearer_challenge(
    error: str | None, scopes: Iterable[str], metadata_url: str | None = None
) -> Pairs:
    """Return the header that asks for a bearer token (RFC 6750, 3)."""
    listed = " ".join(scopes)  # AUTH-5
    values = {"error": error, "scope": listed, "resource_metadata": metadata_url}  # AUTH-3
    parts = [f'{name}="{value}"' for name, value in values.items() if value]
    return [(b"www-authenticate", f"Bearer {', '.join(parts)}".rstrip().encode("ascii"))]


def canonical_url(url: str) -> str:
    """Return a URL in its canonical form (AUTH-13, RFC 8707).

    Scheme and host are in lower case, and there is no slash at its end.

    Raises:
        ValueError: It is not a URL, has a query or a fragment, or is not safe.
    """
    check_address(url, "public_url")
    parts = urlsplit(url)
    if "?" in url:
        raise ValueError(f"public_url: {url!r} has a query; it is the URL of the endpoint alone")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
