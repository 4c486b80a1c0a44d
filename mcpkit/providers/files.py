"""Files and directories as resources. Nothing outside a directory can be reached (RES-9)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mcpkit._entries import Entry, Listing, Resource
from mcpkit._from_functions import FunctionResource, FunctionTemplate
from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._signature.arguments import Arguments
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.context import Context, ListKind
from mcpkit.errors import RegistrationError, ResourceNotFound
from mcpkit.providers.folder import Folder
from mcpkit.types import File

__all__ = ["Directory", "file_resource"]


def file_resource(
    path: str | os.PathLike[str], uri: str | None, *, mime_type: str | None
) -> FunctionResource:
    """One file as a resource; it is read anew each time.

    Raises:
        RegistrationError: There is no such file.
    """
    file = Path(path)
    if not file.is_file():
        raise RegistrationError(f"{os.fspath(path)!r} is neither a file nor a directory")
    mime_type = mime_type or _guess(file)

    def content() -> File:
        return File(file, mime_type)

    return FunctionResource(
        name=file.name,
        uri=uri or f"files://{quote(file.name)}",
        mime_type=mime_type,
        size=file.stat().st_size,
        plan=CallPlan(content, inspect_handler(content)),
        uses_context=False,
        function=content,
    )


def _guess(file: Path) -> str:
    import mimetypes  # only those who serve files pay for it

    return mimetypes.guess_type(file.name)[0] or "application/octet-stream"


_LONGEST_PATH: Final = 4095
"""Bytes of a path that systems open, where they open long ones."""


class Directory:
    """The files below a directory, listed as they are at the moment.

    A link is offered if what it leads to is: inside the directory, not hidden, and one of those
    that the pattern chooses.

    Args:
        path: The directory.
        uri: What the URIs of its files begin with; ``files://`` and its name if None.
        pattern: Which files, as a glob relative to it.
        hidden: Whether names that begin with a dot are offered too.
        mime_type: Of every file; guessed from each name if None.
        scopes: That whoever reads them needs.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        uri: str | None = None,
        *,
        pattern: str = "**/*",
        hidden: bool = False,
        mime_type: str | None = None,
        scopes: tuple[str, ...] = (),
    ) -> None:
        self._scopes = scopes
        self._folder = Folder(path)
        self._name = self._folder.path.name
        self._longest = _LONGEST_PATH - len(os.fsencode(self._folder.path)) - 1
        self._base = (uri or f"files://{quote(self._name)}").rstrip("/")
        self._pattern = _Pattern(pattern)
        self._hidden = hidden
        self._mime_type = mime_type
        try:
            self._template = UriTemplate(self._base + "/{+path}")
        except ValueError as error:
            raise RegistrationError(f"the directory {os.fspath(path)!r}: {error}") from None
        self._signature = inspect_handler(self.read)
        self._plan = CallPlan(self.read, self._signature)

    # --- as a provider ----------------------------------------------------------------------------

    @property
    def listings(self) -> frozenset[Listing]:
        """Resources."""
        return frozenset({"resources"})

    async def entries(
        self, listing: Listing, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return an entry for each file there is now, in the order of their URIs."""
        del listing
        # Disks are slow, and a directory may hold many files: never on the event loop.
        return await context.peer.in_thread(partial(self.files, after, limit))

    async def find(self, listing: Listing, key: str, context: Context[Any]) -> Entry | None:
        """Return None: files are read through the template."""
        del listing, key, context
        return None

    def on_change(self, announce: Callable[[ListKind], None]) -> None:
        """Do nothing: nobody watches the directory."""

    def files(self, after: str = "", limit: int | None = None) -> list[Resource]:
        """List the files there are now. Blocks.

        Args:
            after: Only those with a greater URI.
            limit: At most so many; None: all.
        """
        return list(islice(self._walk(after), limit))

    def _walk(self, after: str) -> Iterator[Resource]:
        """Yield the files in the order of their URIs, reading only directories that have some."""
        waiting = [_Place((), "", None, self._pattern.begin())]
        while waiting:
            place = waiting.pop()
            if place.size is not None:
                yield self._entry(place)
            else:
                waiting += sorted(self._inside(place, after), key=_uri_of_place, reverse=True)

    def _inside(self, place: _Place, after: str) -> Iterator[_Place]:
        """Yield the files that a directory offers, and the directories that may have some."""
        for name, mode, size in self._folder.scan(place.parts):
            if not self._is_offered(name):
                continue
            parts = (*place.parts, name)
            uri = self._listed_uri("/".join(parts))
            if uri is None:
                continue
            matched = self._pattern.go_on(place.matched, name)
            if stat.S_ISDIR(mode):
                below = f"{uri}/"
                if matched and (below > after or after.startswith(below)):
                    yield _Place(parts, below, None, matched)
            elif uri > after and self._pattern.is_complete(matched):
                length = size if stat.S_ISREG(mode) else self._size_behind(parts, mode)
                if length is not None:
                    yield _Place(parts, uri, length, matched)

    def _size_behind(self, parts: Sequence[str], mode: int) -> int | None:
        """Return the size of the file behind a link; None if it is not offered."""
        real = self._real(parts) if stat.S_ISLNK(mode) else None
        return None if real is None else self._folder.size(real)

    def _entry(self, place: _Place) -> Resource:
        name = "/".join(place.parts)
        return FunctionResource(
            name=name,
            uri=place.uri,
            mime_type=self._type_of(name),
            size=place.size,
            plan=self._plan,
            uses_context=False,
            scopes=self._scopes,
        )

    def template(self) -> FunctionTemplate:
        """Return the resource template that reads them."""
        return FunctionTemplate(
            name=self._name,
            description=f"The files of {self._name}",
            template=self._template,
            mime_type=self._mime_type,
            plan=self._plan,
            accepts=Arguments(self._signature),
            uses_context=False,
            scopes=self._scopes,
            unchecked=frozenset({"path"}),  # this directory has checks of its own
        )

    # --- one file ---------------------------------------------------------------------------------

    def _uri_of(self, relative: str) -> str:
        # A "%41" in a file's name is no "A": expansion would keep it as it stands.
        return self._template.expand({"path": relative.replace("%", "%25")})

    def _listed_uri(self, relative: str) -> str | None:
        """Return the URI of a path; None if it has none, or nobody could open it."""
        try:
            is_long = len(relative.encode()) > self._longest
            return None if is_long else self._uri_of(relative)
        except ValueError:
            return None  # bytes that are no text

    def _type_of(self, name: str) -> str:
        return self._mime_type or _guess(Path(name))

    def _is_offered(self, name: str) -> bool:
        """Return True if files and directories of this name are offered."""
        if name in ("", ".", "..") or "\\" in name or "\0" in name:
            return False
        return self._hidden or not name.startswith(".")

    def _are_offered(self, parts: Sequence[str]) -> bool:
        return all(map(self._is_offered, parts)) and self._pattern.fits(parts)

    def _real(self, parts: Sequence[str]) -> Sequence[str] | None:
        """Return the path behind links; None unless both are offered."""
        real = self._folder.resolve(parts) if self._are_offered(parts) else None
        return real if real is not None and self._are_offered(real) else None

    def read(self, path: str) -> File:
        """One file.

        Raises:
            ResourceNotFound: It does not exist, is not offered, or lies outside the directory.
        """
        real = self._real(path.split("/"))
        try:
            if real is not None:
                return File(self._folder.read(real), self._type_of(path))
        except FileNotFoundError:
            pass  # it is gone by now, or another one
        raise ResourceNotFound(self._uri_of(path))


class _Place(NamedTuple):
    """A file, or a directory in which there may be some.

    Args:
        parts: Of its path.
        uri: Of the file; of a directory what the URIs of its files begin with.
        size: Of the file; None for a directory.
        matched: How far the pattern has come.
    """

    parts: tuple[str, ...]
    uri: str
    size: int | None
    matched: frozenset[int]


def _uri_of_place(place: _Place) -> str:
    return place.uri


class _Pattern:
    """A glob for paths below a directory.

    A part of a path is matched with every part of the glob that may be next, all at once: the time
    grows with the length of the path, however many ``**`` there are.

    Args:
        pattern: The glob.
    """

    def __init__(self, pattern: str) -> None:
        # Of files below a directory; Python took a final "**" for directories alone until 3.13.
        pattern = f"{pattern}/*" if pattern.endswith("**") else pattern
        self._parts = [
            None if part == "**" else re.compile(translate(part)).match
            for part in pattern.strip("/").split("/")
        ]

    def fits(self, parts: Sequence[str]) -> bool:
        """Return True if the pattern chooses the file with this path."""
        matched = self.begin()
        for part in parts:
            matched = self.go_on(matched, part)
        return self.is_complete(matched)

    def begin(self) -> frozenset[int]:
        """Return the places in the pattern before any name."""
        return self._with_empty({0})

    def go_on(self, matched: frozenset[int], name: str) -> frozenset[int]:
        """Return the places in the pattern behind one more name; none if it does not fit."""
        following: set[int] = set()
        for place in matched:
            if place < len(self._parts):
                match = self._parts[place]
                if match is None:
                    following.add(place)
                elif match(name):
                    following.add(place + 1)
        return self._with_empty(following)

    def is_complete(self, matched: frozenset[int]) -> bool:
        """Return True if nothing of the pattern is left."""
        return len(self._parts) in matched

    def _with_empty(self, places: set[int]) -> frozenset[int]:
        """Add the places that are reached when ``**`` stands for nothing."""
        for place, match in enumerate(self._parts):
            if match is None and place in places:
                places.add(place + 1)
        return frozenset(places)
