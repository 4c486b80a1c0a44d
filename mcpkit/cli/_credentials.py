"""Whose tokens commands send to a URL: one that is given, or what `mcpkit login` keeps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcpkit._utils.fetch import check_address, shorten
from mcpkit.cli._terminal import SECRET, TOKEN, fail
from mcpkit.client.auth.authorization_code import OAuth
from mcpkit.client.auth.base import (
    AuthorizationFailed,
    BearerToken,
    HttpAuth,
    HttpRequest,
    ResponseHeaders,
    server_key,
)
from mcpkit.client.auth.client_credentials import ClientCredentials
from mcpkit.client.auth.discovery import Issuer, Resource, read_challenge
from mcpkit.client.auth.storage import Credentials, FileTokenStore, default_store

KEY: Final = "MCPKIT_CLIENT_KEY"
"""The variable with the path of a client's private key."""

_INSUFFICIENT: Final = "insufficient_scope"


def access_to(url: str, token: str | None, headers: Mapping[str, str]) -> HttpAuth | None:
    """Return what says to a server who asks; None if the headers do.

    Args:
        url: Of the server.
        token: Of ``--token``.
        headers: Of ``--header``.

    Raises:
        typer.Exit: The token is none, or must not be sent there; a message has said so.
    """
    has_header = any(name.lower() == "authorization" for name in headers)
    if token is not None and has_header:
        fail("--token and --header 'Authorization: …': choose one of them")
    source = "--token"
    if token is None and not has_header:
        token, source = os.environ.get(TOKEN) or None, TOKEN
    if token is not None:
        return GivenToken(url, token, source)
    if has_header:
        return None
    try:
        return KeptLogin(default_store())
    except RuntimeError:
        return None  # there is no home folder, and so nothing is kept in it


def kept_logins() -> FileTokenStore:
    """Return where logins are kept.

    Raises:
        typer.Exit: There is no such place; a message has said so.
    """
    try:
        return default_store()
    except RuntimeError:
        fail("there is no home folder to keep logins in; MCPKIT_CREDENTIALS names another")


class GivenToken(BearerToken):
    """A token of the command line, or of the environment.

    Args:
        url: Of the server.
        token: As it was given.
        source: Where; for messages.

    Raises:
        typer.Exit: It is none, or others could read it on its way (SEC-16); a message has said so.
    """

    def __init__(self, url: str, token: str, source: str) -> None:
        try:
            super().__init__(token)
        except ValueError as error:
            has_kind = token.lower().startswith("bearer ")
            fail(f"{source}: {'write it without Bearer' if has_kind else error}")
        try:
            check_address(url.partition("#")[0], source)
        except ValueError as error:
            fail(str(error))
        self._source = source

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: ResponseHeaders
    ) -> bool:
        """Say why the token is of no use."""
        del sent
        challenge = read_challenge(answer.get("www-authenticate", []))
        place = server_key(request.server)
        if status == 401:
            why = f": {shorten(challenge.error)}" if challenge.error else ""
            raise AuthorizationFailed(f"{place} does not accept the token of {self._source}{why}")
        if challenge.error == _INSUFFICIENT and challenge.scopes:
            raise AuthorizationFailed(
                f"{place} wants more than the token of {self._source} is good for: "
                f"{', '.join(challenge.scopes)}"
            )
        return False


