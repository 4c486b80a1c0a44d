"""The keys of an issuer: fetched when they are needed, and again when they rotate."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mcpkit._utils.fetch import PerEventLoop, Unreachable, check_address, fetch_json
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.logs import get_logger
from mcpkit.auth.verifiers import VerifierUnavailable

__all__ = ["KeySet"]

log = get_logger("mcpkit.auth")

_AGAIN_S: Final = 10.0
"""Seconds between two requests for keys at least, whatever tokens arrive."""

_FRESH_S: Final = 3600.0
"""Seconds after which keys are asked for again though all are known: some may be revoked."""

_STALE_S: Final = 24 * 3600.0
"""Seconds for which keys are used while nobody answers."""

_MOST: Final = 100
_LONGEST_KID: Final = 512


class KeySet:
    """The keys that an issuer signs with.

    Args:
        issuer: Whose metadata names the address of the keys, if there is neither of the others.
        url: Of the keys (RFC 7517, section 5).
        keys: The keys themselves, each a JSON Web Key; nothing is fetched then.
    """

    def __init__(
        self, issuer: str, url: str | None = None, keys: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._static = keys is not None
        self._keys: list[dict[str, Any]] = [dict(each) for each in keys or ()]
        self._fetched = 0.0
        self._tried = 0.0
        self._lock: PerEventLoop[Any] = PerEventLoop(_make_lock)

    async def find(self, kid: object) -> Sequence[Mapping[str, Any]]:
        """Return the keys that a token may be signed with; none if the issuer has no such key.

        A key that is unknown is looked for at the issuer, but not more often than every ten
        seconds, and by one request at a time: whoever sends many tokens with made-up keys causes
        nothing else.

        Args:
            kid: The id of the key, as the token says; None if it does not.

        Raises:
            VerifierUnavailable: There are no keys, and the issuer does not answer.
        """
        if kid is not None and (not isinstance(kid, str) or len(kid) > _LONGEST_KID):
            return ()
        found = self._known(kid)
        now = time.monotonic()
        if self._static or (found and now - self._fetched < _FRESH_S):
            return found
        if now - self._tried >= _AGAIN_S or not self._tried:
            await self._refresh()
            found = self._known(kid)
        age = time.monotonic() - self._fetched
        if not self._fetched or (found and age > _STALE_S):
            raise VerifierUnavailable("The keys of the issuer cannot be fetched at the moment")
        return found

    def _known(self, kid: str | None) -> Sequence[Mapping[str, Any]]:
        if kid is None:
            return self._keys
        # Whoever writes keys down need not name them.
        unnamed = kid if self._static else None
        return [each for each in self._keys if each.get("kid", unnamed) == kid]

    async def _refresh(self) -> None:
        import anyio

        before = self._tried
        async with self._lock.get():
            if self._tried != before:
                return  # somebody else has asked meanwhile
            # A client that leaves must not make others wait for the next one.
            with anyio.CancelScope(shield=True):
                try:
                    self._take(await self._fetch())
                    self._fetched = time.monotonic()
                except Unreachable as error:
                    log.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
                finally:
                    self._tried = time.monotonic()

    async def _fetch(self) -> dict[str, Any]:
        if self._url is not None:
            return await fetch_json(self._url)
        url = await self._discover()
        return await fetch_json(url)

    async def _discover(self) -> str:
        """Return the address of the keys, as the metadata of the issuer says.

        Raises:
            Unreachable: There is no metadata, or it is not of this issuer (RFC 8414, 3.3).
        """
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        origin = f"{parts.scheme}://{parts.netloc}"
        why = Unreachable("it has no metadata")
        for url in (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        ):
            try:
                metadata = await fetch_json(url)
            except Unreachable as error:
                why = error
                continue
            if metadata.get("issuer") != self._issuer:
                raise Unreachable(f"{url} is the metadata of another issuer")
            found = metadata.get("jwks_uri")
            try:
                check_address(found, "jwks_uri")
            except ValueError as error:
                raise Unreachable(str(error)) from None
            assert isinstance(found, str)
            return found
        raise why

    def _take(self, found: Mapping[str, Any]) -> None:
        keys: Any = found.get("keys")
        if not is_array(keys):
            raise Unreachable("the answer is no set of keys")
        self._keys = [each for each in keys[:_MOST] if is_object(each)]


def _make_lock() -> Any:
    import anyio

    return anyio.Lock()
