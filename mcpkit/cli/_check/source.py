"""Facts of an app that the wire does not show: where its functions are."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import inspect
import os
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from mcpkit._signature.docstrings import parse_docstring
from mcpkit._utils.names import peer_name
from mcpkit._utils.targets import is_remote, split
from mcpkit.cli._check.listing import Entry, Kind, Location, Served
from mcpkit.cli._target import TargetError, load_app
from mcpkit.errors import MCPKitError
from mcpkit.tasks.options import TaskSettings

__all__ = ["with_facts"]

_DATA: Final = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)


def with_facts(served: Served, target: str) -> Served:
    """Return a server's lists with the facts of the functions behind them.

    The app is imported into this process, with its prints sent to stderr. If that fails, nothing
    is added: the server has answered, so it can be checked as it is.

    Args:
        served: As gathered from the server.
        target: A Python file or module, as on the command line.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            app = load_app(target)
    except TargetError:
        return served
    registry, settings = app.server.registry, app.server.settings.tasks
    tables: Mapping[Kind, Mapping[str, Any]] = {
        "tool": registry.tools,
        "resource": registry.resources,
        "template": registry.templates,
        "prompt": registry.prompts,
    }

    def known(entries: Iterable[Entry]) -> list[Entry]:
        return [_known(each, tables[each.kind].get(each.name), settings) for each in entries]

    return replace(
        served,
        tools=known(served.tools),
        resources=known(served.resources),
        templates=known(served.templates),
        prompts=known(served.prompts),
        open_at=_open_at(app._http),
        closed=_closed(app._http, tables.values(), target),
    )


def _open_at(options: Mapping[str, Any]) -> str:
    """Return the URL that an app is meant to be at for everybody; empty if it does not say."""
    url: Any = options.get("public_url")
    return url if isinstance(url, str) and not _knows_callers(options) and is_remote(url) else ""


def _knows_callers(options: Mapping[str, Any]) -> bool:
    return bool(options.get("auth") or options.get("principal"))


def _closed(
    options: Mapping[str, Any], tables: Iterable[Mapping[str, Any]], target: str
) -> tuple[str, ...]:
    """Return the entries that need scopes, if nothing says who calls.

    The options of an app may also be given where it is served, which may be in a file that is not
    imported. So whatever looks like one in the source of the project counts.
    """
    needing = [name for table in tables for name, each in table.items() if each.scopes]
    if not needing or _knows_callers(options) or any(map(_ASKS.search, _sources(target))):
        return ()
    return tuple(needing)


_ASKS: Final = re.compile(r"""\b(?:auth|principal)\s*=(?!=)|["'](?:auth|principal)["']\s*[:\]]""")
_MOST_FILES: Final = 500


def _sources(target: str) -> Iterator[str]:
    """Yield the source of a target, and of what may serve it: its package, or who names it."""
    place, _ = split(target)
    found = place if os.path.isfile(place) else getattr(sys.modules.get(place), "__file__", None)
    if found is None:
        return
    own = Path(found).resolve()
    root = own.parent
    while (root / "__init__.py").is_file() and (root.parent / "__init__.py").is_file():
        root = root.parent
    is_package = (root / "__init__.py").is_file()
    files = root.rglob("*.py") if is_package else root.glob("*.py")
    for each in (own, *islice(files, _MOST_FILES)):
        with contextlib.suppress(OSError):
            text = each.read_text(encoding="utf-8", errors="replace")
            if is_package or each == own or own.stem in text:
                yield text


def _known(entry: Entry, registered: Any, settings: TaskSettings) -> Entry:
    if registered is None:
        return entry
    entry = replace(entry, task_times=_task_times(registered, settings))
    if registered.function is None:
        return entry
    fn = _function(registered.function)
    if fn is None:
        return entry
    body = _body(fn)
    return replace(
        entry,
        location=_location(fn),
        untyped_data=_untyped_data(fn, body),
        hidden_errors=tuple(dict.fromkeys(_hidden_errors(fn, body, registered.errors))),
        unknown_parameters=tuple(_unknown_parameters(fn)),
        foreign_names=tuple(dict.fromkeys(_foreign_names(body))),
        slow=_slow(body) if getattr(registered, "task", None) == "forbidden" else "",
    )


def _task_times(registered: Any, settings: TaskSettings) -> tuple[float, float] | None:
    if getattr(registered, "task", "forbidden") == "forbidden":
        return None
    ttl = settings.ttl if registered.task_ttl is None else registered.task_ttl
    return None if ttl is None else (ttl, settings.poll_interval)


def _function(fn: Callable[..., Any]) -> types.FunctionType | None:
    """Return the function that an author has written; None for what has no code in Python."""
    found: Any = fn
    while isinstance(found, functools.partial):
        found = found.func
    found = inspect.unwrap(found)
    if isinstance(found, types.MethodType):
        found = found.__func__
    if not isinstance(found, types.FunctionType):
        found = getattr(found, "__call__", None)  # noqa: B004
        found = getattr(found, "__func__", found)
    return found if isinstance(found, types.FunctionType) else None


