"""The clients of an authorization server: configured, registered, or described by a document."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, replace
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.fetch import FetchError, fetch_public
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.quota import RateLimit
from mcpkit.auth.server.keys import hash_of
from mcpkit.auth.server.messages import OAuthError, check_rate
from mcpkit.auth.server.store import AuthStore

MAX_URIS: Final = 10
MAX_URI: Final = 2000
MAX_NAME: Final = 100
_APPS: Final = frozenset(
    {
        *("claude", "cursor", "goose", "kiro", "raycast", "trae"),
        *("vscode", "vscode-insiders", "warp", "windsurf", "zed"),
    }
)
"""Schemes of known clients without a dot. Others need one (RFC 8252, 7.1): of the rest, browsers
execute some, and for many they start programs that are not clients of OAuth."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANTS: Final = ("authorization_code", "refresh_token")

_UNUSED: Final = 24 * 3600.0  # seconds after which a client without a token is deleted
_USED: Final = 180 * _UNUSED  # seconds since its last token, or up to half as many
MAX_CLIENTS: Final = 10_000
MAX_REGISTRATIONS: Final = 20  # registrations of one address in an hour
MAX_FETCHES: Final = 60  # documents fetched for one address in ten minutes
_DOCUMENT_AGE: Final = 3600.0
MAX_DOCUMENTS: Final = 1_000
MAX_DOCUMENT: Final = 16 * 1024


@dataclass(frozen=True)
class RegisteredClient:
    """A client that the author configures, or that has registered.

    Args:
        id: The ``client_id``.
        redirect_uris: The exact URIs that users may be redirected to; the port of a loopback
            address is free (RFC 8252, 7.3). Empty for a program that acts for itself.
        name: Shown to users on the consent page.
        secret_hash: The hash of its secret (`mcpkit.auth.hash_key`); None if it has none.
        scopes: The scopes that it may have; None: any.
        machine: True if it may get tokens for itself, with its secret (``client_credentials``).
    """

    id: str
    redirect_uris: tuple[str, ...] = ()
    name: str = ""
    secret_hash: str | None = None
    scopes: frozenset[str] | None = None
    machine: bool = False
    method: str = ""  # how it authenticates; empty for either of the ways to send a secret
    is_given: bool = False  # True if the author of the server has configured it

    def allows(self, redirect_uri: str) -> bool:
        """Return True if a redirect URI is exactly one of the client's (SEC-16).

        Only the port of a loopback address is free, because native clients use any (RFC 8252, 7.3).
        """
        if "#" in redirect_uri or redirect_uri.endswith("?"):  # urlsplit drops what is empty
            return redirect_uri in self.redirect_uris
        wanted, known = _without_port(redirect_uri), map(_without_port, self.redirect_uris)
        return redirect_uri in self.redirect_uris or (wanted is not None and wanted in known)

    def has_secret(self, secret: str) -> bool:
        """Return True if a secret is the client's, compared in constant time (AUTH-16)."""
        hash = f"sha256:{hash_of(secret)}"
        return self.secret_hash is not None and compare_digest(self.secret_hash, hash)


@dataclass(eq=False, repr=False)
class Clients:
    """Finds clients and registers them."""

    _store: AuthStore
    configured: InitVar[Iterable[RegisteredClient]]
    dynamic: bool
    documents: bool
    _clock: Callable[[], float]

    def __post_init__(self, configured: Iterable[RegisteredClient]) -> None:
        self.given = {each.id: _checked(each) for each in configured}
        self._known: dict[str, tuple[RegisteredClient, float]] = {}
        self._registrations = RateLimit(MAX_REGISTRATIONS, MAX_REGISTRATIONS / 3600, self._clock)
        self._fetches = RateLimit(MAX_FETCHES, MAX_FETCHES / 600, self._clock)

    async def find(self, id: str, address: str) -> RegisteredClient:
        """Return a client; `address` is the network of the caller."""
        if not id or not id.isascii() or not id.isprintable():
            raise OAuthError("invalid_client", "client_id is missing or malformed")
        if id in self.given:
            return self.given[id]
        if self.documents and id.startswith("https://"):
            return await self._described(id, address)
        kept = await self._store.get("client", id)
        if kept is None:
            raise OAuthError("invalid_client", "This client is not registered here")
        return _client(id, json.loads(kept))

    async def note_use(self, client: RegisteredClient) -> None:
        """Prolong the registration of a client that has got a token."""
        kept = await self._store.get("client", client.id)
        if client.is_given or kept is None:
            return
        record = json.loads(kept)
        until = self._clock() + _USED
        if record["until"] < until - _USED / 2:
            changed = json.dumps({**record, "until": until}).encode()
            await self._store.change("client", client.id, kept, changed, until)

    async def register(self, body: bytes, address: str) -> dict[str, Any]:
        """Register a client with the JSON in a body, and return the members of the response."""
        try:
            metadata: Any = json.loads(body)
        except (ValueError, RecursionError):
            metadata = None
        if not is_object(metadata):
            raise OAuthError("invalid_client_metadata", "The body is not a JSON object")
        record = _registration(metadata)
        check_rate(self._registrations, address, "registrations")
        id = f"c_{secrets.token_urlsafe(24)}"
        until = record["until"] = self._clock() + _UNUSED
        members: dict[str, Any] = {
            "client_id": id,
            "client_id_issued_at": int(until - _UNUSED),
            "redirect_uris": record["redirect_uris"],
            "token_endpoint_auth_method": record["method"],
            "grant_types": list(_GRANTS),
            "response_types": ["code"],
        }
        if record["name"]:
            members["client_name"] = record["name"]
        if record["method"] != "none":
            secret = secrets.token_urlsafe(32)
            record["secret"] = f"sha256:{hash_of(secret)}"
            members |= {"client_secret": secret, "client_secret_expires_at": 0}
        kept = json.dumps(record).encode()
        if not await self._store.add("client", id, kept, until, MAX_CLIENTS):
            raise OAuthError("temporarily_unavailable", "Too many clients are registered", 503)
        return members

    async def _described(self, url: str, address: str) -> RegisteredClient:
        now = self._clock()
        known = self._known.get(url)
        if known is not None and known[1] > now:
            return known[0]
        check_rate(self._fetches, address, "clients with a document")
        path = "" if _problem_of(url) else urlsplit(url).path
        if path in ("", "/") or not {".", ".."}.isdisjoint(path.split("/")):
            raise OAuthError("invalid_client", "client_id is not the URL of a document")
        try:
            document = await fetch_public(url, MAX_DOCUMENT, address)
        except FetchError as error:
            why = f"The document of the client: {error}"
            if error.is_temporary:
                raise OAuthError("temporarily_unavailable", why, 503) from None
            raise OAuthError("invalid_client", why) from None
        if document.get("client_id") != url:
            raise OAuthError("invalid_client", "The document has another client_id")
        method = document.get("token_endpoint_auth_method", "none")
        if document.get("client_secret") is not None or method != "none":
            raise OAuthError("invalid_client", "Clients with a document have no secret")
        record = _registration({**document, "token_endpoint_auth_method": method})
        client = _client(url, record)
        self._known[url] = client, now + _DOCUMENT_AGE
        if len(self._known) > MAX_DOCUMENTS:
            del self._known[next(iter(self._known))]
        return client


