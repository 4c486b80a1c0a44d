"""Stores for the credentials of a client: registrations and tokens, by server."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, TypeAlias

import anyio
from annotated_types import Predicate
from anyio import to_thread
from pydantic import FiniteFloat, TypeAdapter

from mcpkit._environment import variable
from mcpkit._utils.fetch import is_token
from mcpkit._utils.turns import Turns
from mcpkit.client.auth.base import AuthorizationFailed
from mcpkit.permissions import is_scope

_SERVICE: Final = "mcpkit"
_PARTIAL: Final = ".partial"
_EARLY_S: Final = 30.0  # seconds before its expiry at which a token that lasts longer is refreshed
_LOCKED_S: Final = 60.0  # seconds to wait for another process that refreshes a token
_PAUSE_S: Final = 0.02
_LEFT_S: Final = 60.0  # seconds after which a temporary file belongs to a process that was killed
MAX_FILE: Final = 1024 * 1024


# A file of credentials is validated by these: who can write it can write anything.
Token: TypeAlias = Annotated[str, Predicate(is_token)]
Scope: TypeAlias = Annotated[str, Predicate(is_scope)]


@dataclass(frozen=True)
class Credentials:
    """The registration and the tokens of a client for one server.

    Args:
        issuer: The issuer of these credentials: for another one they do not exist.
        resource: The server that the tokens are for.
        client_id: The id of the client at the issuer.
        client_secret: Its secret, if it has one.
        client_method: How the client authenticates.
        redirect_uri: The redirect URI that it has registered.
        access_token: The token.
        expires_at: When the token expires, in seconds since the epoch; None: unknown.
        lifetime: Seconds from the issue of the token to its expiry; None: unknown.
        refresh_token: For the next token.
        scopes: The scopes that were requested.
        granted: The scopes that were granted; None: those requested (RFC 6749, 5.1).
        grant: The grant of a program that needs no user, such as ``client_credentials``; empty if a
            user has logged in.
        proof_key: The private key that the tokens are bound to.
    """

    issuer: str
    resource: str = ""
    client_id: str = ""
    client_secret: str | None = field(default=None, repr=False)
    client_method: str = "none"
    redirect_uri: str = ""
    access_token: Token | None = field(default=None, repr=False)
    expires_at: FiniteFloat | None = None
    lifetime: FiniteFloat | None = None
    refresh_token: str | None = field(default=None, repr=False)
    scopes: tuple[Scope, ...] | None = None
    granted: tuple[Scope, ...] | None = None
    grant: str = ""
    proof_key: str | None = field(default=None, repr=False)

    @property
    def is_fresh(self) -> bool:
        """True if there is a token that does not expire soon."""
        if self.access_token is None:
            return False
        early = _EARLY_S if self.lifetime is None else min(_EARLY_S, self.lifetime / 4)
        return self.expires_at is None or self.expires_at - early > time.time()

    @property
    def has_ended(self) -> bool:
        """True if there is a token that has expired."""
        return self.expires_at is not None and self.expires_at <= time.time()

    def without_tokens(self) -> Credentials:
        """Return the registration alone."""
        return Credentials(
            self.issuer,
            self.resource,
            self.client_id,
            self.client_secret,
            self.client_method,
            self.redirect_uri,
            grant=self.grant,
        )

    def to_json(self) -> str:
        """Return the credentials as JSON, including all secrets."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Credentials | None:
        """Return the credentials in a JSON text; None if it is not valid."""
        try:
            return _CREDENTIALS.validate_json(text)
        except ValueError:
            return None


_CREDENTIALS: Final = TypeAdapter(Credentials)


class TokenStore(Protocol):
    """Stores credentials by the URL of their server."""

    async def get(self, url: str) -> Credentials | None:
        """Return the credentials for a server; None if there are none."""
        ...

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        ...

    def lock(self, url: str) -> Any:
        """Return an async context manager: a lock that one task of all processes holds at a time.

        A refresh token may be good for one use only, so it is redeemed under this lock.
        """
        ...