def _location(fn: types.FunctionType) -> Location | None:
    path = Path(fn.__code__.co_filename)
    if not path.is_file():
        return None
    with contextlib.suppress(ValueError):
        path = Path(os.path.abspath(path)).relative_to(Path.cwd())
    return Location(path.as_posix(), fn.__code__.co_firstlineno)


def _body(fn: types.FunctionType) -> list[ast.stmt] | None:
    """Return the source of a function as the body of a module; None if there is none."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(fn))).body
    except (OSError, SyntaxError, TypeError):
        return None


def _untyped_data(fn: types.FunctionType, body: list[ast.stmt] | None) -> bool | None:
    if "return" in fn.__annotations__:
        return False
    if body is None:
        return None
    return any(isinstance(each, _DATA) for each in _returned(body))


def _hidden_errors(
    fn: types.FunctionType, body: list[ast.stmt] | None, shown: tuple[type[Exception], ...]
) -> Iterator[str]:
    """Yield the exceptions with a text that a function raises itself, and that are not shown.

    Only what is plain to see: the class is found by its name, it has a text, and nothing around it
    catches it.
    """
    known = {**vars(builtins), **fn.__globals__, **inspect.getclosurevars(fn).nonlocals}
    for name, caught_by in _raised(body[0] if body else None, ()):
        kind = _found(known, name)
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            continue
        if issubclass(kind, (MCPKitError, NotImplementedError, AssertionError, *shown)):
            continue
        caught = [_found(known, each) for each in caught_by]
        if not any(each is None or _catches(each, kind) for each in caught):
            yield kind.__name__


def _catches(found: Any, kind: type[Exception]) -> bool:
    return isinstance(found, type) and issubclass(kind, found)


def _unknown_parameters(fn: types.FunctionType) -> Iterator[str]:
    """Yield what a docstring describes as a parameter, and the function does not take."""
    parameters = inspect.signature(fn).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for name in parse_docstring(inspect.getdoc(fn) or "").parameters:
        if name not in parameters:
            yield name


def _found(known: Mapping[str, Any], name: str) -> Any:
    """Return what a dotted name stands for; None if it is not known."""
    first, *rest = name.split(".")
    found = known.get(first)
    for each in rest:
        found = getattr(found, each, None)
    return found


def _raised(node: ast.AST | None, caught_by: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of classes that are raised with a text, and what would catch each."""
    if isinstance(node, ast.Raise):
        if isinstance(node.exc, ast.Call) and node.exc.args:
            yield ast.unparse(node.exc.func), [*caught_by]
        return
    if isinstance(node, ast.Try):
        handled: list[str] = []
        for handler in node.handlers:
            several = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            handled += ["BaseException" if each is None else ast.unparse(each) for each in several]
        for inner in node.body:
            yield from _raised(inner, (*caught_by, *handled))
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            yield from _raised(other, caught_by)
        return
    for each in ast.iter_child_nodes(node) if node is not None else ():
        if not isinstance(each, _SCOPES):
            yield from _raised(each, caught_by)


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _foreign_names(body: list[ast.stmt] | None) -> Iterator[tuple[str, str]]:
    """Yield what a function uses of its context that is not there, with what to write instead."""
    for name, attribute in _uses_of_contexts(body):
        row = peer_name("ctx", attribute)
        if row is not None:
            yield f"{name}.{attribute}", row.advice


def _uses_of_contexts(body: list[ast.stmt] | None) -> Iterator[tuple[str, str]]:
    """Yield the name of a function's context, and of what it uses of it."""
    tree = ast.Module(body or [], [])
    contexts = {
        each.arg
        for each in ast.walk(tree)
        if isinstance(each, ast.arg)
        and each.annotation is not None
        and _CONTEXT.search(ast.unparse(each.annotation))
    }
    for each in ast.walk(tree):
        used = each.value if isinstance(each, ast.Attribute) else None
        if isinstance(each, ast.Attribute) and isinstance(used, ast.Name) and used.id in contexts:
            yield used.id, each.attr


def _slow(body: list[ast.stmt] | None) -> str:
    """Return what shows that a function takes long; empty if nothing does."""
    if any(attribute == "progress" for _, attribute in _uses_of_contexts(body)):
        return "reports progress"
    for each in ast.walk(ast.Module(body or [], [])):
        if isinstance(each, ast.Call) and _SLEEPS.fullmatch(ast.unparse(each.func)):
            given = each.args[0] if each.args else None
            seconds = given.value if isinstance(given, ast.Constant) else None
            if isinstance(seconds, (int, float)) and seconds >= _LONG_S:
                return f"sleeps for {seconds:g} s"
    return ""


_SLEEPS: Final = re.compile(r"(?:(?:time|asyncio|anyio|trio)\.)?sleep")
_LONG_S: Final = 10
"""Seconds that a whole call of a usual tool does not take."""

_CONTEXT: Final = re.compile(r"\b(Sync)?Context\b")


def _returned(body: Iterable[ast.AST], *, inside: bool = False) -> Iterable[ast.expr | None]:
    """Yield the values that a function returns, without those of functions inside it."""
    for node in body:
        if isinstance(node, ast.Return):
            yield node.value
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            if not inside and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _returned(node.body, inside=True)
        else:
            yield from _returned(ast.iter_child_nodes(node), inside=inside)
