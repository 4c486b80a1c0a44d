"""Rewrites a file of another library for mcpkit, with marks where the user has to decide.

The replacements of names are in `mcpkit._utils.names`. Comments and layout are kept, and unknown
code is unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import libcst as cst
from libcst import metadata as meta

from mcpkit._utils.names import (
    GUIDES,
    LIBRARIES,
    Library,
    peer_import,
    peer_name,
    peer_names,
)
from mcpkit.cli._migrate.calls import REQUEST, SETTINGS, Calls
from mcpkit.cli._migrate.imports import (
    MARK,
    UNMIGRATED,
    WithoutImports,
    comments_of,
    import_line,
    used_names,
    with_imports,
)
from mcpkit.cli._migrate.middleware import Middlewares
from mcpkit.cli._migrate.source import (
    DOTTED,
    IMPORTS_OTHERS,
    Found,
    check_size,
    code_of,
    is_theirs,
    text_of,
)
from mcpkit.cli._migrate.values import Args, expression


class Remark(NamedTuple):
    """A decision that is left to the user."""

    line: int  # in the new text
    text: str  # the code in question, and advice
    guide: str  # the page and section of the migration guide


class Migrated(NamedTuple):
    """A file that has been rewritten: its text, which may be the old one, and what is left."""

    text: str
    remarks: list[Remark]


def migrate(source: str) -> Migrated:
    """Rewrite the text of a Python file.

    Raises:
        ValueError: It is not Python, or longer or deeper than is rewritten.
        libcst.ParserSyntaxError: LibCST does not know the syntax.
    """
    bom = "\ufeff" if source.startswith("\ufeff") else ""
    if not IMPORTS_OTHERS.search(source):
        return Migrated(source, _remarks(source, source))
    check_size(source.removeprefix(bom))
    wrapper = meta.MetadataWrapper(
        cst.parse_module(source.removeprefix(bom)), unsafe_skip_copy=True
    )
    middlewares = Middlewares()
    module = wrapper.visit(middlewares) if middlewares.HAS_CLASSES.search(source) else None
    if module is not None and middlewares.changed:
        wrapper = meta.MetadataWrapper(with_imports(module, middlewares.needed))
    found = Found()
    for _ in range(2):  # what an app is assigned to may be written before it
        wrapper.visit(found)
    rewrite = _Rewrite(found, used_names(wrapper.module))
    module = wrapper.visit(rewrite)
    text = bom + _without_unused(module, found, rewrite).code
    return Migrated(text, _remarks(text, source))


def _remarks(text: str, source: str) -> list[Remark]:
    """Return the marks in a text, old and new."""
    roots = {match[1] for match in re.finditer(r"^[ \t]*(?:from|import)[ \t]+(\w+)", source, re.M)}
    known: list[Library] = [name for root, name in LIBRARIES.items() if root in roots]
    page = GUIDES[known[0] if known else "FastMCP"]
    sections = {each.advice: each.guide for each in peer_names().values()}
    found: list[Remark] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(MARK):
            said = line.strip().removeprefix(MARK)
            named = (section for advice, section in sections.items() if said.endswith(advice))
            found.append(Remark(number, said, page + (next(named, "") or "#what-is-not-here")))
    return found


_Statement = (cst.SimpleStatementLine, cst.BaseCompoundStatement)

_ATTRIBUTES: Final = {
    "isError": "is_error",
    "structuredContent": "structured_content",
    "to_image_content": "block",
    "to_audio_content": "block",
}


_DEFAULTS: Final = {
    "host": '"127.0.0.1"',
    "port": 8000,
    "streamable_http_path": '"/mcp"',
    "sse_path": '"/sse"',
    "log_level": '"INFO"',
}
"""What settings of theirs are if nothing is said."""


class _Rewrite(Calls):
    # --- names ------------------------------------------------------------------------------------

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if not self._stands_alone(original_node):
            return updated_node
        return self._converted(original_node, updated_node)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        front, name = text_of(original_node.value), original_node.attr.value
        if name in _ATTRIBUTES:
            return updated_node.with_changes(attr=cst.Name(_ATTRIBUTES[name]))
        if self.theirs(original_node):
            return self._converted(original_node, updated_node)
        if front in self._found.contexts:
            return self._of_context(original_node, updated_node, name)
        if front in self._found.apps:
            return self._of_app(original_node, updated_node, name)
        whole, _, last = front.rpartition(".")
        inner: Any = updated_node.value
        if last == "request_context" and whole in self._found.contexts and name in REQUEST:
            return updated_node.with_changes(value=inner.value, attr=cst.Name(REQUEST[name]))
        if last == "settings" and whole in self._found.apps:
            return self._setting(original_node, updated_node)
        if last == "error" and whole in self._found.errors and name in ("message", "code", "data"):
            return updated_node.with_changes(value=inner.value)
        return updated_node

    def _stands_alone(self, node: cst.Name) -> bool:
        """Return True if a name is an expression by itself."""
        parent = self.parent(node)
        if isinstance(parent, cst.Attribute):
            return parent.value is node
        if isinstance(parent, (cst.Arg, cst.Param)):
            field = parent.keyword if isinstance(parent, cst.Arg) else parent.name
            return field is not node
        return not isinstance(
            parent, (cst.ClassDef, cst.FunctionDef, cst.NameItem, cst.AssignTarget)
        )

    def _converted(
        self, original: cst.Name | cst.Attribute, updated: cst.BaseExpression
    ) -> cst.BaseExpression:
        whole, written = self.whole(original), text_of(original)
        if not whole:
            return updated
        owner, _, theirs = whole.rpartition(".")
        of_app = peer_name("app", theirs) if owner.endswith((".FastMCP", ".MCPServer")) else None
        row, parent = of_app or peer_import(whole), self.parent(original)
        is_part = isinstance(parent, cst.Attribute) and parent.value is original
        is_of_module = of_app or written.partition(".")[0] in self._found.modules
        if row.how == "hand" and "." in written and is_of_module and not is_part:
            self._mark(written, row.advice)
        if row.how == "rename" and not of_app:
            name = self.renamed.get(written) or self._ours(row)
            return cst.Name(name, lpar=updated.lpar, rpar=updated.rpar)
        if row.how == "rewrite" and theirs.isupper():
            return expression(f"{self._ours(row)}.CODE")
        is_called = isinstance(parent, cst.Call) and parent.func is original
        if row.how == "rewrite" and theirs == "Client" and not is_called:
            return cst.Name(self._ours(row))
        return updated

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        node: Any = original_node
        while node is not None and not isinstance(node, (cst.Annotation, cst.Call, *_Statement)):
            node = self.parent(node)
        if not isinstance(node, cst.Annotation):
            return updated_node
        return updated_node.with_changes(value=DOTTED.sub(self._in_text, updated_node.value))

    def _in_text(self, match: re.Match[str]) -> str:
        theirs = self._found.in_text(match[0])
        row = peer_name("import", theirs) if theirs else None
        is_renamed = row is not None and (row.how == "rename" or theirs == "Client")
        if row is None or not is_renamed:
            return match[0]
        return self.renamed.get(match[0]) or self._ours(row)

    # --- statements and their marks ---------------------------------------------------------------

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _Statement):
            self._marks.append([])
            self._around.append(([], []))
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        left = super().on_leave(original_node, updated_node)
        if not isinstance(original_node, _Statement):
            return left
        marks = self._marks.pop()
        before, behind = self._around.pop()
        if left is cst.RemovalSentinel.REMOVE:
            self._marks[-1] += marks  # they go to what it stood in
            return left
        made: list[Any] = [*getattr(left, "nodes", [left])]
        nodes = [*before, *made, *behind]
        if before:
            nodes[0] = nodes[0].with_changes(leading_lines=made[0].leading_lines)
            nodes[len(before)] = made[0].with_changes(leading_lines=())
        lost = Counter(comments_of([original_node])) - Counter(comments_of(nodes))
        marks += [each for each in lost.elements() if not any(each in mark for mark in marks)]
        if marks:
            nodes[0] = _marked(nodes[0], marks)
        return nodes[0] if len(nodes) == 1 else cst.FlattenSentinel(nodes)

    # --- imports ----------------------------------------------------------------------------------

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False  # see `leave_SimpleStatementLine`

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        node = original_node.body[0]
        if isinstance(node, cst.Assign) and node.value in self._found.versions.values():
            self._marks[-1].clear()
            return cst.RemoveFromParent()
        if len(original_node.body) > 1 or not isinstance(node, cst.ImportFrom) or node.relative:
            return updated_node
        module = text_of(node.module)
        if not is_theirs(module):
            return updated_node
        if not isinstance(node.names, Sequence):
            self._mark(f"from {module} import *", "import the used names one by one")
            return updated_node
        ours: dict[str, list[str]] = {}
        for alias in node.names:
            name = alias.evaluated_name
            row = peer_import(f"{module}.{name}")
            local = alias.evaluated_alias or name
            if name == "Client":
                continue  # ours has the name, and so have all that use it
            if row.how == "rename":
                home, ours_name = row.home
                mine = self._imported(local, ours_name, alias)
            else:
                home, mine = UNMIGRATED, name if local == name else f"{name} as {local}"
                # The mark goes if the name turns out unused.
                is_module = local in self._found.modules
                self._mark(local, "replace what uses it" if is_module else row.advice)
            ours.setdefault(home, []).append(mine)
        if not ours:
            return cst.RemoveFromParent()
        made = [import_line(home, sorted(set(names))) for home, names in sorted(ours.items())]
        made[0] = made[0].with_changes(leading_lines=updated_node.leading_lines)
        made[-1] = made[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return made[0] if len(made) == 1 else cst.FlattenSentinel(made)

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        """Import what stands for their names, under the name of their module."""
        names: list[cst.ImportAlias] = []
        for each in updated_node.names:
            whole = each.evaluated_name
            if is_theirs(whole):
                local = each.evaluated_alias or whole.partition(".")[0]
                self._mark(local, "replace what uses it")
                asname = each.asname or cst.AsName(cst.Name(local))
                each = each.with_changes(name=cst.parse_expression(UNMIGRATED), asname=asname)
            names.append(each)
        return updated_node.with_changes(names=names)

    def _imported(self, local: str, name: str, alias: cst.ImportAlias) -> str:
        """Return how a name of ours is imported instead of one of theirs, and remember it."""
        is_taken = name in self._found.bound and name != local  # else the author has seen to it
        mine = f"MCPKit{name}" if is_taken else name
        if alias.asname is not None:
            mine = local
        self.renamed[local] = mine
        return name if mine == name else f"{name} as {mine}"

    # --- functions with routes -----------------------------------------------------------------

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> Any:
        left: list[cst.Decorator] = []
        for before, decorator in zip(
            original_node.decorators, updated_node.decorators, strict=True
        ):
            call = decorator.decorator
            function = before.decorator.func if isinstance(before.decorator, cst.Call) else None
            front, _, name = text_of(function).rpartition(".")
            if front in self._found.apps and name == "custom_route" and isinstance(call, cst.Call):
                args = Args(call)
                args.take("include_in_schema")
                args.all.insert(1, cst.Arg(cst.Name(updated_node.name.value)))
                self.needed.add(("starlette.routing", "Route"))
                made = f"{front}.routes.append({code_of(args.call(cst.Name('Route')))})\n"
                blank = [] if self._around[-1][1] else [cst.EmptyLine(indent=False)] * 2
                route: Any = cst.parse_statement(made)
                self._around[-1][1].append(route.with_changes(leading_lines=blank))
            else:
                left.append(decorator)
        return updated_node.with_changes(decorators=left)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        """Let the server fill in what ``exclude_args=`` hides from clients."""
        function = self.parent(self.parent(original_node))
        for each in getattr(function, "decorators", ()):
            if original_node.name.value in self.excluded(each.decorator):
                given, default = updated_node.annotation, updated_node.default
                kind = code_of(given.annotation) if given else "object"
                made = (
                    f"Annotated[{kind}, Depends(lambda: {code_of(default) if default else None})]"
                )
                self.needed |= {("mcpkit", "Depends"), ("typing", "Annotated")}
                return updated_node.with_changes(annotation=cst.Annotation(expression(made)))
        return updated_node

    # --- annotations ------------------------------------------------------------------------------

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        """``Context[ServerSession, State]`` and ``Context[State, Any]`` are ``Context[State]``."""
        if self.theirs(original_node.value) != "Context" or len(original_node.slice) < 2:
            return updated_node
        first = original_node.slice[0].slice
        is_session = isinstance(first, cst.Index) and self.theirs(first.value) == "ServerSession"
        kept = updated_node.slice[1 if is_session else 0]
        return updated_node.with_changes(slice=[kept.with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def _marked(statement: Any, marks: Sequence[str]) -> Any:
    """Add marks and comments above a statement, except for those that it has."""
    lines = list(statement.leading_lines)
    there = {line.comment.value for line in lines if line.comment is not None}
    for each in dict.fromkeys(marks):
        said, *code = each.split("\n")
        new = [said if said.startswith("#") else MARK + said, *(f"#     {line}" for line in code)]
        if not there.issuperset(new):
            lines += [cst.EmptyLine(comment=cst.Comment(line)) for line in new]
    return statement.with_changes(leading_lines=lines)


def _without_unused(module: cst.Module, found: Found, rewrite: _Rewrite) -> cst.Module:
    """Remove unused imports, merge ours, and add missing ones."""
    used, renamed = used_names(module), rewrite.renamed
    gone = {
        *(found.imported.keys() - renamed.keys()),
        *(mine for theirs, mine in renamed.items() if theirs in rewrite.used_before),
    }
    gone -= used
    needed = {each for each in rewrite.needed if each[1] not in gone}
    module = module.visit(WithoutImports(gone))
    values = ", ".join(f"{each}={_DEFAULTS.get(each)}" for each in sorted(found.settings))
    made = cst.parse_statement(f"\n{SETTINGS} = SimpleNamespace({values})\n")
    return with_imports(module, needed, *[made] * (SETTINGS in used))
