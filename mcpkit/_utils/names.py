"""Suggestions for names that do not exist: from the names of other libraries, or by likeness.

The names of FastMCP and the official SDK are in ``names.txt``, each with its replacement. They
serve the errors about unknown names, a rule of ``mcpkit check``, ``mcpkit migrate`` and the
migration guides. The file is read when a name is wrong for the first time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

Library: TypeAlias = Literal["FastMCP", "the official SDK"]

LIBRARIES: Final[dict[str, Library]] = {
    "fastmcp": "FastMCP",
    "mcp": "the official SDK",
    "mcp_types": "the official SDK",
}
"""Top-level module → its library."""

GUIDES: Final[dict[Library, str]] = {
    "FastMCP": "docs/migration/fastmcp.md",
    "the official SDK": "docs/migration/python-sdk.md",
}
"""Library → its migration guide."""

How: TypeAlias = Literal["rename", "drop", "rewrite", "hand", "keep", "guard"]
"""How ``mcpkit migrate`` treats a name.

rename: writes our name. drop: deletes it. rewrite: has a function for it. hand: marks it with a
TODO, and deletes it if it is an option. keep: marks an option and keeps it, because it guards
something: the server must not start before the author has decided. guard: deletes an option whose
replacement stops the server from starting if it is on.
"""


class PeerName(NamedTuple):
    """A name of another library."""

    on: str
    """Its owner: ``ctx``, ``app``, ``answer``, ``import``, or a callable such as ``tool(…)``."""
    theirs: str
    how: How
    ours: str
    """Our name; empty if none means the same."""
    say: str
    """The advice, as the rest of a sentence; ``write`` and our name if empty."""
    guide: str
    """The section of the migration guides about it."""

    @property
    def advice(self) -> str:
        """The advice, as the rest of a sentence."""
        return self.say or f"write {self.ours}"


@cache
def peer_names() -> dict[tuple[str, str], PeerName]:
    """Return the names of other libraries by (owner, name)."""
    from importlib.resources import files

    found: dict[tuple[str, str], PeerName] = {}
    on = ""
    for line in (files("mcpkit._utils") / "names.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            on = line[1:-1]
        elif line and not line.startswith("#"):
            theirs, how, ours, say, guide = (
                "" if each == "-" else each for each in line.split(" | ")
            )
            found[on, theirs] = PeerName(on, theirs, cast("How", how), ours, say, f"#{guide}")
    return found


def peer_name(on: str, theirs: str) -> PeerName | None:
    """Return a name of another library; None if it is not in the table."""
    return peer_names().get((on, theirs))


def library_of(found: Any) -> Library | None:
    """Return the library that defines a class, or the class of an object; None for any other."""
    kind = found if isinstance(found, type) else type(found)
    return LIBRARIES.get(str(getattr(kind, "__module__", "")).partition(".")[0])


def suggest(on: str, name: str, known: Iterable[str]) -> str:
    """Return advice about an unknown name of an owner, as the rest of a sentence."""
    peer = peer_name(on, name)
    if peer is not None:
        return peer.advice
    import difflib

    names = sorted(known) if isinstance(known, frozenset) else list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__))


def caller() -> str:
    """Return ``file:line: `` of the innermost frame outside mcpkit; empty if there is none."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: "


def unknown_attribute(found: object, on: str, name: str) -> AttributeError:
    """Return the error for an unknown attribute of an object, whose name is `on`."""
    kind = type(found).__name__
    if name.startswith("__"):
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=found)
    known = [each for each in dir(type(found)) if not each.startswith("_")]
    advice = suggest(on, name, known)
    # Without `obj`, for which Python would add its own suggestion.
    return AttributeError(f"{caller()}there is no {on}.{name}; {advice}", name=name)


_F = TypeVar("_F", bound=Callable[..., Any])


def with_suggestions(on: str | None = None) -> Callable[[_F], _F]:
    """Return a decorator for functions that reject unknown keywords with a suggestion.

    Args:
        on: The function, as in `PeerName`; None for the class of its first argument.
    """

    def decorate(fn: _F) -> _F:
        code = cast("Any", fn).__code__
        known = frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

        @wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if not options.keys() <= known:
                check_keywords(on or f"{type(args[0]).__name__}(…)", options, known)
            return fn(*args, **options)

        return cast("_F", call)

    return decorate


def check_keywords(on: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for an unknown keyword, with the line of the call and a suggestion.

    Args:
        on: The callable, as in `PeerName`.
        options: The given keywords.
        known: The accepted keywords.
    """
    for name in options:
        if name not in known:
            advice = suggest(on, name, known)
            called = on.replace("(…)", "()")
            raise TypeError(f"{caller()}{called} has no option {name!r}; {advice}")
