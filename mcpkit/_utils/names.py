"""Names of another library, or misspelled.

The names of FastMCP and the official SDK are in ``names.txt``, each with its replacement. They
serve the errors about unknown names, a rule of ``mcpkit check``, ``mcpkit migrate`` and the
migration guides. The file is read when a name is wrong for the first time.

Nothing looks them up before a name is found to be missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from types import FrameType
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

How: TypeAlias = Literal["rename", "drop", "rewrite", "hand", "keep", "guard", "move"]
"""How ``mcpkit migrate`` treats a name.

rename: writes our name. drop: deletes it. rewrite: has a function for it. hand: marks it with a
TODO, and deletes it if it is an option. keep: marks an option and keeps it, because it guards
something: the server must not start before the author has decided. guard: deletes an option whose
replacement stops the server from starting if it is on. move: passes an option of the app to its
runs over HTTP, or treats it as by hand. Deleted values stay in a comment unless they are literals.
"""


class PeerName(NamedTuple):
    """A name of another library."""

    on: str
    """Its owner: ``ctx``, ``app``, ``answer``, ``import``, or a callable such as ``tool(…)``;
    ``module`` for the imported names that have no row of their own."""
    theirs: str
    how: How
    ours: str
    """Our name, with its module if it is imported from another than mcpkit; empty if none means
    the same."""
    say: str
    """The advice, as the rest of a sentence; ``write`` and our name if empty."""
    guide: str
    """The section of the migration guides about it."""

    @property
    def advice(self) -> str:
        """The advice, as the rest of a sentence."""
        return self.say or f"write {self.ours}"

    @property
    def home(self) -> tuple[str, str]:
        """The module of our name, and the name in it, for an import."""
        module, _, name = self.ours.rpartition(".")
        return module or "mcpkit", name


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


def peer_import(whole: str) -> PeerName:
    """Return what can be said of a name with its module: by the name, or by its outermost part."""
    row = peer_name("import", whole.rpartition(".")[2])
    if row is not None:
        return row
    return next((row for part in whole.split(".") if (row := peer_name("module", part))), _UNKNOWN)


_UNKNOWN: Final = PeerName(
    "import",
    "",
    "hand",
    "",
    "mcpkit has no equivalent; remove what uses it",
    "#what-is-not-here",
)


def library_of(found: Any) -> Library | None:
    """Return the library that defines a class, or the class of an object; None for any other."""
    kind = found if isinstance(found, type) else type(found)
    return LIBRARIES.get(str(getattr(kind, "__module__", "")).partition(".")[0])


def advice_on(on: str, name: str, known: Iterable[str]) -> str | None:
    """Return advice about an unknown name of an owner; None if it resembles no known one."""
    peer = peer_name(on, name)
    if peer is not None:
        return peer.advice
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else None


def suggest(on: str, name: str, known: Iterable[str]) -> str:
    """Return advice about an unknown name of an owner, as the rest of a sentence."""
    names = sorted(known) if isinstance(known, frozenset) else list(known)
    return advice_on(on, name, names) or f"known: {', '.join(names)}"


# --- errors ---------------------------------------------------------------------------------------

_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def _outside() -> FrameType:
    """Return the innermost frame outside mcpkit and the import system; else the outermost one."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith((_PACKAGE, "<frozen ")) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def caller() -> str:
    """Return ``file:line: `` of the innermost frame outside mcpkit; empty if there is none."""
    frame = _outside()
    path = frame.f_code.co_filename
    return "" if path.startswith(_PACKAGE) else f"{os.path.basename(path)}:{frame.f_lineno}: "


def caller_folder() -> str:
    """Return the folder with the file of that frame; the working directory if it has no file."""
    return os.path.dirname(os.path.abspath(_outside().f_code.co_filename))


def other_attribute(found: object, on: str, name: str) -> Any:
    """Raise `AttributeError` for an unknown attribute of an object that is called `on`."""
    kind = type(found).__name__
    if name.startswith("__"):
        raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=found)
    known = [each for each in dir(type(found)) if not each.startswith("_")]
    advice = suggest(on, name, known)
    # Without `obj`, for which Python would add its own suggestion.
    raise AttributeError(f"{caller()}there is no {on}.{name}; {advice}", name=name)


_F = TypeVar("_F", bound=Callable[..., Any])


def with_suggestions(on: str | None = None) -> Callable[[_F], _F]:
    """Return a decorator for functions and classes that suggests a keyword for an unknown one.

    Args:
        on: The function, as in `PeerName`; None for the class of its first argument.
    """

    def decorate(fn: _F) -> _F:
        if isinstance(fn, type):  # a dataclass
            fn.__init__ = decorate(fn.__init__)  # type: ignore[misc]
            return cast("_F", fn)
        code = getattr(fn, "__wrapped__", cast("Any", fn)).__code__
        known = frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

        @wraps(fn)
        def call(*args: Any, **options: Any) -> Any:
            if not options.keys() <= known:
                called = on or f"{type(args[0]).__name__}(…)"
                check_keywords(called, options, known)
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
