"""Tokens for programs that act without a user before a browser."""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from mcpkit._utils.fetch import check_address
from mcpkit._utils.requests import post_form, shown
from mcpkit.client.auth.base import is_token
from mcpkit.client.auth.discovery import Issuer, Resource
from mcpkit.client.auth.errors import AuthorizationFailed
from mcpkit.client.auth.storage import Credentials, TokenStore
from mcpkit.client.auth.tokens import TokenSource

__all__ = ["ClientCredentials", "IdentityAssertion", "JwtBearer"]

_CLIENT: Final = "client_credentials"
_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_S: Final = 300
_NEEDS: Final = 'Signing needs the auth extra: pip install "mcpkit[auth]"'


class _Machine(TokenSource):
    def __init__(
        self,
        client_id: str,
        client_secret: str | None,
        private_key: str | None,
        algorithm: str,
        scopes: Iterable[str],
        store: TokenStore | None,
        issuer: str | None,
    ) -> None:
        super().__init__(scopes=scopes, store=store, issuer=issuer)
        if client_secret is not None and private_key is not None:
            raise ValueError("client_secret= and private_key= are two ways to authenticate")
        self._client_id = client_id
        self._client_secret = client_secret
        self._private_key = private_key
        self._algorithm = algorithm

    def _check_new_issuer(self, resource: Resource) -> None:
        raise AuthorizationFailed(
            f"the server wants tokens of another issuer now, {shown(resource.issuer)}, to which "
            "the credentials of the client do not belong"
        )

    def _client(self, resource: Resource, issuer: Issuer) -> Credentials:
        method = "none"
        if self._client_secret is not None:
            known = issuer.client_methods or ("client_secret_basic",)
            is_basic = "client_secret_basic" in known
            method = "client_secret_basic" if is_basic else "client_secret_post"
        return Credentials(issuer.id, resource.id, self._client_id, self._client_secret, method)

    def authenticated(
        self, issuer: Issuer, client: Credentials
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return what the client authenticates with; a signature, if it has a key (RFC 7523)."""
        if self._private_key is None:
            return super().authenticated(issuer, client)
        try:
            import jwt
        except ModuleNotFoundError:
            raise ImportError(_NEEDS) from None
        now = int(time.time())
        claims = {
            "iss": client.client_id,
            "sub": client.client_id,
            "aud": issuer.id,
            "iat": now,
            "exp": now + _ASSERTION_S,
            "jti": secrets.token_urlsafe(16),
        }
        try:
            assertion = jwt.encode(claims, self._private_key, self._algorithm)
        except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
            why = type(error).__name__
            raise AuthorizationFailed(
                f"private_key= cannot sign with {self._algorithm}: {why}"
            ) from None
        fields = {
            "client_id": client.client_id,
            "client_assertion_type": _ASSERTION,
            "client_assertion": assertion,
        }
        return fields, {}


class ClientCredentials(_Machine):
    """Tokens for a program itself (RFC 6749, 4.4).

    Args:
        client_id: As the issuer knows it.
        client_secret: Its secret.
        private_key: Or its private key in PEM, which it signs with (RFC 7523).
        algorithm: Of these signatures.
        scopes: To ask for, beside those that the server wants.
        store: Where tokens are kept; in this process by default.
        issuer: Whoever knows the client; by default whoever the server names first.

    Raises:
        ValueError: There is no way to authenticate, or there are two.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | None = None,
        algorithm: str = "ES256",
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        issuer: str | None = None,
    ) -> None:
        super().__init__(client_id, client_secret, private_key, algorithm, scopes, store, issuer)
        if client_secret is None and private_key is None:
            raise ValueError("ClientCredentials needs client_secret= or private_key=")

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Ask for a token."""
        client = replace(self._client(resource, issuer), grant=_CLIENT)
        fields = {"grant_type": _CLIENT}
        if scopes:
            fields["scope"] = " ".join(scopes)
        return self.taken(client, await self.ask(issuer, client, fields), scopes)


class JwtBearer(_Machine):
    """Tokens for a workload that its platform has given a signed identity (RFC 7523, 2.1).

    Args:
        client_id: As the issuer knows it.
        assertion: The signed identity, or a function, async or not, that returns a current one.
        client_secret: The secret of the client, if it has one.
        scopes: To ask for, beside those that the server wants.
        store: Where tokens are kept; in this process by default.
        issuer: Whoever knows the client; by default whoever the server names first.
    """

    def __init__(
        self,
        client_id: str,
        assertion: str | Callable[[], str | Awaitable[str]],
        *,
        client_secret: str | None = None,
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        issuer: str | None = None,
    ) -> None:
        super().__init__(client_id, client_secret, None, "", scopes, store, issuer)
        self._assertion = assertion

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Ask for a token."""
        client = self._client(resource, issuer)
        return await self._exchanged(client, issuer, scopes, await _current(self._assertion))

    async def _exchanged(
        self,
        client: Credentials,
        issuer: Issuer,
        scopes: tuple[str, ...] | None,
        assertion: str,
    ) -> Credentials:
        fields = {"grant_type": _BEARER, "assertion": assertion}
        if scopes:
            fields["scope"] = " ".join(scopes)
        return self.taken(client, await self.ask(issuer, client, fields), scopes)


