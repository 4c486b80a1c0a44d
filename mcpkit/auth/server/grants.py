"""Authorization requests, and the grants, codes and tokens that follow from them.

Refresh tokens are not stored: each is derived from its grant and its number with a key of the
server. One with an old number is stolen, and ends the grant (RFC 9700, 4.14.2).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from pydantic import TypeAdapter

from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.fetch import s256
from mcpkit.auth.server.keys import ALGORITHM, EXTRA_LIFETIME, KeyStore, hash_of
from mcpkit.auth.server.login import Login, LoginRefused, ProviderUnavailable, UpstreamTokens, User
from mcpkit.auth.server.messages import OAuthError
from mcpkit.auth.server.store import AuthStore
from mcpkit.auth.verifiers import EndpointUrls, principal_of
from mcpkit.types import Principal

_CODE_S: Final = 60.0  # seconds for which a code can be redeemed
_CODE_KNOWN_S: Final = 600.0  # seconds for which its second use ends the grant
_GRACE_S: Final = 20.0  # for the previous refresh token, whose response may have been lost
_EARLY_S: Final = 30.0  # seconds before its expiry at which a token of a provider is refreshed
_LOCK_S: Final = 15.0  # seconds for which one process may refresh a provider's token
_POLL_S: Final = 0.05  # seconds between two checks of that lock
_FOREVER: Final = 1e9
MAX_GRANTS: Final = 100_000
MAX_CODES: Final = 10_000
_VERIFIER: Final = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # the challenge of PKCE by S256 (RFC 7636, 4.2)
_REFRESH: Final = re.compile(r"r_([A-Za-z0-9_-]{16,64})\.([0-9]{1,9})\.([A-Za-z0-9_-]{43})")
_OWN_CLAIMS: Final = frozenset({"iss", "sub", "aud", "exp", "iat", "jti", "client_id", "scope"})


@dataclass(frozen=True)
class AuthorizationRequest:
    """A client's request for a code (OAuth 2.1, 4.1.1)."""

    client_id: str
    client_name: str
    client_host: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: tuple[str, ...] = ()