def origin_of(uri: str) -> str:
    """Return the target of a redirect, for a policy and for people: an origin, or ``scheme:``."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.netloc}"
    return f"{parts.scheme}:"


def _without_port(uri: str) -> SplitResult | None:
    """Return a URI of this machine without its port; None for other hosts, or with a user."""
    parts = _parts(uri)
    if parts is None or parts.scheme != "http" or "@" in uri:
        return None
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return parts._replace(netloc=parts.hostname or "") if is_local else None


def _parts(uri: str) -> SplitResult | None:
    if not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _problem_of(uri: object, *, is_given: bool = False) -> str:
    """Return why a redirect URI may not be registered; empty if it may.

    `is_given` is true for the clients that the author of the server has configured.
    """
    parts = _parts(uri) if isinstance(uri, str) and len(uri) <= MAX_URI else None
    if parts is None or not isinstance(uri, str) or not set(uri).isdisjoint('"<>`{}|^'):
        return "A redirect URI is malformed"
    if "#" in uri or "@" in parts.netloc or "*" in parts.netloc:
        return "A redirect URI must not have a fragment or a user"
    scheme = parts.scheme
    # Without a host, a browser finds one in the path.
    if not set(parts.netloc).isdisjoint(";,'") or (scheme == "https" and not parts.hostname):
        return "A redirect URI needs a valid host"
    if scheme == "http" and not is_loopback_name(parts.hostname or ""):
        return "http is for loopback addresses only; use https"
    is_known = scheme in ("https", "http") or "." in scheme or scheme in _APPS
    if _SCHEME.fullmatch(scheme) is None or not (is_known or is_given):
        return "The scheme of a redirect URI needs a dot, as in com.example.app:/back"
    return ""


def _registration(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record for the metadata of a client (RFC 7591, 2).

    Without ``scope``: clients register with the first that they see, and need more later.
    """
    uris: Any = metadata.get("redirect_uris")
    if not is_array(uris) or not 0 < len(uris) <= MAX_URIS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris must have 1 to {MAX_URIS} URIs")
    method = metadata.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in METHODS:
        why = f"token_endpoint_auth_method must be one of {', '.join(METHODS)}"
        raise OAuthError("invalid_client_metadata", why)
    for member, known in (("grant_types", _GRANTS), ("response_types", ("code",))):
        found: Any = metadata.get(member, list(known))
        if not is_array(found) or known[0] not in found:
            raise OAuthError("invalid_client_metadata", f"{member} must include {known[0]}")
    name: Any = metadata.get("client_name", "")
    if not isinstance(name, str):
        raise OAuthError("invalid_client_metadata", "client_name must be a string")
    # Without control characters and marks of writing direction.
    name = " ".join("".join(filter(str.isprintable, name)).split())[:MAX_NAME]
    for each in uris:
        if problem := _problem_of(each):
            raise OAuthError("invalid_redirect_uri", problem)
    return {"redirect_uris": uris, "method": method, "name": name}


def _client(id: str, record: Mapping[str, Any]) -> RegisteredClient:
    uris, secret = tuple(record["redirect_uris"]), record.get("secret")
    return RegisteredClient(id, uris, record["name"], secret, method=record["method"])


def _checked(client: RegisteredClient) -> RegisteredClient:
    for each in client.redirect_uris:
        if problem := _problem_of(each, is_given=True):
            raise ValueError(f"the client {client.id!r}: {each!r}: {problem}")
    if client.machine and client.secret_hash is None:
        raise ValueError(f"the client {client.id!r}: a machine needs a secret (secret_hash=…)")
    if client.secret_hash is not None and not client.secret_hash.startswith("sha256:"):
        raise ValueError(f"the client {client.id!r}: hash_key(secret) makes the secret_hash")
    method = "" if client.secret_hash is not None else "none"
    return replace(client, method=method, is_given=True)
