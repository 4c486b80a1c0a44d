"""The tokens that commands send to a URL: given ones, or those that `mcpkit login` has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpkit._environment import variable
from mcpkit._utils.addresses import check_address
from mcpkit.cli._terminal import SECRET, TOKEN, fail
from mcpkit.client.auth.authorization_code import OAuth
from mcpkit.client.auth.base import (
    AuthorizationFailed,
    BearerToken,
    HttpRequest,
    ResponseHeaders,
    server_key,
)
from mcpkit.client.auth.client_credentials import ClientCredentials
from mcpkit.client.auth.discovery import Issuer, Resource, Scopes, read_challenge
from mcpkit.client.auth.storage import Credentials, FileTokenStore, default_store

KEY: Final = "MCPKIT_CLIENT_KEY"  # the variable with the path of a client's private key


def access_to(
    url: str, token: str | None, headers: Mapping[str, str]
) -> BearerToken | StoredLogin | None:
    """Return the authentication for a server; None if a header or nothing authenticates."""
    if any(name.lower() == "authorization" for name in headers):
        if token is not None:
            fail("--token and --header 'Authorization: …': choose one of them")
        return None
    source = "--token" if token is not None else TOKEN
    if token is None and not (token := variable(TOKEN)):
        try:
            return StoredLogin(default_store())
        except RuntimeError:
            return None  # without a home folder there are no stored logins
    try:
        check_address(url.partition("#")[0], source)  # before it is sent unencrypted (SEC-16)
    except ValueError as error:
        fail(str(error))
    try:
        return BearerToken(token)
    except ValueError as error:
        fail(f"{source}: {error}")


def stored_logins() -> FileTokenStore:
    """Return the store of logins."""
    try:
        return default_store()
    except RuntimeError:
        fail("there is no home folder to store logins in; MCPKIT_CREDENTIALS names another")


class StoredLogin(OAuth):
    """The login that `mcpkit login` stored: used and refreshed without asking the user."""

    def __init__(self, store: FileTokenStore) -> None:
        super().__init__(store=store, interactive=False)
        self.is_used = False

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token for a request, refreshed if it expires soon."""
        found = await super().headers(request)
        self.is_used = self.is_used or bool(found)
        return found

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: ResponseHeaders
    ) -> bool:
        """Get another token without a login, or raise an error that names the command to log in."""
        url = server_key(request.server)
        challenge = read_challenge(answer.get("www-authenticate", []))
        stored = await self._store.get(url)
        is_short = status == 403 and challenge.error == "insufficient_scope"
        if is_short and not _is_machine(stored):
            had = () if stored is None else stored.granted or stored.scopes or ()
            missing = [each for each in challenge.scopes or () if each not in had]
            if missing:
                options = "".join(f" --scope {each}" for each in missing)
                raise AuthorizationFailed(
                    f"{url} needs scopes that your login lacks, {', '.join(missing)}: "
                    f"run mcpkit login {url}{options}"
                )
        try:
            return await super().refused(request, sent, status, answer)
        except _NeedsLogin:
            raise
        except (AuthorizationFailed, ValueError) as error:
            raise AuthorizationFailed(
                f"{url} requires a token ({error}): set it in {TOKEN}"
            ) from None

    async def obtain(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> Credentials:
        """Get a token for a program, which needs no user."""
        url = resource.server
        stored = await self._store.get(url)
        if stored is None or not _is_machine(stored) or stored.issuer != issuer.id:
            if resource.is_described or issuer.is_described:
                raise _NeedsLogin(f"a login is needed: run mcpkit login {url}")
            raise AuthorizationFailed("it does not say who issues them")
        wanted = tuple(dict.fromkeys((*(scopes or ()), *(stored.scopes or ()))))
        machine = machine_for(stored.client_id, wanted, secret=stored.client_secret)
        if machine is None:
            raise _NeedsLogin(
                f"the token for {url} has expired: set {KEY}, or run "
                f"mcpkit login {url} --machine --client-id {stored.client_id}"
            )
        return await machine.obtain(resource, issuer, wanted or None)


class _NeedsLogin(AuthorizationFailed):
    """The message names the command to run."""


def _is_machine(stored: Credentials | None) -> bool:
    return stored is not None and stored.grant == "client_credentials"


def machine_for(
    client_id: str,
    scopes: Iterable[str] = (),
    *,
    secret: str | None = None,
    store: Any = None,
    issuer: str | None = None,
) -> ClientCredentials | None:
    """Return the login of a program; None if it has neither a secret nor a key."""
    options: dict[str, Any] = {"scopes": scopes, "store": store, "issuer": issuer}
    if secret := secret or variable(SECRET):
        return ClientCredentials(client_id, secret, **options)
    if path := variable(KEY):
        key, algorithm = _key_in(path)
        return ClientCredentials(client_id, private_key=key, algorithm=algorithm, **options)
    return None


def _key_in(path: str) -> tuple[str, str]:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ModuleNotFoundError:
        fail('Signing needs the auth extra: pip install "mcpkit[auth]"')
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
        found = load_pem_private_key(text.encode(), None)
    except OSError as error:
        fail(f"{KEY}: {path} cannot be read: {error.strerror}")
    except (ValueError, TypeError):  # TypeError if it is encrypted
        fail(f"{KEY}: {path} has no private key in PEM, or one with a password")
    if isinstance(found, rsa.RSAPrivateKey):
        return text, "RS256"
    if isinstance(found, ed25519.Ed25519PrivateKey):
        return text, "EdDSA"
    curves = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name not in curves:
        fail(f"{KEY}: {path} has a key of a kind that issuers do not support")
    return text, curves[found.curve.name]
