"""When a token is requested, refreshed and used: the part that all ways to get one share."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final

import anyio

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import Response, basic_credentials, is_token, redact, shorten
from mcpkit._utils.quota import RateLimit
from mcpkit._utils.turns import PerEventLoop
from mcpkit.client.auth.base import (
    AuthorizationFailed,
    HttpAuth,
    HttpRequest,
    ResponseHeaders,
    check_named,
    describe_error,
    request,
    server_key,
)
from mcpkit.client.auth.discovery import (
    MAX_SCOPES,
    Challenge,
    Issuer,
    Resource,
    Scopes,
    find_issuer,
    find_resource,
    is_same_issuer,
    read_challenge,
    valid_scopes,
)
from mcpkit.client.auth.dpop import DPoPProofs, origin_of
from mcpkit.client.auth.storage import Credentials, MemoryTokenStore, TokenStore
from mcpkit.permissions import scopes_of

MAX_LOGINS: Final = 3  # logins at one server within `_PAUSE_S`
MAX_LIFETIME: Final = 1e15  # limit of a token's lifetime, in seconds
_PAUSE_S: Final = 30.0  # seconds, within which a rejected token is not refreshed twice either


class TokenSource(HttpAuth):
    """A token that an issuer gives for one server."""

    _client_id = ""  # of a client that is known to one issuer
    _is_trusting = False  # True if a secret is for an issuer that only the server may have named
    _asks_user = False  # True if a user has to act for each token

    def __init__(
        self,
        *,
        scopes: Iterable[str] = (),
        store: TokenStore | None = None,
        proof: bool = False,
        issuer: str | None = None,
    ) -> None:
        if issuer is not None:
            check_address(issuer, "issuer")
        self._scopes = scopes_of(scopes, "scopes")
        self._store = store or MemoryTokenStore()
        self._wanted_issuer = issuer
        self._wants_proof = proof
        self._lock = PerEventLoop(anyio.Lock)
        self._issuers: dict[str, Issuer] = {}
        self._nonces: dict[str, str] = {}
        self._proofs: dict[str, DPoPProofs] = {}
        self._own_proofs = DPoPProofs(None, self._nonces) if proof else None
        self._logins = RateLimit(MAX_LOGINS, MAX_LOGINS / _PAUSE_S)
        self._failures: dict[str, AuthorizationFailed] = {}
        self._refreshes: dict[str, tuple[str, float]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @abstractmethod
    async def obtain(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> Credentials:
        """Return credentials with a new token."""

    # --- requests to a server ---------------------------------------------------------------------

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token for a request, refreshed if it is about to expire."""
        key = server_key(request.server)
        stored = await self._store.get(key)
        if stored is not None and stored.refresh_token is not None and not stored.is_fresh:
            # The server may still accept the token; if not, its challenge starts a login.
            with suppress(AuthorizationFailed):
                stored = await self._refreshed(key, stored)
        if stored is None or stored.access_token is None:
            return {}
        check_address(key, "the URL of a server that gets a token")
        token = stored.access_token
        proofs = self._proofs_for(stored)
        if stored.proof_key is None or proofs is None:
            return {"Authorization": f"Bearer {token}"}
        proof = proofs.make(request.method, server_key(request.url), token)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: ResponseHeaders
    ) -> bool:
        """Get another token, if that may help."""
        key = server_key(request.server)
        scheme, _, old = sent.get("Authorization", "").partition(" ")
        challenge = read_challenge(answer.get("www-authenticate", []), has_proof=scheme == "DPoP")
        is_new = self._store_nonce(request.url, answer.get("dpop-nonce", [""])[0])
        if challenge.error == "use_dpop_nonce" and scheme == "DPoP":
            return is_new
        if status == 403 and challenge.error != "insufficient_scope":
            return False
        check_address(key, "the URL of a server that gets a token")
        failure = self._failures.get(key)
        async with self._lock.get():
            newer = self._failures.get(key)
            if newer is not None and newer is not failure:
                raise copy(newer)  # of the login that this request has waited for
            stored = await self._store.get(key)
            if stored is not None and stored.access_token not in (None, old):
                return True  # another request has got a new token meanwhile
            try:
                return await self._get_token(request, stored, status, challenge)
            except AuthorizationFailed as error:
                self._failures[key] = copy(error)  # without its traceback
                raise

    async def _get_token(
        self, request: HttpRequest, stored: Credentials | None, status: int, challenge: Challenge
    ) -> bool:
        """Refresh the token, or log in; return False if neither would help."""
        key = server_key(request.server)
        had = () if stored is None else stored.scopes or ()
        if status == 403 and set(challenge.scopes or ()) <= set(had):
            return False  # these were requested already
        known = self._wanted_issuer or ("" if stored is None else stored.issuer)
        resource = await find_resource(request.url, key, challenge, known)
        is_other = known != "" and not is_same_issuer(resource.issuer, known)
        if is_other and (self._wanted_issuer or self._client_id):
            raise AuthorizationFailed(
                f"the server requires tokens of another issuer, {shorten(resource.issuer)}"
            )
        if not known and self._is_trusting:
            check_named(resource.issuer, "the issuer", key)
            if origin_of(resource.issuer) != origin_of(key):
                raise AuthorizationFailed(
                    f"the server names the issuer {shorten(resource.issuer)}, which gets the "
                    f"client's secret; if the client is registered there, pass issuer= (--issuer)"
                )
        if stored is not None and not is_same_issuer(stored.issuer, resource.issuer):
            stored, had = None, ()  # credentials belong to their issuer alone
        if status == 401 and stored is not None and stored.refresh_token is not None:
            token, since = self._refreshes.get(key, ("", 0.0))
            just_now = time.monotonic() - since < _PAUSE_S
            if not (just_now and token == stored.access_token):
                refreshed = await self._refreshed(key, stored)
                if refreshed is not None and refreshed.access_token is not None:
                    return True
        needed = resource.scopes if challenge.scopes is None else challenge.scopes
        scopes = None if needed is None else _joined(had, needed)  # AUTH-6: all that it had
        has_expired = stored is not None and stored.has_ended and stored.access_token is not None
        if (self._asks_user or not has_expired) and self._logins.take(key) > 0:
            times = f"{MAX_LOGINS} logins within {_PAUSE_S:g} seconds"
            raise AuthorizationFailed(f"the server still rejects the token after {times}")
        issuer = await self._issuer(resource)
        if challenge.has_proof and self._own_proofs is None:
            self._own_proofs = DPoPProofs(None, self._nonces)
        if self._scopes:
            scopes = _joined(scopes or (), self._scopes)
        found = await self.obtain(resource, issuer, scopes)
        if (challenge.has_proof or self._wants_proof) and found.proof_key is None:
            raise AuthorizationFailed("the issuer does not bind tokens to a key (DPoP)")
        await self._store.set(key, found)
        return True

    async def _issuer(self, resource: Resource) -> Issuer:
        found = await find_issuer(resource)
        self._issuers[found.id] = found
        return found

    # --- refreshing -------------------------------------------------------------------------------

    async def _refreshed(self, key: str, seen: Credentials) -> Credentials | None:
        """Return credentials with a refreshed token, by this or by another process; or none.

        `seen` are the credentials whose token has expired.
        """
        async with self._store.lock(key):
            stored = await self._store.get(key)
            if stored is None or stored.refresh_token is None:
                return stored
            if stored.access_token != seen.access_token:
                return stored
            resource = Resource(stored.resource, stored.issuer, server=key)
            issuer = self._issuers.get(stored.issuer) or await self._issuer(resource)
            # A refresh token may be good for one use: what it brings is stored in any case, even if
            # the caller is cancelled.
            with anyio.CancelScope(shield=True):
                await self._refresh(key, issuer, stored)
            return await self._store.get(key)

    async def _refresh(self, key: str, issuer: Issuer, stored: Credentials) -> None:
        """Redeem the refresh token and store the new tokens, or none if the issuer rejects it."""
        fields = {"grant_type": "refresh_token", "refresh_token": stored.refresh_token or ""}
        response = await self.request_token(issuer, stored, fields)
        if response.is_temporary:
            raise AuthorizationFailed(f"the issuer cannot refresh the token now: {response.status}")
        fresh = replace(stored.without_tokens(), scopes=stored.scopes)
        if response.status == 200:
            with suppress(AuthorizationFailed):  # the refresh token is used up all the same
                fresh = self.credentials_in(response, stored, stored.scopes)
                self._refreshes[key] = fresh.access_token or "", time.monotonic()
        elif response.document.get("error") in ("invalid_client", "unauthorized_client"):
            fresh = replace(fresh, client_id="", client_secret=None, redirect_uri="")
        await self._store.set(key, fresh)

    # --- requests for tokens ----------------------------------------------------------------------

    async def request_token(
        self, issuer: Issuer, client: Credentials, fields: Mapping[str, str]
    ) -> Response:
        """Send a request to the token endpoint, authenticated as a client."""
        url, server = issuer.text("token_endpoint"), client.resource or client.issuer
        if not url:
            raise AuthorizationFailed("the issuer has no token endpoint")
        proofs = self._proofs_for(client)

        async def send() -> Response:
            credentials, headers = self.authenticate(issuer, client)  # an assertion is used once
            form = {**fields, **credentials}
            if client.resource:
                form["resource"] = client.resource
            if proofs is not None:
                headers["DPoP"] = proofs.make("POST", url)
            return await request(url, "the issuer", server, form=form, headers=headers)

        response = await send()
        is_new = self._store_nonce(url, response.headers.get("dpop-nonce"))
        if is_new and proofs is not None and response.status != 200:
            response = await send()
            self._store_nonce(url, response.headers.get("dpop-nonce"))
        redact(response.document, [client.client_secret or ""])
        return response

    def authenticate(
        self, issuer: Issuer, client: Credentials
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form fields and headers that authenticate a client (RFC 6749, 2.3).

        The form has the ``client_id`` also beside a header, where it identifies the client without
        authenticating it (RFC 6749, 3.2.1): some issuers look for the client nowhere else.
        """
        id, secret = client.client_id, client.client_secret
        if secret is not None and client.client_method == "client_secret_basic":
            return {"client_id": id}, {"Authorization": basic_credentials(id, secret)}
        if secret is not None and client.client_method == "client_secret_post":
            return {"client_id": id, "client_secret": secret}, {}
        return {"client_id": id}, {}

    def credentials_in(
        self, response: Response, client: Credentials, scopes: Scopes
    ) -> Credentials:
        """Return the credentials in a response of the token endpoint (RFC 6749, 5.1)."""
        document = response.document
        if response.status != 200:
            error = describe_error({"error": response.status, **document})
            raise AuthorizationFailed(f"the issuer gives no token: {error}")
        token: Any = document.get("access_token")
        kind: Any = document.get("token_type")
        if not is_token(token):
            raise AuthorizationFailed("the issuer answers without a token")
        name = kind.lower() if isinstance(kind, str) else ""
        proofs = self._proofs_for(client)
        if name not in ("bearer", "dpop") or (name == "dpop" and proofs is None):
            raise AuthorizationFailed(f"the issuer gives a token of the type {shorten(kind)}")
        if name == "bearer" and (client.proof_key is not None or self._wants_proof):
            raise AuthorizationFailed("the issuer does not bind tokens to a key (DPoP)")
        lifetime = _seconds(document.get("expires_in"))
        refresh: Any = document.get("refresh_token")
        scope: Any = document.get("scope")
        granted = valid_scopes(scope.split()) if isinstance(scope, str) else None
        if granted is None and scopes == client.scopes:
            granted = client.granted  # a refreshed token has the same scopes
        return replace(
            client,
            access_token=token,
            expires_at=None if lifetime is None else time.time() + lifetime,
            lifetime=lifetime,
            refresh_token=refresh if is_token(refresh) else client.refresh_token,
            scopes=scopes,
            granted=granted,
            proof_key=proofs.key if name == "dpop" and proofs is not None else None,
        )

    # --- proofs -----------------------------------------------------------------------------------

    def _store_nonce(self, url: str, nonce: str | None) -> bool:
        """Store the nonce that a server requires in the next proof; return True if it is new."""
        origin = origin_of(url)
        if not nonce or self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        return True

    def _proofs_for(self, client: Credentials) -> DPoPProofs | None:
        """Return the maker of proofs for a client: with the key of its token, if that has one."""
        key = client.proof_key
        if key is None:
            return self._own_proofs
        if key not in self._proofs:
            try:
                self._proofs[key] = DPoPProofs(key, self._nonces)
            except ValueError:
                raise AuthorizationFailed("the key of the token cannot be read") from None
        return self._proofs[key]


def _joined(some: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *others)))[:MAX_SCOPES]


def _seconds(value: Any) -> float | None:
    """Return the lifetime of a token; None if the issuer states none."""
    try:
        seconds = float(value)  # some issuers send a string
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_LIFETIME) if math.isfinite(seconds) else None
