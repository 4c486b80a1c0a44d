"""Finding out who issues tokens for a server, from its challenge and from well-known places.

RFC 9728 for the server, RFC 8414 and OpenID Connect Discovery for the issuer; and, for servers of
2025-03-26, the server itself as the issuer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from mcpkit.oauth.errors import AuthorizationFailed
from mcpkit.oauth.requests import get_json, shown
from mcpkit.support.scopes import is_scope
from mcpkit.types import is_array

__all__ = ["Challenge", "Issuer", "Resource", "find_issuer", "find_resource", "read_challenge"]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_SCHEME: Final = re.compile(r"(?:^|,)\s*(Bearer|DPoP)(?=\s|$|,)", re.IGNORECASE)
_PARAMETER: Final = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')
_MOST_SCOPES: Final = 200


@dataclass(frozen=True)
class Challenge:
    """What a server says of the token that it wants (RFC 6750, 3)."""

    error: str = ""
    scopes: tuple[str, ...] | None = None
    metadata_url: str = ""
    has_proof: bool = False
    """True if it wants tokens that are bound to a key (RFC 9449)."""


def read_challenge(values: Sequence[str]) -> Challenge:
    """Return the challenge for bearer tokens among the headers ``WWW-Authenticate``."""
    for value in values:
        match = _SCHEME.search(value)
        if match is None:
            continue
        found: dict[str, str] = {}
        for name, quoted, plain in _PARAMETER.findall(value[match.end() :]):
            found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
        scope = found.get("scope")
        return Challenge(
            found.get("error", ""),
            None if scope is None else scopes_in(scope.split()),
            found.get("resource_metadata", ""),
            match[1].lower() == "dpop",
        )
    return Challenge()


def scopes_in(given: Sequence[Any]) -> tuple[str, ...]:
    """Return those of a list that are scopes, each once."""
    return tuple(dict.fromkeys(each for each in given if is_scope(each)))[:_MOST_SCOPES]


@dataclass(frozen=True)
class Resource:
    """A server, as it describes itself.

    Args:
        id: As it is to be named in requests for tokens, exactly.
        issuer: Whoever issues them.
        scopes: That it knows; None if it does not say.
        is_described: False if it has no metadata, and is its own issuer (2025-03-26).
    """

    id: str
    issuer: str
    scopes: tuple[str, ...] | None = None
    is_described: bool = True


async def find_resource(url: str, challenge: Challenge) -> Resource:
    """Return the server at a URL as a protected resource.

    Raises:
        AuthorizationFailed: It says that it is another one, or nothing that is of use.
    """
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    path = parts.path.rstrip("/")
    places = [challenge.metadata_url] if challenge.metadata_url else []
    if not places:
        places = list(dict.fromkeys((f"{origin}{_RESOURCE}{path}", f"{origin}{_RESOURCE}")))
    for place in places:
        document = await get_json(place, "the metadata of the server")
        if document is not None:
            return _resource(url, document)
    if challenge.metadata_url:
        raise AuthorizationFailed("the metadata that the server names is not there")
    return Resource(f"{origin}{path}", origin, is_described=False)


def _resource(url: str, document: Mapping[str, Any]) -> Resource:
    id: Any = document.get("resource")
    if not isinstance(id, str) or not _covers(id, url):
        # Or a server could get tokens for another one (RFC 9728, 3.3).
        raise AuthorizationFailed(
            f"the server says that it is {shown(id)}, which is not where it was asked"
        )
    issuers: Any = document.get("authorization_servers")
    found = [each for each in issuers if isinstance(each, str)] if is_array(issuers) else []
    if not found:
        raise AuthorizationFailed("the server names nobody who issues tokens for it")
    scopes: Any = document.get("scopes_supported")
    return Resource(id, found[0], scopes_in(scopes) if is_array(scopes) else None)


def _covers(id: str, url: str) -> bool:
    """Return True if a resource is the one at a URL, or what is above it."""
    try:
        known, asked = urlsplit(id), urlsplit(url)
        same = (known.scheme, known.hostname, known.port) == (
            asked.scheme,
            asked.hostname,
            asked.port,
        )
    except ValueError:
        return False
    above = known.path.rstrip("/")
    return (
        same
        and not known.query
        and not known.fragment
        and (asked.path.rstrip("/") == above or asked.path.startswith(f"{above}/"))
    )


@dataclass(frozen=True)
class Issuer:
    """Whoever issues tokens, as its metadata says (RFC 8414)."""

    id: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    client_methods: tuple[str, ...] = ()
    """How clients may authenticate; empty if it does not say."""
    names_itself: bool = False
    """True if its answers have its name (RFC 9207)."""
    takes_documents: bool = False
    """True if the id of a client may be the URL of a document."""
    grants: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, hash=False)


async def find_issuer(resource: Resource) -> Issuer:
    """Return the issuer of a server's tokens.

    Raises:
        AuthorizationFailed: It has no metadata, or those of another one, or cannot do what is
            needed.
    """
    id = resource.issuer
    parts = urlsplit(id)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if path:
        places = [
            f"{origin}{_SERVER}{path}",
            f"{origin}{_OPENID}{path}",
            f"{origin}{path}{_OPENID}",
        ]
    else:
        places = [f"{origin}{_SERVER}", f"{origin}{_OPENID}"]
    if not resource.is_described:
        places = places[:1]
    for place in places:
        document = await get_json(place, "the metadata of the issuer")
        if document is not None:
            return _issuer(id, document)
    if resource.is_described:
        raise AuthorizationFailed(f"the issuer {shown(id)} has no metadata")
    # The places of 2025-03-26, for servers that say nothing at all.
    return Issuer(id, f"{origin}/authorize", f"{origin}/token", f"{origin}/register")


def _issuer(id: str, document: Mapping[str, Any]) -> Issuer:
    if document.get("issuer") != id:
        raise AuthorizationFailed(
            f"the metadata of the issuer {shown(id)} are those of {shown(document.get('issuer'))}"
        )

    def text(name: str) -> str:
        found: Any = document.get(name)
        return found if isinstance(found, str) else ""

    def texts(name: str) -> tuple[str, ...]:
        found: Any = document.get(name)
        return tuple(each for each in found if isinstance(each, str)) if is_array(found) else ()

    return Issuer(
        id,
        text("authorization_endpoint"),
        text("token_endpoint"),
        text("registration_endpoint"),
        text("revocation_endpoint"),
        texts("scopes_supported"),
        texts("token_endpoint_auth_methods_supported"),
        document.get("authorization_response_iss_parameter_supported") is True,
        document.get("client_id_metadata_document_supported") is True,
        texts("grant_types_supported"),
        document,
    )
