"""The login in front of the server: an authorization server of its own, and who may come in."""

from urllib.parse import urlsplit

from mcpkit import HttpOptions
from mcpkit.auth import AuthorizationServer, Login, UpstreamLogin, Users

from .settings import Settings
from .users import read_users

READ = "notes:read"
WRITE = "notes:write"

MEANINGS = {READ: "Read your notes", WRITE: "Write and delete your notes"}
"""What users are asked to allow a client, by scope."""


def login(settings: Settings) -> Login:
    """Find out who a user is: by an account at GitHub, or else by a password of ours.

    Both can limit what a user may allow: `UpstreamLogin` takes ``allow={"ada": [READ]}``, and
    `Users` takes a `User` with scopes. Other providers are a name or a URL away.

    Raises:
        ValueError: There is nobody who could log in.
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
            "nobody can log in: make a user with `python -m __PACKAGE__.users NAME`,"
            " or set GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET and GITHUB_USERS"
        )
    return Users(users)


def http_options(settings: Settings) -> HttpOptions:
    """The options for serving over HTTP, with the login in front.

    Without a secret, as on the machine of a developer, logins end with the process.

    Raises:
        ValueError: A setting makes no sense.
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
        # A proxy on the same machine may pass on the name by which it is known.
        options["allowed_hosts"] = [urlsplit(settings.public_url).hostname or ""]
    return options
