"""Files and directories as resources. Nothing outside a directory can be reached (RES-9)."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fnmatch import translate
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mcpkit.context import Context, ListKind
from mcpkit.engine.call_plan import CallPlan, inspect_handler
from mcpkit.engine.entries import Entry, Listing, Resource
from mcpkit.engine.from_functions import FunctionResource, FunctionTemplate
from mcpkit.errors import RegistrationError, ResourceNotFound
from mcpkit.functions.arguments import Arguments
from mcpkit.functions.uri_template import UriTemplate
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


class Directory:
    """The files below a directory, listed as they are at the moment.

    Args:
        path: The directory.
        uri: What the URIs of its files begin with; ``files://`` and its name if None.
        pattern: Which files, as a glob relative to it.
        hidden: Whether names that begin with a dot are offered too.
        mime_type: Of every file; guessed from each name if None.
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
        self._root = Path(path).resolve(strict=True)
        self._base = (uri or f"files://{quote(self._root.name)}").rstrip("/")
        # Of files below a directory; Python took a final "**" for directories alone until 3.13.
        self._pattern = f"{pattern}/*" if pattern.endswith("**") else pattern
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
        # Names alone are found quickly; what else there is to know of a file is asked for those
        # only that are wanted.
        found = sorted(
            (self._uri_of(relative), relative)
            for file in self._root.glob(self._pattern)
            for relative in [file.relative_to(self._root).as_posix()]
        )
        made: list[Resource] = []
        for uri, relative in found[bisect_right(found, (after, _LAST)) :]:
            if limit is not None and len(made) >= limit:
                break
            real = self._inside(relative)
            if real is not None:
                made.append(self._entry(uri, relative, real))
        return made

    def _entry(self, uri: str, relative: str, real: Path) -> Resource:
        return FunctionResource(
            name=relative,
            uri=uri,
            mime_type=self._type_of(self._root / relative),
            size=real.stat().st_size,
            plan=self._plan,
            uses_context=False,
        )

    def template(self) -> FunctionTemplate:
        """Return the resource template that reads them."""
        return FunctionTemplate(
            name=self._root.name,
            description=f"The files of {self._root.name}",
            template=self._template,
            mime_type=self._mime_type,
            plan=self._plan,
            accepts=Arguments(self._signature),
            uses_context=False,
        )

    # --- one file ---------------------------------------------------------------------------------

    def _uri_of(self, relative: str) -> str:
        # A "%41" in a file's name is no "A": expansion would keep it as it stands.
        return self._template.expand({"path": relative.replace("%", "%25")})

    def _type_of(self, file: Path) -> str:
        return self._mime_type or _guess(file)

    def _inside(self, relative: str) -> Path | None:
        """The real file behind a relative path; None unless it lies inside and is offered."""
        parts = relative.split("/")
        if "\0" in relative or any(part in ("", ".", "..") or "\\" in part for part in parts):
            return None
        if not self._hidden and any(part.startswith(".") for part in parts):
            return None
        try:
            real = (self._root / relative).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # missing, unreadable, or a loop of links
            return None
        if not real.is_relative_to(self._root) or not real.is_file():
            return None
        return real

    def read(self, path: str) -> File:
        """One file.

        Raises:
            ResourceNotFound: It does not exist, is not offered, or lies outside the directory.
        """
        real = self._inside(path)
        if real is None or not _fits(self._pattern, path):
            raise ResourceNotFound(self._uri_of(path))
        return File(real, self._type_of(real))


_LAST: Final = "\U0010ffff"
"""Greater than any relative path that a file system can have."""


def _fits(pattern: str, relative: str) -> bool:
    """True if a glob below a directory would find the file with this relative path."""
    return _fits_parts(pattern.strip("/").split("/"), relative.split("/"))


def _fits_parts(patterns: Sequence[str], parts: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    first, *rest = patterns
    if first == "**":
        return any(_fits_parts(rest, parts[skipped:]) for skipped in range(len(parts) + 1))
    return (
        bool(parts)
        and re.match(translate(first), parts[0]) is not None
        and _fits_parts(rest, parts[1:])
    )
