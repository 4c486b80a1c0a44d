"""``mcpkit login``: log in to a server, for the other commands."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import typer

from mcpkit._environment import variable
from mcpkit._utils.addresses import check_address
from mcpkit._utils.targets import is_url
from mcpkit._utils.text import single_line
from mcpkit.cli._connection import connected, run_async
from mcpkit.cli._credentials import KEY, StoredLogin, machine_for, stored_logins
from mcpkit.cli._options import argument, flag, option
from mcpkit.cli._terminal import BAD_NEWS, SECRET, TOKEN, fail, note, say
from mcpkit.client.auth.authorization_code import OAuth
from mcpkit.client.auth.base import AuthorizationFailed, HttpRequest, server_key
from mcpkit.client.auth.browser import open_browser
from mcpkit.client.auth.discovery import Challenge, Issuer, Resource, Scopes, find_resource
from mcpkit.client.auth.storage import Credentials, FileTokenStore, MemoryTokenStore
from mcpkit.client.client import Client
from mcpkit.errors import MCPKitError
from mcpkit.permissions import scopes_of

_CLIENT: Final = "The client"
_BROWSER: Final = "The browser"
_PORT: Final = "The port of the redirect URL (default: any that is free)"
_ID: Final = f"A client registered with the issuer; its secret is in {SECRET}"
_MACHINE: Final = f"Log in the client itself, with its secret, or its private key in {KEY}"
_USER_S: Final = 300.0  # seconds that a user has to log in
_RENEWABLE: Final = "offline_access"  # a scope for the issuer, not requested here (AUTH-11)


def login(
    url: str = argument("The server", "URL"),
    scope: list[str] | None = option("Request this scope too; can be repeated", metavar="SCOPE"),
    again: bool = flag("Log in again, ignoring a stored login", "--again"),
    timeout: float | None = option(
        f"Time for the login in the browser (default: {_USER_S:g})", metavar="SECONDS"
    ),
    no_browser: bool = flag("Print the URL instead of opening it", "--no-browser", panel=_BROWSER),
    redirect_port: int | None = option(_PORT, metavar="PORT", panel=_BROWSER),
    client_id: str | None = option(_ID, metavar="ID", panel=_CLIENT),
    client_document: str | None = option(
        "A document that describes the client", metavar="URL", panel=_CLIENT
    ),
    issuer: str | None = option(
        "The issuer that knows the client, if not the server's", metavar="URL", panel=_CLIENT
    ),
    machine: bool = flag(_MACHINE, "--machine", panel=_CLIENT),
) -> None:
    """Log in to a server, so that the other commands can use it.

    The server names the issuer of its tokens. You log in there in your browser, which redirects to
    this machine. inspect, call, read, prompt, tasks and check then send the token to this server,
    and refresh it when it expires.

    Tokens are stored in the keyring, if the package keyring is installed, or in a file that only
    you can read, in your configuration folder or the folder in MCPKIT_CREDENTIALS.

    \b
    Examples:
      mcpkit login https://example.com/mcp
      mcpkit login https://example.com/mcp --scope notes:write
      mcpkit login https://example.com/mcp --no-browser --redirect-port 8765
      MCPKIT_CLIENT_SECRET=… mcpkit login https://example.com/mcp --machine --client-id nightly
    """
    if not is_url(url):
        fail(f"login is for URLs, not for {url!r}")
    try:
        check_address(url.partition("#")[0], "URL")
        if client_document is not None:
            check_address(client_document, "--client-document")
        if issuer is not None:
            check_address(issuer, "--issuer")
        scopes = scopes_of([each for text in scope or () for each in text.split()], "--scope")
    except ValueError as error:
        fail(str(error))
    if timeout is not None and not timeout > 0:
        fail(f"--timeout must be more than 0, not {timeout:g}")
    if redirect_port is not None and not 0 < redirect_port < 65536:
        fail(f"--redirect-port must be from 1 to 65535, not {redirect_port}")
    if client_id is not None and client_document is not None:
        fail("--client-id and --client-document: choose one of them")
    if machine:
        if client_id is None:
            fail("--machine needs --client-id")
        if redirect_port is not None or no_browser:
            fail("--machine needs no browser: leave out --redirect-port and --no-browser")
        if machine_for(client_id) is None:
            fail(f"--machine needs a secret in {SECRET}, or the path of a private key in {KEY}")
    key = server_key(url)

    def lacking(got: Credentials) -> list[str]:
        return [each for each in scopes if each not in _granted(got)]

    async def main() -> None:
        store = stored_logins()
        try:
            async with store.lock(key):  # also shows that the folder can be written
                stored = None if again else await store.get(key)
        except AuthorizationFailed as error:
            fail(f"{error}; MCPKIT_CREDENTIALS names another folder")
        # An interrupted login leaves the stored one unchanged.
        pending = MemoryTokenStore()
        if stored is not None:
            is_wanted = (
                stored.access_token is not None
                and machine is bool(stored.grant)
                and (client_id or client_document) in (None, stored.client_id)
                and issuer in (None, stored.issuer)
                and not lacking(stored)
            )
            if is_wanted and await _works(url, store):
                stored = await store.get(key) or stored
                head = f"You are logged in to {key} already (--again: log in again)"
                _show(head, stored, store.place(key))
                return
            await pending.set(key, stored.without_tokens())
        had = (stored and stored.scopes) or ()
        wanted = [*(each for each in had if each != _RENEWABLE), *scopes]
        program = None
        if machine and client_id:
            program = machine_for(client_id, wanted, store=pending, issuer=issuer)
        auth = program or _Login(
            not no_browser,
            issuer=issuer,
            client_id=client_id,
            client_secret=variable(SECRET) or None if client_id else None,
            client_document=client_document,
            scopes=wanted,
            store=pending,
            redirect_port=redirect_port or 0,
            timeout=_USER_S if timeout is None else timeout,
        )
        options = {} if timeout is None else {"timeout": timeout}
        async with connected(url, auth=auth, **options):
            # Some servers require a token for some requests only.
            if not _complete(pending):
                found = await find_resource(key, key, Challenge())
                if found is not None and found.is_described:
                    await auth.refused(HttpRequest("POST", key, key), {}, 401, {})
        logins = _complete(pending)
        for each, got in logins.items():
            async with store.lock(each):
                await store.set(each, got)
            _show(f"You are logged in to {each}", got, store.place(each))
        if not logins:
            say(f"{key} asks for no login.")
        if missing := [each for got in logins.values() for each in lacking(got)]:
            note(f"these scopes were requested, and not granted: {', '.join(missing)}")
            raise typer.Exit(BAD_NEWS)

    run_async(main)


class _Login(OAuth):
    """A login whose errors name the alternative where a server does not name its issuer."""

    def __init__(self, browser: bool, **options: Any) -> None:
        self._is_shown = False

        def show(url: str) -> None:
            self._is_shown = True
            if browser:
                open_browser(url)
            else:
                say(f"Log in here: {url}", err=True)

        super().__init__(show=show, **options)

    async def obtain(self, resource: Resource, issuer: Issuer, scopes: Scopes) -> Credentials:
        """Log the user in and return the tokens."""
        try:
            return await super().obtain(resource, issuer, scopes)
        except AuthorizationFailed:
            if self._is_shown or resource.is_described or issuer.is_described:
                raise
            raise AuthorizationFailed(
                f"{resource.server} requires a token, and does not say who issues it; if you have "
                f"one, set it in {TOKEN}"
            ) from None


def _complete(pending: MemoryTokenStore) -> dict[str, Credentials]:
    return {url: each for url, each in pending._kept.items() if each.access_token is not None}


def _granted(got: Credentials) -> tuple[str, ...]:
    return got.granted if got.granted is not None else got.scopes or ()


async def _works(url: str, store: FileTokenStore) -> bool:
    auth = StoredLogin(store)
    try:
        async with Client(url, name="mcpkit-cli", auth=auth):
            return auth.is_used
    except (MCPKitError, OSError, TimeoutError, ValueError):
        return False  # the login that follows reports the same error


def _show(head: str, got: Credentials, where: str) -> None:
    scopes = _granted(got)
    about = f" for {', '.join(scopes)}" if scopes else ""
    until = "The issuer does not state when the token expires"
    if got.expires_at is not None:
        with suppress(OverflowError, OSError, ValueError):  # an issuer may send any number
            renewed = ", and is then refreshed" if got.refresh_token or got.grant else ""
            time = datetime.fromtimestamp(got.expires_at).strftime("%Y-%m-%d %H:%M:%S")
            until = f"The token is valid until {time}{renewed}"
    issuer = single_line(got.issuer)
    say(f"{head}: {issuer} has issued a token{about}.\n{until}. It is stored in {where}.")
    if os.environ.get(TOKEN):
        note(f"{TOKEN} is set, and is sent instead")
