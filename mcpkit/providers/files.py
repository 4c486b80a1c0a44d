"""Files and folders as resources; nothing outside a folder can be reached (RES-9).

A path that was checked may lead elsewhere by the time it is opened. So a file is opened component
by component from a descriptor of its folder, without following links. Platforms without such calls
open the path, and compare what they have opened with what is there.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import translate
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._signature.arguments import Arguments
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context
from mcpkit.errors import RegistrationError, ResourceNotFound
from mcpkit.providers import Provider, ProviderContext
from mcpkit.resources import Resource, ResourceTemplate
from mcpkit.types import File

MAX_PATH: Final = 4095
"""The maximum length of a path in bytes, on systems that open long ones."""

_BY_DESCRIPTOR: Final = (
    os.open in os.supports_dir_fd and os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
)
_FILE: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for a writer
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
_NOT_A_FILE: Final = frozenset(
    {errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG}
)
"""The errors of opening something else: a directory, a link (in several ways), a socket."""


def file_resource(
    path: str | os.PathLike[str],
    uri: str | None,
    *,
    mime_type: str | None,
    scopes: tuple[str, ...] = (),
) -> Resource:
    """Return a resource that reads one file, each time again; raises `RegistrationError`."""
    file = Path(path)
    if not file.is_file():
        raise RegistrationError(f"{os.fspath(path)!r} is neither a file nor a directory")
    mime_type = mime_type or _guess(file.name)

    def content() -> File:
        return File(file, mime_type)

    return Resource(
        name=file.name,
        uri=uri or f"files://{quote(file.name)}",
        mime_type=mime_type,
        size=file.stat().st_size,
        plan=CallPlan(content, inspect_handler(content)),
        scopes=scopes,
    )


def _guess(name: str) -> str:
    import mimetypes  # loaded only if files are served

    return mimetypes.guess_type(name)[0] or "application/octet-stream"


class Directory(Provider):
    """A provider of the files below a directory, as they are at the moment; see `MCPKit.files`.
    A link is offered if its target is: inside the directory, not hidden, and matched by the
    pattern.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        uri: str | None = None,
        *,
        pattern: str = "**/*",
        hidden: bool = False,
        mime_type: str | None = None,
    ) -> None:
        self._folder = Folder(path)
        name = self._folder.path.name
        self._max_length = MAX_PATH - len(os.fsencode(self._folder.path)) - 1
        self._pattern = _Pattern(pattern)
        self._hidden = hidden
        base = (uri or f"files://{quote(name)}").rstrip("/")
        try:
            template = UriTemplate(base + "/{+path}")
        except ValueError as error:
            raise RegistrationError(f"the directory {os.fspath(path)!r}: {error}") from None
        signature = inspect_handler(self.read)
        self.template = ResourceTemplate(
            name=name,
            description=f"The files of {name}",
            template=template,
            mime_type=mime_type,
            plan=CallPlan(self.read, signature),
            accepts=Arguments(signature),
            unchecked=frozenset({"path"}),  # `read` checks it
        )
        """The resource template that reads the files."""

        self.base = template.prefix

    # --- as a provider ----------------------------------------------------------------------------

    def attach(self, context: ProviderContext) -> None:
        """Add the template."""
        context.replace([self.template])

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Resource]:
        """Return a resource for each file there is now, in the order of their URIs."""
        # Disks are slow, and a directory may hold many files: never on the event loop.
        return await context.backend.in_thread(functools.partial(self.files, after, limit))

    def files(self, after: str = "", limit: int | None = None) -> list[Resource]:
        """List the files there are now, at most `limit` after a URI. Blocks.

        They are in the order of their URIs; only directories that matter are scanned.
        """
        found: list[Resource] = []
        waiting = [_Place((), "", None, self._pattern.start())]
        while waiting and (limit is None or len(found) < limit):
            place = waiting.pop()
            if place.size is None:
                inside = self._inside(place, after)
                waiting += sorted(inside, key=lambda each: each.uri, reverse=True)
                continue
            name = "/".join(place.parts)
            found.append(
                Resource(
                    name=name,
                    uri=place.uri,
                    mime_type=self._type_of(name),
                    size=place.size,
                    plan=self.template.plan,
                )
            )
        return found

    def _inside(self, place: _Place, after: str) -> Iterator[_Place]:
        """Yield the offered files in a directory, and the directories that may contain some."""
        try:
            entries = self._folder.entries(place.parts)
        except OSError:
            return
        for name, status in entries:
            if not self._is_offered(name):
                continue
            parts = (*place.parts, name)
            path = "/".join(parts)
            try:
                if len(path.encode()) > self._max_length:
                    continue  # it cannot be opened
                uri = self._uri_of(path)
            except ValueError:
                continue  # the name is not text
            matched = self._pattern.advance(place.matched, name)
            if stat.S_ISDIR(status.st_mode):
                below = f"{uri}/"
                if matched and (below > after or after.startswith(below)):
                    yield _Place(parts, below, None, matched)
            elif uri > after and self._pattern.is_complete(matched):
                length: int | None = status.st_size
                if not stat.S_ISREG(status.st_mode):
                    real = self._real(parts) if stat.S_ISLNK(status.st_mode) else None
                    length = None if real is None else self._folder.size(real)
                if length is not None:
                    yield _Place(parts, uri, length, matched)

    # --- one file ---------------------------------------------------------------------------------

    def _uri_of(self, relative: str) -> str:
        return self.template.template.prefix + quote(relative, safe=":/?#[]@!$&'()*+,;=")

    def _type_of(self, name: str) -> str:
        return self.template.mime_type or _guess(name)

    def _is_offered(self, name: str) -> bool:
        if name in ("", ".", "..") or "\\" in name or "\0" in name:
            return False
        return self._hidden or not name.startswith(".")

    def _are_offered(self, parts: Sequence[str]) -> bool:
        return all(map(self._is_offered, parts)) and self._pattern.matches(parts)

    def _real(self, parts: Sequence[str]) -> Sequence[str] | None:
        """Return the path with links resolved; None unless both paths are offered."""
        real = self._folder.resolve(parts) if self._are_offered(parts) else None
        return real if real is not None and self._are_offered(real) else None

    def read(self, path: str) -> File:
        """Read one file; raises `ResourceNotFound`."""
        real = self._real(path.split("/"))
        try:
            if real is not None:
                return File(self._folder.read(real), self._type_of(path))
        except FileNotFoundError:
            pass  # it was removed or replaced meanwhile
        raise ResourceNotFound(self._uri_of(path))