class MemoryTokenStore:
    """Stores credentials in this process, for one event loop at a time."""

    def __init__(self) -> None:
        self._kept: dict[str, Credentials] = {}
        self._turns = Turns(1)

    def __repr__(self) -> str:
        return f"<MemoryTokenStore: {len(self._kept)}>"

    async def get(self, url: str) -> Credentials | None:
        """Return the credentials for a server."""
        return self._kept.get(url)

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Store the credentials for a server."""
        if credentials is None:
            self._kept.pop(url, None)
        else:
            self._kept[url] = credentials

    def lock(self, url: str) -> anyio.Semaphore:
        """Return the lock of a server in this process."""
        return self._turns.of(url)


class FileTokenStore:
    """Stores credentials in files that only the user can read, or in the platform's keyring.

    Args:
        folder: The folder of the files, created if necessary. By default ``mcpkit/credentials`` in
            the user's configuration.
        keyring: A module such as `keyring`, with `get_password`, `set_password` and
            `delete_password`; the folder has only locks then.

    Each method raises `AuthorizationFailed` if the files, or the keyring, cannot be used.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, keyring: Any = None) -> None:
        self._folder = _configuration() / "credentials" if folder is None else Path(folder)
        self._keyring = keyring

    def __repr__(self) -> str:
        return f"<FileTokenStore: {'the keyring' if self._keyring else self._folder}>"

    def place(self, url: str) -> str:
        """Return where the credentials for a server are stored, for messages."""
        return str(self._path(url)) if self._keyring is None else "the keyring of this machine"

    async def get(self, url: str) -> Credentials | None:
        """Return the credentials for a server."""

        def read() -> str | None:
            if self._keyring is not None:
                found: Any = self._keyring.get_password(_SERVICE, url)
                return found if isinstance(found, str) else None
            try:
                with open(self._path(url), encoding="utf-8") as file:
                    return file.read(MAX_FILE)
            except (FileNotFoundError, UnicodeError):
                return None

        with self._readable():
            text = await to_thread.run_sync(read)
        return None if text is None else Credentials.from_json(text)

    async def set(self, url: str, credentials: Credentials | None) -> None:
        """Store the credentials for a server atomically; None deletes them."""

        def write() -> None:
            if self._keyring is not None:
                if credentials is not None:
                    self._keyring.set_password(_SERVICE, url, credentials.to_json())
                elif self._keyring.get_password(_SERVICE, url) is not None:
                    self._keyring.delete_password(_SERVICE, url)
            elif credentials is None:
                self._path(url).unlink(missing_ok=True)
            else:
                self._replace(self._path(url), credentials.to_json())

        with self._readable(), anyio.CancelScope(shield=True):
            await to_thread.run_sync(write)

    @asynccontextmanager
    async def lock(self, url: str) -> AsyncGenerator[None, None]:
        """Hold a file lock beside the credentials, which is released when the process ends."""
        path = self._path(url).with_suffix(".lock")
        deadline = time.monotonic() + _LOCKED_S
        while True:
            with self._readable():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = _acquire(path)
            if descriptor is not None:
                break
            if time.monotonic() > deadline:
                raise AuthorizationFailed("another process has not finished refreshing the token")
            await anyio.sleep(_PAUSE_S)
        try:
            yield
        finally:
            os.close(descriptor)

    def _path(self, url: str) -> Path:
        return self._folder / f"{sha256(url.encode()).hexdigest()[:32]}.json"

    @contextmanager
    def _readable(self) -> Generator[None, None, None]:
        """Translate errors of the files, or of the keyring, to `AuthorizationFailed`."""
        try:
            yield
        except Exception as error:
            why = type(error).__name__
            if self._keyring is not None:  # locked, or the user denied access
                raise AuthorizationFailed(f"the keyring cannot be used: {why}") from None
            if not isinstance(error, OSError):
                raise
            where = f"credentials cannot be stored in {self._folder}"
            raise AuthorizationFailed(f"{where}: {error.strerror or why}") from None

    def _replace(self, path: Path, text: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by its owner only.
        descriptor, name = tempfile.mkstemp(_PARTIAL, path.stem, self._folder)
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
        for each in self._folder.glob(f"{path.stem}*{_PARTIAL}"):
            with suppress(OSError):
                if time.time() - each.stat().st_mtime > _LEFT_S:
                    each.unlink()  # the process that wrote it was killed


def _acquire(path: Path) -> int | None:
    """Lock a file and return its descriptor; None if another process holds the lock."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, (BlockingIOError, PermissionError)):
            return None
        raise
    return descriptor


def default_store() -> FileTokenStore:
    """Return the store of the commands: the platform's keyring, or files."""
    if given := variable("MCPKIT_CREDENTIALS"):
        return FileTokenStore(given)
    try:
        keyring: Any = import_module("keyring")
        if getattr(keyring.get_keyring(), "priority", 0) > 0:
            return FileTokenStore(keyring=keyring)
    except Exception:  # not installed, or without a backend that works here
        pass
    return FileTokenStore()


def _configuration() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home()) / "mcpkit"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mcpkit"
