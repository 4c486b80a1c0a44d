"""``mcpkit logout``: revoke a login, and forget it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcpkit._utils.targets import is_url
from mcpkit.cli._connection import run_async
from mcpkit.cli._credentials import KeptLogin, kept_logins
from mcpkit.cli._terminal import TOKEN, fail, note, say
from mcpkit.client.auth.base import AuthorizationFailed, server_key
from mcpkit.client.auth.storage import FileTokenStore

__all__ = ["logout"]


def logout(url: Annotated[str, typer.Argument(metavar="URL", help="Of the server")]) -> None:
    """Revoke a login, and forget it.

    The issuer is told that the tokens are to be good no more, if it has a way to be told. They are
    forgotten here in any case.

    \b
    Example:
      mcpkit logout https://example.com/mcp
    """
    if not is_url(url):
        fail(f"logout is for URLs, and {url!r} is none")

    async def main() -> None:
        store = kept_logins()
        place = server_key(url)
        # A server may have sent the login on, from one of these to the other.
        twin = place[:-1] if place.endswith("/") else f"{place}/"
        try:
            found = [await _leave(each, store) for each in (place, twin)]
        except AuthorizationFailed as error:
            fail(f"{error}; MCPKIT_CREDENTIALS names another folder")
        if not any(found):
            say(f"There is no login to {place}.")
        if os.environ.get(TOKEN):
            note(f"{TOKEN} is set, and is sent all the same")

    run_async(main)


async def _leave(place: str, store: FileTokenStore) -> bool:
    """Log out of a server; return True if there was a login."""
    if await store.get(place) is None:
        await store.set(place, None)  # what cannot be read goes as well
        return False
    async with store.lock(place):  # otherwise a refresh could bring it back
        kept = await store.get(place)
        is_revoked = await KeptLogin(store).revoke(place)
        await store.set(place, None)
    if kept is None:
        return False
    if kept.access_token is None and kept.refresh_token is None:
        say(f"The login to {place} had ended; what was left of it is forgotten.")
    elif is_revoked:
        say(f"You are logged out of {place}: the login is revoked and forgotten.")
    else:
        say(f"You are logged out of {place}: the login is forgotten here.")
        note(f"{kept.issuer} has not revoked it: its tokens are good until they end")
    return True
