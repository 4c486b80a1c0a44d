"""What an imported app adds to a listing: the file and line of each function, and its code."""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import re
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpkit._signature.docstrings import parse_docstring
from mcpkit._signature.hints import underlying
from mcpkit._utils.names import peer_name
from mcpkit._utils.targets import is_remote
from mcpkit.cli._check.listing import Entry, Kind, Listing, Location
from mcpkit.tasks.options import TaskSettings

if TYPE_CHECKING:
    from mcpkit.app import MCPKit


def add_source(listing: Listing, app: MCPKit[Any]) -> Listing:
    """Return a listing with what is known from the functions behind its entries."""
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
        listing,
        tools=known(listing.tools),
        resources=known(listing.resources),
        templates=known(listing.templates),
        prompts=known(listing.prompts),
        open_at=_open_at(app._http),
    )


def _open_at(options: Mapping[str, Any]) -> str:
    """Return the public URL of an app without authorization; empty if it has none."""
    url: Any = options.get("public_url")
    secured = options.get("auth") or options.get("principal")
    return url if isinstance(url, str) and not secured and is_remote(url) else ""


def _known(entry: Entry, registered: Any, settings: TaskSettings) -> Entry:
    if registered is None:
        return entry
    entry = replace(entry, task_times=_task_times(registered, settings))
    fn = None if registered.function is None else underlying(registered.function)
    if not isinstance(fn, types.FunctionType):
        return entry
    return replace(
        entry,
        location=_location(fn),
        unknown_parameters=tuple(_unknown_parameters(fn)),
        foreign_names=tuple(dict.fromkeys(_foreign_names(fn))),
    )


def _task_times(registered: Any, settings: TaskSettings) -> tuple[float, float] | None:
    if getattr(registered, "task", "forbidden") == "forbidden":
        return None
    ttl = settings.ttl if registered.task_ttl is None else registered.task_ttl
    return None if ttl is None else (ttl, settings.poll_interval)


def _location(fn: types.FunctionType) -> Location | None:
    path = Path(fn.__code__.co_filename)
    if not path.is_file():
        return None
    with contextlib.suppress(ValueError):
        path = Path(os.path.abspath(path)).relative_to(Path.cwd())
    return Location(path.as_posix(), fn.__code__.co_firstlineno)


def _unknown_parameters(fn: types.FunctionType) -> Iterator[str]:
    """Yield the parameters in a docstring that the function does not have."""
    parameters = inspect.signature(fn).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for name in parse_docstring(inspect.getdoc(fn) or "").parameters:
        if name not in parameters:
            yield name


_CONTEXT: Final = re.compile(r"\b(Sync)?Context\b")


def _foreign_names(fn: types.FunctionType) -> Iterator[tuple[str, str]]:
    """Yield the attributes of its context that a function uses and only other libraries have."""
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
            name = each.value.id
            peer = peer_name("ctx", each.attr) if name in contexts else None
            if peer is not None:
                yield f"{name}.{each.attr}", peer.advice
