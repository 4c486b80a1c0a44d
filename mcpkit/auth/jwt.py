"""Signed tokens of one issuer (RFC 7519, RFC 8725, RFC 9068), and its keys (RFC 7517)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from mcpkit._utils.addresses import check_address
from mcpkit._utils.fetch import FetchError, fetch_json
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.logs import get_logger
from mcpkit._utils.names import with_suggestions
from mcpkit._utils.turns import PerEventLoop
from mcpkit.auth.verifiers import Verifier, VerifierUnavailable, principal_of
from mcpkit.permissions import scopes_of
from mcpkit.types import Principal

log = get_logger("mcpkit.auth")

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
    **dict.fromkeys(("HS256", "HS384", "HS512"), "oct"),
}
"""The key type that each algorithm requires: no key is used with another algorithm."""

MAX_KEYS: Final = 100  # keys of an issuer
MAX_KID: Final = 512
MAX_TRIED: Final = 8  # keys tried for a token without ``kid``
_AGAIN_S: Final = 10.0  # minimum seconds between two requests for keys
_FRESH_S: Final = 3600.0  # seconds after which keys are fetched again: some may have been revoked
_STALE_S: Final = 24 * 3600.0  # seconds for which keys are used while the issuer does not answer
_NEEDS: Final = 'JWT(…) needs the auth extra: pip install "mcpkit[auth]"'


class JWT(Verifier):
    """Signed tokens of one issuer, such as an identity provider.

    Signature, issuer, audience and times of a token are checked. The keys are fetched from the
    issuer, and again when it signs with a new one. Needs ``pip install "mcpkit[auth]"``.

    Args:
        issuer: The exact claim ``iss`` of its tokens.
        audience: The claim ``aud``, or several of which one must be present; by default
            ``public_url`` of the endpoint (RFC 8707).
        jwks_url: The URL of the issuer's keys, https or on a loopback address; by default the one
            in its metadata.
        keys: The keys themselves, if they are not to be fetched: JSON Web Keys, or a set of them.
        algorithms: The algorithms that the issuer signs with. Those with a shared secret
            (``HS256``) need ``keys``.
        leeway: Seconds by which clocks may differ.
        required_scopes: The scopes that every token must have.
        cache_time: Seconds for which the principal of a token is cached, unless it expires before.

    Raises:
        ImportError: The extra is not installed.
        ValueError: An option is not valid; the message names it.
    """

    @with_suggestions()
    def __init__(
        self,
        *,
        issuer: str,
        audience: str | Sequence[str] | None = None,
        jwks_url: str | None = None,
        keys: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA"),
        leeway: float = 30,
        required_scopes: Iterable[str] = (),
        cache_time: float = 300,
    ) -> None:
        _library()
        self._issuer = check_address(issuer, "issuer")
        if jwks_url is not None:
            check_address(jwks_url, "jwks_url")
            if keys is not None:
                raise ValueError("JWT(…) takes jwks_url= or keys=, not both")
        if isinstance(algorithms, str) or not algorithms or not set(algorithms) <= _KINDS.keys():
            raise ValueError(f"algorithms must be some of {', '.join(_KINDS)}, not {algorithms!r}")
        if keys is None and any(_KINDS[each] == "oct" for each in algorithms):
            raise ValueError("algorithms with a shared secret, such as HS256, need keys=")
        if not 0 <= leeway <= 600:
            raise ValueError("leeway must be from 0 to 600 seconds")
        self._audience = (audience,) if isinstance(audience, str) else tuple(audience or ())
        self._algorithms = frozenset(algorithms)
        self._leeway = leeway
        self._keys = KeySet(issuer, jwks_url, None if keys is None else _key_list(keys))
        self.authorization_servers = (issuer,)
        self.required_scopes = scopes_of(required_scopes, "required_scopes")
        self.cache_time = cache_time
        self.needs_resource = not self._audience

    def __repr__(self) -> str:
        return f"<JWT: {self._issuer}>"

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return the principal of a token that this issuer has signed for this server."""
        try:
            header = self._header_of(token)
        except _reasons() as error:
            _log_rejected(error)
            return None
        found = await self._keys.find(header.get("kid"))
        try:
            return self._read(token, header, found, resource)
        except _reasons() as error:
            _log_rejected(error)
            return None

    def _header_of(self, token: str) -> dict[str, Any]:
        """Return the header of a token that may be this issuer's; nothing in it is trusted yet."""
        jwt = _library()
        header: dict[str, Any] = jwt.get_unverified_header(token)
        if "crit" in header:  # an extension that has to be understood (RFC 7515, 4.1.11)
            raise jwt.InvalidTokenError
        if header.get("alg") not in self._algorithms:
            raise jwt.InvalidAlgorithmError
        # This only avoids requests for the keys of other issuers.
        unverified: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        if unverified.get("iss") != self._issuer:
            raise jwt.InvalidIssuerError
        return header

    def _read(
        self,
        token: str,
        header: Mapping[str, Any],
        keys: Sequence[Mapping[str, Any]],
        resource: str | None,
    ) -> Principal | None:
        """Return the principal of a token that one of these keys has signed."""
        jwt = _library()
        algorithm: str = header["alg"]
        usable = [each for each in keys if _is_usable(each, algorithm)]
        audience = [each for each in self._audience or (resource,) if each]
        for each in usable[:MAX_TRIED]:
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    jwt.PyJWK(dict(each), algorithm),
                    algorithms=[algorithm],
                    audience=audience,
                    issuer=self._issuer,
                    leeway=self._leeway,
                    options={"require": ["exp", "iss", "aud", "sub"]},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.PyJWKError):
                continue  # another key may have signed it
            return principal_of(claims, self._issuer, float(claims["exp"]) + self._leeway)
        raise jwt.InvalidSignatureError  # no key matches


def _reasons() -> tuple[type[Exception], ...]:
    """Return the errors of reading a token that is not valid."""
    return (_library().PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


def _log_rejected(error: Exception) -> None:
    # Neither the token nor its content (SEC-13).
    log.debug("a token is not valid: %s", type(error).__name__)


def _is_usable(key: Mapping[str, Any], algorithm: str) -> bool:
    """Return True if a key is for an algorithm, and for signatures (RFC 8725, 3.1)."""
    return (
        key.get("kty") == _KINDS[algorithm]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
    )


def _key_list(keys: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: Any = keys.get("keys", [keys]) if isinstance(keys, Mapping) else keys
    several: list[Any] = list(found)
    if not several or not all(isinstance(each, Mapping) and "kty" in each for each in several):
        raise ValueError("keys must be JSON Web Keys: dicts with a member kty")
    return several


def _library() -> Any:
    try:
        import jwt
        from jwt.algorithms import has_crypto
    except ModuleNotFoundError:
        raise ImportError(_NEEDS) from None
    if not has_crypto:  # only shared secrets work without it
        raise ImportError(_NEEDS)
    return jwt


# --- the issuer -----------------------------------------------------------------------------------


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
        self._lock: PerEventLoop[anyio.Lock] = PerEventLoop(anyio.Lock)

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