class IdentityAssertion(JwtBearer):
    """Tokens for an employee whom the identity provider of a company has logged in already.

    The provider exchanges their ID token for a grant for the server's issuer (RFC 8693), which that
    exchanges for a token (RFC 7523); so administrators decide which clients may use which servers.

    Args:
        client_id: As the server's issuer knows it.
        client_secret: Its secret there.
        id_token: Of the provider, or a function, async or not, that returns a current one.
        provider_token_endpoint: Of the provider.
        provider_client_id: As the provider knows the client.
        scopes: To ask for, beside those that the server wants.
        store: Where tokens are kept; in this process by default.
        issuer: Whoever knows the client; by default whoever the server names first.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None,
        *,
        id_token: str | Callable[[], str | Awaitable[str]],
        provider_token_endpoint: str,
        provider_client_id: str,
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        issuer: str | None = None,
    ) -> None:
        check_address(provider_token_endpoint, "provider_token_endpoint")
        super().__init__(
            client_id,
            id_token,
            client_secret=client_secret,
            scopes=scopes,
            store=store,
            issuer=issuer,
        )
        self._endpoint = provider_token_endpoint
        self._provider_client_id = provider_client_id

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Ask the provider, and then the issuer."""
        fields = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": await _current(self._assertion),
            "subject_token_type": _ID_TOKEN,
            "audience": issuer.id,
            "resource": resource.id,
            "client_id": self._provider_client_id,
        }
        if scopes:
            fields["scope"] = " ".join(scopes)
        answer = await post_form(self._endpoint, "the identity provider", "", fields, {})
        told = answer.document
        grant: Any = told.get("access_token")
        kind: Any = told.get("issued_token_type", _ID_JAG)
        if answer.status != 200 or not is_token(grant):
            said = shown(told.get("error", answer.status))
            raise AuthorizationFailed(f"the identity provider gives no grant: {said}")
        if kind != _ID_JAG:
            # What is not for this issuer must not get there.
            raise AuthorizationFailed(f"the identity provider gives no grant, but {shown(kind)}")
        return await self._exchanged(self._client(resource, issuer), issuer, scopes, grant)


async def _current(given: str | Callable[[], str | Awaitable[str]]) -> str:
    found: Any = given if isinstance(given, str) else given()
    if inspect.isawaitable(found):
        found = await found
    if not isinstance(found, str):
        raise TypeError(f"an assertion is a text, not {type(found).__name__}")
    return found.strip()  # files end with a line break
