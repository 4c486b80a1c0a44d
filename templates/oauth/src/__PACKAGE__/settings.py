"""The settings, read from environment variables. README.md lists them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class GitHub:
    """An OAuth app at GitHub, and the users who may log in with it.

    Args:
        client_id: The id of the app.
        client_secret: The secret of the app.
        users: The GitHub logins that are allowed.
    """

    client_id: str
    client_secret: str = field(repr=False)
    users: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """The addresses, files and users of the server.

    Args:
        data: The folder for its files.
        host: The address to listen on.
        port: The port to listen on.
        public_url: The URL that clients use; None: only on this machine.
        secrets: Encrypt the stored logins, the current secret first.
        github: Login with GitHub; None: with the passwords of `users`.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    github: GitHub | None = None


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder ``DATA_DIR`` or ``data``; it is created for its owner only."""
    folder = Path(environment.get("DATA_DIR") or "data")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings from the environment.

    Raises:
        ValueError: A variable is missing or invalid; the message is one line.
        OSError: The data folder cannot be created.
    """
    host = environment.get("HOST") or "127.0.0.1"
    port = environment.get("PORT") or "8000"
    public_url = environment.get("PUBLIC_URL") or None
    secrets = tuple(environment.get("MCPKIT_SECRET", "").split())
    if not port.isdecimal():
        raise ValueError(f"PORT must be a number, not {port!r}")
    if public_url is None and host not in LOOPBACK:
        raise ValueError(
            f"other machines can reach {host}: set PUBLIC_URL to the URL that they use for the"
            " endpoint, such as https://notes.example.com/mcp"
        )
    if public_url is not None and not secrets:
        raise ValueError(
            "MCPKIT_SECRET is not set: generate one with"
            ' `python -c "import secrets; print(secrets.token_hex(32))"`, and keep it'
        )
    github = _github(environment)
    return Settings(data_folder(environment), host, int(port), public_url, secrets, github)


def _github(environment: Mapping[str, str]) -> GitHub | None:
    names = ("GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET", "GITHUB_USERS")
    given = {name: environment.get(name, "").strip() for name in names}
    if not any(given.values()):
        return None
    missing = [name for name, value in given.items() if not value]
    if missing:
        raise ValueError(f"for logins with GitHub, set {' and '.join(missing)} as well")
    client_id, client_secret, users = given.values()
    return GitHub(client_id, client_secret, tuple(users.split()))
