"""The clients of an authorization server: given, registered, or described by a document."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from mcpkit._utils.fetch import Unreachable, fetch_document
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.quota import RateLimit
from mcpkit._utils.targets import is_loopback_name
from mcpkit.auth.server.errors import OAuthError, check_rate
from mcpkit.auth.server.store import AuthStore

__all__ = ["Clients", "RegisteredClient", "is_allowed", "is_secret_of", "origin_of"]

_MOST_URIS: Final = 10
_LONGEST_URI: Final = 2000
_LONGEST_NAME: Final = 100
_DANGEROUS: Final = frozenset(
    {
        *("about", "blob", "chrome", "data", "file", "filesystem", "ftp", "javascript"),
        *("mailto", "tel", "vbscript", "view-source", "ws", "wss"),
    }
)
"""Schemes whose URLs a browser runs, or shows as if they were somebody else's."""

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_GRANTS: Final = ("authorization_code", "refresh_token")

_DAY: Final = 24 * 3600.0
_UNUSED: Final = _DAY
"""Seconds after which a client is forgotten that has registered and never got a token."""

_KEPT: Final = 180 * _DAY
"""Seconds after which it is forgotten otherwise, since its last token or half of it before."""

_MOST_CLIENTS: Final = 10_000
_REGISTRATIONS: Final = 20
"""Clients that one address may register in an hour."""

_FETCHES: Final = 60
"""Documents that one address may have fetched in ten minutes."""

_DOCUMENT_AGE: Final = 3600.0
_MOST_DOCUMENTS: Final = 1_000
_LARGEST_DOCUMENT: Final = 16 * 1024


@dataclass(frozen=True)
class RegisteredClient:
    """A client that the author knows, or that has registered.

    Args:
        id: By which it is known.
        redirect_uris: Where its users may be sent back to, exactly; the port of a loopback address
            is free (RFC 8252, 7.3). Empty for a program that acts for itself.
        name: Shown to users when they are asked for their consent.
        secret_hash: Of its secret (`mcpkit.auth.hash_key`); None if it can keep none.
        scopes: That it may have; None: any.
        machine: It may get tokens for itself, with its secret (``client_credentials``).
    """

    id: str
    redirect_uris: tuple[str, ...] = ()
    name: str = ""
    secret_hash: str | None = None
    scopes: frozenset[str] | None = None
    machine: bool = False
    method: str = ""
    """How it authenticates; empty if by any of the two ways to send a secret."""
    is_document: bool = False
    """True if its id is the URL of a document that it is described by."""
    is_given: bool = False
    """True if the author of the server has given it."""


