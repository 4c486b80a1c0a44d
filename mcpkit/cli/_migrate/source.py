"""What a file has of other libraries: which of its names are theirs, apps, and contexts."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Any, Final

import libcst as cst
from libcst import matchers as m
from libcst import metadata as meta

from mcpkit._utils.names import LIBRARIES

MAX_DEPTH: Final = 250
"""Levels of code that are rewritten: LibCST visits them recursively."""

MAX_CHARS: Final = 4 * 1024 * 1024

IMPORTS_OTHERS: Final = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+(?:{'|'.join(LIBRARIES)})\b", re.MULTILINE
)
"""An import of another library for MCP servers."""

DOTTED: Final = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*")
"""A dotted name in a text."""

_USUAL: Final = frozenset({"mcp", "mcp_server"})
"""Names under which modules of one server import its app from each other."""

_MODULES: Final = frozenset(
    {"types", "base", "exceptions", "fastmcp", "mcpserver", "prompts", "tools", "server"}
)
"""Names of modules, which are of no use by themselves."""

_HTTP_RUN: Final = "run_(http|sse|streamable_http)_async"

_APPS: Final = frozenset({"FastMCP", "MCPServer"})


def check_size(source: str) -> None:
    """Raise `ValueError` if code is too long or too deep, or is not Python.

    Python's own parser limits its depth, which that of LibCST does not: it would end the process.
    """
    if len(source) > MAX_CHARS:
        raise ValueError(f"it has more than {MAX_CHARS} characters; split it")
    deep = f"it is nested more than {MAX_DEPTH} levels deep; split its longest expression"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            level: list[ast.AST] = [ast.parse(source)]
    except (MemoryError, RecursionError):
        raise ValueError(deep) from None
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno} is not Python: {error.msg}") from None
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(deep)
        level = [below for each in level for below in ast.iter_child_nodes(each)]


def is_theirs(module: str) -> bool:
    """Return True if a dotted name begins with a module of another library."""
    return module.partition(".")[0] in LIBRARIES


def is_ours(module: str) -> bool:
    """Return True if a dotted name begins with our module."""
    return module.partition(".")[0] == "mcpkit"


def text_of(node: cst.CSTNode | None) -> str:
    """Return a name, dotted or not, as it is written; empty for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        front = text_of(node.value)
        return f"{front}.{node.attr.value}" if front else ""
    return ""


def code_of(node: cst.CSTNode) -> str:
    """Return a tree as it is written."""
    return cst.Module([]).code_for_node(node)


class Names(cst.MetadataDependent):
    """Looks up the names of another library, and the nodes around others."""

    METADATA_DEPENDENCIES = (meta.QualifiedNameProvider, meta.ParentNodeProvider)

    def theirs(self, node: cst.CSTNode) -> str:
        """Return the last part of a name that is imported from another library; else empty."""
        return self.whole(node).rpartition(".")[2]

    def whole(self, node: cst.CSTNode) -> str:
        """Return a name that is imported from another library, with its module; else empty."""
        names: Any = self.get_metadata(meta.QualifiedNameProvider, node, set())
        for each in names:
            if each.source is meta.QualifiedNameSource.IMPORT and is_theirs(each.name):
                return str(each.name)
        return ""

    def parent(self, node: cst.CSTNode) -> Any:
        """Return the node around one; None if there is none."""
        return self.get_metadata(meta.ParentNodeProvider, node, None)


