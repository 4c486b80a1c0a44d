"""What a file has of other libraries: which of its names are theirs, apps, and contexts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import libcst as cst
from libcst import metadata as meta

from mcpkit.support.wrong_names import LIBRARIES

__all__ = ["Found", "imports_others", "is_ours", "is_theirs", "last_part", "text_of"]

_IMPORT: Final = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+(?:{'|'.join(LIBRARIES)})\b", re.MULTILINE
)

_USUAL: Final = frozenset({"mcp", "mcp_server"})
"""Names under which modules of one server import its app from each other."""

_APPS: Final = frozenset({"FastMCP", "MCPServer"})


def imports_others(source: str) -> bool:
    """Return True if a file seems to import another library for MCP servers."""
    return _IMPORT.search(source) is not None


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


class Found(cst.CSTVisitor):
    """Reads a file before it is rewritten.

    After the visit: ``apps`` has the dotted names of apps, ``contexts`` the names of parameters and
    variables with a context, ``errors`` those that are bound to an error of the protocol, ``bound``
    every name that the file gives to something that is not theirs, and ``http_apps`` the apps that
    are run over HTTP.
    """

    METADATA_DEPENDENCIES = (meta.QualifiedNameProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.apps: set[str] = set()
        self.contexts: set[str] = set()
        self.errors: set[str] = set()
        self.bound: set[str] = set()
        self.http_apps: set[str] = set()
        self.calls: set[str] = set()

    def theirs(self, node: cst.CSTNode) -> str:
        """Return the last part of a name that is imported from another library; else empty."""
        names = self.get_metadata(meta.QualifiedNameProvider, node, set())
        return last_part(names)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = text_of(node.module)
        if node.relative or not (is_theirs(module) or is_ours(module)):
            for alias in node.names if isinstance(node.names, Sequence) else ():
                name = text_of(alias.asname.name if alias.asname else alias.name)
                self.bound.add(name)
                if name in _USUAL:
                    self.apps.add(name)

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = text_of(alias.asname.name if alias.asname else alias.name)
            if not is_theirs(text_of(alias.name)):
                self.bound.add(name.partition(".")[0])

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.add(node.name.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.add(node.name.value)

    def visit_Param(self, node: cst.Param) -> None:
        if node.annotation is not None:
            self._annotated(node.name.value, node.annotation)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._annotated(text_of(node.target), node.annotation)
        self._assigned(node.target, node.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assigned(target.target, node.value)

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> None:
        if node.name is not None and node.type is not None:
            kinds = node.type.elements if isinstance(node.type, cst.Tuple) else [node]
            for each in kinds:
                kind = each.value if isinstance(each, cst.BaseElement) else node.type
                if self.theirs(kind) in ("McpError", "MCPError"):
                    self.errors.add(text_of(node.name.name))

    def visit_Call(self, node: cst.Call) -> None:
        name = text_of(node.func)
        self.calls.add(name)
        front, _, last = name.rpartition(".")
        if last == "run" and any(
            "http" in _literal(each) or "sse" in _literal(each) for each in node.args
        ):
            self.http_apps.add(front)

    def _annotated(self, name: str, annotation: cst.Annotation) -> None:
        mentioned = {self.theirs(each) for each in _names_in(annotation)}
        if "Context" in mentioned:
            self.contexts.add(name)
        if mentioned & _APPS:
            self.apps.add(name)

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        name = text_of(target)
        if not name or value is None:
            return
        called = self.theirs(value.func) if isinstance(value, cst.Call) else ""
        if called in _APPS or text_of(value) in self.apps:
            self.apps.add(name)
        elif called == "get_context":
            self.contexts.add(name)
        elif "." not in name:
            self.bound.add(name)


def last_part(names: Any) -> str:
    """Return the last part of the one of qualified names that is another library's; else empty."""
    for each in names:
        if (
            isinstance(each, meta.QualifiedName)
            and each.source is meta.QualifiedNameSource.IMPORT
            and is_theirs(each.name)
        ):
            return each.name.rpartition(".")[2]
    return ""


def _literal(argument: cst.Arg) -> str:
    return argument.value.value if isinstance(argument.value, cst.SimpleString) else ""


def _names_in(node: cst.CSTNode) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []

    class Names(cst.CSTVisitor):
        def visit_Name(self, node: cst.Name) -> None:
            found.append(node)

        def visit_Attribute(self, node: cst.Attribute) -> None:
            found.append(node)

    node.visit(Names())
    return found
