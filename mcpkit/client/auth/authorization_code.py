"""Logins in the user's browser: authorization codes with PKCE (OAuth 2.1, 4.1)."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import s256, shorten
from mcpkit.client.auth.base import (
    AuthorizationFailed,
    check_named,
    describe_error,
    request,
    server_key,
)
from mcpkit.client.auth.browser import Callback, Show, listening, open_browser
from mcpkit.client.auth.discovery import SECRET_METHODS, Issuer, Resource, Scopes, is_same_issuer
from mcpkit.client.auth.storage import Credentials, TokenStore
from mcpkit.client.auth.tokens import TokenSource

_METHODS: Final = ("none", *SECRET_METHODS)
_PKCE: Final = "code_challenge_methods_supported"
_NAMES_ITSELF: Final = "authorization_response_iss_parameter_supported"
_TAKES_DOCUMENTS: Final = "client_id_metadata_document_supported"


class OAuth(TokenSource):
    """Logs the user in, in their browser, when a server requires it.

    The issuer is discovered. The client is the one given, or described by a document, or registers
    itself.

    Args:
        client_id: The id of a client that is registered already.
        client_secret: Its secret, if it has one.
        client_document: The https URL of a document that describes the client, for issuers that
            accept one (``client_id_metadata_document_supported``).
        client_name: Shown to users, where the client registers itself.
        scopes: To request, in addition to those that the server requires.
        store: Where credentials are stored; in this process by default.
        show: Shows a URL to the user: by default it opens the browser, and prints the URL. It must
            not wait for the user.
        redirect_port: The port on this machine for the redirect; any by default. A login fails if
            another process listens on it.
        timeout: Seconds for the user to log in.
        interactive: False to use stored credentials, and to fail where a login is needed.
        proof: Accept only tokens that are bound to a key of this client (DPoP, RFC 9449).
        issuer: The only issuer that is accepted, and that knows the client given; by default the
            first that the server names. Needed with a secret, unless it is at the server's own host
            and port.

    Raises:
        ValueError: An option is not valid.
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
            parts = urlsplit(check_address(client_document, "client_document"))
            if parts.scheme != "https" or parts.path in ("", "/"):
                raise ValueError("client_document= is an https URL with a path")
        self._client_id = client_id or ""
        self._client_secret = client_secret
        self._is_trusting = client_secret is not None
        self._client_document = client_document
        self._client_name = client_name
        self._show = show
        self._port = redirect_port
        self._timeout = timeout
        self._interactive = interactive

    async def obtain(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> Credentials:
        """Log the user in, and return the tokens."""
        if not self._interactive:
            raise AuthorizationFailed(f"a login is needed: run mcpkit login {resource.server}")
        endpoint = issuer.text("authorization_endpoint")
        check_named(endpoint, "authorization_endpoint", resource.server)
        # 2025-03-26 did not require this member.
        is_optional = issuer.metadata.get(_PKCE) is None and not resource.is_described
        if not is_optional and "S256" not in issuer.texts(_PKCE):
            raise AuthorizationFailed("the issuer does not declare support for PKCE with S256")
        if scopes is not None and "offline_access" in issuer.texts("scopes_supported"):
            scopes = tuple(dict.fromkeys((*scopes, "offline_access")))
        stored = await self._store.get(resource.server)
        if stored is not None and not is_same_issuer(stored.issuer, issuer.id):
            stored = None
        port = self._port
        if not port and stored is not None:
            with suppress(ValueError):
                port = urlsplit(stored.redirect_uri).port or 0
        try:
            async with listening(port, strict=bool(self._port)) as callback:
                client = await self._registered(
                    stored, issuer, resource, callback.redirect_uri, scopes
                )
                verifier = secrets.token_urlsafe(48)
                code = await self._code(issuer, client, callback, verifier, scopes)
        except AuthorizationFailed:
            if stored is not None and stored.access_token is None:
                # The issuer may have forgotten the client, and say so in the browser only.
                await self._store.set(resource.server, None)
            raise
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback.redirect_uri,
            "code_verifier": verifier,
        }
        response = await self.request_token(issuer, client, fields)
        if response.document.get("error") == "invalid_client":
            await self._store.set(resource.server, None)
        return self.credentials_in(response, client, scopes)

    async def _code(
        self, issuer: Issuer, client: Credentials, callback: Callback, verifier: str, scopes: Scopes
    ) -> str:
        """Send the user to the issuer, and return the code from the redirect."""
        callback.state = secrets.token_urlsafe(32)
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": callback.redirect_uri,
            "state": callback.state,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
        }
        if client.resource:
            query["resource"] = client.resource
        if scopes:
            query["scope"] = " ".join(scopes)
            if "offline_access" in scopes:
                query["prompt"] = "consent"  # OpenID Connect Core, 11
        parts = urlsplit(issuer.text("authorization_endpoint"))
        url = parts._replace(query=urlencode([*parse_qsl(parts.query), *query.items()])).geturl()
        with anyio.move_on_after(self._timeout):
            shown = self._show(url)
            if inspect.isawaitable(shown):
                await shown
            return _code_in(await callback.wait(), issuer)
        raise AuthorizationFailed(f"no login within {self._timeout:g} seconds")

    # --- registration -----------------------------------------------------------------------------

    async def _registered(
        self,
        stored: Credentials | None,
        issuer: Issuer,
        resource: Resource,
        redirect_uri: str,
        scopes: Scopes,
    ) -> Credentials:
        """Return the client as the issuer knows it, registered if necessary."""
        client = Credentials(issuer.id, resource.id, redirect_uri=redirect_uri)
        if self._client_id:
            methods = ("none",) if self._client_secret is None else SECRET_METHODS
            return replace(
                client,
                client_id=self._client_id,
                client_secret=self._client_secret,
                client_method=issuer.client_method(methods),
            )
        if self._client_document is not None and issuer.supports(_TAKES_DOCUMENTS):
            return replace(client, client_id=self._client_document)
        if stored is not None and stored.client_id and stored.redirect_uri == redirect_uri:
            return replace(stored.without_tokens(), resource=resource.id)
        if not issuer.text("registration_endpoint"):
            raise AuthorizationFailed(
                "the issuer does not let clients register; pass the client_id= of one that it knows"
            )
        return await self._register(client, issuer, resource, scopes)

    async def _register(
        self, client: Credentials, issuer: Issuer, resource: Resource, scopes: Scopes
    ) -> Credentials:
        """Register the client (RFC 7591), for the scopes that it needs and may need later.

        Some issuers grant no others. Where an issuer lists scopes without those of the server, it
        knows these from elsewhere, and may reject a registration that names them.
        """
        method = issuer.client_method(_METHODS)
        metadata = {
            "client_name": self._client_name,
            "application_type": "native",
            "redirect_uris": [client.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        known = issuer.texts("scopes_supported")
        if scopes and (not known or set(scopes) <= set(known)):
            later = (each for each in resource.scopes or () if not known or each in known)
            metadata["scope"] = " ".join(dict.fromkeys((*scopes, *later)))
        endpoint = issuer.text("registration_endpoint")
        response = await request(endpoint, "the issuer", resource.server, json=metadata)
        document = response.document
        id, secret = document.get("client_id"), document.get("client_secret")
        if response.status not in (200, 201) or not isinstance(id, str) or not id:
            error = document.get("error_description", document.get("error", response.status))
            raise AuthorizationFailed(f"the issuer does not register this client: {shorten(error)}")
        if not isinstance(secret, str):
            return replace(client, client_id=id)
        given: Any = document.get("token_endpoint_auth_method")
        method = given if given in _METHODS else method
        return replace(client, client_id=id, client_secret=secret, client_method=method)

    # --- logging out ------------------------------------------------------------------------------

    async def log_out(self, url: str) -> bool:
        """Revoke the tokens for a server, if the issuer supports that, and delete them.

        Returns:
            True if there were any.
        """
        key = server_key(url)
        if await self._store.get(key) is None:
            return False
        await self.revoke(url)
        await self._store.set(key, None)
        return True

    async def revoke(self, url: str) -> bool:
        """Ask the issuer to revoke the tokens for a server (RFC 7009).

        Returns:
            True if the issuer has done it.
        """
        key = server_key(url)
        stored = await self._store.get(key)
        token = None if stored is None else stored.refresh_token or stored.access_token
        if stored is None or token is None:
            return False
        try:
            issuer = await self._issuer(Resource(stored.resource, stored.issuer, server=key))
            endpoint = issuer.text("revocation_endpoint")
            if not endpoint:
                return False
            fields, headers = self.authenticate(issuer, stored)
            form = {**fields, "token": token}
            response = await request(endpoint, "the issuer", key, form=form, headers=headers)
        except AuthorizationFailed:
            return False
        return response.status == 200


def _code_in(fields: Mapping[str, str], issuer: Issuer) -> str:
    """Return the code in a redirect, if it is from the issuer (RFC 9207)."""
    named = fields.get("iss")
    if named is None and issuer.supports(_NAMES_ITSELF):
        raise AuthorizationFailed("the redirect does not name its issuer (RFC 9207)")
    if named is not None and named != issuer.id:
        raise AuthorizationFailed("the redirect is from another issuer (RFC 9207)")
    if "error" in fields:
        raise AuthorizationFailed(f"the login has failed: {describe_error(fields)}")
    if not fields.get("code"):
        raise AuthorizationFailed("the redirect has no code")
    return fields["code"]