class _Place(NamedTuple):
    """A file, or a directory that may contain some."""

    parts: tuple[str, ...]
    uri: str  # for a directory the prefix of the URIs of its files
    size: int | None  # None for a directory
    matched: frozenset[int]  # see `_Pattern.advance`


class _Pattern:
    """A glob for paths below a directory.

    Each part of a path is matched with every part of the glob that may be next, all at once: the
    time is proportional to the length of the path, however many ``**`` there are.
    """

    def __init__(self, pattern: str) -> None:
        # A final "**" matches files; in Python's own globs it does so since 3.13 only.
        pattern = f"{pattern}/*" if pattern.endswith("**") else pattern
        self._parts = [
            None if part == "**" else re.compile(translate(part)).match
            for part in pattern.strip("/").split("/")
        ]

    def matches(self, parts: Sequence[str]) -> bool:
        return self.is_complete(functools.reduce(self.advance, parts, self.start()))

    def start(self) -> frozenset[int]:
        """Return the positions in the pattern before any name."""
        return self._with_empty({0})

    def advance(self, matched: frozenset[int], name: str) -> frozenset[int]:
        """Return the positions in the pattern after one more name; none if it does not match."""
        following: set[int] = set()
        for position in matched - {len(self._parts)}:
            match = self._parts[position]
            if match is None:
                following.add(position)
            elif match(name):
                following.add(position + 1)
        return self._with_empty(following)

    def is_complete(self, matched: frozenset[int]) -> bool:
        return len(self._parts) in matched

    def _with_empty(self, positions: set[int]) -> frozenset[int]:
        """Add the positions that are reached when ``**`` matches nothing."""
        for position, match in enumerate(self._parts):
            if match is None and position in positions:
                positions.add(position + 1)
        return frozenset(positions)


# --- folders --------------------------------------------------------------------------------------


class Folder:
    """A directory whose files are opened, and nothing outside of it, whatever links are in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve(strict=True)

    def resolve(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return a path with links resolved; None if it does not exist, or leads outside."""
        try:
            real = self.path.joinpath(*parts).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # missing, unreadable, or a loop of links
            return None
        return real.relative_to(self.path).parts if real.is_relative_to(self.path) else None

    def read(self, parts: Sequence[str], limit: int = -1) -> bytes:
        """Return the contents of a file, its first bytes if there is a limit.

        Raises `FileNotFoundError` also if a part is a link.
        """
        try:
            with self._opened(parts, _FILE) as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileNotFoundError
                with open(descriptor, "rb", closefd=False) as file:
                    return file.read(limit)
        except OSError as error:
            if error.errno in _NOT_A_FILE:
                raise FileNotFoundError from None
            raise

    def size(self, parts: Sequence[str]) -> int | None:
        """Return the size of a file; None if there is no such file."""
        try:
            with self._opened(parts, _FILE) as descriptor:
                found = os.fstat(descriptor)
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def entries(self, parts: Sequence[str]) -> list[tuple[str, os.stat_result]]:
        """Return the names in a directory with their status; links are not followed.

        Raises `OSError` if there is no such directory, it is a link, or it cannot be read.
        """
        if _BY_DESCRIPTOR:
            with self._opened(parts, _DIRECTORY) as descriptor:
                return list(_scan(descriptor))
        found = list(_scan(self.path.joinpath(*parts)))
        if self.resolve(parts) != tuple(parts):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return found

    @contextmanager
    def _opened(self, parts: Sequence[str], flags: int) -> Generator[int, None, None]:
        """Open a file or directory below this one, and close it in the end."""
        descriptor = self._open(parts, flags) if _BY_DESCRIPTOR else self._open_path(parts, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, parts: Sequence[str], flags: int) -> int:
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        for position, part in enumerate(parts, 1):
            try:
                following = os.open(
                    part, flags if position == len(parts) else _DIRECTORY, dir_fd=descriptor
                )
            finally:
                os.close(descriptor)
            descriptor = following
        return descriptor

    def _open_path(self, parts: Sequence[str], flags: int) -> int:
        path = self.path.joinpath(*parts)
        descriptor = os.open(path, flags)
        try:
            is_same = os.path.samestat(os.fstat(descriptor), os.lstat(path))
            if not is_same or self.resolve(parts) != tuple(parts):
                raise FileNotFoundError
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _scan(where: int | Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(where) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:  # removed meanwhile
                continue
            yield entry.name, found
