"""Grants: what a user has allowed a client, and the codes and tokens that stand for it.

A grant is one record. Its refresh tokens are numbered: the text of each follows from the grant and
its number by a key of the server, so that none is kept anywhere. Whoever brings one of an old
number has found or stolen it, and ends the grant (RFC 9700, 4.14.2).
"""

from __future__ import annotations

import json
import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

import anyio

from mcpkit.auth.claims import principal_of
from mcpkit.auth.server.errors import OAuthError
from mcpkit.auth.server.keys import ALGORITHM, KeyStore
from mcpkit.auth.server.login import LoginRefused, ProviderUnavailable, UpstreamTokens, User
from mcpkit.auth.server.store import AuthStore
from mcpkit.types import Principal

__all__ = ["ON_ITS_WAY", "Code", "Grants", "IssuedTokens", "Upstream", "challenge_of", "tokens_of"]

_CODE_S: Final = 60.0
"""Seconds for which a code can be redeemed."""

_CODE_KNOWN_S: Final = 600.0
"""Seconds for which it is known, so that whoever brings it again ends what it gave."""

_GRACE_S: Final = 20.0
"""Seconds for which the last refresh token does once more: the answer may have been lost."""

_EARLY_S: Final = 30.0
"""Seconds before its end at which a token of a provider is renewed."""

ON_ITS_WAY: Final = 2
"""Seconds that a token is good for beside those that its client is told: it counts them from when
it gets the token, and the claim has no parts of a second."""

_RENEWING_S: Final = 15.0
"""Seconds after which whoever renews a token of a provider has died."""

_GLANCE_S: Final = 0.05
"""Seconds between two looks at whether somebody else has renewed it."""

_FOREVER: Final = 1e9
_MOST_GRANTS: Final = 100_000
_MOST_CODES: Final = 10_000
_VERIFIER: Final = re.compile(r"[A-Za-z0-9\-._~]{43,128}")
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_REFRESH: Final = re.compile(r"r_([A-Za-z0-9_-]{16,64})\.([0-9]{1,9})\.([A-Za-z0-9_-]{43})")
_OWN_CLAIMS: Final = frozenset({"iss", "sub", "aud", "exp", "iat", "jti", "client_id", "scope"})


@dataclass(frozen=True)
class Code:
    """What a code is bound to.

    Args:
        client_id: That it was issued to.
        redirect_uri: That it was sent to.
        challenge: Of PKCE, by S256.
        resource: That the token will be for.
        scopes: That the user has consented to.
        grant: The id of the grant.
        until: When it ends, in seconds since the epoch.
        used: Whether it was redeemed.
    """

    client_id: str
    redirect_uri: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]
    grant: str
    until: float
    used: bool = False


@dataclass(frozen=True)
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


@dataclass
class IssuedTokens:
    """Tokens, as a client is told of them (RFC 6749, 5.1)."""

    access_token: str = field(repr=False)
    expires_in: int
    scopes: tuple[str, ...]
    refresh_token: str | None = field(default=None, repr=False)

    def told(self) -> dict[str, Any]:
        """Return the answer."""
        found: dict[str, Any] = {
            "access_token": self.access_token,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "scope": " ".join(self.scopes),
        }
        if self.refresh_token is not None:
            found["refresh_token"] = self.refresh_token
        return found


class Upstream:
    """What a provider has issued for a user, from which nothing reaches any client.

    Handlers find it as ``ctx.principal.upstream``.
    """

    def __init__(self, grants: Grants, grant: str) -> None:
        self._grants = grants
        self._grant = grant

    def __repr__(self) -> str:
        return "<Upstream>"

    async def token(self) -> str:
        """Return an access token for the API of the provider, renewed if it is about to end.

        Raises:
            LoginRefused: The provider has ended the login; the user has to log in again.
            ProviderUnavailable: It does not answer.
        """
        return (await self._grants.upstream_tokens(self._grant)).access_token

    async def tokens(self) -> UpstreamTokens:
        """Return all that the provider has issued, renewed as `token` does.

        Raises:
            LoginRefused: As for `token`.
        """
        return await self._grants.upstream_tokens(self._grant)


