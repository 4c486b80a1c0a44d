"""What all ways of getting a token have in common: when one is got, renewed, and used."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import anyio

from mcpkit.auth.fetch import PerLoop, check_address
from mcpkit.oauth.credentials import Credentials, MemoryTokenStore, TokenStore
from mcpkit.oauth.discovery import (
    Challenge,
    Issuer,
    Resource,
    find_issuer,
    find_resource,
    read_challenge,
    scopes_in,
)
from mcpkit.oauth.errors import AuthorizationFailed
from mcpkit.oauth.proof import Proofs
from mcpkit.oauth.requests import Answer, post_form, shown
from mcpkit.oauth.source import Answer as RefusedAnswer
from mcpkit.oauth.source import HttpAuth
from mcpkit.support.scopes import scopes_of

__all__ = ["IssuedToken", "client_of"]

_MOST_LOGINS: Final = 3
"""Logins that one call may cause."""

_PAUSE_S: Final = 30.0
"""Seconds after which logins are counted anew."""

T = TypeVar("T")


class IssuedToken(HttpAuth):
    """A token that an issuer gives for one server.

    Args:
        scopes: To ask for, beside those that the server wants.
        store: Where credentials are kept; in this process by default.
        proof: Ask for tokens that are bound to a key of this client (DPoP, RFC 9449), also where
            the server does not want that.
    """

    def __init__(
        self, *, scopes: Iterable[str] = (), store: TokenStore | None = None, proof: bool = False
    ) -> None:
        self._scopes = scopes_of(scopes, "scopes")
        self._store = store or MemoryTokenStore()
        self._lock = PerLoop(anyio.Lock)
        self._issuers: dict[str, Issuer] = {}
        self._proofs: Proofs | None = Proofs() if proof else None
        self._logins: dict[str, tuple[int, float]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @abstractmethod
    async def obtain(
        self, url: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Return credentials with a new token.

        Args:
            url: Of the server.
            resource: The server.
            issuer: Of its tokens.
            scopes: To ask for; None: the issuer's choice.

        Raises:
            AuthorizationFailed: There are none to be had.
        """

    # --- the way to a server ----------------------------------------------------------------------

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the token for a request, renewed if it is about to end."""
        place = place_of(url)
        kept = await self._store.get(place)
        if kept is not None and kept.access_token is not None and not kept.is_fresh:
            async with self._lock.get():
                kept = await self._renewed(place, kept)
        if kept is None or kept.access_token is None:
            return {}
        check_address(place, "the URL of a server that gets a token")
        token = kept.access_token
        if kept.proof_key is None:
            return {"Authorization": f"Bearer {token}"}
        proof = self._proofs_for(kept).make(method, place, token)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    async def refused(
        self, method: str, url: str, sent: Mapping[str, str], status: int, answer: RefusedAnswer
    ) -> bool:
        """Get another token, if that may help."""
        del method
        place = place_of(url)
        challenge = read_challenge(answer.get("www-authenticate", []))
        nonce = answer.get("dpop-nonce", [""])[0]
        is_new = self._proofs is not None and self._proofs.note(place, nonce)
        if challenge.error == "use_dpop_nonce":
            return is_new
        if status == 403 and challenge.error != "insufficient_scope":
            return False
        check_address(place, "the URL of a server that gets a token")
        old = sent.get("Authorization", "").rpartition(" ")[2]
        async with self._lock.get():
            kept = await self._store.get(place)
            if kept is not None and kept.access_token not in (None, old):
                return True  # somebody else was faster
            if status == 403:
                return await self._step_up(place, kept, challenge)
            await self._begin(place, kept, challenge)
            return True

    async def _begin(self, place: str, kept: Credentials | None, challenge: Challenge) -> None:
        """Get a token: with what is kept, or a new one."""
        resource = await find_resource(place, challenge)
        if kept is not None and kept.issuer != resource.issuer:
            kept = None  # credentials are their issuer's, and nobody else's
        elif kept is not None and kept.refresh_token is not None:
            renewed = await self._renewed(place, replace(kept, expires_at=0.0))
            if renewed is not None and renewed.access_token is not None:
                return
        await self._log_in(place, resource, challenge, challenge.scopes, kept)

    async def _step_up(self, place: str, kept: Credentials | None, challenge: Challenge) -> bool:
        """Log in once more, for what is needed and all that was there (AUTH-6)."""
        had = (kept.scopes or ()) if kept is not None else ()
        needed = challenge.scopes or ()
        if set(needed) <= set(had):
            return False  # these have been asked for, and were not enough
        resource = await find_resource(place, challenge)
        wanted = tuple(dict.fromkeys((*had, *needed)))
        await self._log_in(place, resource, challenge, wanted, kept)
        return True

    async def _log_in(
        self,
        place: str,
        resource: Resource,
        challenge: Challenge,
        scopes: tuple[str, ...] | None,
        kept: Credentials | None,
    ) -> None:
        self._count(place)
        issuer = await self._issuer(resource)
        if challenge.has_proof and self._proofs is None:
            key = None if kept is None else kept.proof_key
            self._proofs = Proofs(key)
        if scopes is None:
            scopes = resource.scopes
        if self._scopes:
            scopes = tuple(dict.fromkeys((*(scopes or ()), *self._scopes)))
        found = await self.obtain(place, resource, issuer, scopes)
        if challenge.has_proof and found.proof_key is None:
            raise AuthorizationFailed("the issuer gives no tokens that are bound to a key")
        await self._store.set(place, found)

    def _count(self, place: str) -> None:
        now = time.monotonic()
        count, since = self._logins.get(place, (0, now))
        if now - since > _PAUSE_S:
            count, since = 0, now
        if count >= _MOST_LOGINS:
            raise AuthorizationFailed("the server refuses every token that its issuer gives")
        self._logins[place] = count + 1, since

    async def _issuer(self, resource: Resource) -> Issuer:
        found = await find_issuer(resource)
        self._issuers[found.id] = found
        return found

    # --- renewing ---------------------------------------------------------------------------------

    async def _renewed(self, place: str, seen: Credentials) -> Credentials | None:
        """Return credentials whose token was renewed, by whoever was first; or none.

        Args:
            place: The server.
            seen: The credentials whose token has ended.
        """
        async with self._store.lock(place):
            kept = await self._store.get(place)
            if kept is None or kept.access_token is None:
                return kept
            if kept.access_token != seen.access_token and kept.is_fresh:
                return kept
            fresh = await self._refresh(kept) if kept.refresh_token is not None else None
            if fresh is None:
                fresh = kept.without_tokens()
                if kept.scopes is not None:
                    fresh = replace(fresh, scopes=kept.scopes)
            await self._store.set(place, fresh)
            return fresh

    async def _refresh(self, kept: Credentials) -> Credentials | None:
        """Use the refresh token; None if it does no more."""
        issuer = self._issuers.get(kept.issuer)
        if issuer is None:
            described = bool(kept.resource)
            issuer = await self._issuer(
                Resource(kept.resource, kept.issuer, is_described=described)
            )
        fields = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token or ""}
        answer = await self.ask(issuer, kept, fields)
        if answer.status == 429 or answer.status >= 500:
            # Which says nothing of the refresh token.
            raise AuthorizationFailed(f"the issuer cannot renew the token now: {answer.status}")
        if answer.status != 200:
            return None
        return self.taken(kept, answer, kept.scopes)

    # --- requests for tokens ----------------------------------------------------------------------

    async def ask(self, issuer: Issuer, client: Credentials, fields: Mapping[str, str]) -> Answer:
        """Ask an issuer for a token, as a client.

        Raises:
            AuthorizationFailed: Nobody answers.
        """
        if not issuer.token_endpoint:
            raise AuthorizationFailed("the issuer has no token endpoint")
        sent, headers = self.authenticated(issuer, client)
        given = {**fields, **sent}
        if client.resource:
            given["resource"] = client.resource
        proofs = self._proofs_for(client)
        what = "the issuer"
        if proofs is None:
            return await post_form(issuer.token_endpoint, what, given, headers)
        headers["DPoP"] = proofs.make("POST", issuer.token_endpoint)
        answer = await post_form(issuer.token_endpoint, what, given, headers)
        is_new = proofs.note(issuer.token_endpoint, answer.headers.get("dpop-nonce"))
        if answer.status != 200 and is_new:
            headers["DPoP"] = proofs.make("POST", issuer.token_endpoint)
            answer = await post_form(issuer.token_endpoint, what, given, headers)
        return answer

    def authenticated(
        self, issuer: Issuer, client: Credentials
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the fields and headers that a client authenticates with (RFC 6749, 2.3)."""
        del issuer
        return client_of(client)

    def taken(
        self, client: Credentials, answer: Answer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Return the credentials that an issuer's answer gives.

        Raises:
            AuthorizationFailed: It gives none.
        """
        told = answer.document
        if answer.status != 200:
            error = shown(told.get("error", answer.status))
            said = shown(told.get("error_description", ""))
            raise AuthorizationFailed(f"the issuer gives no token: {error} {said}".rstrip())
        token: Any = told.get("access_token")
        kind: Any = told.get("token_type")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise AuthorizationFailed("the issuer answers without a token")
        name = kind.lower() if isinstance(kind, str) else ""
        if name not in ("bearer", "dpop") or (name == "dpop" and self._proofs is None):
            raise AuthorizationFailed(f"the issuer gives a token of the kind {shown(kind)}")
        lasts: Any = told.get("expires_in")
        refresh: Any = told.get("refresh_token")
        given: Any = told.get("scope")
        granted = scopes_in(given.split()) if isinstance(given, str) else None
        if granted is None and scopes == client.scopes:
            granted = client.granted  # a renewed token is good for the same
        return replace(
            client,
            access_token=token,
            expires_at=time.time() + lasts if isinstance(lasts, (int, float)) else None,
            refresh_token=refresh if isinstance(refresh, str) else client.refresh_token,
            scopes=scopes,
            granted=granted,
            proof_key=self._proofs.key if name == "dpop" and self._proofs is not None else None,
        )

    def _proofs_for(self, kept: Credentials) -> Any:
        if kept.proof_key is not None and (
            self._proofs is None or self._proofs.key != kept.proof_key
        ):
            self._proofs = Proofs(kept.proof_key)
        return self._proofs


def client_of(client: Credentials) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields and headers of a client with a secret, or of one without."""
    if client.client_method == "client_secret_basic" and client.client_secret is not None:
        from base64 import b64encode

        both = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        return {}, {"Authorization": f"Basic {b64encode(both.encode()).decode('ascii')}"}
    if client.client_method == "client_secret_post" and client.client_secret is not None:
        return {"client_id": client.client_id, "client_secret": client.client_secret}, {}
    return {"client_id": client.client_id}, {}


def place_of(url: str) -> str:
    """Return the URL of a server, without what is no part of its name."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{parts.netloc.lower().rpartition('@')[2]}{parts.path}"
