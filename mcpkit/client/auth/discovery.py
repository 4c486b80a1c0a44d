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

from mcpkit._utils.json import is_array
from mcpkit._utils.requests import get_json, shown
from mcpkit.client.auth.base import place_of
from mcpkit.client.auth.errors import AuthorizationFailed
from mcpkit.permissions import is_scope

__all__ = [
    "Challenge",
    "Issuer",
    "Resource",
    "find_issuer",
    "find_resource",
    "is_same_issuer",
    "read_challenge",
]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r'[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))')
_LONGEST_CHALLENGE: Final = 8192
_MOST_SCOPES: Final = 200


@dataclass(frozen=True)
class Challenge:
    """What a server says of the token that it wants (RFC 6750, 3)."""

    error: str = ""
    scopes: tuple[str, ...] | None = None
    metadata_url: str = ""
    has_proof: bool = False
    """True if it wants tokens that are bound to a key (RFC 9449)."""


def read_challenge(values: Sequence[str], *, has_proof: bool = False) -> Challenge:
    """Return the challenge for tokens among the headers ``WWW-Authenticate``.

    Args:
        values: The headers, each with any number of challenges (RFC 9110, 11.6.1).
        has_proof: True if the refused token was bound to a key, whose challenge it is then.
    """
    found: dict[str, dict[str, str]] = {}
    for value in values:
        for scheme, parameters in _challenges_in(value[:_LONGEST_CHALLENGE]):
            found.setdefault(scheme, parameters)
    bearer, proof = found.get("bearer"), found.get("dpop")
    chosen = proof if proof is not None and (has_proof or bearer is None) else bearer
    if chosen is None:
        return Challenge()
    # What is true of the server may stand in one of them only.
    both = {**(bearer or {}), **(proof or {}), **chosen}
    scope = both.get("scope")
    return Challenge(
        chosen.get("error", ""),
        None if scope is None else scopes_in(scope.split()),
        both.get("resource_metadata", ""),
        bearer is None,
    )


def _challenges_in(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the schemes that a header names, in lower case, with the parameters of each."""
    found: list[tuple[str, dict[str, str]]] = []
    place = 0
    while place < len(text):
        name = _TOKEN.match(text, place)
        if name is None:
            place += 1
            continue
        place = name.end()
        value = _VALUE.match(text, place)
        if value is None:
            found.append((name[0].lower(), {}))
            continue
        place = value.end()
        if found:
            quoted, plain = value.groups()
            said = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found[-1][1].setdefault(name[0].lower(), said)
    return found


def scopes_in(given: Sequence[Any]) -> tuple[str, ...]:
    """Return those of a list that are scopes, each once."""
    return tuple(dict.fromkeys(each for each in given if is_scope(each)))[:_MOST_SCOPES]


@dataclass(frozen=True)
class Resource:
    """A server, as it describes itself.

    Args:
        id: As it is to be named in requests for tokens, exactly; empty if it is not.
        issuer: Whoever issues them.
        scopes: That it knows; None if it does not say.
        server: Its URL.
    """

    id: str
    issuer: str
    scopes: tuple[str, ...] | None = None
    server: str = ""

    @property
    def is_described(self) -> bool:
        """False if it has no metadata, and is its own issuer (2025-03-26)."""
        return self.id != ""


async def find_resource(
    url: str, server: str, challenge: Challenge, wanted: Sequence[str] = ()
) -> Resource:
    """Return the server at a URL as a protected resource.

    Args:
        url: Where a request was refused.
        server: Where the server is.
        challenge: Its answer.
        wanted: Names of issuers: of several that the server has, the first of these is taken.

    Raises:
        AuthorizationFailed: It says that it is another one, or nothing that is of use.
    """
    asked = tuple(dict.fromkeys((place_of(url), place_of(server))))
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(asked[0]))
    paths = [urlsplit(each).path.rstrip("/") for each in asked]
    places = [challenge.metadata_url] if challenge.metadata_url else []
    if not places:
        places = [f"{origin}{_RESOURCE}{path}" for path in dict.fromkeys((*paths, ""))]
    for place in places:
        document = await get_json(place, "the metadata of the server", server)
        if document is not None:
            return _resource(asked, server, document, wanted)
    if challenge.metadata_url:
        raise AuthorizationFailed("the metadata that the server names is not there")
    return Resource("", origin, server=server)


def _resource(
    asked: Sequence[str], server: str, document: Mapping[str, Any], wanted: Sequence[str]
) -> Resource:
    id: Any = document.get("resource")
    if not isinstance(id, str) or not any(_covers(id, each) for each in asked):
        # Or a server could get tokens for another one (RFC 9728, 3.3).
        raise AuthorizationFailed(
            f"the server says that it is {shown(id)}, which is not where it was asked"
        )
    issuers: Any = document.get("authorization_servers")
    found = [each for each in issuers if isinstance(each, str)] if is_array(issuers) else []
    if not found:
        raise AuthorizationFailed("the server names nobody who issues tokens for it")
    known = (one for name in wanted for one in found if is_same_issuer(one, name))
    scopes: Any = document.get("scopes_supported")
    return Resource(
        id,
        next(known, found[0]),
        scopes_in(scopes) if is_array(scopes) else None,
        server,
    )


def _covers(id: str, url: str) -> bool:
    """Return True if a resource is the one at a URL, or what is above it."""
    try:
        parts = urlsplit(id)
        known, asked = urlsplit(place_of(id)), urlsplit(url)
    except ValueError:
        return False
    above = known.path.rstrip("/")
    return (
        (known.scheme, known.netloc) == (asked.scheme, asked.netloc)
        and not parts.query
        and not parts.fragment
        and "@" not in parts.netloc
        and (asked.path.rstrip("/") == above or asked.path.startswith(f"{above}/"))
    )


def is_same_issuer(one: str, other: str) -> bool:
    """Return True if two names are of one issuer.

    They are compared as they are (RFC 8414, 3.3), but that an issuer without a path may have a
    slash at its end, which is the same URL, or none.
    """
    return _without_slash(one) == _without_slash(other)


def _without_slash(id: str) -> str:
    return id[:-1] if id.endswith("/") and id.count("/") == 3 else id


@dataclass(frozen=True)
class Issuer:
    """Whoever issues tokens, as its metadata says (RFC 8414)."""

    id: str
    """As it names itself."""
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
    try:
        parts = urlsplit(id)
    except ValueError:
        raise AuthorizationFailed(f"the issuer {shown(id)} is no URL") from None
    if parts.query or parts.fragment:
        raise AuthorizationFailed(f"the issuer {shown(id)} is more than a URL (RFC 8414, 2)")
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
        document = await get_json(place, "the metadata of the issuer", resource.server)
        if document is not None:
            return _issuer(id, document)
    if resource.is_described:
        raise AuthorizationFailed(f"the issuer {shown(id)} has no metadata")
    # The places of 2025-03-26, for servers that say nothing at all.
    return Issuer(id, f"{origin}/authorize", f"{origin}/token", f"{origin}/register")


def _issuer(id: str, document: Mapping[str, Any]) -> Issuer:
    named: Any = document.get("issuer")
    if not isinstance(named, str) or not is_same_issuer(named, id):
        raise AuthorizationFailed(
            f"the metadata of the issuer {shown(id)} are those of {shown(named)}"
        )

    def text(name: str) -> str:
        found: Any = document.get(name)
        return found if isinstance(found, str) else ""

    def texts(name: str) -> tuple[str, ...]:
        found: Any = document.get(name)
        return tuple(each for each in found if isinstance(each, str)) if is_array(found) else ()

    return Issuer(
        named,
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