class Grants:
    """Issues codes and tokens, and ends what they stand for.

    Args:
        store: Where grants are kept.
        vault: The keys.
        token_lifetime: Seconds of an access token.
        refresh_lifetime: Seconds of a grant since it was last used.
        refresh: Renews the tokens of a provider.
        still: Says whether a user may still come in.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        store: AuthStore,
        vault: KeyStore,
        *,
        token_lifetime: float,
        refresh_lifetime: float,
        refresh: Callable[[UpstreamTokens], Awaitable[UpstreamTokens]],
        still: Callable[[User], Awaitable[User | None]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._vault = vault
        self._token_lifetime = token_lifetime
        self._refresh_lifetime = refresh_lifetime
        self._refresh = refresh
        self._still = still
        self._clock = clock

    # --- codes ------------------------------------------------------------------------------------

    async def begin(
        self,
        user: User,
        *,
        client_id: str,
        redirect_uri: str,
        challenge: str,
        issuer: str,
        resource: str,
        scopes: tuple[str, ...],
    ) -> str:
        """Note what a user has allowed, and return the code for the client.

        Raises:
            OAuthError: There are too many.
        """
        grant = secrets.token_urlsafe(18)
        now = self._clock()
        if user.upstream is not None:
            sealed = self._vault.seal(_written(user.upstream))
            await self._store.add("upstream", grant, sealed, now + self._refresh_lifetime)
        record = _Grant(
            client_id,
            user.id,
            {name: each for name, each in user.claims.items() if name not in _OWN_CLAIMS},
            scopes,
            issuer,
            resource,
            has_upstream=user.upstream is not None,
            made=now,
        )
        try:
            await self._add_grant(grant, record, self._refresh_lifetime)
        except OAuthError:
            await self._store.take("upstream", grant)
            raise
        text = f"a_{secrets.token_urlsafe(32)}"
        code = Code(client_id, redirect_uri, challenge, resource, scopes, grant, now + _CODE_S)
        if not await self._store.add(
            "code", _hash(text), _json(asdict(code)), now + _CODE_KNOWN_S, _MOST_CODES
        ):
            raise OAuthError("temporarily_unavailable", "Too many logins at the moment", 503)
        return text

    async def redeem(
        self, text: str, *, client_id: str, redirect_uri: str | None, verifier: str | None
    ) -> IssuedTokens:
        """Return tokens for a code.

        Raises:
            OAuthError: The code is not the client's, or was redeemed before, which ends all that it
                gave.
        """
        refused = OAuthError("invalid_grant", "The code is not valid")
        kept = await self._store.get("code", _hash(text))
        if kept is None:
            raise refused
        record: dict[str, Any] = json.loads(kept)
        code = Code(**record)
        if code.used:
            await self.end(code.grant)
            raise refused
        if code.client_id != client_id or code.until <= self._clock():
            raise refused
        if redirect_uri is not None and redirect_uri != code.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri is not that of the code")
        if verifier is None or _VERIFIER.fullmatch(verifier) is None:
            raise OAuthError("invalid_grant", "code_verifier is missing or malformed")
        if not compare_digest(_challenge(verifier), code.challenge):
            raise OAuthError("invalid_grant", "code_verifier does not fit")
        used = _json(asdict(replace(code, used=True)))
        if not await self._store.change(
            "code", _hash(text), kept, used, self._clock() + _CODE_KNOWN_S
        ):
            await self.end(code.grant)  # somebody was faster with the same code
            raise refused
        grant = await self._grant(code.grant)
        if grant is None:
            raise refused
        return await self._issued(code.grant, grant[1], grant[1].scopes)

    # --- tokens -----------------------------------------------------------------------------------

    async def refresh(
        self, text: str, *, client_id: str, scopes: tuple[str, ...] | None
    ) -> IssuedTokens:
        """Return new tokens for a refresh token, which does no more then.

        Args:
            text: The token.
            client_id: Of whoever has sent it.
            scopes: Fewer than before, if the client wants that.

        Raises:
            OAuthError: It is not the client's, or was used before.
        """
        refused = OAuthError("invalid_grant", "The refresh token is not valid")
        for _ in range(2):
            found = await self._refreshing(text)
            if found is None:
                raise refused
            id, number, kept, grant = found
            if grant.client_id != client_id:
                raise refused
            now = self._clock()
            wanted = grant.scopes if scopes is None else scopes
            if not set(wanted) <= set(grant.scopes):
                raise OAuthError("invalid_scope", "These scopes were not given")
            user = await self._still(User(grant.user, claims=grant.claims))
            if user is None:
                await self.end(id)
                raise refused
            if user.scopes is not None:
                wanted = tuple(each for each in wanted if each in user.scopes)
            if number == grant.number:
                rotated = replace(grant, number=number + 1, rotated=now)
                until = now + self._refresh_lifetime
                if await self._store.change("grant", id, kept, _json(asdict(rotated)), until):
                    if grant.has_upstream:
                        await self._prolong(id, until)
                    return await self._issued(id, rotated, wanted)
                continue  # by another request of the same client, perhaps
            if number == grant.number - 1 and now - grant.rotated <= _GRACE_S:
                return await self._issued(id, grant, wanted)
            await self.end(id)
            raise refused
        raise refused

    async def for_machine(
        self, client_id: str, issuer: str, resource: str, scopes: tuple[str, ...]
    ) -> IssuedTokens:
        """Return a token for a client that acts for itself (RFC 6749, 4.4).

        Raises:
            OAuthError: There are too many.
        """
        id = secrets.token_urlsafe(18)
        now = self._clock()
        # A program is no user, whatever users are called (RFC 9700, 4.15).
        subject = f"client:{client_id}"
        grant = _Grant(client_id, subject, {}, scopes, issuer, resource, made=now, machine=True)
        await self._add_grant(id, grant, self._token_lifetime)
        issued = await self._issued(id, grant, scopes)
        issued.refresh_token = None
        return issued

    async def revoke(self, text: str, client_id: str) -> None:
        """End what a token stands for, if it is the client's (RFC 7009)."""
        found = await self._refreshing(text)
        if found is not None:
            if found[3].client_id == client_id:
                await self.end(found[0])
            return
        claims = await self._claims(text)
        if claims is not None and claims.get("client_id") == client_id:
            await self.end(str(claims["gid"]))

    async def end_of(self, user: str) -> None:
        """End all grants of a user that there are now."""
        value, until = _json({"at": self._clock()}), self._clock() + _FOREVER
        while not await self._store.add("ended", _hash(user), value, until):
            await self._store.take("ended", _hash(user))

    async def end(self, grant: str) -> None:
        """End a grant, with all tokens of it."""
        await self._store.take("grant", grant)
        await self._store.take("upstream", grant)

    async def verify(self, token: str, is_ours: Callable[[str, str], bool]) -> Principal | None:
        """Return whoever an access token belongs to, if its grant has not ended.

        Args:
            token: As it was sent.
            is_ours: Whether issuer and audience are those of this server.
        """
        claims = await self._claims(token)
        if claims is None or not is_ours(claims["iss"], claims["aud"]):
            return None
        grant = await self._grant(str(claims["gid"]))
        if grant is None:
            return None
        told = {**grant[1].claims, **claims}
        principal = principal_of(told, claims["iss"], float(claims["exp"]))
        if principal is not None and grant[1].has_upstream:
            principal = replace(principal, upstream=Upstream(self, str(claims["gid"])))
        return principal

    async def _claims(self, token: str) -> dict[str, Any] | None:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            if header.get("typ") != "at+jwt" or header.get("alg") != ALGORITHM or "crit" in header:
                return None
            key = await self._vault.public_key(header.get("kid"))
            if key is None:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                options={
                    "require": ["exp", "iss", "aud", "sub", "gid"],
                    "verify_aud": False,  # by whoever knows the address of the server
                    "verify_exp": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        if not isinstance(claims["aud"], str) or claims["exp"] <= self._clock():
            return None
        return claims

    async def _issued(self, id: str, grant: _Grant, scopes: tuple[str, ...]) -> IssuedTokens:
        import jwt

        now = int(self._clock())
        key = await self._vault.signing_key()
        claims = {
            "iss": grant.issuer,
            "sub": grant.user,
            "aud": grant.resource,
            "exp": now + int(self._token_lifetime) + ON_ITS_WAY,
            "iat": now,
            "jti": secrets.token_urlsafe(12),
            "client_id": grant.client_id,
            "scope": " ".join(scopes),
            "gid": id,
        }
        token = jwt.encode(
            claims, key.private, ALGORITHM, headers={"kid": key.kid, "typ": "at+jwt"}
        )
        refresh = await self._refresh_token(id, grant.number)
        return IssuedTokens(token, int(self._token_lifetime), scopes, refresh)

    async def _refresh_token(self, id: str, number: int) -> str:
        return f"r_{id}.{number}.{await self._vault.mac(f'refresh {id} {number}')}"

    async def _refreshing(self, text: str) -> tuple[str, int, bytes, _Grant] | None:
        """Return what a refresh token says, and its grant; None if it is none, or has ended."""
        match = _REFRESH.fullmatch(text)
        if match is None:
            return None
        id, number = match[1], int(match[2])
        if not compare_digest(await self._refresh_token(id, number), text):
            return None
        found = await self._grant(id)
        return None if found is None else (id, number, *found)

    async def _grant(self, id: str) -> tuple[bytes, _Grant] | None:
        kept = await self._store.get("grant", id)
        if kept is None:
            return None
        record: dict[str, Any] = json.loads(kept)
        record["scopes"] = tuple(record["scopes"])
        grant = _Grant(**record)
        ended = None if grant.machine else await self._store.get("ended", _hash(grant.user))
        if ended is not None and grant.made <= json.loads(ended)["at"]:
            return None
        return kept, grant

    async def _add_grant(self, id: str, grant: _Grant, lifetime: float) -> None:
        until = self._clock() + lifetime
        if not await self._store.add("grant", id, _json(asdict(grant)), until, _MOST_GRANTS):
            raise OAuthError("temporarily_unavailable", "Too many grants", 503)

    # --- providers --------------------------------------------------------------------------------

    async def upstream_tokens(self, grant: str) -> UpstreamTokens:
        """Return what a provider has issued, renewed if it is about to end.

        Raises:
            LoginRefused: The provider has ended the login; the grant has ended with it.
            ProviderUnavailable: It does not answer, and the token has ended.
        """
        gone = LoginRefused("The login has ended; log in again")
        for _ in range(int(_RENEWING_S / _GLANCE_S) + 1):
            kept, tokens = await self._kept_upstream(grant)
            if kept is None or tokens is None:
                raise gone
            if not self._is_ending(tokens):
                return tokens
            # One at a time, of all processes: a refresh token may be good for one use only.
            if not await self._store.add("renewing", grant, b"", self._clock() + _RENEWING_S):
                await anyio.sleep(_GLANCE_S)
                continue
            # Whoever has used it must keep what it brings, however soon their caller leaves.
            with anyio.CancelScope(shield=True):
                try:
                    return await self._renewed(grant)
                finally:
                    await self._store.take("renewing", grant)
        raise ProviderUnavailable("The tokens of the provider are being renewed; try again")

    async def _renewed(self, grant: str) -> UpstreamTokens:
        kept, tokens = await self._kept_upstream(grant)
        if kept is None or tokens is None:
            raise LoginRefused("The login has ended; log in again")
        if not self._is_ending(tokens):
            return tokens
        try:
            fresh = await self._refresh(tokens)
        except LoginRefused:
            await self.end(grant)
            raise
        until = self._clock() + self._refresh_lifetime
        await self._store.change("upstream", grant, kept, self._vault.seal(_written(fresh)), until)
        return fresh

    async def _kept_upstream(self, grant: str) -> tuple[bytes | None, UpstreamTokens | None]:
        kept = await self._store.get("upstream", grant)
        if kept is None:
            return None, None
        return kept, tokens_of(json.loads(self._vault.open(kept)))

    def _is_ending(self, tokens: UpstreamTokens) -> bool:
        return tokens.expires_at is not None and tokens.expires_at - _EARLY_S <= self._clock()

    async def _prolong(self, grant: str, until: float) -> None:
        kept = await self._store.get("upstream", grant)
        if kept is not None:
            await self._store.change("upstream", grant, kept, kept, until)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _written(tokens: UpstreamTokens) -> bytes:
    return _json({**asdict(tokens), "scopes": sorted(tokens.scopes)})


def tokens_of(record: dict[str, Any]) -> UpstreamTokens:
    """Return tokens that were written as JSON."""
    record["scopes"] = frozenset(record["scopes"])
    return UpstreamTokens(**record)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def challenge_of(text: str) -> str:
    """Return a challenge of PKCE by S256; empty if a text is none (RFC 7636, 4.2)."""
    return text if _CHALLENGE.fullmatch(text) else ""


def _challenge(verifier: str) -> str:
    """Return the challenge of a verifier by S256 (RFC 7636, 4.2)."""
    found = sha256(verifier.encode("ascii")).digest()
    return urlsafe_b64encode(found).decode("ascii").rstrip("=")
