"""Which issuer gives tokens for a server: challenges, and metadata at well-known URLs.

RFC 9728 for the server, RFC 8414 and OpenID Connect Discovery for the issuer; a server of
2025-03-26 without metadata is its own issuer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from mcpkit._utils.fetch import shorten
from mcpkit._utils.json import is_array
from mcpkit.client.auth.base import AuthorizationFailed, request, server_key
from mcpkit.permissions import is_scope

SECRET_METHODS: Final = ("client_secret_basic", "client_secret_post")
"""The ways to authenticate with a secret, in order of preference."""

Scopes: TypeAlias = "tuple[str, ...] | None"  # None: unknown, which is not the same as none

MAX_CHALLENGE: Final = 8192
MAX_SCOPES: Final = 200

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r'[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]*))')


# --- challenges -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Challenge:
    """A server's challenge for a token (RFC 6750, 3)."""

    error: str = ""
    scopes: Scopes = None
    metadata_url: str = ""
    has_proof: bool = False  # True if tokens must be bound to a key (RFC 9449)


def read_challenge(values: Sequence[str], *, has_proof: bool = False) -> Challenge:
    """Return the challenge for a token in the headers ``WWW-Authenticate``."""
    found: dict[str, dict[str, str]] = {}
    for value in values:
        for scheme, parameters in _challenges_in(value[:MAX_CHALLENGE]):
            found.setdefault(scheme, parameters)
    bearer, proof = found.get("bearer"), found.get("dpop")
    chosen = proof if proof is not None and (has_proof or bearer is None) else bearer
    if chosen is None:
        return Challenge()
    # A server may put its metadata URL or its scopes into one of the two only.
    both = {**(bearer or {}), **(proof or {}), **chosen}
    scope = both.get("scope")
    return Challenge(
        chosen.get("error", ""),
        None if scope is None else valid_scopes(scope.split()),
        both.get("resource_metadata", ""),
        bearer is None,
    )


def _challenges_in(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the schemes in a header, in lower case, with the parameters of each."""
    found: list[tuple[str, dict[str, str]]] = []
    position = 0
    while position < len(text):
        name = _TOKEN.match(text, position)
        if name is None:
            position += 1
            continue
        position = name.end()
        value = _VALUE.match(text, position)
        if value is None:
            found.append((name[0].lower(), {}))
            continue
        position = value.end()
        if found:
            quoted, plain = value.groups()
            unquoted = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found[-1][1].setdefault(name[0].lower(), unquoted)
    return found


def valid_scopes(scopes: Sequence[Any]) -> tuple[str, ...]:
    """Return the valid scopes of a list, each once."""
    return tuple(dict.fromkeys(each for each in scopes if is_scope(each)))[:MAX_SCOPES]


# --- the server -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resource:
    """A server's description of itself."""

    id: str  # in requests for tokens; empty if it has no metadata
    issuer: str
    scopes: Scopes = None
    server: str = ""  # its URL

    @property
    def is_described(self) -> bool:
        """False if the server has no metadata, and is its own issuer (2025-03-26)."""
        return self.id != ""


async def _metadata(url: str, name: str, server: str) -> Mapping[str, Any] | None:
    """Return the JSON object at a URL; None if there is none."""
    response = await request(url, name, server)
    if response.is_temporary:
        raise AuthorizationFailed(
            f"{name}: {shorten(url.partition('?')[0])} answered {response.status}"
        )
    return response.document or None if response.status == 200 else None


async def find_resource(url: str, server: str, challenge: Challenge, wanted: str = "") -> Resource:
    """Return the server at a URL as a protected resource."""
    asked = tuple(dict.fromkeys((server_key(url), server_key(server))))
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(asked[0]))
    paths = [urlsplit(each).path.rstrip("/") for each in asked]
    urls = [f"{origin}{_RESOURCE}{path}" for path in dict.fromkeys((*paths, ""))]
    for each in [challenge.metadata_url] if challenge.metadata_url else urls:
        document = await _metadata(each, "the metadata of the server", server)
        if document is not None:
            return _resource(asked, server, document, wanted)
    if challenge.metadata_url:
        raise AuthorizationFailed("the server names a URL for its metadata where there are none")
    return Resource("", origin, server=server)


