"""``mcpkit logout``: revoke a login, and forget it."""

from __future__ import annotations

import os

from mcpkit._utils.targets import is_url
from mcpkit.cli._connection import run_async
from mcpkit.cli._credentials import StoredLogin, stored_logins
from mcpkit.cli._options import argument
from mcpkit.cli._terminal import TOKEN, fail, note, say
from mcpkit.client.auth.base import AuthorizationFailed, server_key
from mcpkit.client.auth.storage import FileTokenStore


def logout(url: str = argument("The server", "URL")) -> None:
    """Revoke a login, and forget it.

    The tokens are revoked if the issuer supports it, and deleted here in any case.

    \b
    Example:
      mcpkit logout https://example.com/mcp
    """
    if not is_url(url):
        fail(f"logout is for URLs, not for {url!r}")

    async def main() -> None:
        store = stored_logins()
        key = server_key(url)
        # A redirect may have stored the login under the other one of these two.
        twin = key[:-1] if key.endswith("/") else f"{key}/"
        try:
            found = [await _leave(each, store) for each in (key, twin)]
        except AuthorizationFailed as error:
            fail(f"{error}; MCPKIT_CREDENTIALS names another folder")
        if not any(found):
            say(f"There is no login to {key}.")
        if os.environ.get(TOKEN):
            note(f"{TOKEN} is still set, and is sent")

    run_async(main)


async def _leave(key: str, store: FileTokenStore) -> bool:
    """Log out of a server; return True if there was a login."""
    async with store.lock(key):  # otherwise a refresh could restore it
        stored = await store.get(key)
        is_revoked = stored is not None and await StoredLogin(store).revoke(key)
        await store.set(key, None)  # also removes a file that cannot be read
    if stored is None:
        return False
    if stored.access_token is None and stored.refresh_token is None:
        say(f"The login to {key} had ended; what was left of it is forgotten.")
    elif is_revoked:
        say(f"You are logged out of {key}: the login is revoked and forgotten.")
    else:
        say(f"You are logged out of {key}: the login is forgotten here.")
        note(f"{stored.issuer} has not revoked it: its tokens are valid until they expire")
    return True