class Found(Names, cst.CSTVisitor):
    """Reads a file before it is rewritten."""

    def __init__(self) -> None:
        super().__init__()
        self.apps: set[str] = set()  # the dotted names of apps
        self.contexts: set[str] = set()  # parameters and variables with a context
        self.errors: set[str] = set()  # names that are bound to an error of the protocol
        self.bound: set[str] = set()  # names that the file gives to something of its own
        self.runs: set[cst.Call] = set()  # those that may be over HTTP
        self.imported: dict[str, str] = {}  # local name of theirs → its whole name
        self.modules: set[str] = set()  # those of them that stand for modules
        self.made: dict[cst.Call, str] = {}  # calls that make an app → the name they are given
        self.settings: set[str] = set()  # their names of settings that are read or assigned
        self.versions: dict[str, cst.BaseExpression] = {}  # name of an app → its version
        self._app_classes: set[str] = set()

    def in_text(self, name: str) -> str:
        """Return the last part of a dotted name in an annotation that is a text, as `theirs`."""
        front, _, rest = name.partition(".")
        whole = self.imported.get(front)
        return "" if whole is None else f"{whole}.{rest}".strip(".").rpartition(".")[2]

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = "" if node.relative else text_of(node.module)
        for alias in node.names if isinstance(node.names, Sequence) else ():
            name = alias.evaluated_name
            local = alias.evaluated_alias or name
            if is_theirs(module):
                self.imported[local] = f"{module}.{name}"
                if name in _MODULES:
                    self.modules.add(local)
            elif not is_ours(module):
                self.bound.add(local)
                if local in _USUAL:
                    self.apps.add(local)

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            whole = alias.evaluated_name
            first = whole.partition(".")[0]
            local = alias.evaluated_alias or first
            if is_theirs(whole):
                self.imported[local] = whole if alias.asname else first
                self.modules.add(local)
            else:
                self.bound.add(local)

    def visit_Decorator(self, node: cst.Decorator) -> None:
        front, _, last = text_of(getattr(node.decorator, "func", node.decorator)).rpartition(".")
        known = {"", *self.bound, *self.imported}
        if last in ("tool", "resource", "prompt") and front.partition(".")[0] not in known:
            self.apps.add(front)  # such as a parameter without annotation

    def visit_Attribute(self, node: cst.Attribute) -> None:
        front, _, last = text_of(node.value).rpartition(".")
        if last == "settings" and front in self.apps:
            self.settings.add(node.attr.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.add(node.name.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.add(node.name.value)
        if any(self.theirs(each.value) in _APPS for each in node.bases):
            self._app_classes.add(node.name.value)

    def visit_Param(self, node: cst.Param) -> None:
        if node.annotation is not None:
            self._annotated(node.name.value, node.annotation)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._annotated(text_of(node.target), node.annotation)
        self._assigned(node.target, node.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assigned(target.target, node.value)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._assigned(node.target, node.value)

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> None:
        if node.name is not None and node.type is not None:
            kinds = node.type.elements if isinstance(node.type, cst.Tuple) else [node]
            for each in kinds:
                kind = each.value if isinstance(each, cst.BaseElement) else node.type
                if self.theirs(kind) in ("McpError", "MCPError"):
                    self.errors.add(text_of(node.name.name))

    def visit_Call(self, node: cst.Call) -> None:
        if self.theirs(node.func) in _APPS:
            self.made.setdefault(node, "")
        name = text_of(node.func)
        front, _, last = name.rpartition(".")
        inner = node.args[0].value if last in ("add_tool", "add_prompt") and node.args else None
        if isinstance(inner, cst.Call) and self.theirs(inner.func) == "from_function":
            self.apps.add(front)
        kind = [each for each in node.args if text_of(each.keyword) in ("", "transport")][:1]
        is_stdio = all(re.fullmatch(r"['\"]stdio['\"]", code_of(each.value)) for each in kind)
        if (last in ("run", "run_async") and not is_stdio) or re.fullmatch(_HTTP_RUN, last):
            self.runs.add(node)

    def _is_context(self, name: str, value: str) -> bool:
        return value in self.contexts and ("." in name or "ctx" in name or "context" in name)

    def _annotated(self, name: str, annotation: cst.Annotation) -> None:
        mentioned = {self.theirs(each) for each in m.findall(annotation, m.Name() | m.Attribute())}
        for text in m.findall(annotation, m.SimpleString()):
            written = cst.ensure_type(text, cst.SimpleString).value
            mentioned |= {self.in_text(each) for each in DOTTED.findall(written)}
        if "Context" in mentioned:
            self.contexts.add(name)
        if mentioned & _APPS:
            self.apps.add(name)

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            for one, each in zip(target.elements, value.elements, strict=False):
                self._assigned(one.value, each.value)
        name = text_of(target)
        if not name or value is None:
            return
        owner, is_version, _ = name.rpartition("._mcp_server.version")
        if is_version and owner in self.made.values() and not isinstance(value, cst.Call):
            self.versions[owner] = value
        called = self.theirs(value.func) if isinstance(value, cst.Call) else ""
        is_own = isinstance(value, cst.Call) and text_of(value.func) in self._app_classes
        if called in _APPS or is_own or text_of(value) in self.apps:
            self.apps.add(name)
            if isinstance(value, cst.Call):
                self.made[value] = name
        elif called == "get_context" or self._is_context(name, text_of(value)):
            self.contexts.add(name)
        elif "." not in name and name not in self.imported:  # or it stands for what is not there
            self.bound.add(name)
