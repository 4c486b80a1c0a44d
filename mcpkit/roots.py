"""Roots: the folders and files that a client shows to servers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.revisions import Revision
from mcpkit._utils.json import is_array, is_object
from mcpkit.errors import InvalidInputResponse

if TYPE_CHECKING:
    from pathlib import Path


class Root(NamedTuple):
    """A folder or file that the client shows to servers: a hint, not a permission (ROOT-1).

    Args:
        uri: A ``file://`` URI.
        name: For the user; None if it has no name.
    """

    uri: str
    name: str | None = None

    @property
    def path(self) -> Path | None:
        """The directory or file, percent-decoded; None if the URI is not a local file."""
        from pathlib import Path  # loaded only if roots are used
        from urllib.parse import unquote, urlsplit

        try:
            parts = urlsplit(self.uri)
        except ValueError:
            return None
        if parts.scheme != "file" or parts.netloc.lower() not in ("", "localhost"):
            return None
        path = unquote(parts.path)
        if not path.startswith("/"):  # relative to the working directory of this process
            return None
        if os.name == "nt" and re.match(r"/[A-Za-z]:", path):
            path = path[1:]
        return Path(path)

    def contains(self, path: str | os.PathLike[str]) -> bool:
        """Return True if a path is inside, after resolving symbolic links and ``..``.

        Args:
            path: A path, or a ``file://`` URI.
        """
        from pathlib import Path  # as above

        root = self.path
        text = os.fspath(path)
        inner = Root(text).path if text.startswith("file:") else Path(text)
        if root is None or inner is None or "\0" in os.fspath(inner):
            return False
        try:
            return inner.resolve().is_relative_to(root.resolve())
        except (OSError, RuntimeError, ValueError):
            return False


class Roots(InputRequest[list[Root]]):
    """A request for the client's roots."""

    METHOD = "roots/list"
    # On 2026-07-28 each answer runs the handler again: asking twice would repeat its side effects.
    IS_ASKED_AGAIN = False

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return an empty object, because the request has no params."""
        return {}

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capability for roots."""
        return {"roots": {}}

    def parse_result(self, result: Mapping[str, Any]) -> list[Root]:
        """Return the roots."""
        found = result.get("roots")
        if not is_array(found):
            raise InvalidInputResponse('a roots result needs "roots", an array')
        roots: list[Root] = []
        for each in found:
            uri = each.get("uri") if is_object(each) else None
            if not is_object(each) or not isinstance(uri, str):
                raise InvalidInputResponse('a root needs "uri", a string')
            name = each.get("name")
            roots.append(Root(uri, name if isinstance(name, str) else None))
        return roots
