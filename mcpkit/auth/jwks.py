"""The keys of an issuer: fetched when needed, cached, and fetched again when they rotate."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mcpkit._utils.fetch import FetchError, PerEventLoop, check_address, fetch_json
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.logs import get_logger
from mcpkit.auth.verifiers import VerifierUnavailable

log = get_logger("mcpkit.auth")

_AGAIN_S: Final = 10.0  # minimum seconds between two requests for keys
_FRESH_S: Final = 3600.0  # seconds after which keys are fetched again: some may have been revoked
_STALE_S: Final = 24 * 3600.0  # seconds for which keys are used while the issuer does not answer
MAX_KEYS: Final = 100
MAX_KID: Final = 512


async def fetch_metadata(url: str, issuer: str) -> dict[str, Any]:
    """Return the metadata of an issuer; raise a `FetchError` if there are none."""
    metadata = await fetch_json(url)
    if metadata.get("issuer") != issuer:
        raise FetchError(f"{url} is the metadata of another issuer")
    return metadata


def endpoint_in(metadata: Mapping[str, Any], name: str) -> str:
    """Return a URL in metadata; raise a `FetchError` if it is missing or not safe."""
    try:
        return check_address(metadata.get(name), name)
    except ValueError as error:
        raise FetchError(str(error)) from None


class KeySet:
    """The keys that an issuer signs with."""

    def __init__(
        self, issuer: str, url: str | None = None, keys: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._static = keys is not None
        self._keys: list[dict[str, Any]] = [dict(each) for each in keys or ()]
        self._fetched = 0.0
        self._tried = 0.0
        self._lock: PerEventLoop[Any] = PerEventLoop(_new_lock)

    async def find(self, kid: object) -> Sequence[Mapping[str, Any]]:
        """Return the keys that may have signed a token; none if the issuer has no such key.

        A flood of tokens with made-up keys causes one request in ten seconds.
        """
        if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_KID):
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
        # A key without an id may be any.
        return [each for each in self._keys if kid is None or each.get("kid", kid) == kid]

    async def _refresh(self) -> None:
        import anyio

        before = self._tried
        async with self._lock.get():
            if self._tried != before:
                return  # another task has fetched them meanwhile
            # Others wait for the keys too, even if this caller is cancelled.
            with anyio.CancelScope(shield=True):
                try:
                    document = await fetch_json(self._url or await self._discover())
                    keys: Any = document.get("keys")
                    if not is_array(keys):
                        raise FetchError("the response is not a set of keys")
                    self._keys = [each for each in keys[:MAX_KEYS] if is_object(each)]
                    self._fetched = time.monotonic()
                except FetchError as error:
                    log.warning("the keys of %s cannot be fetched: %s", self._issuer, error)
                finally:
                    self._tried = time.monotonic()

    async def _discover(self) -> str:
        """Return the URL of the keys in the metadata of the issuer."""
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        origin = f"{parts.scheme}://{parts.netloc}"
        errors: list[str] = []
        for url in (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{origin}{path}/.well-known/openid-configuration",
        ):
            try:
                return endpoint_in(await fetch_metadata(url, self._issuer), "jwks_uri")
            except FetchError as error:
                errors.append(str(error))
        raise FetchError("; ".join(errors))


def _new_lock() -> Any:
    import anyio

    return anyio.Lock()
