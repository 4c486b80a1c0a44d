"""Names that are not there, refused with the ones that are meant: by the table, or by likeness.

Nothing here costs anything until somebody gets a name wrong; the table is loaded then.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

__all__ = [
    "LIBRARIES",
    "Library",
    "caller",
    "check_keywords",
    "library_of",
    "suggest",
    "unknown_attribute",
    "with_suggestions",
]

Library: TypeAlias = Literal["FastMCP", "the official SDK"]

LIBRARIES: Final[dict[str, Library]] = {
    "fastmcp": "FastMCP",
    "mcp": "the official SDK",
    "mcp_types": "the official SDK",
}
"""Root of a module → whose it is."""


def library_of(found: Any) -> Library | None:
    """Return the library that a class, or the class of an object, is from; None for any other."""
    kind = found if isinstance(found, type) else type(found)
    return LIBRARIES.get(str(getattr(kind, "__module__", "")).partition(".")[0])


def suggest(on: str, name: str, known: Iterable[str]) -> str:
    """Return what to do instead, as the rest of a sentence: by the table, or the nearest name.

    Args:
        on: As in the table.
        name: The one that is not there.
        known: Those that are.
    """
    from mcpkit._utils.peers import named  # only for those who get it wrong

    found = named(on, name)
    if found is not None:
        return found.advice
    import difflib  # as above

    names = sorted(known) if isinstance(known, frozenset) else list(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"


_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__))


def caller() -> str:
    """Return ``file:line: `` of the innermost line that is not ours; empty if there is none."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: "


def unknown_attribute(found: object, on: str, name: str) -> AttributeError:
    """Return the error for an attribute that an object does not have.

    Args:
        found: The object.
        on: As in the table; also how the sentence calls the object.
        name: The attribute.
    """
    kind = type(found).__name__
    if name.startswith("__"):
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=found)
    known = [each for each in dir(type(found)) if not each.startswith("_")]
    advice = suggest(on, name, known)
    # Without `obj`, for which Python would add a guess of its own.
    return AttributeError(f"{caller()}there is no {on}.{name}; {advice}", name=name)


_F = TypeVar("_F", bound=Callable[..., Any])


def with_suggestions(on: str | None = None) -> Callable[[_F], _F]:
    """Have a function refuse keywords that it does not know, by the table or the nearest name.

    Args:
        on: What is called, as in the table; the class of the object that is made, if None.

    Returns:
        A decorator. What it makes raises `TypeError`, with the file and line of the call.
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
    """Refuse keywords that are not known.

    Args:
        on: What is called, as in the table.
        options: The keywords.
        known: Those that there are.

    Raises:
        TypeError: With the file and line of the call, and what to write instead.
    """
    for name in options:
        if name not in known:
            advice = suggest(on, name, known)
            called = on.replace("(…)", "()")
            raise TypeError(f"{caller()}{called} has no option {name!r}; {advice}")
