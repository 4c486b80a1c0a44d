"""The login: the authorization server of this project, and its users."""

from urllib.parse import urlsplit

from mcpkit import HttpOptions
from mcpkit.auth import AuthorizationServer, Login, UpstreamLogin, Users

from .settings import Settings
from .users import read_users

READ = "notes:read"
WRITE = "notes:write"

MEANINGS = {READ: "Read your notes", WRITE: "Write and delete your notes"}
"""Scope → the permission that users see when a client asks for it."""


def login(settings: Settings) -> Login:
    """Return the login: with GitHub if it is set up, otherwise with passwords.

    Both can limit the scopes of a user: `UpstreamLogin` takes ``allow={"ada": [READ]}``, and
    `Users` takes a `User` with scopes. Other providers need only a name or a URL.

    Raises:
        ValueError: No user could log in.
    """
    github = settings.github
    if github is not None:
        return UpstreamLogin(
            "github",
            client_id=github.client_id,
            client_secret=github.client_secret,
            allow=github.users,
        )
    users = read_users(settings.data)
    if not users:
        raise ValueError(
            "no user can log in: add one with `python -m __PACKAGE__.users NAME`,"
            " or set GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET and GITHUB_USERS"
        )
    return Users(users)


def http_options(settings: Settings) -> HttpOptions:
    """Return the options for serving over HTTP, with the login.

    Without a secret, as in development, logins end with the process.

    Raises:
        ValueError: A setting is invalid.
    """
    server = AuthorizationServer(
        login(settings),
        settings.data / "logins.sqlite3" if settings.secrets else None,
        secret=settings.secrets,
        scopes=MEANINGS,
    )
    options: HttpOptions = {"auth": server}
    if settings.public_url is not None:
        options["public_url"] = settings.public_url
        # A proxy on the same machine may pass on its public host name.
        options["allowed_hosts"] = [urlsplit(settings.public_url).hostname or ""]
    return options
