"""Files and directories as resources. Nothing outside a directory can be reached (RES-9)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from mcpkit.engine.call_plan import CallPlan, inspect_handler
from mcpkit.engine.registry import Resource, ResourceTemplate
from mcpkit.errors import RegistrationError, ResourceNotFound
from mcpkit.functions.arguments import Arguments
from mcpkit.functions.uri_template import UriTemplate
from mcpkit.types import File

__all__ = ["Directory", "file_resource"]


def file_resource(
    path: str | os.PathLike[str], uri: str | None, *, mime_type: str | None
) -> Resource:
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

    return Resource(
        name=file.name,
        uri=uri or f"files://{quote(file.name)}",
        mime_type=mime_type,
        size=file.stat().st_size,
        plan=CallPlan(content, inspect_handler(content)),
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
        self._pattern = pattern
        self._hidden = hidden
        self._mime_type = mime_type
        try:
            self._template = UriTemplate(self._base + "/{+path}")
        except ValueError as error:
            raise RegistrationError(f"the directory {os.fspath(path)!r}: {error}") from None
        self._signature = inspect_handler(self.read)
        self._plan = CallPlan(self.read, self._signature)

    def resources(self) -> Iterable[Resource]:
        """An entry for each file there is now."""
        for file in sorted(self._root.glob(self._pattern)):
            relative = file.relative_to(self._root).as_posix()
            if not self._offers(relative):
                continue
            size = file.stat().st_size
            yield Resource(
                name=relative,
                uri=self._uri_of(relative),
                mime_type=self._type_of(file),
                size=size,
                plan=self._plan,
            )

    def template(self) -> ResourceTemplate:
        """What reads them."""
        return ResourceTemplate(
            name=self._root.name,
            description=f"The files of {self._root.name}",
            template=self._template,
            mime_type=self._mime_type,
            plan=self._plan,
            arguments=Arguments(self._signature),
        )

    def _uri_of(self, relative: str) -> str:
        # A "%41" in a file's name is no "A": expansion would keep it as it stands.
        return self._template.expand({"path": relative.replace("%", "%25")})

    def _type_of(self, file: Path) -> str:
        return self._mime_type or _guess(file)

    def _offers(self, relative: str) -> bool:
        return self._inside(relative) is not None

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
        if real is None or (self._pattern != "**/*" and not self._matches(path)):
            raise ResourceNotFound(self._uri_of(path))
        return File(real, self._type_of(real))

    def _matches(self, relative: str) -> bool:
        return any(
            each.relative_to(self._root).as_posix() == relative
            for each in self._root.glob(self._pattern)
        )
