"""Logging a user in, in the browser: codes with PKCE (OAuth 2.1, 4.1)."""

from __future__ import annotations

import inspect
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio

from mcpkit._utils.fetch import check_address
from mcpkit._utils.json import is_array
from mcpkit._utils.requests import check_named, post_form, post_json, refusal, shown
from mcpkit.client.auth.base import place_of
from mcpkit.client.auth.browser import Return, Show, open_browser, waiting
from mcpkit.client.auth.discovery import Issuer, Resource, is_same_issuer
from mcpkit.client.auth.errors import AuthorizationFailed
from mcpkit.client.auth.storage import Credentials, TokenStore
from mcpkit.client.auth.tokens import TokenSource

__all__ = ["OAuth"]

_WAYS: Final = ("none", "client_secret_basic", "client_secret_post")


class OAuth(TokenSource):
    """Logs the user in, in their browser, when a server wants that.

    Who issues the tokens, and how a client is known there, is found out: the client is the one
    given, or described by a document, or registers itself.

    Args:
        client_id: Of a client that is registered already.
        client_secret: Of it, if it has one.
        client_document: The https URL of a document that describes the client, for issuers that
            take one (``client_id_metadata_document_supported``).
        client_name: Shown to users, where the client registers itself.
        scopes: To ask for, beside those that the server wants.
        store: Where credentials are kept; in this process by default.
        show: Shows the user an address: by default it opens the browser, and prints the address.
            It must not wait for what the user does.
        redirect_port: The port on this machine that the browser comes back to; any by default. A
            login fails if somebody else listens on it.
        timeout: Seconds that the user has.
        interactive: False to use what is kept, and to fail where a login is needed.
        proof: Have only tokens that are bound to a key of this client (DPoP, RFC 9449).
        issuer: Whoever may issue tokens, and knows the client that is given; by default whoever the
            server names first.

    Raises:
        ValueError: An option makes no sense.
    """

    _asks_user = True

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_document: str | None = None,
        client_name: str = "mcpkit",
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        show: Show = open_browser,
        redirect_port: int = 0,
        timeout: float = 300,
        interactive: bool = True,
        proof: bool = False,
        issuer: str | None = None,
    ) -> None:
        super().__init__(scopes=scopes, store=store, proof=proof, issuer=issuer)
        if client_secret is not None and client_id is None:
            raise ValueError("client_secret= needs client_id=")
        if client_document is not None:
            check_address(client_document, "client_document")
            parts = urlsplit(client_document)
            if parts.scheme != "https" or parts.path in ("", "/"):
                raise ValueError("client_document= is an https URL with a path")
        self._client_id = client_id
        self._client_secret = client_secret
        self._client_document = client_document
        self._client_name = client_name
        self._show = show
        self._port = redirect_port
        self._timeout = timeout
        self._interactive = interactive

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Log the user in, and return the tokens."""
        if not self._interactive:
            raise AuthorizationFailed(f"a login is needed: run mcpkit login {place}")
        _check_issuer(issuer, resource)
        if scopes is not None and "offline_access" in issuer.scopes:
            scopes = tuple(dict.fromkeys((*scopes, "offline_access")))
        kept = await self._store.get(place)
        if kept is not None and not is_same_issuer(kept.issuer, issuer.id):
            kept = None
        wished = 0 if kept is None else _port_of(kept.redirect_uri)
        try:
            async with waiting(self._port or wished, strict=bool(self._port)) as back:
                client = await self._registered(kept, issuer, resource, back.redirect_uri)
                verifier = secrets.token_urlsafe(48)
                code = await self._code(issuer, client, back, verifier, scopes)
        except AuthorizationFailed:
            if kept is not None and kept.access_token is None:
                # Perhaps the issuer does not know the client any more, and tells the user so.
                await self._store.set(place, None)
            raise
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back.redirect_uri,
            "code_verifier": verifier,
        }
        answer = await self.ask(issuer, client, fields)
        if answer.document.get("error") == "invalid_client":
            await self._store.set(place, None)
        return self.taken(client, answer, scopes)

    def _check_new_issuer(self, resource: Resource) -> None:
        if self._client_id is not None:
            raise AuthorizationFailed(
                f"the server wants tokens of another issuer now, {shown(resource.issuer)}, which "
                "client_id= does not belong to"
            )

    async def _code(
        self,
        issuer: Issuer,
        client: Credentials,
        back: Return,
        verifier: str,
        scopes: tuple[str, ...] | None,
    ) -> str:
        """Send the user to the issuer, and return the code that they come back with."""
        back.state = secrets.token_urlsafe(32)
        digest = sha256(verifier.encode("ascii")).digest()
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": back.redirect_uri,
            "state": back.state,
            "code_challenge": urlsafe_b64encode(digest).decode("ascii").rstrip("="),
            "code_challenge_method": "S256",
        }
        if client.resource:
            asked["resource"] = client.resource
        if scopes:
            asked["scope"] = " ".join(scopes)
            if "offline_access" in scopes:
                asked["prompt"] = "consent"  # OpenID Connect Core, 11
        parts = urlsplit(issuer.authorization_endpoint)
        query = urlencode([*parse_qsl(parts.query), *asked.items()])
        with anyio.move_on_after(self._timeout):
            shown_to_user = self._show(parts._replace(query=query).geturl())
            if inspect.isawaitable(shown_to_user):
                await shown_to_user
            return _code_in(await back.wait(), issuer)
        raise AuthorizationFailed(f"nobody has logged in within {self._timeout:g} seconds")

    # --- being known ------------------------------------------------------------------------------

    async def _registered(
        self, kept: Credentials | None, issuer: Issuer, resource: Resource, redirect_uri: str
    ) -> Credentials:
        """Return the client as the issuer knows it, registered if need be."""
        begun = Credentials(issuer.id, resource.id, redirect_uri=redirect_uri)
        if self._client_id is not None:
            method = "none" if self._client_secret is None else _way(issuer, has_secret=True)
            return replace(
                begun,
                client_id=self._client_id,
                client_secret=self._client_secret,
                client_method=method,
            )
        if self._client_document is not None and issuer.takes_documents:
            return replace(begun, client_id=self._client_document)
        if kept is not None and kept.client_id and kept.redirect_uri == redirect_uri:
            return replace(kept.without_tokens(), resource=resource.id)
        if not issuer.registration_endpoint:
            raise AuthorizationFailed(
                "the issuer registers no clients by itself; pass client_id= of one that it knows"
            )
        return await self._register(begun, issuer, resource.server)

    async def _register(self, begun: Credentials, issuer: Issuer, server: str) -> Credentials:
        """Register the client (RFC 7591)."""
        method = _way(issuer, has_secret=False)
        wish = {
            "client_name": self._client_name,
            "application_type": "native",
            "redirect_uris": [begun.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        answer = await post_json(issuer.registration_endpoint, "the issuer", server, wish)
        told: Mapping[str, Any] = answer.document
        id, secret = told.get("client_id"), told.get("client_secret")
        if answer.status not in (200, 201) or not isinstance(id, str) or not id:
            said = shown(told.get("error_description", told.get("error", answer.status)))
            raise AuthorizationFailed(f"the issuer does not register this client: {said}")
        if not isinstance(secret, str):
            return replace(begun, client_id=id)
        given: Any = told.get("token_endpoint_auth_method", method)
        return replace(
            begun,
            client_id=id,
            client_secret=secret,
            client_method=given if given in _WAYS else method,
        )

    # --- leaving ----------------------------------------------------------------------------------

    async def log_out(self, url: str) -> bool:
        """Revoke the tokens for a server, if the issuer takes that, and forget them.

        Returns:
            True if there were any.
        """
        place = place_of(url)
        kept = await self._store.get(place)
        if kept is None:
            return False
        await self.revoke(url)  # and if it is not, it is forgotten here all the same
        await self._store.set(place, None)
        return True

    async def revoke(self, url: str) -> bool:
        """Tell the issuer that the tokens for a server are to be good no more (RFC 7009).

        Returns:
            True if it has taken that; False if there are none, or it does not.
        """
        place = place_of(url)
        kept = await self._store.get(place)
        token = None if kept is None else kept.refresh_token or kept.access_token
        if kept is None or token is None:
            return False
        try:
            issuer = await self._issuer(Resource(kept.resource, kept.issuer, server=place))
            if not issuer.revocation_endpoint:
                return False
            fields, headers = self.authenticated(issuer, kept)
            sent = {**fields, "token": token}
            endpoint = issuer.revocation_endpoint
            answer = await post_form(endpoint, "the issuer", place, sent, headers)
        except AuthorizationFailed:
            return False
        return answer.status == 200


def _check_issuer(issuer: Issuer, resource: Resource) -> None:
    """Refuse an issuer that users cannot safely be sent to."""
    check_named(issuer.authorization_endpoint, "authorization_endpoint", resource.server)
    methods: Any = issuer.document.get("code_challenge_methods_supported")
    if methods is None and not resource.is_described:
        return  # nobody said so in 2025-03-26
    if not is_array(methods) or "S256" not in methods:
        raise AuthorizationFailed("the issuer does not say that it takes PKCE with S256")


def _port_of(url: str) -> int:
    try:
        return urlsplit(url).port or 0
    except ValueError:
        return 0


def _code_in(fields: Mapping[str, str], issuer: Issuer) -> str:
    """Return the code that a browser has come back with.

    Raises:
        AuthorizationFailed: There is none, or another issuer has sent it (RFC 9207).
    """
    named = fields.get("iss")
    if named is None and issuer.names_itself:
        raise AuthorizationFailed("the answer does not say who has sent it (RFC 9207)")
    if named is not None and not compare_digest(named.encode(), issuer.id.encode()):
        raise AuthorizationFailed("the answer is another issuer's (RFC 9207)")
    if "error" in fields:
        raise AuthorizationFailed(f"the login has failed: {refusal(fields)}")
    code = fields.get("code", "")
    if not code:
        raise AuthorizationFailed("the browser has come back without a code")
    return code


def _way(issuer: Issuer, *, has_secret: bool) -> str:
    """Return how a client authenticates: as simply as the issuer lets it."""
    known = issuer.client_methods or ("client_secret_basic",)
    ways = _WAYS[1:] if has_secret else _WAYS
    return next((each for each in ways if each in known), ways[0])
