"""Facts of an app that the wire does not show: where its functions are."""

from __future__ import annotations

import ast
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
from pathlib import Path
from typing import Any, Final

from mcpkit.cli.checks.served import Entry, Kind, Location, Served
from mcpkit.cli.target import TargetError, load_app
from mcpkit.support.peers import named

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
            registry = load_app(target).server.registry
    except TargetError:
        return served
    tables: Mapping[Kind, Mapping[str, Any]] = {
        "tool": registry.tools,
        "resource": registry.resources,
        "template": registry.templates,
        "prompt": registry.prompts,
    }

    def known(entries: Iterable[Entry]) -> list[Entry]:
        return [_known(each, tables[each.kind].get(each.name)) for each in entries]

    return replace(
        served,
        tools=known(served.tools),
        resources=known(served.resources),
        templates=known(served.templates),
        prompts=known(served.prompts),
    )


def _known(entry: Entry, registered: Any) -> Entry:
    if registered is None or registered.function is None:
        return entry
    fn = _function(registered.function)
    if fn is None:
        return entry
    return replace(
        entry,
        location=_location(fn),
        untyped_data=_untyped_data(fn),
        foreign_names=tuple(dict.fromkeys(_foreign_names(fn))),
    )


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


def _untyped_data(fn: types.FunctionType) -> bool | None:
    if "return" in fn.__annotations__:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, SyntaxError, TypeError):
        return None
    return any(isinstance(each, _DATA) for each in _returned(tree.body))


def _foreign_names(fn: types.FunctionType) -> Iterator[tuple[str, str]]:
    """Yield what a function uses of its context that is not there, with what to write instead."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, SyntaxError, TypeError):
        return
    contexts = {
        each.arg
        for each in ast.walk(tree)
        if isinstance(each, ast.arg)
        and each.annotation is not None
        and _CONTEXT.search(ast.unparse(each.annotation))
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            row = named("ctx", each.attr) if each.value.id in contexts else None
            if row is not None:
                yield f"{each.value.id}.{each.attr}", row.advice


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