def _resource(
    asked: Sequence[str], server: str, document: Mapping[str, Any], wanted: str
) -> Resource:
    id: Any = document.get("resource")
    if not isinstance(id, str) or not any(_covers(id, each) for each in asked):
        # Or a server could get tokens for another one (RFC 9728, 3.3).
        raise AuthorizationFailed(
            f"the server says that it is {shorten(id)}, which is not the URL of the request"
        )
    found = _texts(document.get("authorization_servers"))
    if not found:
        raise AuthorizationFailed("the server names no issuer for its tokens")
    issuer = next((each for each in found if is_same_issuer(each, wanted)), found[0])
    scopes: Any = document.get("scopes_supported")
    return Resource(id, issuer, valid_scopes(scopes) if is_array(scopes) else None, server)


def _covers(id: str, url: str) -> bool:
    """Return True if a resource is the one at a URL, or above it."""
    try:
        parts = urlsplit(id)
        above = server_key(id).removesuffix("/")
    except ValueError:
        return False
    is_plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    return is_plain and f"{url.removesuffix('/')}/".startswith(f"{above}/")


# --- the issuer -----------------------------------------------------------------------------------


def is_same_issuer(one: str, other: str) -> bool:
    """Return True if two identifiers are of one issuer.

    They have to be equal (RFC 8414, 3.3), except that an issuer without a path may have a slash at
    its end, because the URL is the same.
    """

    def plain(id: str) -> str:
        return id[:-1] if id.endswith("/") and id.count("/") == 3 else id

    return plain(one) == plain(other)


@dataclass(frozen=True)
class Issuer:
    """An issuer of tokens, by its metadata (RFC 8414)."""

    id: str  # in its own spelling
    metadata: Mapping[str, Any] = field(repr=False, hash=False)
    is_described: bool = True  # False if these are the default endpoints of 2025-03-26

    def text(self, name: str) -> str:
        """Return a text in the metadata; empty if there is none."""
        found: Any = self.metadata.get(name)
        return found if isinstance(found, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of a list in the metadata; empty if there is none."""
        return _texts(self.metadata.get(name))

    def supports(self, name: str) -> bool:
        """Return True if the metadata declare an optional feature."""
        return self.metadata.get(name) is True

    def client_method(self, methods: Sequence[str]) -> str:
        """Return the first of several ways to authenticate that the issuer supports."""
        known = self.texts("token_endpoint_auth_methods_supported") or SECRET_METHODS[:1]
        return next((each for each in methods if each in known), methods[0])


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if is_array(value) else ()


async def find_issuer(resource: Resource) -> Issuer:
    """Return the issuer of a server's tokens."""
    id = resource.issuer
    try:
        parts = urlsplit(id)
    except ValueError:
        raise AuthorizationFailed(f"the issuer {shorten(id)} is not a URL") from None
    if parts.query or parts.fragment:
        raise AuthorizationFailed(f"the issuer {shorten(id)} has a query or fragment (RFC 8414, 2)")
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [f"{origin}{_SERVER}{path}", f"{origin}{_OPENID}{path}", f"{origin}{path}{_OPENID}"]
    for url in dict.fromkeys(urls if resource.is_described else urls[:1]):
        document = await _metadata(url, "the metadata of the issuer", resource.server)
        if document is None:
            continue
        named: Any = document.get("issuer")
        if not isinstance(named, str) or not is_same_issuer(named, id):
            raise AuthorizationFailed(
                f"the metadata of the issuer {shorten(id)} are those of {shorten(named)}"
            )
        return Issuer(named, document)
    if resource.is_described:
        raise AuthorizationFailed(f"the issuer {shorten(id)} has no metadata")
    paths = {"authorization": "authorize", "token": "token", "registration": "register"}
    defaults = {f"{name}_endpoint": f"{origin}/{path}" for name, path in paths.items()}
    return Issuer(id, defaults, is_described=False)
