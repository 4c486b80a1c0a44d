"""The imports of a file that has been rewritten: theirs taken out, ours merged and added."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import libcst as cst

from mcpkit.cli._migrate.source import is_ours, is_theirs, text_of

MARK: Final = "# mcpkit migrate: "
"""The beginning of a comment for the author."""

UNMIGRATED: Final = "mcpkit.unmigrated"
"""The module of the names that have no equivalent."""


def used_names(module: cst.Module) -> set[str]:
    """Return the names that a module uses, also in annotations that are strings."""
    names: set[str] = set()
    waiting: list[cst.CSTNode] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Name):
            names.add(node.value)
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            waiting.append(node.value)  # neither an attribute nor a keyword uses a name
        elif isinstance(node, cst.SimpleString) and len(node.value) < 200:
            names.update(re.findall(r"[A-Za-z_]\w*", node.value))
        elif not isinstance(node, (cst.Import, cst.ImportFrom)):
            waiting += node.children
    return names


def comments_of(statements: Sequence[cst.CSTNode]) -> list[str]:
    """Return the comments of statements, without those of the statements in them."""
    comments: list[str] = []
    waiting = [*reversed(statements)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Comment):
            comments.append(node.value)
        elif not isinstance(node, cst.IndentedBlock):
            waiting += reversed(node.children)
    return comments


class WithoutImports(cst.CSTTransformer):
    """Removes names from the imports of both libraries."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self._names = names

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> Any:
        return self._with_left(updated_node)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> Any:
        return self._with_left(updated_node)

    def _with_left(self, node: Any) -> Any:
        """Return what is left of a block; what stood above a statement that is gone stays."""
        made: list[Any] = []
        above: list[cst.EmptyLine] = []
        for statement in node.body:
            lines = list(statement.leading_lines)
            if isinstance(statement, cst.SimpleStatementLine):
                left = [found for each in statement.body if (found := self._without(each))]
                if not left:
                    above += _joined(above, [each for each in lines if not _is_mark(each)])
                    continue
                if isinstance(left[0], (cst.Import, cst.ImportFrom)):
                    lines = [each for each in lines if not self._is_of_gone(each)]
                statement = statement.with_changes(body=left, leading_lines=lines)
            if above:
                lines = [*above, *_joined(above, lines)]
                statement = statement.with_changes(leading_lines=lines)
                above = []
            made.append(statement)
        return node.with_changes(body=made, footer=[*above, *node.footer])

    def _without(self, node: Any) -> Any:
        """Return what is left of an import, None if nothing is; any other statement as it is."""
        is_import = isinstance(node, (cst.Import, cst.ImportFrom))
        if not is_import or isinstance(node.names, cst.ImportStar):
            return node
        if isinstance(node, cst.ImportFrom):
            module = text_of(node.module)
            if node.relative or not (is_theirs(module) or is_ours(module)):
                return node
        left = [each for each in node.names if not self._is_gone(node, each)]
        if len(left) == len(node.names):
            return node
        if not left:
            return None
        left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(names=left)

    def _is_gone(self, node: Any, alias: cst.ImportAlias) -> bool:
        if isinstance(node, cst.Import) and alias.evaluated_name != UNMIGRATED:
            return False
        return (alias.evaluated_alias or alias.evaluated_name) in self._names

    def _is_of_gone(self, line: cst.EmptyLine) -> bool:
        """Return True for the mark of a name that is no longer imported."""
        said = line.comment.value.removeprefix(MARK) if line.comment else ""
        return _is_mark(line) and said.partition(":")[0].partition(".")[0] in self._names


def _is_mark(line: cst.EmptyLine) -> bool:
    return line.comment is not None and line.comment.value.startswith(MARK)


def _joined(above: Sequence[cst.EmptyLine], lines: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return lines that come after others, without blank ones between them."""
    while above and lines and lines[0].comment is None:
        lines = lines[1:]
    return lines


def with_imports(
    module: cst.Module, needed: set[tuple[str, str]], *behind: cst.BaseStatement
) -> cst.Module:
    """Merge the imports of mcpkit at the top of a file, and add missing ones, and what follows."""
    body: list[Any] = list(module.body)
    imported = [_imported(each) for each in body]
    names: dict[str, set[str]] = {}
    indexes: dict[str, int] = {}
    for index, found in enumerate(imported):
        home = found[0][0] if found else ""
        if not is_ours(home):
            continue
        if home in indexes:
            if body[index].leading_lines:
                continue
            body[index] = None
        indexes.setdefault(home, index)
        names.setdefault(home, set()).update(name for _, name in found)
    last = _last_import(body)
    added: list[Any] = []
    for home, name in sorted(needed - {each for found in imported for each in found}):
        names.setdefault(home, set()).add(name)
    for home, found_names in names.items():
        made = import_line(home, sorted(found_names))
        if home not in indexes:
            added.insert(0, made)
            continue
        index = indexes[home]
        if {name for _, name in imported[index]} != found_names:
            body[index] = made.with_changes(
                leading_lines=body[index].leading_lines,
                trailing_whitespace=body[index].trailing_whitespace,
            )
    body[last + 1 : last + 1] = [*added, *behind]
    return module.with_changes(body=[each for each in body if each is not None])


def _imported(statement: Any) -> list[tuple[str, str]]:
    """Return what a statement imports, as modules and names; empty for any other statement."""
    node = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(node, (cst.Import, cst.ImportFrom)) or len(statement.body) > 1:
        return []
    module = text_of(node.module) if isinstance(node, cst.ImportFrom) else ""
    found: list[tuple[str, str]] = []
    for each in node.names if isinstance(node.names, Sequence) else ():
        name, alias = each.evaluated_name, each.evaluated_alias
        found.append((module, f"{name} as {alias}" if alias else name))
    return found


def _last_import(body: Sequence[Any]) -> int:
    """Return the index of the last import at the top; of the docstring, or -1, if there is none."""
    last = -1
    for index, statement in enumerate(body):
        inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(inner, (cst.Import, cst.ImportFrom)):
            last = index
        elif last == -1 and index == 0 and isinstance(inner, cst.Expr):
            last = 0
        elif statement is not None and not isinstance(statement, cst.SimpleStatementLine):
            break
    return last


def import_line(module: str, names: Sequence[str]) -> Any:
    """Return the statement that imports names; ``import names`` if the module is empty."""
    if not module:
        return cst.parse_statement(f"import {', '.join(names)}\n")
    line = f"from {module} import {', '.join(names)}\n"
    if len(line) > 89:  # with its end
        listed = "".join(f"    {each},\n" for each in names)
        line = f"from {module} import (\n{listed})\n"
    return cst.parse_statement(line)
