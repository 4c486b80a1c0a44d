"""``mcpkit login``: log in to a server, for the other commands."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from anyio import to_thread

from mcpkit._utils.fetch import check_address
from mcpkit._utils.targets import is_url
from mcpkit._utils.text import single_line
from mcpkit.cli._connection import connected, run_async
from mcpkit.cli._credentials import KEY, KeptLogin, kept_logins, machine_for
from mcpkit.cli._terminal import BAD_NEWS, SECRET, TOKEN, fail, note, say
from mcpkit.client.auth.authorization_code import OAuth
from mcpkit.client.auth.base import AuthorizationFailed, HttpRequest, server_key
from mcpkit.client.auth.browser import open_browser
from mcpkit.client.auth.discovery import Challenge, Issuer, Resource, find_resource
from mcpkit.client.auth.storage import (
    Credentials,
    FileTokenStore,
    MemoryTokenStore,
)
from mcpkit.client.auth.tokens import TokenSource
from mcpkit.client.client import Client
from mcpkit.errors import MCPKitError
from mcpkit.permissions import scopes_of

__all__ = ["login"]

_CLIENT: Final = "The client"
_BROWSER: Final = "The browser"
_USER_S: Final = 300.0
"""Seconds that a user has to log in."""

_RENEWABLE: Final = "offline_access"
"""A scope between clients and their issuer, not requested here (AUTH-11)."""


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the server")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", help="Ask for it too; several times for several", show_default=False
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Log in again, ignoring a stored login")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help=f"How long you may take in the browser (default: {_USER_S:g})"
        ),
    ] = None,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser", help="Print the address only, and open none", rich_help_panel=_BROWSER
        ),
    ] = False,
    redirect_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Where on this machine the browser comes back to (default: any that is free)",
            rich_help_panel=_BROWSER,
        ),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help=f"Of a client that the issuer knows; its secret is read from {SECRET}",
            rich_help_panel=_CLIENT,
        ),
    ] = None,
    client_document: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Of a document that describes the client", rich_help_panel=_CLIENT
        ),
    ] = None,
    machine: Annotated[
        bool,
        typer.Option(
            "--machine",
            help=f"Log in --client-id itself, without a user; {KEY} may be the path of its "
            f"private key, instead of a secret",
            rich_help_panel=_CLIENT,
        ),
    ] = False,
) -> None:
    """Log in to a server, so that the other commands may use it.

    The server says who issues its tokens. You log in there in your browser, which comes back to
    this machine. inspect, call, read, prompt, tasks and check then send the token to this server,
    and renew it when it ends.

    What is kept is in the keyring, if the package keyring is installed, or in a file that only
    you can read, in your configuration or in the folder that MCPKIT_CREDENTIALS names.

    \b
    Examples:
      mcpkit login https://example.com/mcp
      mcpkit login https://example.com/mcp --scope notes:write
      mcpkit login https://example.com/mcp --no-browser --redirect-port 8765
      MCPKIT_CLIENT_SECRET=… mcpkit login https://example.com/mcp --machine --client-id nightly
    """
    wish = _Wish(
        url,
        _scopes(scope or ()),
        again,
        _USER_S if timeout is None else timeout,
        no_browser,
        redirect_port,
        client_id,
        client_document,
        machine,
    )
    options = {} if timeout is None else {"timeout": timeout}

    async def main() -> None:
        store = kept_logins()
        try:
            async with store.lock(wish.place):  # which shows that something can be kept
                kept = await store.get(wish.place)
        except AuthorizationFailed as error:
            fail(f"{error}; MCPKIT_CREDENTIALS names another folder")
        if kept is not None and wish.is_met_by(kept) and await _works(url, store):
            kept = await store.get(wish.place) or kept
            where = store.place(wish.place)
            _show(f"You are logged in to {wish.place} already (--again: anew)", kept, where)
            return
        desk, place = _Desk(), wish.place
        if kept is not None and not again:
            await desk.set(wish.place, kept.without_tokens())
        auth = wish.auth(kept, desk)
        async with connected(url, auth=auth, **options):
            # Some servers let everybody in, and want a token for some of what they have.
            found = await find_resource(place, place, Challenge()) if not desk.got else None
            if found is not None and found.is_described:
                await auth.refused(HttpRequest("POST", place, place), {}, 401, {})
        for each, got in desk.got.items():
            async with store.lock(each):
                await store.set(each, got)
            _show(f"You are logged in to {each}", got, store.place(each))
        if not desk.got:
            say(f"{wish.place} asks for no login.")
        lacking = [each for got in desk.got.values() for each in wish.lacking(got)]
        if lacking:
            note(f"this was asked for, and not given: {', '.join(lacking)}")
            raise typer.Exit(BAD_NEWS)

    run_async(main)


@dataclass(frozen=True)
class _Wish:
    """What is on the command line, and makes sense.

    Raises:
        typer.Exit: It makes none; a message has said so.
    """

    url: str
    scopes: tuple[str, ...]
    again: bool
    timeout: float
    no_browser: bool
    redirect_port: int | None
    client_id: str | None
    client_document: str | None
    machine: bool

    def __post_init__(self) -> None:
        if not is_url(self.url):
            fail(f"login is for URLs, and {self.url!r} is none")
        try:
            check_address(self.url.partition("#")[0], "URL")
            if self.client_document is not None:
                check_address(self.client_document, "--client-document")
        except ValueError as error:
            fail(str(error))
        if not self.timeout > 0:
            fail(f"--timeout must be more than 0, not {self.timeout:g}")
        if self.redirect_port is not None and not 0 < self.redirect_port < 65536:
            fail(f"--redirect-port must be from 1 to 65535, not {self.redirect_port}")
        if self.client_id is not None and self.client_document is not None:
            fail("--client-id and --client-document: choose one of them")
        if self.machine:
            self._check_machine()

    def _check_machine(self) -> None:
        wrong = {
            "--client-document": self.client_document,
            "--redirect-port": self.redirect_port,
            "--no-browser": self.no_browser or None,
        }
        for option, value in wrong.items():
            if value is not None:
                fail(f"--machine needs no browser: leave {option} out")
        if self.client_id is None:
            fail("--machine needs --client-id")
        if machine_for(self.client_id) is None:
            fail(f"--machine needs a secret in {SECRET}, or the path of a private key in {KEY}")

    @property
    def place(self) -> str:
        """The URL of the server, as credentials are kept for it."""
        return server_key(self.url)

    def is_met_by(self, kept: Credentials) -> bool:
        """Return True if a login that there is will do."""
        if self.again or kept.access_token is None or self.machine is not bool(kept.grant):
            return False
        wanted = self.client_id or self.client_document
        return wanted in (None, kept.client_id) and not self.lacking(kept)

    def lacking(self, got: Credentials) -> list[str]:
        """Return the scopes that are wanted, and have not been given."""
        given = got.granted if got.granted is not None else got.scopes or ()
        return [each for each in self.scopes if each not in given]

    def auth(self, kept: Credentials | None, desk: _Desk) -> TokenSource:
        """Return what logs in."""
        had = () if kept is None or self.again else kept.scopes or ()
        scopes = [*(each for each in had if each != _RENEWABLE), *self.scopes]
        if self.machine:
            assert self.client_id is not None
            made = machine_for(self.client_id, scopes, store=desk)
            assert made is not None
            return made
        return _Login(
            _print_address if self.no_browser else _open_browser,
            client_id=self.client_id,
            client_secret=os.environ.get(SECRET) or None if self.client_id else None,
            client_document=self.client_document,
            scopes=scopes,
            store=desk,
            redirect_port=self.redirect_port or 0,
            timeout=self.timeout,
        )


class _Login(OAuth):
    """A login that says what to do where a server does not say who issues tokens.

    Args:
        show: Shows the user an address.
        options: Others of `OAuth`.
    """

    def __init__(self, show: Callable[[str], Awaitable[None]], **options: Any) -> None:
        self._is_shown = False

        async def noted(url: str) -> None:
            self._is_shown = True
            await show(url)

        super().__init__(show=noted, **options)

    async def obtain(
        self, place: str, resource: Resource, issuer: Issuer, scopes: tuple[str, ...] | None
    ) -> Credentials:
        """Log the user in, and return the tokens."""
        try:
            return await super().obtain(place, resource, issuer, scopes)
        except AuthorizationFailed:
            if self._is_shown or resource.is_described or issuer.document:
                raise
            raise AuthorizationFailed(
                f"{place} wants a token, and does not say who issues them; if you have got one "
                f"elsewhere, {TOKEN} gives it to commands"
            ) from None


class _Desk(MemoryTokenStore):
    """Where a login lies until all of it is there: one that is broken off leaves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.got: dict[str, Credentials] = {}
        """The logins that are complete, by the URL of their server."""

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Keep credentials for a server."""
        await super().set(url, credentials)
        self.got.pop(url, None)
        if credentials is not None and credentials.access_token is not None:
            self.got[url] = credentials


async def _works(url: str, store: FileTokenStore) -> bool:
    """Return True if the server takes the token that is kept, or the one after it."""
    auth = KeptLogin(store)
    try:
        async with Client(url, name="mcpkit-cli", auth=auth):
            return auth.is_used
    except (MCPKitError, OSError, TimeoutError, ValueError):
        return False  # whatever it is, it is said when the login meets it again


def _scopes(given: Sequence[str]) -> tuple[str, ...]:
    try:
        return scopes_of([each for text in given for each in text.split()], "--scope")
    except ValueError as error:
        fail(str(error))


# --- the browser ----------------------------------------------------------------------------------


async def _print_address(url: str) -> None:
    say(f"Log in here: {url}", err=True)


async def _open_browser(url: str) -> None:
    # In a thread: a browser without a window stays in the terminal until it is left.
    await to_thread.run_sync(open_browser, url, abandon_on_cancel=True)


# --- telling --------------------------------------------------------------------------------------


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):  # an issuer may say anything
        return "the end of all calendars"


def _show(begun: str, got: Credentials, where: str) -> None:
    """Say who issued, for which scopes, until when, and where it is kept."""
    scopes = got.granted if got.granted is not None else got.scopes
    about = f" for {', '.join(scopes)}" if scopes else ""
    until = "The issuer does not say until when it is good"
    if got.expires_at is not None:
        renewed = ", and renewed then" if got.refresh_token or got.grant else ""
        until = f"It is good until {_time(got.expires_at)}{renewed}"
    issuer = single_line(got.issuer)
    say(f"{begun}: {issuer} has issued a token{about}.\n{until}. It is kept in {where}.")
    if os.environ.get(TOKEN):
        note(f"{TOKEN} is set, and is sent instead")
