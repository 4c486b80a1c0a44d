"""What all ways of getting a token have in common: when one is got, renewed, and used."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import anyio

from mcpkit._utils.fetch import PerEventLoop, check_address
from mcpkit._utils.requests import Answer, hide, is_temporary, post_form, refusal, shown
from mcpkit.client.auth.base import Answer as RefusedAnswer
from mcpkit.client.auth.base import HttpAuth, HttpRequest, is_token, place_of
from mcpkit.client.auth.discovery import (
    Challenge,
    Issuer,
    Resource,
    find_issuer,
    find_resource,
    is_same_issuer,
    read_challenge,
    scopes_in,
)
from mcpkit.client.auth.dpop import DPoPProofs, origin_of
from mcpkit.client.auth.errors import AuthorizationFailed
from mcpkit.client.auth.storage import Credentials, MemoryTokenStore, TokenStore
from mcpkit.permissions import scopes_of

__all__ = ["TokenSource", "client_of"]

_MOST_LOGINS: Final = 3
"""Logins at one server within `_PAUSE_S`."""

_PAUSE_S: Final = 30.0
"""Seconds after which logins are counted anew; a token that is refused sooner after it was renewed
is not renewed once more."""

_MOST_SCOPES: Final = 200
_LONGEST_S: Final = 1e15
"""Seconds that a token lasts at most, whatever is said: for ever, and still a time."""


class TokenSource(HttpAuth):
    """A token that an issuer gives for one server.

    Args:
        scopes: To ask for, beside those that the server wants.
        store: Where credentials are kept; in this process by default.
        proof: Have only tokens that are bound to a key of this client (DPoP, RFC 9449), also where
            the server does not want that.
        issuer: Whoever may issue tokens; by default whoever the server names.

    Raises:
        ValueError: An option makes no sense.
    """

    _asks_user = False
    """True if somebody has to do something for a token."""

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
        self._own_proofs: DPoPProofs | None = DPoPProofs(None, self._nonces) if proof else None
        self._logins: dict[str, tuple[int, float]] = {}
        self._failures: dict[str, AuthorizationFailed] = {}
        self._renewals: dict[str, tuple[str, float]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @abstractmethod
    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Return credentials with a new token.

        Args:
            place: The server, as credentials are kept by.
            resource: The server, as it describes itself.
            issuer: Of its tokens.
            scopes: To ask for; None: the issuer's choice.

        Raises:
            AuthorizationFailed: There are none to be had.
        """

    # --- the way to a server ----------------------------------------------------------------------

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token for a request, renewed if it is about to end."""
        place = place_of(request.server)
        kept = await self._store.get(place)
        if kept is not None and kept.refresh_token is not None and not kept.is_fresh:
            try:
                kept = await self._renewed(place, kept)
            except AuthorizationFailed:
                pass  # the server may still take it; if not, its challenge is the way on
        if kept is None or kept.access_token is None:
            return {}
        check_address(place, "the URL of a server that gets a token")
        token = kept.access_token
        proofs = self._proofs_for(kept)
        if kept.proof_key is None or proofs is None:
            return {"Authorization": f"Bearer {token}"}
        proof = proofs.make(request.method, place_of(request.url), token)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: RefusedAnswer
    ) -> bool:
        """Get another token, if that may help."""
        place = place_of(request.server)
        scheme, _, old = sent.get("Authorization", "").partition(" ")
        challenge = read_challenge(answer.get("www-authenticate", []), has_proof=scheme == "DPoP")
        is_new = self._note_nonce(request.url, answer.get("dpop-nonce", [""])[0])
        if challenge.error == "use_dpop_nonce" and scheme == "DPoP":
            return is_new
        if status == 403 and challenge.error != "insufficient_scope":
            return False
        check_address(place, "the URL of a server that gets a token")
        failure = self._failures.get(place)
        async with self._lock.get():
            newer = self._failures.get(place)
            if newer is not None and newer is not failure:
                raise copy(newer)  # the login that this one has waited for
            kept = await self._store.get(place)
            if kept is not None and kept.access_token not in (None, old):
                return True  # somebody else was faster
            try:
                return await self._get(request, kept, status, challenge)
            except AuthorizationFailed as error:
                self._failures[place] = copy(error)  # without what it has come through
                raise

    async def _get(
        self,
        request: HttpRequest,
        kept: Credentials | None,
        status: int,
        challenge: Challenge,
    ) -> bool:
        """Get a token: with what is kept, or a new one; False if none would help."""
        place = place_of(request.server)
        had = () if kept is None else kept.scopes or ()
        if status == 403 and set(challenge.scopes or ()) <= set(had):
            return False  # these have been asked for, and were not enough
        resource = await self._resource(request, challenge, kept)
        if kept is not None and not is_same_issuer(kept.issuer, resource.issuer):
            self._check_new_issuer(resource)
            kept, had = None, ()  # credentials are their issuer's, and nobody else's
        may_renew = status == 401 and kept is not None and kept.refresh_token is not None
        if may_renew and kept is not None and not self._was_renewed(place, kept):
            renewed = await self._renewed(place, kept)
            if renewed is not None and renewed.access_token is not None:
                return True
        needed = resource.scopes if challenge.scopes is None else challenge.scopes
        scopes = None if needed is None else _joined(had, needed)  # AUTH-6: all that was there
        await self._log_in(place, resource, challenge, scopes, kept)
        return True

    async def _log_in(
        self,
        place: str,
        resource: Resource,
        challenge: Challenge,
        scopes: tuple[str, ...] | None,
        kept: Credentials | None,
    ) -> None:
        if kept is None or kept.access_token is None or not kept.has_ended or self._asks_user:
            self._count(place)
        issuer = await self._issuer(resource)
        if challenge.has_proof and self._own_proofs is None:
            self._own_proofs = DPoPProofs(None, self._nonces)
        if self._scopes:
            scopes = _joined(scopes or (), self._scopes)
        found = await self.obtain(place, resource, issuer, scopes)
        if (challenge.has_proof or self._wants_proof) and found.proof_key is None:
            raise AuthorizationFailed("the issuer gives no tokens that are bound to a key")
        await self._store.set(place, found)

    def _count(self, place: str) -> None:
        now = time.monotonic()
        count, since = self._logins.get(place, (0, now))
        if now - since > _PAUSE_S:
            count, since = 0, now
        if count >= _MOST_LOGINS:
            raise AuthorizationFailed(
                f"{count} logins within {_PAUSE_S:g} seconds have not been enough for the server"
            )
        self._logins[place] = count + 1, since

    # --- servers and issuers ----------------------------------------------------------------------

    async def _resource(
        self, request: HttpRequest, challenge: Challenge, kept: Credentials | None
    ) -> Resource:
        """Return the server as it describes itself now."""
        wanted = [] if self._wanted_issuer is None else [self._wanted_issuer]
        if kept is not None and not wanted:
            wanted.append(kept.issuer)
        found = await find_resource(request.url, place_of(request.server), challenge, wanted)
        if self._wanted_issuer is not None and not is_same_issuer(
            found.issuer, self._wanted_issuer
        ):
            raise AuthorizationFailed(
                f"the server wants tokens of another issuer, {shown(found.issuer)}"
            )
        return found

    def _check_new_issuer(self, resource: Resource) -> None:
        """Refuse an issuer other than before, if the client can have nothing to do with it.

        Raises:
            AuthorizationFailed: It must not be asked.
        """

    async def _issuer(self, resource: Resource) -> Issuer:
        found = await find_issuer(resource)
        self._issuers[found.id] = found
        return found

    # --- renewing ---------------------------------------------------------------------------------

    def _was_renewed(self, place: str, kept: Credentials) -> bool:
        """Return True if a token was renewed just now."""
        token, since = self._renewals.get(place, ("", 0.0))
        return token == kept.access_token and time.monotonic() - since < _PAUSE_S

    async def _renewed(self, place: str, seen: Credentials) -> Credentials | None:
        """Return credentials whose token was renewed, by whoever was first; or none.

        Args:
            place: The server.
            seen: The credentials whose token has ended.

        Raises:
            AuthorizationFailed: The issuer cannot say now.
        """
        async with self._store.lock(place):
            kept = await self._store.get(place)
            if kept is None or kept.refresh_token is None or kept.access_token is None:
                return kept
            if kept.access_token != seen.access_token:
                return kept
            issuer = self._issuers.get(kept.issuer)
            if issuer is None:
                issuer = await self._issuer(Resource(kept.resource, kept.issuer, server=place))
            # Whoever has used a refresh token must keep the next one, however soon they leave.
            with anyio.CancelScope(shield=True):
                await self._refresh(place, issuer, kept)
            return await self._store.get(place)

    async def _refresh(self, place: str, issuer: Issuer, kept: Credentials) -> None:
        """Use the refresh token, and keep what it brings; nothing if it does no more."""
        fields = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token or ""}
        answer = await self.ask(issuer, kept, fields)
        if is_temporary(answer.status):
            # Which says nothing of the refresh token.
            raise AuthorizationFailed(f"the issuer cannot renew the token now: {answer.status}")
        fresh = replace(kept.without_tokens(), scopes=kept.scopes)
        if answer.status == 200:
            with suppress(AuthorizationFailed):  # it has been used, and has brought nothing
                fresh = self.taken(kept, answer, kept.scopes)
                self._renewals[place] = fresh.access_token or "", time.monotonic()
        elif answer.document.get("error") in ("invalid_client", "unauthorized_client"):
            fresh = replace(fresh, client_id="", client_secret=None, redirect_uri="")
        await self._store.set(place, fresh)

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
        url, what, server = issuer.token_endpoint, "the issuer", client.resource or client.issuer
        if proofs is not None:
            headers["DPoP"] = proofs.make("POST", url)
        answer = await post_form(url, what, server, given, headers)
        is_new = self._note_nonce(url, answer.headers.get("dpop-nonce"))
        if proofs is not None and answer.status != 200 and is_new:
            given.update(self.authenticated(issuer, client)[0])  # an assertion is used once
            headers["DPoP"] = proofs.make("POST", url)
            answer = await post_form(url, what, server, given, headers)
            self._note_nonce(url, answer.headers.get("dpop-nonce"))
        hide(answer, [client.client_secret or ""])
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
            said = refusal({"error": answer.status, **told})
            raise AuthorizationFailed(f"the issuer gives no token: {said}")
        token: Any = told.get("access_token")
        kind: Any = told.get("token_type")
        if not is_token(token):
            raise AuthorizationFailed("the issuer answers without a token")
        name = kind.lower() if isinstance(kind, str) else ""
        proofs = self._proofs_for(client)
        if name not in ("bearer", "dpop") or (name == "dpop" and proofs is None):
            raise AuthorizationFailed(f"the issuer gives a token of the kind {shown(kind)}")
        if name == "bearer" and (client.proof_key is not None or self._wants_proof):
            raise AuthorizationFailed("the issuer gives no tokens that are bound to a key")
        lasts = _seconds(told.get("expires_in"))
        refresh: Any = told.get("refresh_token")
        given: Any = told.get("scope")
        granted = scopes_in(given.split()) if isinstance(given, str) else None
        if granted is None and scopes == client.scopes:
            granted = client.granted  # a renewed token is good for the same
        return replace(
            client,
            access_token=token,
            expires_at=None if lasts is None else time.time() + lasts,
            lifetime=lasts,
            refresh_token=refresh if is_token(refresh) else client.refresh_token,
            scopes=scopes,
            granted=granted,
            proof_key=proofs.key if name == "dpop" and proofs is not None else None,
        )

    # --- proofs -----------------------------------------------------------------------------------

    def _note_nonce(self, url: str, nonce: str | None) -> bool:
        """Keep what a server wants to see in the next proof; True if that is new."""
        origin = origin_of(url)
        if not nonce or self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        return True

    def _proofs_for(self, client: Credentials) -> DPoPProofs | None:
        """Return what makes the proofs of a client: with the key of its token, if it has one."""
        key = client.proof_key
        if key is None:
            return self._own_proofs
        if self._own_proofs is not None and self._own_proofs.key == key:
            return self._own_proofs
        if key not in self._proofs:
            try:
                self._proofs = {key: DPoPProofs(key, self._nonces)}
            except ValueError:
                raise AuthorizationFailed("the key of the token cannot be read") from None
        return self._proofs[key]


def client_of(client: Credentials) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields and headers of a client with a secret, or of one without."""
    if client.client_method == "client_secret_basic" and client.client_secret is not None:
        from base64 import b64encode

        both = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        return {}, {"Authorization": f"Basic {b64encode(both.encode()).decode('ascii')}"}
    if client.client_method == "client_secret_post" and client.client_secret is not None:
        return {"client_id": client.client_id, "client_secret": client.client_secret}, {}
    return {"client_id": client.client_id}, {}


def _joined(some: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*some, *others)))[:_MOST_SCOPES]


def _seconds(given: object) -> float | None:
    """Return how long a token lasts; None if nobody says so."""
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given[:20])  # some write it so
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    try:
        seconds = float(given)
    except OverflowError:
        return _LONGEST_S
    return min(max(seconds, 0.0), _LONGEST_S) if math.isfinite(seconds) else None
