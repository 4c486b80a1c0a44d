"""What an imported app adds to a listing: the file and line of each function, and its code."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import os
import re
import types
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Final

from pydantic import BaseModel

from mcpkit._signature.docstrings import parse_docstring
from mcpkit._signature.hints import syntax_of, underlying
from mcpkit._utils.names import peer_name
from mcpkit._utils.targets import is_remote
from mcpkit.app import MCPKit
from mcpkit.cli._check.listing import READING, Entry, Kind, Listing, Location, words_of
from mcpkit.extensions.apps.options import view_of
from mcpkit.tasks.support import support_of

_CONTEXT: Final = re.compile(r"\b(Sync)?Context\b")


def add_source(listing: Listing, app: MCPKit[Any], *, workers: bool = False) -> Listing:
    """Return a listing with what is known from the functions behind its entries."""
    registry = app.server.registry
    tables: Mapping[Kind, Mapping[str, Any]] = {
        "tool": registry.tools,
        "resource": registry.resources,
        "template": registry.templates,
        "prompt": registry.prompts,
    }
    return replace(
        listing,
        listed=[
            _known(each, tables.get(each.kind, {}).get(each.name), workers)
            for each in listing.listed
        ],
        open_at=_open_at(app._http),
    )


def _open_at(options: Mapping[str, Any]) -> str:
    """Return the public URL of an app without authorization; empty if it has none."""
    url: Any = options.get("public_url")
    secured = options.get("auth") or options.get("principal")
    return url if isinstance(url, str) and not secured and is_remote(url) else ""


def _known(entry: Entry, registered: Any, workers: bool) -> Entry:
    if registered is None:
        return entry
    fn = underlying(registered.plan.fn)
    entry = replace(entry, page=getattr(registered, "text", None))
    if not isinstance(fn, types.FunctionType) or fn.__module__.startswith("mcpkit."):
        return entry
    tree = syntax_of(fn)
    nodes = [*ast.walk(tree)]
    body = [node for each in tree.body for node in getattr(each, "body", ())]
    contexts = _contexts_in(nodes)
    is_on_loop = registered.plan.is_async or registered.plan.inline
    blocking = _blocking_calls(body, fn.__globals__) if is_on_loop else ()
    is_replayed = entry.kind == "tool" and (workers or support_of(registered).mode != "forbidden")
    repeated = _repeated_calls(body, contexts, fn) if is_replayed else ()
    has_view = entry.kind == "tool" and view_of(registered).uri is not None
    lacks_text = has_view and _lacks_text(nodes, registered)
    return replace(
        entry,
        location=_location(fn),
        unknown_parameters=tuple(_unknown_parameters(fn)),
        foreign_names=tuple(dict.fromkeys(_foreign_names(nodes, contexts))),
        blocking_calls=tuple(dict.fromkeys(blocking)),
        repeated_calls=tuple(dict.fromkeys(repeated)),
        lacks_text=lacks_text,
    )


def _lacks_text(nodes: Sequence[ast.AST], tool: Any) -> bool:
    """Return True if a tool returns data, and no text beside it."""
    made = [
        each
        for each in nodes
        if isinstance(each, ast.Call) and ast.unparse(each.func).endswith("ToolResult")
    ]
    has_text = [each.args or any(key.arg == "content" for key in each.keywords) for each in made]
    return not all(has_text) if made else tool.output.schema is not None


def _location(fn: types.FunctionType) -> Location | None:
    path = Path(fn.__code__.co_filename)
    if not path.is_file():
        return None
    return Location(_relative(path), fn.__code__.co_firstlineno)


def _relative(path: Path) -> str:
    with contextlib.suppress(ValueError):
        path = Path(os.path.abspath(path)).relative_to(Path.cwd())
    return path.as_posix()


def _unknown_parameters(fn: types.FunctionType) -> Iterator[str]:
    """Yield the parameters in a docstring that the function does not have."""
    parameters = inspect.signature(fn).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for name in parse_docstring(inspect.getdoc(fn) or "").parameters:
        if name not in parameters:
            yield name


_BLOCKING: Final = re.compile(
    r"time\.sleep|os\.(popen|system)|urllib\.request\.url(open|retrieve)|builtins\.input"
    r"|subprocess\.(call|check_call|check_output|getoutput|getstatusoutput|run)"
    r"|(requests|httpx)\.(_?api\.)?(delete|get|head|options|patch|post|put|request|stream)"
)


def _blocking_calls(body: Sequence[ast.AST], scope: Mapping[str, Any]) -> Iterator[str]:
    """Yield the calls of a function that block its thread, except in functions inside it."""
    for each in _inside(*body, without=(ast.FunctionDef, ast.Lambda)):
        if isinstance(each, ast.Call):
            name = ast.unparse(each.func)
            if _BLOCKING.fullmatch(_full_name(name, scope)):
                yield f"{name}()"


def _full_name(name: str, scope: Mapping[str, Any]) -> str:
    """Return the name of a function or class with that of its module, as far as it is known."""
    first, dot, rest = name.partition(".")
    found = scope.get(first, getattr(builtins, first, None))
    known = getattr(found, "__name__", first)
    if inspect.isroutine(found) or inspect.isclass(found):
        known = f"{found.__module__}.{known}"
    return known + dot + rest


_ASKING: Final = re.compile(r"\w+\.(elicit|elicit_url|gather|roots|sample)")
_LOOPS: Final = (ast.AsyncFor, ast.For, ast.While)
_DISPLAYS: Final = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
_HARMLESS: Final = re.compile(
    r"(builtins|collections|copy|dataclasses|datetime|functools|itertools|json|math|os\.path|pathlib"
    r"|re|typing|urllib\.parse)\.[\w.]+|(dict|list|set)\[.+\]|(.+\.)?[A-Z]\w*[a-z]\w*(\[.+\])?"
)
"""Classes, and what modules offer that only compute."""
_VERBS: Final = READING | {"can", "check", "exists", "format", "has", "is", "load", "parse", "to"}
_METHODS: Final = {
    *("debug", "error", "info", "warning", "group", "isoformat"),
    *chain(*map(dir, (BaseModel, Mapping, PurePath, re.Pattern, str))),
}


def _repeated_calls(
    body: Sequence[ast.AST], contexts: Set[str], fn: types.FunctionType
) -> Iterator[str]:
    """Yield the calls before the last question of a function, or in a loop with a question.

    Every await counts, and calls whose names do not say that they only read or compute. What is in
    a question does not count, nor do methods of the context, or calls that it is passed to.
    """
    nodes = [*_inside(*body)]
    names = {each: ast.unparse(each.func) for each in nodes if isinstance(each, ast.Call)}
    asking: set[ast.AST] = {
        each
        for each, name in names.items()
        if _ASKING.fullmatch(name) and name.partition(".")[0] in contexts
    }
    awaited: set[ast.AST] = {each.value for each in nodes if isinstance(each, ast.Await)}
    ignored, own, last = {*_inside(*asking)}, set[str](), 0
    for number, each in enumerate(nodes):
        if each in asking or (isinstance(each, _LOOPS) and asking & {*_inside(each)}):
            last = number
        elif isinstance(each, (ast.AnnAssign, ast.Assign)) and isinstance(each.value, _DISPLAYS):
            own |= {name.id for name in ast.iter_child_nodes(each) if isinstance(name, ast.Name)}
    for call in (each for each in nodes[:last] if isinstance(each, ast.Call)):
        first, _, rest = names[call].partition(".")
        values = (*call.args, *(each.value for each in call.keywords))
        if (
            ignored.isdisjoint(names.keys() & {call, *_inside(call.func)})
            and (first not in contexts or rest.startswith("state"))
            and contexts.isdisjoint(map(ast.unparse, values))
            and (call in awaited or not (first in own or _is_harmless(names[call], fn.__globals__)))
        ):
            ignored.add(call)  # and with it the methods of its result
            yield f"line {fn.__code__.co_firstlineno + call.lineno - 1}: {names[call]}()"


_LATER: Final = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Lambda)


def _inside(*nodes: ast.AST, without: tuple[type[ast.AST], ...] = _LATER) -> Iterator[ast.AST]:
    """Yield nodes and all inside them, in the order in which they run, except functions."""
    for each in nodes:
        if not isinstance(each, without):
            yield from _inside(*ast.iter_child_nodes(each), without=without)
            yield each


def _is_harmless(name: str, scope: Mapping[str, Any]) -> bool:
    last = name.rpartition(".")[2]
    if _HARMLESS.fullmatch(_full_name(name, scope)) or (last != name and last in _METHODS):
        return True
    return not _VERBS.isdisjoint(words_of(last)[:1])


def _foreign_names(nodes: Sequence[ast.AST], contexts: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield the attributes of its context that a function uses and only other libraries have."""
    for each in nodes:
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            peer = peer_name("ctx", each.attr) if each.value.id in contexts else None
            if peer is not None:
                yield ast.unparse(each), peer.advice


def _contexts_in(nodes: list[Any]) -> set[str]:
    """Return the names of parameters that are contexts, by their annotations."""
    return {
        each.arg
        for each in nodes
        if isinstance(each, ast.arg) and each.annotation is not None
        if _CONTEXT.search(ast.unparse(each.annotation))
    }
