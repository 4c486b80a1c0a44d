"""What a client keeps of its logins: registrations, tokens, and whose they are."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

import anyio
from anyio import to_thread

from mcpkit._utils.fetch import PerEventLoop
from mcpkit._utils.json import is_array, is_object
from mcpkit.client.auth.base import is_token
from mcpkit.client.auth.errors import AuthorizationFailed
from mcpkit.permissions import is_scope

__all__ = ["Credentials", "FileTokenStore", "MemoryTokenStore", "TokenStore", "default_store"]

_SERVICE: Final = "mcpkit"
_BEGUN: Final = ".begun"
_EARLY_S: Final = 30.0
"""Seconds before its end at which a token is renewed, if it lasts for much longer."""

_LOCKED_S: Final = 60.0
"""Seconds after which nobody waits any more for somebody else who renews."""

_PAUSE_S: Final = 0.02
_LEFT_S: Final = 60.0
"""Seconds after which a file that was begun is somebody's who has died."""

_LARGEST: Final = 1024 * 1024


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
        lifetime: Seconds that it has from its beginning to its end; None: not known.
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
    lifetime: float | None = None
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
        early = _EARLY_S if self.lifetime is None else min(_EARLY_S, self.lifetime / 4)
        return self.expires_at is None or self.expires_at - early > time.time()

    @property
    def has_ended(self) -> bool:
        """True if there is a token whose time is over."""
        return self.expires_at is not None and self.expires_at <= time.time()

    def without_tokens(self) -> Credentials:
        """Return the registration alone."""
        return replace(
            self,
            access_token=None,
            expires_at=None,
            lifetime=None,
            refresh_token=None,
            scopes=None,
            granted=None,
            proof_key=None,
        )

    def to_json(self) -> str:
        """Return it as text, with everything that is secret in it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Credentials | None:
        """Return what was written; None if it is not readable.

        Members that this version does not know are passed over.
        """
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not is_object(found):
            return None
        known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
        if not all(_FITS[name](value) for name, value in known.items()) or "issuer" not in known:
            return None
        for name in ("scopes", "granted"):
            if known.get(name) is not None:
                known[name] = tuple(known[name])
        return cls(**known)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_time(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and math.isfinite(value))


def _are_scopes(value: object) -> bool:
    return value is None or (is_array(value) and all(map(is_scope, value)))


def _is_token_or_none(value: object) -> bool:
    return value is None or is_token(value)


_FITS: Final[dict[str, Callable[[object], bool]]] = {
    "issuer": _is_text,
    "resource": _is_text,
    "client_id": _is_text,
    "client_secret": _is_text_or_none,
    "client_method": _is_text,
    "redirect_uri": _is_text,
    "access_token": _is_token_or_none,
    "expires_at": _is_time,
    "lifetime": _is_time,
    "refresh_token": _is_text_or_none,
    "scopes": _are_scopes,
    "granted": _are_scopes,
    "grant": _is_text,
    "proof_key": _is_text_or_none,
}
"""What each member may be: whoever can write the file can write anything."""


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
    """Keeps credentials in this process, for one event loop at a time."""

    def __init__(self) -> None:
        self._kept: dict[str, Credentials] = {}
        self._locks: PerEventLoop[dict[str, anyio.Lock]] = PerEventLoop(dict)

    def __repr__(self) -> str:
        return f"<MemoryTokenStore: {len(self._kept)}>"

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
        """Hold what one at a time has in this process."""
        async with self._locks.get().setdefault(url, anyio.Lock()):
            yield


class FileTokenStore:
    """Keeps credentials in files that only the user can read; or in the platform's keyring.

    Args:
        folder: Where the files are; made if it is not there. By default ``mcpkit/credentials`` in
            the user's configuration.
        keyring: A module such as `keyring`, with `get_password`, `set_password` and
            `delete_password`; the files have locks only then.

    Each method raises `AuthorizationFailed` if the files, or the keyring, cannot be used.
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
                found: Any = self._keyring.get_password(_SERVICE, url)
                return found if isinstance(found, str) else None
            try:
                with open(self._path(url), encoding="utf-8") as file:
                    return file.read(_LARGEST)
            except (FileNotFoundError, UnicodeError):
                return None

        with self._readable():
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
                self._path(url).unlink(missing_ok=True)
            else:
                self._replace(self._path(url), credentials.to_json())

        with self._readable(), anyio.CancelScope(shield=True):
            await to_thread.run_sync(write)

    @asynccontextmanager
    async def lock(self, url: str) -> AsyncGenerator[None, None]:
        """Hold the lock of a file beside the credentials, which ends with the process.

        Raises:
            AuthorizationFailed: Somebody else does not let go of it, or there can be none.
        """
        path = self._path(url).with_suffix(".lock")
        deadline = time.monotonic() + _LOCKED_S
        while True:
            with self._readable():
                self._make_folder()
                descriptor = take_lock(path)
            if descriptor is not None:
                break
            if time.monotonic() > deadline:
                raise AuthorizationFailed("another process does not finish renewing the token")
            await anyio.sleep(_PAUSE_S)
        try:
            yield
        finally:
            give_lock(path, descriptor)

    def _path(self, url: str) -> Path:
        return self._folder / f"{sha256(url.encode()).hexdigest()[:32]}.json"

    @contextmanager
    def _readable(self) -> Generator[None, None, None]:
        """Say in one line what the system says of the files, or of the keyring, in here."""
        try:
            yield
        except AuthorizationFailed:
            raise
        except Exception as error:
            if self._keyring is not None:  # it is locked, or its user says no
                raise AuthorizationFailed(f"the keyring refuses: {type(error).__name__}") from None
            if not isinstance(error, OSError):
                raise
            why = error.strerror or type(error).__name__
            raise AuthorizationFailed(
                f"credentials cannot be kept in {self._folder}: {why}"
            ) from None

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _replace(self, path: Path, text: str) -> None:
        self._make_folder()
        # Only the owner may read what this makes.
        descriptor, name = tempfile.mkstemp(_BEGUN, path.stem, self._folder)
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
        for each in self._folder.glob(f"{path.stem}*{_BEGUN}"):
            with suppress(OSError):
                if time.time() - each.stat().st_mtime > _LEFT_S:
                    each.unlink()  # whoever began it was killed


if sys.platform == "win32":

    def take_lock(path: Path) -> int | None:
        """Lock a file; None if somebody else has it.

        Raises:
            OSError: It cannot be made.
        """
        import msvcrt

        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def give_lock(path: Path, descriptor: int) -> None:
        """Let go of a file, which stays: one that is open cannot be removed."""
        del path
        os.close(descriptor)

else:

    def take_lock(path: Path) -> int | None:
        """Lock a file; None if somebody else has it.

        Raises:
            OSError: It cannot be made.
        """
        import fcntl

        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.stat(path)
            mine = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass  # somebody else has it, or has just removed it
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def give_lock(path: Path, descriptor: int) -> None:
        """Let go of a file, and remove it, as long as nobody else can have it."""
        path.unlink(missing_ok=True)
        os.close(descriptor)


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