@dataclass
class LoginState:
    """The state of an unfinished login; its record is encrypted, because it may contain a user."""

    wanted: AuthorizationRequest
    browser: str
    expires: float
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: int = 0
    user: User | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The requested scopes that the user may grant."""
        limits = None if self.user is None else self.user.scopes
        return tuple(each for each in self.wanted.scopes if limits is None or each in limits)

    def dump(self, keys: KeyStore) -> bytes:
        """Return the encrypted record."""
        return keys.seal(_STATE.dump_json(self, warnings=False))

    @classmethod
    def load(cls, keys: KeyStore, record: bytes) -> LoginState:
        """Return the state in a record."""
        return _STATE.validate_json(keys.open(record))


@dataclass
class _Grant:
    client_id: str
    user: str
    claims: Mapping[str, Any]
    scopes: tuple[str, ...]
    issuer: str
    resource: str
    number: int = 0
    rotated: float = 0.0
    has_upstream: bool = False
    made: float = 0.0
    machine: bool = False
    id: str = ""
    record: bytes = b""  # as it is stored, without this and the id

    def dump(self) -> bytes:
        """Return the record."""
        return _GRANT.dump_json(self, exclude={"id", "record"})


_STATE: Final = TypeAdapter(LoginState)
_GRANT: Final = TypeAdapter(_Grant)
_TOKENS: Final = TypeAdapter(UpstreamTokens)


@dataclass(eq=False, repr=False)
class UpstreamAccess:
    """The tokens that a provider has issued for a user, which no client receives.

    Handlers find it as ``ctx.principal.upstream``.
    """

    _grants: Grants
    _grant: str

    async def token(self) -> str:
        """Return an access token for the API of the provider, refreshed if it is about to expire.

        Raises:
            LoginRefused: The provider has ended the login; the user has to log in again.
            ProviderUnavailable: The provider does not answer.
        """
        return (await self.tokens()).access_token

    async def tokens(self) -> UpstreamTokens:
        """Return all tokens of the provider, refreshed as by `token`, with the same exceptions."""
        return await self._grants.upstream_tokens(self._grant)


@dataclass(eq=False, repr=False)
class Grants:
    """Issues codes and tokens, and ends grants."""

    _store: AuthStore
    _keys: KeyStore
    _login: Login
    _token_lifetime: float
    _refresh_lifetime: float
    _clock: Callable[[], float]

    # --- codes ------------------------------------------------------------------------------------

    async def begin(
        self, user: User, request: AuthorizationRequest, scopes: tuple[str, ...], urls: EndpointUrls
    ) -> str:
        """Store a grant, and return the code for the client."""
        now = self._clock()
        grant = _Grant(
            request.client_id,
            user.id,
            {name: each for name, each in user.claims.items() if name not in _OWN_CLAIMS},
            scopes,
            urls.base,
            urls.resource,
            has_upstream=user.upstream is not None,
            made=now,
        )
        await self._add(grant, self._refresh_lifetime)
        if user.upstream is not None:
            sealed = self._keys.seal(_TOKENS.dump_json(user.upstream))
            await self._store.add("upstream", grant.id, sealed, now + self._refresh_lifetime)
        text = f"a_{secrets.token_urlsafe(32)}"
        code = _json(
            client_id=request.client_id,
            redirect_uri=request.redirect_uri,
            challenge=request.challenge,
            grant=grant.id,
            until=now + _CODE_S,
        )
        if not await self._store.add("code", hash_of(text), code, now + _CODE_KNOWN_S, MAX_CODES):
            raise OAuthError("temporarily_unavailable", "Too many logins at the moment", 503)
        return text

    async def redeem(
        self, client_id: str, fields: Mapping[str, str], resource: str
    ) -> dict[str, Any]:
        """Return a token response for a code; a second use of the code ends the grant.

        The code is for that client, and for the server whose endpoint is `resource`: several may
        have the same store.
        """
        refused = OAuthError("invalid_grant", "The code is not valid")
        hash = hash_of(fields.get("code", ""))
        kept = await self._store.get("code", hash)
        if kept is None:
            raise refused
        code: dict[str, Any] = json.loads(kept)
        if "used" in code:
            await self.end(code["grant"])
            raise refused
        if code["client_id"] != client_id or code["until"] <= self._clock():
            raise refused
        if fields.get("redirect_uri", code["redirect_uri"]) != code["redirect_uri"]:
            raise OAuthError("invalid_grant", "redirect_uri is not that of the code")
        verifier = fields.get("code_verifier", "")
        is_valid = _VERIFIER.fullmatch(verifier) is not None
        if not is_valid or not compare_digest(s256(verifier), code["challenge"]):
            raise OAuthError("invalid_grant", "code_verifier does not match code_challenge")
        used, until = _json(**code, used=True), self._clock() + _CODE_KNOWN_S
        if not await self._store.change("code", hash, kept, used, until):
            await self.end(code["grant"])  # redeemed by another request meanwhile
            raise refused
        grant = await self._grant(code["grant"])
        if grant is None or grant.resource != resource:
            raise refused
        return await self._issued(grant, grant.scopes)

    # --- tokens -----------------------------------------------------------------------------------

    async def refresh(
        self, client_id: str, fields: Mapping[str, str], resource: str
    ) -> dict[str, Any]:
        """Return a token response for a refresh token, for its scopes or fewer, and rotate it.

        The token has to be for that client and that server, as in `redeem`.
        """
        refused = OAuthError("invalid_grant", "The refresh token is not valid")
        for _ in range(2):
            found = await self._grant_of(fields.get("refresh_token", ""))
            if found is None:
                raise refused
            number, grant = found
            if (grant.client_id, grant.resource) != (client_id, resource):
                raise refused
            now = self._clock()
            wanted = grant.scopes
            if "scope" in fields:
                wanted = tuple(dict.fromkeys(fields["scope"].split()))
            if not set(wanted) <= set(grant.scopes):
                raise OAuthError("invalid_scope", "These scopes were not granted")
            user = await self._login.still(User(grant.user, claims=grant.claims))
            if user is None:
                await self.end(grant.id)
                break
            if user.scopes is not None:
                wanted = tuple(each for each in wanted if each in user.scopes)
            if number == grant.number:
                rotated = replace(grant, number=number + 1, rotated=now)
                id, until = grant.id, now + self._refresh_lifetime
                if not await self._store.change("grant", id, grant.record, rotated.dump(), until):
                    continue  # another request of the client may have used it
                upstream = await self._store.get("upstream", id) if grant.has_upstream else None
                if upstream is not None:
                    await self._store.change("upstream", id, upstream, upstream, until)
                return await self._issued(rotated, wanted)
            if number == grant.number - 1 and now - grant.rotated <= _GRACE_S:
                return await self._issued(grant, wanted)
            await self.end(grant.id)
            break
        raise refused

    async def for_machine(
        self, client_id: str, scopes: tuple[str, ...], urls: EndpointUrls
    ) -> dict[str, Any]:
        """Return a token response for a client that acts for itself (RFC 6749, 4.4)."""
        # No user can have this subject (RFC 9700, 4.15).
        subject = f"client:{client_id}"
        grant = _Grant(client_id, subject, {}, scopes, urls.base, urls.resource, machine=True)
        await self._add(grant, self._token_lifetime)
        found = await self._issued(grant, scopes)
        del found["refresh_token"]
        return found

    async def revoke(self, text: str, client_id: str) -> None:
        """End the grant of a token, if the token is the client's (RFC 7009)."""
        found = await self._grant_of(text)
        if found is not None:
            owner, id = found[1].client_id, found[1].id
        else:
            claims = await self._claims(text) or {}
            owner, id = str(claims.get("client_id")), str(claims.get("gid"))
        if owner == client_id:
            await self.end(id)

    async def end_of(self, user: str) -> None:
        """End all present grants of a user."""
        value, until = _json(at=self._clock()), self._clock() + _FOREVER
        while not await self._store.add("ended", hash_of(user), value, until):
            await self._store.take("ended", hash_of(user))

    async def end(self, grant: str) -> None:
        """End a grant and all its tokens."""
        await self._store.take("grant", grant)
        await self._store.take("upstream", grant)

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return the principal of an access token, if its grant has not ended."""
        claims = await self._claims(token)
        if claims is None:
            return None
        if resource is None:  # without public_url: issued on loopback, and valid there
            hosts = [urlsplit(str(claims[name])).hostname for name in ("iss", "aud")]
            is_ours = all(host is not None and is_loopback_name(host) for host in hosts)
        else:
            is_ours = claims["aud"] == resource
        grant = await self._grant(str(claims["gid"])) if is_ours else None
        if grant is None:
            return None
        principal = principal_of({**grant.claims, **claims}, claims["iss"], float(claims["exp"]))
        if principal is not None and grant.has_upstream:
            principal = replace(principal, upstream=UpstreamAccess(self, grant.id))
        return principal

    async def _claims(self, token: str) -> dict[str, Any] | None:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            if header.get("typ") != "at+jwt" or header.get("alg") != ALGORITHM or "crit" in header:
                return None
            key = await self._keys.public_key(header.get("kid"))
            if key is None:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                options={
                    "require": ["exp", "iss", "aud", "sub", "gid"],
                    "verify_aud": False,  # by `verify`
                    "verify_exp": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        if not isinstance(claims["aud"], str) or claims["exp"] <= self._clock():
            return None
        return claims

    async def _issued(self, grant: _Grant, scopes: tuple[str, ...]) -> dict[str, Any]:
        import jwt

        now = int(self._clock())
        key = await self._keys.signing_key()
        claims = {
            "iss": grant.issuer,
            "sub": grant.user,
            "aud": grant.resource,
            "exp": now + int(self._token_lifetime) + EXTRA_LIFETIME,
            "iat": now,
            "jti": secrets.token_urlsafe(12),
            "client_id": grant.client_id,
            "scope": " ".join(scopes),
            "gid": grant.id,
        }
        header = {"kid": key.kid, "typ": "at+jwt"}
        return {  # RFC 6749, 5.1
            "access_token": jwt.encode(claims, key.private, ALGORITHM, headers=header),
            "token_type": "Bearer",
            "expires_in": int(self._token_lifetime),
            "scope": " ".join(scopes),
            "refresh_token": await self._refresh_token(grant.id, grant.number),
        }

    async def _refresh_token(self, id: str, number: int) -> str:
        return f"r_{id}.{number}.{await self._keys.mac(f'refresh {id} {number}')}"

    async def _grant_of(self, text: str) -> tuple[int, _Grant] | None:
        """Return the number and the grant of a refresh token; None if it is not valid."""
        match = _REFRESH.fullmatch(text)
        if match is None:
            return None
        id, number = match[1], int(match[2])
        if not compare_digest(await self._refresh_token(id, number), text):
            return None
        grant = await self._grant(id)
        return None if grant is None else (number, grant)

    async def _grant(self, id: str) -> _Grant | None:
        record = await self._store.get("grant", id)
        if record is None:
            return None
        grant = _GRANT.validate_json(record)
        grant.id, grant.record = id, record
        ended = None if grant.machine else await self._store.get("ended", hash_of(grant.user))
        if ended is not None and grant.made <= json.loads(ended)["at"]:
            return None
        return grant

    async def _add(self, grant: _Grant, lifetime: float) -> None:
        grant.id = secrets.token_urlsafe(18)
        until = self._clock() + lifetime
        if not await self._store.add("grant", grant.id, grant.dump(), until, MAX_GRANTS):
            raise OAuthError("temporarily_unavailable", "Too many grants", 503)

    # --- providers --------------------------------------------------------------------------------

    async def upstream_tokens(self, grant: str) -> UpstreamTokens:
        """Return the tokens of a provider, refreshed if they are about to expire."""
        for _ in range(int(_LOCK_S / _POLL_S) + 1):
            _, tokens = await self._upstream_of(grant)
            if not self._is_ending(tokens):
                return tokens
            # One of all processes at a time: a refresh token may be good for one use only.
            if not await self._store.add("renewing", grant, b"", self._clock() + _LOCK_S):
                await anyio.sleep(_POLL_S)
                continue
            # The new tokens must be stored, even if the caller is cancelled.
            with anyio.CancelScope(shield=True):
                try:
                    return await self._refreshed(grant)
                finally:
                    await self._store.take("renewing", grant)
        raise ProviderUnavailable("The tokens of the provider are being refreshed; try again")

    async def _refreshed(self, grant: str) -> UpstreamTokens:
        kept, tokens = await self._upstream_of(grant)
        if not self._is_ending(tokens):
            return tokens
        try:
            fresh = await self._login.refresh(tokens)
        except LoginRefused:
            await self.end(grant)
            raise
        sealed = self._keys.seal(_TOKENS.dump_json(fresh))
        until = self._clock() + self._refresh_lifetime
        await self._store.change("upstream", grant, kept, sealed, until)
        return fresh

    async def _upstream_of(self, grant: str) -> tuple[bytes, UpstreamTokens]:
        kept = await self._store.get("upstream", grant)
        if kept is None:
            raise LoginRefused("The login has ended; log in again")
        return kept, _TOKENS.validate_json(self._keys.open(kept))

    def _is_ending(self, tokens: UpstreamTokens) -> bool:
        return tokens.expires_at is not None and tokens.expires_at - _EARLY_S <= self._clock()


def _json(**members: Any) -> bytes:
    return json.dumps(members).encode()