class Clients:
    """Finds clients and registers them.

    Args:
        store: Where registrations are kept.
        given: Those of the author.
        dynamic: Clients may register themselves (RFC 7591).
        documents: The id of a client may be the URL of a document.
        clock: Seconds since the epoch.

    Raises:
        ValueError: One of those given is malformed.
    """

    def __init__(
        self,
        store: AuthStore,
        given: Iterable[RegisteredClient],
        *,
        dynamic: bool,
        documents: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._given = {each.id: _checked(each) for each in given}
        self.dynamic = dynamic
        self.documents = documents
        self._clock = clock
        self._known: OrderedDict[str, tuple[RegisteredClient, float]] = OrderedDict()
        self._registrations = RateLimit(_REGISTRATIONS, _REGISTRATIONS / 3600, clock)
        self._fetches = RateLimit(_FETCHES, _FETCHES / 600, clock)

    async def find(self, id: str, address: str) -> RegisteredClient:
        """Return a client.

        Args:
            id: Of the client.
            address: The network of whoever asks for it.

        Raises:
            OAuthError: There is none of this id.
        """
        given = self._given.get(id)
        if given is not None:
            return given
        if self.documents and id.startswith("https://"):
            return await self._described(id, address)
        kept = await self._store.get("client", id)
        if kept is None:
            raise OAuthError("invalid_client", "This client is not registered here")
        return _from_record(id, json.loads(kept))

    async def note_use(self, client: RegisteredClient) -> None:
        """Keep a registration for longer: its client has got a token."""
        if client.is_given or client.is_document:
            return
        kept = await self._store.get("client", client.id)
        if kept is None:
            return
        record = json.loads(kept)
        now = self._clock()
        if record["until"] - now < _KEPT / 2:
            record["until"] = now + _KEPT
            changed = json.dumps(record).encode()
            await self._store.change("client", client.id, kept, changed, record["until"])

    # --- registration (RFC 7591) ------------------------------------------------------------------

    async def register(self, body: bytes, address: str) -> dict[str, Any]:
        """Register a client, and return what it is told.

        Args:
            body: JSON, as it was sent.
            address: The network that it comes from.

        Raises:
            OAuthError: It cannot be registered.
        """
        try:
            wish: Any = json.loads(body)
        except (ValueError, RecursionError):
            wish = None
        if not is_object(wish):
            raise OAuthError("invalid_client_metadata", "The body is no JSON object")
        record = _registration(wish)
        check_rate(self._registrations, address, "registrations")
        id = f"c_{secrets.token_urlsafe(24)}"
        now = self._clock()
        until = now + _UNUSED
        told: dict[str, Any] = {
            "client_id": id,
            "client_id_issued_at": int(now),
            "redirect_uris": record["redirect_uris"],
            "token_endpoint_auth_method": record["method"],
            "grant_types": list(_GRANTS),
            "response_types": ["code"],
        }
        if record["name"]:
            told["client_name"] = record["name"]
        if record["method"] != "none":
            secret = secrets.token_urlsafe(32)
            record["secret"] = _hash(secret)
            told |= {"client_secret": secret, "client_secret_expires_at": 0}
        record["until"] = until
        kept = json.dumps(record).encode()
        if not await self._store.add("client", id, kept, until, _MOST_CLIENTS):
            raise OAuthError("temporarily_unavailable", "Too many clients are registered", 503)
        return told

    # --- documents --------------------------------------------------------------------------------

    async def _described(self, url: str, address: str) -> RegisteredClient:
        now = self._clock()
        known = self._known.get(url)
        if known is not None and known[1] > now:
            self._known.move_to_end(url)
            return known[0]
        check_rate(self._fetches, address, "clients with a document")
        client = await self._fetched(url)
        self._known[url] = client, now + _DOCUMENT_AGE
        while len(self._known) > _MOST_DOCUMENTS:
            self._known.popitem(last=False)
        return client

    async def _fetched(self, url: str) -> RegisteredClient:
        parts = _parts(url)
        if (
            len(url) > _LONGEST_URI
            or parts is None
            or parts.path in ("", "/")
            or parts.fragment
            or "@" in parts.netloc
            or any(each in (".", "..") for each in parts.path.split("/"))
        ):
            raise OAuthError("invalid_client", "The client id is no URL of a document")
        try:
            document = await fetch_document(url, _LARGEST_DOCUMENT)
        except Unreachable as error:
            raise OAuthError("invalid_client", f"The document of the client: {error}") from None
        if document.get("client_id") != url:
            raise OAuthError("invalid_client", "The document is not that of this client id")
        if document.get("client_secret") is not None:
            raise OAuthError("invalid_client", "A document for everybody has no secret")
        if document.get("token_endpoint_auth_method", "none") != "none":
            raise OAuthError(
                "invalid_client", "Clients with a document authenticate with PKCE only"
            )
        record = _registration({**document, "token_endpoint_auth_method": "none"})
        return RegisteredClient(
            url,
            tuple(record["redirect_uris"]),
            record["name"],
            method="none",
            is_document=True,
        )


# --- redirects ------------------------------------------------------------------------------------


def is_allowed(uri: str, registered: Sequence[str]) -> bool:
    """Return True if users may be sent to a URI: exactly one that is registered (SEC-16).

    Only the port of a loopback address is free, because native clients take any (RFC 8252, 7.3).
    """
    if uri in registered:
        return True
    parts = _parts(uri)
    if parts is None or not _is_loopback_ip(parts) or uri.count("@"):
        return False
    wanted = parts.scheme, parts.hostname, parts.path, parts.query, parts.fragment
    for each in registered:
        known = _parts(each)
        if (
            known is not None
            and _is_loopback_ip(known)
            and wanted
            == (
                known.scheme,
                known.hostname,
                known.path,
                known.query,
                known.fragment,
            )
        ):
            return True
    return False


def origin_of(uri: str) -> str:
    """Return where a redirect goes, for a policy and for people: an origin, or ``scheme:``."""
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.netloc}"
    return f"{parts.scheme}:"


