"""What a client keeps of its logins: registrations, tokens, and whose they are."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from anyio import to_thread

from mcpkit.oauth.errors import AuthorizationFailed

__all__ = ["Credentials", "FileTokenStore", "MemoryTokenStore", "TokenStore", "default_store"]

_SERVICE: Final = "mcpkit"
_EARLY_S: Final = 30.0
"""Seconds before its end at which a token is renewed."""

_STALE_S: Final = 60.0
"""Seconds after which a lock is somebody's who has died."""


@dataclass(frozen=True)
class Credentials:
    """All that is kept for one server.

    Args:
        issuer: Whose credentials these are: for another issuer they do not exist.
        resource: The server that the tokens are for.
        client_id: Of the registration.
        client_secret: Of it, if there is one.
        client_method: How the client authenticates.
        redirect_uri: That it has registered.
        access_token: The token.
        expires_at: When it ends, in seconds since the epoch; None: not known.
        refresh_token: To get another one.
        scopes: That were asked for.
        granted: That were given; None: those that were asked for (RFC 6749, 5.1).
        grant: How a program gets another token without a user, such as ``client_credentials``;
            empty if a user has logged in.
        proof_key: The private key that the tokens are bound to.
    """

    issuer: str
    resource: str = ""
    client_id: str = ""
    client_secret: str | None = field(default=None, repr=False)
    client_method: str = "none"
    redirect_uri: str = ""
    access_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    granted: tuple[str, ...] | None = None
    grant: str = ""
    proof_key: str | None = field(default=None, repr=False)

    @property
    def is_fresh(self) -> bool:
        """True if there is a token that does not end at once."""
        if self.access_token is None:
            return False
        return self.expires_at is None or self.expires_at - _EARLY_S > time.time()

    def without_tokens(self) -> Credentials:
        """Return the registration alone."""
        return replace(
            self,
            access_token=None,
            expires_at=None,
            refresh_token=None,
            scopes=None,
            granted=None,
        )

    def to_json(self) -> str:
        """Return it as text, with everything that is secret in it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Credentials | None:
        """Return what was written; None if it is not readable."""
        try:
            found: dict[str, Any] = json.loads(text)
            for name in ("scopes", "granted"):
                scopes: Any = found.get(name)
                found[name] = None if scopes is None else tuple(scopes)
            return cls(**found)
        except (ValueError, TypeError, AttributeError):
            return None


class TokenStore(Protocol):
    """Keeps credentials by the URL of the server that they are for."""

    async def get(self, url: str) -> Credentials | None:
        """Return what is kept for a server; None if nothing is."""
        ...

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Keep credentials for a server; None forgets them."""
        ...

    def lock(self, url: str) -> Any:
        """Return an async context manager that only one has at a time, of all processes.

        A refresh token may be used once only: whoever renews one holds this.
        """
        ...


class MemoryTokenStore:
    """Keeps credentials in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, Credentials] = {}

    async def get(self, url: str) -> Credentials | None:
        """Return what is kept for a server."""
        return self._kept.get(url)

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Keep credentials for a server."""
        if credentials is None:
            self._kept.pop(url, None)
        else:
            self._kept[url] = credentials

    @asynccontextmanager
    async def lock(self, url: str) -> AsyncGenerator[None, None]:
        """Do nothing: whoever uses this store has a lock of their own."""
        del url
        yield


class FileTokenStore:
    """Keeps credentials in files that only the user can read; or in the platform's keyring.

    Args:
        folder: Where the files are; made if it is not there. By default ``mcpkit/credentials`` in
            the user's configuration.
        keyring: A module such as `keyring`, with `get_password`, `set_password` and
            `delete_password`; the files have locks only then.

    Each method raises `AuthorizationFailed` if the files cannot be read or written.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, keyring: Any = None) -> None:
        self._folder = _configuration() / "credentials" if folder is None else Path(folder)
        self._keyring = keyring

    def __repr__(self) -> str:
        return f"<FileTokenStore: {'the keyring' if self._keyring else self._folder}>"

    def place(self, url: str) -> str:
        """Return where credentials for a server are kept, in words for people."""
        return str(self._path(url)) if self._keyring is None else "the keyring of this machine"

    async def get(self, url: str) -> Credentials | None:
        """Return what is kept for a server."""

        def read() -> str | None:
            if self._keyring is not None:
                found: str | None = self._keyring.get_password(_SERVICE, url)
                return found
            with self._readable(), suppress(FileNotFoundError, UnicodeDecodeError):
                return self._path(url).read_text(encoding="utf-8")
            return None

        text = await to_thread.run_sync(read)
        return None if text is None else Credentials.from_json(text)

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Keep credentials for a server, whole or not at all."""

        def write() -> None:
            if self._keyring is not None:
                if credentials is not None:
                    self._keyring.set_password(_SERVICE, url, credentials.to_json())
                elif self._keyring.get_password(_SERVICE, url) is not None:
                    self._keyring.delete_password(_SERVICE, url)
            elif credentials is None:
                with self._readable():
                    self._path(url).unlink(missing_ok=True)
            else:
                with self._readable():
                    self._replace(self._path(url), credentials.to_json())

        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(write)

    @asynccontextmanager
    async def lock(self, url: str) -> AsyncGenerator[None, None]:
        """Hold the file beside the credentials that says that somebody renews them."""
        path = self._path(url).with_suffix(".lock")
        with self._readable():
            self._make_folder()
        while True:
            with self._readable():
                try:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                    break
                except FileExistsError:
                    with suppress(OSError):
                        if time.time() - path.stat().st_mtime > _STALE_S:
                            path.unlink(missing_ok=True)
                            continue
            await anyio.sleep(0.05)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def _path(self, url: str) -> Path:
        return self._folder / f"{sha256(url.encode()).hexdigest()[:32]}.json"

    @contextmanager
    def _readable(self) -> Generator[None, None, None]:
        """Say in one line what the system says of the files, in here."""
        try:
            yield
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise AuthorizationFailed(
                f"credentials cannot be kept in {self._folder}: {why}"
            ) from None

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _replace(self, path: Path, text: str) -> None:
        self._make_folder()
        descriptor, name = tempfile.mkstemp(dir=self._folder)  # which only the owner may read
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def default_store(environment: Mapping[str, str] | None = None) -> FileTokenStore:
    """Return where the commands keep credentials: the platform's keyring, or files."""
    given = (os.environ if environment is None else environment).get("MCPKIT_CREDENTIALS")
    if given:
        return FileTokenStore(given)
    try:
        from importlib import import_module

        keyring: Any = import_module("keyring")
        backend: Any = keyring.get_keyring()
        if getattr(backend, "priority", 0) > 0:
            return FileTokenStore(keyring=keyring)
    except Exception:  # not installed, or nothing of it works here
        pass
    return FileTokenStore()


def _configuration() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("APPDATA")
        return Path(base or Path.home()) / "mcpkit"
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "mcpkit"
