"""Opaque tokens that their authorization server is asked about (RFC 7662)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

import anyio

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import FetchError, basic_credentials, fetch_json
from mcpkit._utils.json import is_array
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit._utils.turns import PerEventLoop
from mcpkit.auth.verifiers import Verifier, VerifierUnavailable, principal_of
from mcpkit.permissions import scopes_of
from mcpkit.types import Principal

log = get_logger("mcpkit.auth")

MAX_AT_ONCE: Final = 20  # concurrent requests to an authorization server


class Introspection(Verifier):
    """Tokens that only their authorization server can read, which is asked about each.

    Needs ``pip install "mcpkit[auth]"``.

    Args:
        url: The introspection endpoint; https, or on a loopback address.
        client_id: The id of this server at the authorization server.
        client_secret: Its secret.
        issuer: The issuer of the tokens. It is listed in the metadata, is part of the ids of
            principals, and a response that names another one is rejected.
        audience: The value of ``aud``, or several of which one must be present; by default
            ``public_url`` of the endpoint (RFC 8707). ``"*"`` accepts every audience, which is safe
            only if the authorization server answers about tokens for this server alone.
        required_scopes: The scopes that every token must have.
        cache_time: Seconds for which a response is cached, and so for which a revoked token may
            stay valid.

    Raises:
        ValueError: An option is not valid; the message names it.
    """

    @with_suggestions()
    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        issuer: str,
        audience: str | Sequence[str] | None = None,
        required_scopes: Iterable[str] = (),
        cache_time: float = 60,
    ) -> None:
        self._url = check_address(url, "url")
        self._issuer = check_address(issuer, "issuer")
        self._credentials = client_id, client_secret
        self._audience = (audience,) if isinstance(audience, str) else tuple(audience or ())
        self.authorization_servers = (issuer,)
        self.required_scopes = scopes_of(required_scopes, "required_scopes")
        self.cache_time = cache_time
        self.needs_resource = not self._audience
        self._limit = PerEventLoop(lambda: anyio.CapacityLimiter(MAX_AT_ONCE))
        self._pending: PerEventLoop[dict[str, _Pending]] = PerEventLoop(dict)

    def __repr__(self) -> str:
        return f"<Introspection: {self._url}>"

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Ask the authorization server; concurrent requests with the same token ask once."""
        pending = self._pending.get()
        found = pending.get(token)
        if found is None:
            found = pending[token] = _Pending(anyio.Event())
            # Others wait for the same response, even if this caller is cancelled.
            with anyio.CancelScope(shield=True):
                try:
                    async with self._limit.get():
                        found.claims = await fetch_json(
                            self._url,
                            form={"token": token, "token_type_hint": "access_token"},
                            headers={"Authorization": basic_credentials(*self._credentials)},
                        )
                except FetchError as error:
                    log.warning("tokens cannot be verified: %s", error)
                finally:
                    del pending[token]
                    found.answered.set()
        else:
            await found.answered.wait()
        if found.claims is None:
            raise VerifierUnavailable("The authorization server does not answer at the moment")
        return self._principal(found.claims, resource)

    def _principal(self, claims: dict[str, Any], resource: str | None) -> Principal | None:
        if claims.get("active") is not True or claims.get("iss", self._issuer) != self._issuer:
            return None
        wanted = self._audience or (resource,)
        named: Any = claims.get("aud")
        audience: list[Any] = named if is_array(named) else [str(named)]
        if "*" not in wanted and not any(each in wanted for each in audience):
            return None
        expires_at, not_before = claims.get("exp"), claims.get("nbf", 0)
        if type(expires_at) not in (int, float, NoneType) or type(not_before) not in (int, float):
            return None
        now = time.time()
        if (expires_at is not None and expires_at <= now) or not_before > now:
            return None
        return principal_of(claims, self._issuer, expires_at)


@dataclass
class _Pending:
    answered: anyio.Event
    claims: dict[str, Any] | None = None