def _is_loopback_ip(parts: SplitResult) -> bool:
    return parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")


def _parts(uri: str) -> SplitResult | None:
    if not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _check_redirect(uri: object) -> str:
    """Return a redirect URI that may be registered.

    Raises:
        OAuthError: Users must not be sent there.
    """
    parts = _parts(uri) if isinstance(uri, str) and len(uri) <= _LONGEST_URI else None
    if parts is None or not isinstance(uri, str) or not set(uri).isdisjoint('"<>`{}|^'):
        raise OAuthError("invalid_redirect_uri", "A redirect URI is no URI")
    if parts.fragment or "#" in uri or "@" in parts.netloc or "*" in parts.netloc:
        raise OAuthError("invalid_redirect_uri", "A redirect URI has no fragment and no user")
    scheme = parts.scheme
    if not set(parts.netloc).isdisjoint(";,'"):
        raise OAuthError("invalid_redirect_uri", "A redirect URI has a host")
    if scheme == "https":
        if parts.hostname:
            return uri
        # Browsers find a host in what follows.
        raise OAuthError("invalid_redirect_uri", "A redirect URI has a host")
    if scheme == "http":
        if parts.hostname and is_loopback_name(parts.hostname):
            return uri
        raise OAuthError("invalid_redirect_uri", "http is for loopback addresses only; use https")
    if scheme in _DANGEROUS or scheme.startswith("web+") or _SCHEME.fullmatch(scheme) is None:
        raise OAuthError("invalid_redirect_uri", "This scheme is not for redirects")
    return uri


# --- registrations --------------------------------------------------------------------------------


def _registration(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of the metadata of a client (RFC 7591, 2).

    Its ``scope`` is not: clients register with that of the first challenge that they see, and need
    more later. Who may be given what, the user says.

    Raises:
        OAuthError: It cannot be had here.
    """
    uris: Any = wish.get("redirect_uris")
    if not is_array(uris) or not 0 < len(uris) <= _MOST_URIS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris has 1 to {_MOST_URIS} URIs")
    method = wish.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in _METHODS:
        raise OAuthError(
            "invalid_client_metadata", f"token_endpoint_auth_method is one of {', '.join(_METHODS)}"
        )
    for member, known in (("grant_types", _GRANTS), ("response_types", ("code",))):
        asked: Any = wish.get(member, list(known))
        if not is_array(asked) or known[0] not in asked:
            raise OAuthError("invalid_client_metadata", f"{member} has {known[0]}")
    name: Any = wish.get("client_name", "")
    if not isinstance(name, str):
        raise OAuthError("invalid_client_metadata", "client_name is a text")
    return {
        "redirect_uris": [_check_redirect(each) for each in uris],
        "method": method,
        "name": _plain(name),
    }


def _plain(name: str) -> str:
    """Return a name without what does not print, or turns the direction of writing."""
    kept = "".join(each for each in name if each.isprintable())
    return " ".join(kept.split())[:_LONGEST_NAME]


def _from_record(id: str, record: Mapping[str, Any]) -> RegisteredClient:
    return RegisteredClient(
        id,
        tuple(record["redirect_uris"]),
        record["name"],
        record.get("secret"),
        method=record["method"],
    )


def _checked(client: RegisteredClient) -> RegisteredClient:
    for each in client.redirect_uris:
        try:
            _check_redirect(each)
        except OAuthError as error:
            raise ValueError(f"the client {client.id!r}: {each!r}: {error}") from None
    if client.machine and client.secret_hash is None:
        raise ValueError(f"the client {client.id!r}: a machine needs a secret (secret_hash=…)")
    if client.secret_hash is not None and not client.secret_hash.startswith("sha256:"):
        raise ValueError(f"the client {client.id!r}: hash_key(secret) makes the secret_hash")
    from dataclasses import replace

    method = "" if client.secret_hash is not None else "none"
    return replace(client, method=method, is_given=True)


def _hash(secret: str) -> str:
    return f"sha256:{sha256(secret.encode()).hexdigest()}"


def is_secret_of(client: RegisteredClient, secret: str) -> bool:
    """Return True if a secret is that of a client, in a time that tells nothing (AUTH-16)."""
    return client.secret_hash is not None and compare_digest(client.secret_hash, _hash(secret))