class KeptLogin(OAuth):
    """The login that `mcpkit login` stored: used and refreshed without asking the user.

    Args:
        store: That it is kept in.

    Attributes:
        is_used: True if a token has been sent.
    """

    def __init__(self, store: FileTokenStore) -> None:
        super().__init__(store=store, interactive=False)
        self.is_used = False

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        """Return the token for a request, renewed if it is about to end."""
        found = await super().headers(request)
        self.is_used = self.is_used or bool(found)
        return found

    async def refused(
        self, request: HttpRequest, sent: Mapping[str, str], status: int, answer: ResponseHeaders
    ) -> bool:
        """Get another token without a login, or raise an error that names the command to log in."""
        place = server_key(request.server)
        challenge = read_challenge(answer.get("www-authenticate", []))
        kept = await self._store.get(place)
        if status == 403 and challenge.error == _INSUFFICIENT and not _is_machine(kept):
            had = () if kept is None else kept.granted or kept.scopes or ()
            missing = [each for each in challenge.scopes or () if each not in had]
            if missing:
                raise AuthorizationFailed(
                    f"{place} wants more than you have logged in for, {', '.join(missing)}: "
                    f"run {_login(place, missing)}"
                )
        try:
            return await super().refused(request, sent, status, answer)
        except _NeedsLogin:
            raise
        except (AuthorizationFailed, ValueError) as error:
            raise AuthorizationFailed(
                f"{place} wants a token ({error}): give it one with {TOKEN}"
            ) from None

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Get a token for a program, which needs no user."""
        kept = await self._store.get(place)
        if kept is None or not _is_machine(kept) or kept.issuer != issuer.id:
            if resource.is_described or issuer.document:
                raise _NeedsLogin(f"a login is needed: run {_login(place)}")
            raise AuthorizationFailed("it does not say who issues them")
        wanted = tuple(dict.fromkeys((*(scopes or ()), *(kept.scopes or ()))))
        machine = machine_for(kept.client_id, wanted, secret=kept.client_secret)
        if machine is None:
            raise _NeedsLogin(
                f"the token for {place} has ended: set {KEY}, or run "
                f"mcpkit login {place} --machine --client-id {kept.client_id}"
            )
        return await machine.obtain(place, resource, issuer, wanted or None)


class _NeedsLogin(AuthorizationFailed):
    """The message says which command is to be run."""


def machine_for(
    client_id: str, scopes: Iterable[str] = (), *, secret: str | None = None, store: Any = None
) -> ClientCredentials | None:
    """Return what gets tokens for a program; None if nothing says how it authenticates.

    Args:
        client_id: As the issuer knows it.
        scopes: To ask for.
        secret: That is known already; by default, that of the environment.
        store: Where tokens are kept; in this process by default.

    Raises:
        typer.Exit: The environment names a key that is none, or a secret too; a message has said
            so.
    """
    secret = secret or os.environ.get(SECRET) or None
    path = os.environ.get(KEY)
    if path and secret is None:
        key, algorithm = _key_in(path)
        return ClientCredentials(
            client_id, private_key=key, algorithm=algorithm, scopes=scopes, store=store
        )
    if secret is None:
        return None
    return ClientCredentials(client_id, secret, scopes=scopes, store=store)


def _key_in(path: str) -> tuple[str, str]:
    """Return the private key in a file, and the algorithm of its signatures."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ModuleNotFoundError:
        fail('Signing needs the auth extra: pip install "mcpkit[auth]"')
    try:
        with open(path, encoding="ascii") as file:
            text = file.read()
    except OSError as error:
        fail(f"{KEY}: {path} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        text = ""
    try:
        found = load_pem_private_key(text.encode(), None)
    except (ValueError, TypeError):  # the latter of one that is encrypted
        fail(f"{KEY}: {path} has no private key in PEM, or one with a password")
    algorithm = None
    if isinstance(found, rsa.RSAPrivateKey):
        algorithm = "RS256"
    elif isinstance(found, ed25519.Ed25519PrivateKey):
        algorithm = "EdDSA"
    elif isinstance(found, ec.EllipticCurvePrivateKey):
        curves = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
        algorithm = curves.get(found.curve.name)
    if algorithm is None:
        fail(f"{KEY}: {path} has a key of a kind that no issuer takes")
    return text, algorithm


def _is_machine(kept: Credentials | None) -> bool:
    return kept is not None and kept.grant == "client_credentials"


def _login(place: str, scopes: Iterable[str] = ()) -> str:
    return " ".join(["mcpkit login", place, *(f"--scope {each}" for each in scopes)])
