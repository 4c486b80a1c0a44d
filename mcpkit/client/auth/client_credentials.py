"""Tokens for programs that act without a user."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from typing import Any, Final

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import is_token, shorten
from mcpkit.client.auth.base import AuthorizationFailed, TextOrFunction, current, request
from mcpkit.client.auth.discovery import SECRET_METHODS, Issuer, Resource, Scopes
from mcpkit.client.auth.storage import Credentials, TokenStore
from mcpkit.client.auth.tokens import TokenSource

CLIENT_CREDENTIALS: Final = "client_credentials"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_S: Final = 300
_NEEDS: Final = 'Signing needs the auth extra: pip install "mcpkit[auth]"'


class _Program(TokenSource):
    """A client that the issuer knows beforehand, and one grant that needs no user."""

    grant = _JWT_BEARER

    def __init__(self, client_id: str, client_secret: str | None, **options: Any) -> None:
        super().__init__(**options)
        self._client_id = client_id
        self._client_secret = client_secret
        self._is_trusting = client_secret is not None

    async def _fields(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> dict[str, str]:
        """Return the fields of the grant, in addition to its type and the scopes."""
        return {}

    async def obtain(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> Credentials:
        """Request a token."""
        is_known = self._client_secret is not None
        client = Credentials(
            issuer.id,
            resource.id,
            self._client_id,
            self._client_secret,
            issuer.client_method(SECRET_METHODS) if is_known else "none",
            grant=self.grant if self.grant == CLIENT_CREDENTIALS else "",
        )
        fields = {"grant_type": self.grant, **await self._fields(resource, issuer, scopes)}
        if scopes:
            fields["scope"] = " ".join(scopes)
        response = await self.request_token(issuer, client, fields)
        return self.credentials_in(response, client, scopes)


class ClientCredentials(_Program):
    """Tokens for a program itself (RFC 6749, 4.4).

    Args:
        client_id: The id of the client at the issuer.
        client_secret: Its secret.
        private_key: Or its private key in PEM, with which it signs assertions (RFC 7523), each for
            one issuer.
        algorithm: The algorithm of these signatures.
        scopes: To request, in addition to those that the server requires.
        store: Where tokens are stored; in this process by default.
        issuer: The issuer that knows the client. Needed unless it is at the server's own host and
            port, so that no server can have the client's secret sent elsewhere.

    Raises:
        ValueError: There is no way to authenticate, or there are two.
    """

    grant = CLIENT_CREDENTIALS

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
        super().__init__(client_id, client_secret, scopes=scopes, store=store, issuer=issuer)
        if (client_secret is None) == (private_key is None):
            raise ValueError("ClientCredentials needs either client_secret= or private_key=")
        self._private_key = private_key
        self._algorithm = algorithm

    def authenticate(
        self, issuer: Issuer, client: Credentials
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the secret of the client, or an assertion signed with its key (RFC 7523)."""
        if self._private_key is None:
            return super().authenticate(issuer, client)
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
            what = f"private_key= cannot sign with {self._algorithm}"
            raise AuthorizationFailed(f"{what}: {type(error).__name__}") from None
        fields = {
            "client_id": client.client_id,
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": assertion,
        }
        return fields, {}


class JwtBearer(_Program):
    """Tokens for a workload to which its platform has issued a signed identity (RFC 7523, 2.1).

    Args:
        client_id: The id of the client at the issuer.
        assertion: The signed identity, or a function, async or not, that returns a current one.
        client_secret: The secret of the client, if it has one.
        scopes: To request, in addition to those that the server requires.
        store: Where tokens are stored; in this process by default.
        issuer: The issuer that knows the client. Needed unless it is at the server's own host and
            port, so that no server can have the client's secret sent elsewhere.
    """

    def __init__(
        self,
        client_id: str,
        assertion: TextOrFunction,
        *,
        client_secret: str | None = None,
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        issuer: str | None = None,
    ) -> None:
        super().__init__(client_id, client_secret, scopes=scopes, store=store, issuer=issuer)
        self._is_trusting = True  # the assertion alone is enough for a token
        self._assertion = assertion

    async def _fields(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> dict[str, str]:
        return {"assertion": await _assertion(self._assertion)}


class IdentityAssertion(_Program):
    """Tokens for an employee who is logged in to the identity provider of a company.

    The provider exchanges their ID token for a grant for the server's issuer (RFC 8693), and the
    issuer exchanges the grant for a token (RFC 7523). So the administrators of the provider decide
    which clients may use which servers.

    Args:
        client_id: The id of the client at the server's issuer.
        client_secret: Its secret there.
        id_token: From the provider, or a function, async or not, that returns a current one.
        provider_token_endpoint: The provider's token endpoint.
        provider_client_id: The id of the client at the provider.
        scopes: To request, in addition to those that the server requires.
        store: Where tokens are stored; in this process by default.
        issuer: The issuer that knows the client. Needed unless it is at the server's own host and
            port, so that no server can have the client's secret sent elsewhere.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str | None,
        *,
        id_token: TextOrFunction,
        provider_token_endpoint: str,
        provider_client_id: str,
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        issuer: str | None = None,
    ) -> None:
        super().__init__(client_id, client_secret, scopes=scopes, store=store, issuer=issuer)
        self._id_token = id_token
        self._endpoint = check_address(provider_token_endpoint, "provider_token_endpoint")
        self._provider_client_id = provider_client_id

    async def _fields(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> dict[str, str]:
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": await _assertion(self._id_token),
            "subject_token_type": _ID_TOKEN,
            "audience": issuer.id,
            "resource": resource.id,
            "client_id": self._provider_client_id,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        response = await request(self._endpoint, "the identity provider", "", form=form)
        document = response.document
        grant: Any = document.get("access_token")
        kind: Any = document.get("issued_token_type", _ID_JAG)
        if response.status != 200 or not is_token(grant):
            error = shorten(document.get("error", response.status))
            raise AuthorizationFailed(f"the identity provider gives no grant: {error}")
        if kind != _ID_JAG:  # a token for another purpose must not get to this issuer
            raise AuthorizationFailed(f"the identity provider gives no grant, but {shorten(kind)}")
        return {"assertion": grant}


async def _assertion(given: TextOrFunction) -> str:
    found = await current(given)
    if not isinstance(found, str):
        raise TypeError(f"an assertion is a text, not {type(found).__name__}")
    return found.strip()  # a file ends with a line break
