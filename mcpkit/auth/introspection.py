"""Tokens that an authorization server is asked about (RFC 7662)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mcpkit._utils.fetch import PerEventLoop, Unreachable, check_address, fetch_json
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit.auth.claims import principal_of
from mcpkit.auth.verifiers import Verifier, VerifierUnavailable
from mcpkit.permissions import scopes_of
from mcpkit.types import Principal

__all__ = ["Introspection"]

log = get_logger("mcpkit.auth")

_MOST_AT_ONCE: Final = 20
"""Questions that an authorization server is asked at the same time."""


class Introspection(Verifier):
    """Tokens that only their authorization server understands, which is asked about each.

    Needs ``pip install "mcpkit[auth]"``.

    Args:
        url: Of the introspection endpoint; https, or on a loopback address.
        client_id: Of this server, at the authorization server.
        client_secret: That goes with it.
        issuer: Of the tokens. It is shown in the metadata, is part of the ids of principals, and
            an answer that names another is refused.
        audience: The value of ``aud``, or several of which one has to be there; ``public_url`` of
            the endpoint by default (RFC 8707). ``"*"`` takes tokens whatever they are for, which is
            right only if the authorization server tells of those alone that are for this server.
        required_scopes: The scopes that every token needs.
        cache_time: Seconds for which an answer is believed: so long a token that was revoked may
            go on.

    Raises:
        ValueError: An option makes no sense; the message names it.
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
        check_address(url, "url")
        check_address(issuer, "issuer")
        self._url = url
        self._credentials = (client_id, client_secret)
        self._issuer = issuer
        self._audience = (audience,) if isinstance(audience, str) else tuple(audience or ())
        self.authorization_servers = (issuer,)
        self.required_scopes = scopes_of(required_scopes, "required_scopes")
        self.cache_time = cache_time
        self.needs_resource = not self._audience
        self._limit: PerEventLoop[Any] = PerEventLoop(_make_limit)
        self._asking: PerEventLoop[dict[str, Any]] = PerEventLoop(dict)

    def __repr__(self) -> str:
        return f"<Introspection: {self._url}>"

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Ask whoever has issued a token; several requests with the same one ask once."""
        import anyio

        asking = self._asking.get()
        found = asking.get(token)
        if found is None:
            found = asking[token] = _Asked(anyio.Event())
            # Whoever leaves must not make others ask again.
            with anyio.CancelScope(shield=True):
                try:
                    async with self._limit.get():
                        found.claims = await fetch_json(
                            self._url,
                            form={"token": token, "token_type_hint": "access_token"},
                            credentials=self._credentials,
                        )
                except Unreachable as error:
                    log.warning("tokens cannot be verified: %s", error)
                finally:
                    del asking[token]
                    found.answered.set()
        else:
            await found.answered.wait()
        if found.claims is None:
            raise VerifierUnavailable("The authorization server does not answer at the moment")
        return self._principal(found.claims, resource)

    def _principal(self, claims: dict[str, Any], resource: str | None) -> Principal | None:
        if claims.get("active") is not True:
            return None
        if claims.get("iss", self._issuer) != self._issuer:
            return None
        wanted = self._audience or (resource,)
        named: Any = claims.get("aud")
        audience: list[Any] = [named] if isinstance(named, str) else named or []
        if "*" not in wanted and not any(each in wanted for each in audience):
            return None
        now = time.time()
        for name in ("exp", "nbf"):
            value = claims.get(name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, (int, float))
            ):
                return None
        if claims.get("exp", now + 1) <= now or claims.get("nbf", 0) > now:
            return None
        return principal_of(claims, self._issuer, claims.get("exp"))


class _Asked:
    """A question about a token: its answer, once there is one."""

    def __init__(self, answered: Any) -> None:
        self.answered = answered
        self.claims: dict[str, Any] | None = None


def _make_limit() -> Any:
    import anyio

    return anyio.CapacityLimiter(_MOST_AT_ONCE)
