"""Deprecated names of mcpkit in Python code, for ``mcpkit check`` and ``mcpkit migrate``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

from mcpkit._utils.names import RENAMED, Renamed

_IMPORTS: Final = re.compile(r"^[ \t]*(?:from|import)[ \t]+mcpkit\b", re.MULTILINE)
_CONTEXT: Final = re.compile(r"\b(Sync)?Context\b")
_SAME: Final = {"AsyncTestClient": "TestClient", "mcp_client": "TestClient"}
"""Function → the one whose options it takes."""


class Use(NamedTuple):
    """A deprecated name in code, and what to write from one byte to another."""

    start: int
    end: int
    new: str  # empty if that is left to the author
    line: int
    row: Renamed


def deprecated_in(source: str) -> list[Use]:
    """Return the deprecated names in the code of a module, in order.

    An app is recognized if it is assigned from ``MCPKit(…)``, or is imported as ``app``, ``server``
    or ``mcp``; a context by its annotation.
    """
    if not _IMPORTS.search(source):
        return []
    try:
        return sorted(set(_uses(source.encode(), [*ast.walk(ast.parse(source))])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def with_present_names(source: str) -> str:
    """Return the code of a module with the present names, as far as they take the place of one."""
    text, parts, at = source.encode(), list[bytes](), 0
    for use in deprecated_in(source):
        if use.new:
            parts += text[at : use.start], use.new.encode()
            at = use.end
    return b"".join([*parts, text[at:]]).decode()


def _uses(text: bytes, nodes: list[Any]) -> Iterator[Use]:
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    owners = dict(owners_in(nodes))

    def use(node: Any, row: Renamed, start: int) -> Use:
        new = "" if "." in row.new or row.new == "log" else row.new  # more than a name changes
        return Use(start, start + len(row.old), new, node.lineno, row)

    for node in nodes:
        if isinstance(node, ast.Call):
            name = _dotted(node.func).rpartition(".")[2].removeprefix("add_")
            for option in node.keywords:
                row = RENAMED.get((f"{_SAME.get(name, name)}(…)", option.arg or ""))
                if row is not None:
                    yield use(option, row, starts[option.lineno - 1] + option.col_offset)
        elif isinstance(node, ast.Attribute):
            front = _dotted(node.value)
            row = RENAMED.get((owners.get(front, front), node.attr))
            if row is not None:
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                yield use(node, row, end - len(row.old))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                row = RENAMED.get((node.module or "", alias.name))
                if row is None:
                    continue
                bound = nodes if alias.asname is None else ()
                for each in (alias, *(n for n in bound if getattr(n, "id", "") == row.old)):
                    yield use(each, row, starts[each.lineno - 1] + each.col_offset)


def owners_in(nodes: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield names that stand for a context or an app, and which of them."""
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            if _CONTEXT.search(ast.unparse(node.annotation)):
                yield node.arg, "ctx"
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            if _dotted(node.value.func).rpartition(".")[2] == "MCPKit":
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    yield _dotted(target), "app"
        elif isinstance(node, ast.ImportFrom):
            names = {each.asname or each.name for each in node.names}
            yield from ((each, "app") for each in names & {"app", "server", "mcp"})


def _dotted(node: ast.expr) -> str:
    """Return a name, dotted or not; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
