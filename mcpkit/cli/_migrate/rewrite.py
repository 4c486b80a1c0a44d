"""A file of another library → the same for mcpkit, with marks where a person has to decide.

What is written instead of a name is in `mcpkit._utils.names`. Comments and layout stay, and what
is not understood is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import libcst as cst
from libcst import matchers as m
from libcst import metadata as meta

from mcpkit._utils.names import GUIDES, LIBRARIES, Library, PeerName, peer_name, peer_names
from mcpkit.cli._migrate.arguments import Args, expression, string_of
from mcpkit.cli._migrate.imports import MARK, Used, import_line, with_imports, without
from mcpkit.cli._migrate.middleware import Middlewares
from mcpkit.cli._migrate.source import (
    DOTTED,
    Found,
    imports_others,
    is_theirs,
    last_part,
    text_of,
)
from mcpkit.cli._migrate.values import CONTENT, MEDIA, content, media, unfold_hints

__all__ = ["MARK", "Migrated", "Remark", "migrate"]


class Remark(NamedTuple):
    """Something that is left to a person.

    Args:
        line: In the new text.
        text: What there is, and what to do.
        guide: The page of the documentation about it, and the place on it.
    """

    line: int
    text: str
    guide: str


class Migrated(NamedTuple):
    """A file that has been rewritten.

    Args:
        text: The new text; the old one if there was nothing to do.
        remarks: What is left.
    """

    text: str
    remarks: list[Remark]


def migrate(source: str) -> Migrated:
    """Rewrite a file.

    Args:
        source: The text of a Python file.

    Raises:
        libcst.ParserSyntaxError: It is no Python.
    """
    if not imports_others(source):
        return Migrated(source, [])
    bom = "\ufeff" if source.startswith("\ufeff") else ""
    wrapper = meta.MetadataWrapper(cst.parse_module(source.removeprefix(bom)))
    middlewares = Middlewares()
    module = wrapper.visit(middlewares)
    if middlewares.changed or middlewares.needed or middlewares.marked:
        wrapper = meta.MetadataWrapper(_with_middleware(module, middlewares.needed))
    found = Found()
    for _ in range(2):  # what an app is assigned to may be written before it
        wrapper.visit(found)
    used = Used()
    wrapper.module.visit(used)
    rewrite = _Rewrite(found, used.names, middlewares.left)
    module = wrapper.visit(rewrite)
    module = _without_unused(module, rewrite)
    text = bom + module.code
    return Migrated(text, _remarks(text, source))


def _with_middleware(module: cst.Module, needed: set[tuple[str, str]]) -> cst.Module:
    """Take out what classes of middleware needed, and import what they need now."""
    used = Used()
    module.visit(used)
    gone = {each for each in _OF_MIDDLEWARE if each not in used.names}
    gone |= {name for _, name in needed if name == "CallNext"}
    if "Context" in _imported_of_theirs(module):
        needed = needed - {("mcpkit", "Context")}  # it is renamed with all others
    return with_imports(without(module, gone), needed)


def _imported_of_theirs(module: cst.Module) -> set[str]:
    found = m.findall(module, m.ImportFrom(names=[m.AtLeastN(m.ImportAlias(), n=1)]))
    return {
        text_of(alias.name)
        for each in found
        if is_theirs(text_of(cast("cst.ImportFrom", each).module))
        for alias in cast("Any", each).names
    }


def _remarks(text: str, source: str) -> list[Remark]:
    """Find the marks in a text, those that were there before too."""
    roots = {match[1] for match in re.finditer(r"^[ \t]*(?:from|import)[ \t]+(\w+)", source, re.M)}
    known: list[Library] = [name for root, name in LIBRARIES.items() if root in roots]
    page = GUIDES[known[0] if known else "FastMCP"]
    places = {each.advice: each.guide for each in peer_names().values()}
    found: list[Remark] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(MARK):
            said = line.lstrip().removeprefix(MARK)
            place = next((where for advice, where in places.items() if said.endswith(advice)), "")
            found.append(Remark(number, said, page + (place or "#what-is-not-here")))
    return found


_IN_LISTS: Final = (cst.Element, cst.List, cst.Tuple)
_IN_ANNOTATIONS: Final = (
    cst.SimpleString,
    cst.Subscript,
    cst.SubscriptElement,
    cst.Index,
    cst.BinaryOperation,
)

_Statement = (cst.SimpleStatementLine, cst.BaseCompoundStatement)

_ATTRIBUTES: Final = {"isError": "is_error", "structuredContent": "structured_content"}

_LEVELS: Final = {"log", "debug", "info", "warning", "error", "notice", "critical"}
_LISTS: Final = {
    "send_tool_list_changed": "tools",
    "send_resource_list_changed": "resources",
    "send_prompt_list_changed": "prompts",
}
_REQUEST: Final = {
    "lifespan_context": "state",
    "meta": "meta",
    "request_id": "request_id",
    "request": "http",
}
"""Parts of the context of a request there, and of the context here."""

_RUNS: Final = {
    "run_async": None,
    "run_stdio_async": None,
    "run_http_async": "http",
    "run_streamable_http_async": "http",
    "run_sse_async": "sse",
}
_MOVED: Final = ("host", "port")
"""Options of an app that belong to its run over HTTP."""

_OF_MIDDLEWARE: Final = (
    "CallNext",
    "ClientError",
    "Middleware",
    "MiddlewareContext",
    "get_http_headers",
)
"""What only a class of middleware needs, once it has been rewritten."""


class _Rewrite(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (meta.QualifiedNameProvider, meta.ParentNodeProvider)

    def __init__(self, found: Found, used: set[str], theirs: set[str]) -> None:
        super().__init__()
        self._found = found
        self._middlewares_left = theirs
        self._around: list[tuple[list[Any], list[Any]]] = [([], [])]
        """Statements before and behind each statement that is visited."""
        self.used_before = used
        """The names that the file uses."""
        self._marks: list[list[str]] = [[]]
        self._importing = 0
        self._renamed: dict[str, str] = {}
        self._routes: list[cst.BaseStatement] = []
        self.needed: set[tuple[str, str]] = set()
        """Module and name of what has to be imported in addition."""
        self.made: dict[str, str] = {}
        """Local name of ours → the one of theirs that it was imported instead of."""
        self.kept: set[str] = set()
        """Local names of theirs that are imported still, in case that they are used."""

    # --- names ------------------------------------------------------------------------------------

    def _theirs(self, node: cst.CSTNode) -> str:
        return last_part(self.get_metadata(meta.QualifiedNameProvider, node, set()))

    def _ours(self, row: PeerName) -> str:
        """Return what a name is called here, and have it imported."""
        name = row.ours
        module = "mcpkit"
        if name.startswith("types."):
            module, name = "mcpkit.types", name.removeprefix("types.")
        elif row.how == "rewrite" and row.theirs.isupper():
            module = "mcpkit.errors"
        if name in self._found.bound:
            self.needed.add((module, f"{name} as MCPKit{name}"))
            return f"MCPKit{name}"
        self.needed.add((module, name))
        return name

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if self._importing or not self._stands_alone(original_node):
            return updated_node
        return self._converted(original_node, updated_node)

    def leave_AssignTarget(
        self, original_node: cst.AssignTarget, updated_node: cst.AssignTarget
    ) -> cst.AssignTarget:
        """Rename what a file puts in the place of a name of theirs that is not there."""
        target = updated_node.target
        if not isinstance(target, cst.Name) or target.value not in self._found.imported:
            return updated_node
        row = peer_name("import", self._found.in_text(target.value))
        if row is None or row.how != "rename":
            return updated_node
        return updated_node.with_changes(
            target=cst.Name(self._renamed.get(target.value) or self._ours(row))
        )

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        if self._importing:
            return updated_node
        theirs = self._theirs(original_node)
        if theirs:
            return self._converted(original_node, updated_node)
        front, name = text_of(original_node.value), original_node.attr.value
        if front in self._found.contexts:
            return self._of_context(original_node, updated_node, name)
        if front in self._found.apps:
            return self._of_app(original_node, updated_node, name)
        whole, _, last = front.rpartition(".")
        if last == "request_context" and whole in self._found.contexts and name in _REQUEST:
            return updated_node.with_changes(
                value=cast("Any", updated_node.value).value, attr=cst.Name(_REQUEST[name])
            )
        if name in _ATTRIBUTES:
            return updated_node.with_changes(attr=cst.Name(_ATTRIBUTES[name]))
        inner = original_node.value
        if (
            isinstance(inner, cst.Attribute)
            and inner.attr.value == "error"
            and text_of(inner.value) in self._found.errors
            and name in ("message", "code", "data")
        ):
            return updated_node.with_changes(value=inner.value)
        return updated_node

    def _stands_alone(self, node: cst.Name) -> bool:
        """Whether a name is an expression of its own, and not a part of something else."""
        parent = self.get_metadata(meta.ParentNodeProvider, node, None)
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
        theirs = self._theirs(original)
        row = peer_name("import", theirs) if theirs else None
        if isinstance(original, cst.Attribute) and (row is None or row.how == "hand"):
            self._mark_in_module(original, theirs, row)
        if row is None:
            return updated
        if row.how == "rename":
            name = self._renamed.get(text_of(original)) or self._ours(row)
            return cst.Name(name, lpar=_pars(updated).lpar, rpar=_pars(updated).rpar)
        if row.how == "rewrite" and theirs.isupper():
            return expression(f"{self._ours(row)}.CODE")
        if row.how == "rewrite" and theirs == "Client":
            parent = self.get_metadata(meta.ParentNodeProvider, original, None)
            if not (isinstance(parent, cst.Call) and parent.func is original):
                return cst.Name(self._ours(row))
        return updated

    def _mark_in_module(self, node: cst.Attribute, theirs: str, row: PeerName | None) -> None:
        """Mark a name of theirs that is reached by way of a module, unless more comes behind it."""
        parent = self.get_metadata(meta.ParentNodeProvider, node, None)
        text = text_of(node)
        is_part = isinstance(parent, cst.Attribute) and parent.value is node
        if theirs and not is_part and text.partition(".")[0] in self._found.modules:
            self._mark(text, row)

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.BaseExpression:
        node: Any = original_node
        while isinstance(node, (*_IN_ANNOTATIONS, *_IN_LISTS)):
            node = self.get_metadata(meta.ParentNodeProvider, node, None)
        if isinstance(node, cst.Annotation):
            value = DOTTED.sub(self._in_text, updated_node.value)
        elif (
            isinstance(node, (cst.Assign, cst.AugAssign))
            and text_of(node.targets[0].target if isinstance(node, cst.Assign) else node.target)
            == "__all__"
        ):
            value = DOTTED.sub(self._exported, updated_node.value)
        else:
            return updated_node
        return updated_node.with_changes(value=value)

    def _in_text(self, match: re.Match[str]) -> str:
        """Return what a name in a text is called here."""
        theirs = self._found.in_text(match[0])
        row = peer_name("import", theirs) if theirs else None
        is_renamed = row is not None and (row.how == "rename" or theirs == "Client")
        if row is None or not is_renamed:
            return match[0]
        return self._renamed.get(match[0]) or self._ours(row)

    def _exported(self, match: re.Match[str]) -> str:
        return self._in_text(match) if match[0] in self._found.imported else match[0]

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
        if (before or behind) and isinstance(left, _Statement):
            nodes = [*before, left, *behind]
            nodes[0] = nodes[0].with_changes(leading_lines=left.leading_lines)
            if before:
                nodes[len(before)] = left.with_changes(leading_lines=())
            left = cst.FlattenSentinel(nodes)
        if not marks:
            return left
        if isinstance(left, _Statement):
            return _marked(left, marks)
        if isinstance(left, cst.FlattenSentinel):
            nodes = list(cast("Any", left).nodes)
            return cst.FlattenSentinel([_marked(nodes[0], marks), *nodes[1:]])
        self._marks[-1] += marks  # of what is gone: they go to what it stood in
        return left

    def _mark(self, what: str, row: PeerName | None, say: str = "") -> None:
        advice = say or (row.advice if row is not None else "nothing is known of it here")
        self._marks[-1].append(f"{what}: {advice}")

    # --- imports ----------------------------------------------------------------------------------

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self._importing += 1

    def visit_Import(self, node: cst.Import) -> None:
        self._importing += 1

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:
        self._importing -= 1
        kept: list[cst.ImportAlias] = []
        for alias in updated_node.names:
            name = text_of(alias.asname.name if alias.asname else alias.name)
            if is_theirs(text_of(alias.name)):
                self.kept.add(name.partition(".")[0] if not alias.asname else name)
            kept.append(alias)
        return updated_node

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom:
        self._importing -= 1
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        self._one_line(original_node)
        node = original_node.body[0]
        if len(original_node.body) > 1 or not isinstance(node, cst.ImportFrom) or node.relative:
            return updated_node
        module = text_of(node.module)
        if not is_theirs(module):
            return updated_node
        if not isinstance(node.names, Sequence):
            self._mark(f"from {module} import *", None, "import what is used by name")
            return updated_node
        ours: dict[str, list[str]] = {}
        theirs: list[cst.ImportAlias] = []
        for alias in node.names:
            name = text_of(alias.name)
            local = text_of(alias.asname.name) if alias.asname else name
            row = peer_name("import", name)
            if row is not None and row.how == "rename":
                home, _, ours_name = f"mcpkit.{row.ours}".rpartition(".")
                ours.setdefault(home, []).append(self._imported(local, ours_name, alias))
                continue
            if name == "Client":
                continue  # ours has the name, and so have all that use it
            self.kept.add(local)
            theirs.append(alias)
            if (row is None or row.how == "hand") and local not in self._found.modules:
                self._mark(name, row)
        made = [import_line(home, sorted(set(names))) for home, names in sorted(ours.items())]
        if len(theirs) == len(node.names):
            return updated_node
        if not made and not theirs:
            return cst.RemoveFromParent()
        if theirs:
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            names = [each.with_changes(comma=comma) for each in theirs[:-1]]
            names.append(theirs[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT))
            line = cst.parse_statement(f"from {module} import x\n")
            made.insert(
                0, cast("Any", line).with_deep_changes(cast("Any", line).body[0], names=names)
            )
        made[0] = made[0].with_changes(leading_lines=updated_node.leading_lines)
        made[-1] = made[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return made[0] if len(made) == 1 else cst.FlattenSentinel(made)

    def visit_SimpleStatementSuite(self, node: cst.SimpleStatementSuite) -> None:
        for each in node.body:
            self._left_on_line(each)

    def _one_line(self, node: cst.SimpleStatementLine) -> None:
        for each in node.body if len(node.body) > 1 else ():
            self._left_on_line(each)

    def _left_on_line(self, node: cst.CSTNode) -> None:
        """Mark an import that shares its line with something else, and is left as it is."""
        if (
            isinstance(node, cst.ImportFrom)
            and not node.relative
            and is_theirs(text_of(node.module))
        ):
            self._mark(f"from {text_of(node.module)} import …", None, "give it a line of its own")

    def _imported(self, local: str, name: str, alias: cst.ImportAlias) -> str:
        """Return how a name of ours is imported instead of one of theirs, and remember it."""
        if alias.asname is not None:
            mine = local
        elif name in self._found.bound:
            mine = f"MCPKit{name}"
        else:
            mine = name
        self._renamed[local] = mine
        self.made[mine] = local
        return name if mine == name else f"{name} as {mine}"

    # --- the context ------------------------------------------------------------------------------

    def _of_context(
        self, original: cst.Attribute, updated: cst.Attribute, name: str
    ) -> cst.BaseExpression:
        row = peer_name("ctx", name)
        parent = self.get_metadata(meta.ParentNodeProvider, original, None)
        if row is None:
            return updated
        if name == "request_context":
            below = parent.attr.value if isinstance(parent, cst.Attribute) else ""
            if below in _REQUEST:
                return updated  # see `leave_Attribute` for the one around it
        elif name == "session":
            below = parent.attr.value if isinstance(parent, cst.Attribute) else ""
            if below in _LISTS or below == "send_resource_updated":
                return updated.value
        elif name in _LISTS:
            return updated
        elif row.how == "rename":
            return updated.with_changes(attr=cst.Name(row.ours))
        elif row.how == "rewrite" and row.ours:
            first, _, second = row.ours.partition(".")
            inner = updated.with_changes(attr=cst.Name(first))
            return cst.Attribute(inner, cst.Name(second))
        self._mark(f"{text_of(original)}", row)
        return updated

    # --- the app ----------------------------------------------------------------------------------

    def _of_app(
        self, original: cst.Attribute, updated: cst.Attribute, name: str
    ) -> cst.BaseExpression:
        row = peer_name("app", name)
        if row is None:
            return updated
        if row.how == "rename":
            return updated.with_changes(attr=cst.Name(row.ours))
        if row.how == "rewrite" and name != "settings":
            parent = self.get_metadata(meta.ParentNodeProvider, original, None)
            if name == "custom_route" or isinstance(parent, cst.Call):
                return updated  # see `leave_Call` and `leave_FunctionDef`
        self._mark(text_of(original), row)
        return updated

    # --- calls ------------------------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        function = original_node.func
        theirs = self._theirs(function)
        args = Args(updated_node)
        if theirs in ("FastMCP", "MCPServer"):
            return self._constructor(original_node, args)
        if theirs in CONTENT:
            return content(theirs, args, self.needed)
        if theirs in MEDIA:
            if args.take("name") is not None:
                self._mark("name=", peer_name("File(…)", "name"))
            return media(theirs, args)
        if theirs in ("McpError", "MCPError"):
            return self._protocol_error(original_node, updated_node, args)
        if theirs in ("NotFoundError", "ResourceNotFoundError"):
            if args.positional:
                args.all[0] = args.all[0].with_changes(keyword=cst.Name("message"), equal=_EQUAL)
            return args.call()
        if theirs in ("UserMessage", "AssistantMessage", "Message", "PromptMessage"):
            return args.call()
        if theirs == "Client":
            return self._client(original_node, args)
        front, _, name = text_of(function).rpartition(".")
        if front in self._found.contexts:
            return self._context_call(front, name, args)
        if ".session" in front and front.removesuffix(".session") in self._found.contexts:
            return self._context_call(front.removesuffix(".session"), name, args)
        if front in self._found.apps:
            return self._app_call(front, name, args, original_node, updated_node)
        if name == "run" and front in ("asyncio", "anyio"):
            return self._event_loop(original_node, updated_node)
        return updated_node

    def _constructor(self, original: cst.Call, args: Args) -> cst.BaseExpression:
        args.positional_as(["instructions"])
        if not args.positional and "name" not in args.keywords and not _has_stars(args):
            args.first(expression('"server"'))
        for name in args.keywords:
            row = peer_name("MCPKit(…)", name)
            if name == "log_level":
                args.take(name)
                self._mark("log_level", None, "use mcpkit run --debug, or configure logging")
            elif name == "tasks" and text_of(args.get(name)) in ("True", "False", "None"):
                if text_of(args.take(name)) == "True":
                    say = 'add task="optional" to each tool that may run as a task'
                    self._mark("tasks=True", None, say)
            elif row is None:
                continue
            elif row.how == "rename":
                args.rename(name, row.ours)
            elif name in _MOVED and self._runs_of(original):
                args.take(name)
            elif row.how == "keep":
                self._mark(f"{name}=", row)
            elif row.how == "guard":
                self._guarded(original, args, row)
            elif row.theirs == "middleware":
                self._middleware(original, args, row)
            else:
                args.take(name)
                if row.how == "hand":
                    self._mark(f"{name}=", row)
        return args.call()

    def _runs_of(self, made: cst.Call) -> set[str]:
        """Return the names of an app that are run over HTTP, where its host and port belong."""
        if len(self._found.made) == 1:
            return self._found.http_apps
        return {self._found.made.get(made, "")} & self._found.http_apps

    def _moved(self, app: str) -> Iterator[tuple[str, cst.BaseExpression]]:
        """Yield the options of an app that belong to its run."""
        for made in self._found.made:
            for name in _MOVED if app in self._runs_of(made) else ():
                value = Args(made).get(name)
                if value is not None:
                    yield name, value

    def _guarded(self, original: cst.Call, args: Args, row: PeerName) -> None:
        """Take out an option that may be off, and refuse to start if it is on."""
        value = args.get(row.theirs)
        if text_of(value) == "None":
            args.take(row.theirs)
            return
        self._mark(f"{row.theirs}=", row)
        before = Args(original).get(row.theirs)
        is_made = isinstance(before, cst.Call) and self._theirs(before.func)
        if value is None or is_made or not self._assigned_to(original):
            return
        args.take(row.theirs)
        made = cst.parse_statement(
            f"if x is not None:\n"
            f'    raise RuntimeError("nothing here does what {row.theirs}= did: {row.advice}")\n'
        )
        test = cast("Any", made).test
        self._around[-1][0].append(
            cast("Any", made).with_changes(test=test.with_changes(left=_in_pars(value)))
        )

    def _middleware(self, original: cst.Call, args: Args, row: PeerName) -> None:
        """Register middleware behind the app, in the same order."""
        value = args.get(row.theirs)
        app = self._assigned_to(original)
        before = Args(original).get(row.theirs)
        if value is None or before is None or not app or not self._is_ours_now(before):
            self._mark(f"{row.theirs}=", row)
            return
        args.take(row.theirs)
        if isinstance(value, cst.List) and all(type(x) is cst.Element for x in value.elements):
            for each in value.elements:
                made = cst.parse_statement(f"{app}.middleware(x)\n")
                self._around[-1][1].append(
                    made.with_deep_changes(
                        cast("Any", made).body[0].value.args[0], value=each.value
                    )
                )
            return
        loop = cst.parse_statement(f"for each in x:\n    {app}.middleware(each)\n")
        self._around[-1][1].append(cast("Any", loop).with_changes(iter=value))

    def _is_ours_now(self, value: cst.BaseExpression) -> bool:
        """Whether middleware is none of theirs, nor of a class here that is left to a person."""
        for each in m.findall(value, m.Call()):
            function = cast("cst.Call", each).func
            if self._theirs(function) or text_of(function) in self._middlewares_left:
                return False
        return True

    def _assigned_to(self, call: cst.Call) -> str:
        """Return the name that a call is assigned to by a statement of its own; else nothing."""
        parent = self.get_metadata(meta.ParentNodeProvider, call, None)
        line = self.get_metadata(meta.ParentNodeProvider, parent, None) if parent else None
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
            return ""
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            return text_of(parent.targets[0].target)
        return text_of(parent.target) if isinstance(parent, cst.AnnAssign) else ""

    def _protocol_error(
        self, original: cst.Call, updated: cst.Call, args: Args
    ) -> cst.BaseExpression:
        data = original.args[0].value if len(original.args) == 1 else None
        if isinstance(data, cst.Call) and self._theirs(data.func) == "ErrorData":
            args = Args(cast("cst.Call", updated.args[0].value))
        elif not {"code", "message"} <= set(args.keywords):
            self._mark("McpError", None, "write ProtocolError(message, code=…)")
            return updated
        message, code = args.take("message"), args.take("code")
        if message is None or code is None:
            self._mark("McpError", None, "write ProtocolError(message, code=…)")
            return updated
        written = cst.Module([]).code_for_node(code)
        if not written.endswith(".CODE"):
            args.all.insert(0, cst.Arg(code, keyword=cst.Name("code"), equal=_EQUAL))
        args.first(message)
        name = written.removesuffix(".CODE") if written.endswith(".CODE") else None
        row = peer_name("import", "McpError")
        assert row is not None
        return Args(updated.with_changes(args=args.call().args)).call(
            expression(name or self._renamed.get(text_of(original.func)) or self._ours(row))
        )

    def _client(self, original: cst.Call, args: Args) -> cst.BaseExpression:
        target = args.positional[0].value if args.positional else None
        if target is not None and text_of(target) and not text_of(target).isupper():
            is_app = text_of(target) in self._found.apps or text_of(target) in _SERVERS
            if is_app:
                self.needed.add(("mcpkit.testing", "AsyncTestClient"))
                return args.call(cst.Name("AsyncTestClient"))
        self.needed.add(("mcpkit", "Client"))
        return args.call(cst.Name("Client"))

    def _context_call(self, front: str, name: str, args: Args) -> cst.BaseExpression:
        if name in _LEVELS:
            for each in args.keywords:
                row = peer_name("log(…)", each)
                if row is not None and row.how == "rename":
                    args.rename(each, row.ours)
                elif row is not None:
                    args.take(each)
                    self._mark(f"{each}=", row)
            if name == "log" and "level" in args.keywords and args.positional:
                args.first(cast("Any", args.take("level")))
            elif name == "log" and [string_of(each.value) in _LEVELS for each in args.positional][
                :2
            ] == [False, True]:
                args.swap()
        elif name in ("elicit", "sample"):
            for each in args.keywords:
                row = peer_name(f"{name}(…)", each)
                if row is not None and row.how == "rename":
                    args.rename(each, row.ours)
                elif row is not None:
                    args.take(each)
                    if row.how == "hand":
                        self._mark(f"{each}=", row)
        elif name in _LISTS:
            args.all = [cst.Arg(expression(f'"{_LISTS[name]}"'))]
            call = args.call(expression(f"{front}.list_changed"))
            return self._not_awaited(call)
        return args.call()

    def _inclusion(self, front: str, name: str, args: Args) -> cst.BaseExpression:
        """Return the inclusion of another app; FastMCP had its prefix first, once."""
        if len(args.positional) == 2 and string_of(args.positional[0].value) is not None:
            args.swap()
        args.positional_as(["prefix"])
        for each in args.keywords:
            if each == "namespace":
                args.rename(each, "prefix")
            elif each == "server":
                args.first(cast("Any", args.take(each)))
            elif each != "prefix":
                self._mark(f"{front}.{name}({each}=…)", peer_name("app", name))
        return args.call()

    def _not_awaited(self, call: cst.Call) -> cst.BaseExpression:
        return call

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Nothing is waited for by what only announces something."""
        inner = updated_node.expression
        if isinstance(inner, cst.Call):
            front, _, name = text_of(inner.func).rpartition(".")
            if (
                name in ("list_changed", "changed", "close_stream")
                and front in self._found.contexts
            ):
                return inner
            if name == "include" and front in self._found.apps:
                return inner
            if name == "run" and front in self._found.apps:
                self._mark(f"await {front}.run_async()", peer_name("app", "run_async"))
                return original_node
        return updated_node

    def _app_call(
        self, front: str, name: str, args: Args, original: cst.Call, updated: cst.Call
    ) -> cst.BaseExpression:
        if name in ("tool", "prompt", "resource"):
            parent = self.get_metadata(meta.ParentNodeProvider, original, None)
            is_called = isinstance(parent, cst.Call) and parent.func is original
            if (
                name != "resource"
                and args.positional
                and (
                    is_called
                    or isinstance(parent, cst.Decorator)
                    or string_of(args.positional[0].value) is not None
                )
            ):
                args.all[0] = args.all[0].with_changes(keyword=cst.Name("name"), equal=_EQUAL)
            return self._registration(name, args)
        if name in ("add_tool", "add_prompt"):
            inner = updated.args[0].value if updated.args else None
            if isinstance(inner, cst.Call):
                kind, _, method = text_of(inner.func).rpartition(".")
                if method == "from_function" and kind.rpartition(".")[2] in _FACTORIES:
                    inside = Args(inner)
                    if "fn" in inside.keywords:
                        inside.first(cast("Any", inside.take("fn")))
                    inside.positional_as(["name", "title", "description"])
                    return Args(inside.call(updated.func)).call()
            if "fn" in args.keywords:
                args.first(cast("Any", args.take("fn")))
            args.positional_as(["name", "title", "description", "annotations"])
            return self._registration(name.removeprefix("add_"), args)
        if name in ("mount", "import_server"):
            return self._inclusion(front, name, args)
        if name == "add_middleware":
            given = original.args[0].value if len(original.args) == 1 else None
            if given is not None and self._is_ours_now(given):
                return updated.with_changes(
                    func=cast("Any", updated.func).with_changes(attr=cst.Name("middleware"))
                )
            self._mark(f"{front}.{name}", peer_name("app", name))
            return updated
        if name == "run":
            return self._run(front, args)
        if name in _RUNS:
            self._mark(f"{front}.{name}()", peer_name("app", name))
            return updated
        if name == "sse_app":
            args.add("sse", expression("True"))
            return args.call(expression(f"{front}.asgi"))
        if name in ("http_app", "streamable_http_app"):
            for each in args.keywords:
                row = peer_name("run(…)", each)
                if row is not None and row.how == "rename":
                    args.rename(each, row.ours)
                elif row is not None or each in ("transport", "lifespan"):
                    args.take(each)
            return args.call()
        return updated

    def _registration(self, kind: str, args: Args) -> cst.BaseExpression:
        if kind == "resource":
            for each in ("uri", "uri_template"):
                uri = args.take(each)
                if uri is not None:
                    args.first(uri)
            uri = args.positional[0].value if args.positional else None
            if isinstance(uri, cst.SimpleString) and "*}" in uri.value:
                changed = re.sub(r"\{(\w+)\*\}", r"{+\1}", uri.value)
                args.all[0] = args.all[0].with_changes(value=uri.with_changes(value=changed))
        if kind == "tool":
            self._task(args)
        for each in args.keywords:
            row = peer_name(f"{kind}(…)", each)
            if row is None:
                continue
            value = args.get(each)
            if each == "output_schema" and text_of(value) == "None":
                args.put(each, [("structured_output", expression("False"))])
            elif text_of(value) == "None" or (each == "enabled" and text_of(value) == "True"):
                args.take(each)
            else:
                if row.how != "keep" and each != "enabled":  # what is off is not to be offered
                    args.take(each)
                self._mark(f"{each}=", row)
        if kind == "tool":
            unfold_hints(args)
        return args.call()

    def _task(self, args: Args) -> None:
        """Write how a tool runs as a task: with a mode in FastMCP, or True and False."""
        value = args.get("task")
        mode = {"True": "optional", "False": "forbidden", "None": "forbidden"}.get(text_of(value))
        if isinstance(value, cst.Call) and text_of(value.func).endswith("TaskConfig"):
            config = Args(value)
            mode = string_of(config.get("mode")) or ("" if config.get("mode") else "optional")
            if set(config.keywords) - {"mode"}:
                say = 'write MCPKit(…, tasks={"poll_interval": …}), for the whole app'
                self._mark("TaskConfig(poll_interval=)", None, say)
        if mode == "forbidden":
            args.take("task")
        elif mode:
            args.replace("task", expression(f'"{mode}"'))
        elif value is not None:
            say = 'write task="optional", "required" or "forbidden"'
            self._mark("task=", None, say)

    def _run(self, front: str, args: Args) -> cst.BaseExpression:
        transport = args.get("transport") or (args.positional[0].value if args.positional else None)
        known = string_of(transport)
        row = peer_name("run(…)", known) if known else None
        if row is not None:
            value = expression(f'"{row.ours}"')
            if "transport" in args.keywords:
                args.replace("transport", value)
            else:
                args.all[0] = args.all[0].with_changes(value=value)
        elif transport is not None and known is None:
            self._mark(f"{front}.run(…)", None, 'the transports are "stdio", "http" and "sse"')
        for each in args.keywords:
            row = peer_name("run(…)", each)
            if row is None:
                continue
            if row.how == "rename":
                args.rename(each, row.ours)
            elif row.how != "keep":
                args.take(each)
            if row.how in ("hand", "keep"):
                self._mark(f"{each}=", row)
        if known not in (None, "stdio"):
            for each, value in self._moved(front):
                args.add(each, value)
        return args.call()

    def _event_loop(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """``asyncio.run(app.run_async())`` and ``anyio.run(app.run_async)`` are ``app.run()``."""
        inner = original.args[0].value if len(original.args) == 1 else None
        called = inner.func if isinstance(inner, cst.Call) else inner
        front, _, name = text_of(called).rpartition(".")
        if front not in self._found.apps or name not in _RUNS:
            return updated
        self._marks[-1] = [
            each for each in self._marks[-1] if not each.startswith(f"{front}.{name}")
        ]
        changed = updated.args[0].value
        args = Args(changed if isinstance(changed, cst.Call) else updated.with_changes(args=[]))
        transport = _RUNS[name]
        if transport is not None:
            args.first(expression(f'"{transport}"'))
        call = args.call(expression(f"{front}.run"))
        return self._run(front, Args(call))

    # --- functions with routes; settings before a run --------------------------------------------

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> Any:
        routes: list[cst.BaseStatement] = []
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
                made = cst.Module([]).code_for_node(args.call(cst.Name("Route")))
                routes.append(cst.parse_statement(f"{front}.routes.append({made})\n"))
            else:
                left.append(decorator)
        if not routes:
            return updated_node
        blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        first = cast("Any", routes[0]).with_changes(leading_lines=blank)
        return cst.FlattenSentinel([updated_node.with_changes(decorators=left), first, *routes[1:]])

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.BaseSuite:
        return updated_node.with_changes(body=self._settled(updated_node.body))

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        body = self._settled(updated_node.body)
        # What stands above the first statement belongs to the module.
        there = {line.comment.value for line in updated_node.header if line.comment is not None}
        if body:
            lines = body[0].leading_lines
            kept = [
                line for line in lines if line.comment is None or line.comment.value not in there
            ]
            body[0] = body[0].with_changes(leading_lines=kept)
        return updated_node.with_changes(body=body)

    def _settled(self, body: Sequence[Any]) -> list[Any]:
        """Turn ``app.settings.port = …`` before a run in the same block into an option of it."""
        made: list[Any] = []
        waiting: dict[str, list[tuple[Any, str, cst.BaseExpression]]] = {}
        for statement in body:
            if self._is_version(made, statement):
                continue
            setting = self._setting(statement)
            if setting is not None:
                app, name, value = setting
                waiting.setdefault(app, []).append((statement, name, value))
            run = self._run_in(statement)
            if run is not None and waiting.get(text_of(cast("Any", run.func).value)):
                args = Args(run)
                front = text_of(cast("Any", run.func).value)
                is_stdio = not args.all or string_of(args.all[0].value) == "stdio"
                for gone, name, value in waiting.pop(front) if not is_stdio else ():
                    args.add(name, value)
                    made.remove(gone)
                statement = statement.deep_replace(run, args.call())
            made.append(statement)
        return made

    def _is_version(self, before: list[Any], statement: Any) -> bool:
        """Put ``app._mcp_server.version = …`` into the call that has made the app."""
        inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        target = text_of(inner.targets[0].target) if isinstance(inner, cst.Assign) else ""
        app = next((each for each in _VERSIONS if target.endswith(each)), None)
        if app is None or not isinstance(inner, cst.Assign):
            return False
        name = target.removesuffix(app)
        for place, each in enumerate(before):
            made = each.body[0] if isinstance(each, cst.SimpleStatementLine) else None
            if isinstance(made, cst.Assign) and text_of(made.targets[0].target) == name:
                call = made.value
                if isinstance(call, cst.Call) and text_of(call.func).endswith("MCPKit"):
                    args = Args(call)
                    args.add("version", inner.value)
                    before[place] = each.deep_replace(call, args.call())
                    return True
        return False

    def _setting(self, statement: Any) -> tuple[str, str, cst.BaseExpression] | None:
        inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(inner, cst.Assign) and len(inner.targets) == 1:
            front, _, name = text_of(inner.targets[0].target).rpartition(".")
            app = front.removesuffix(".settings")
            if front.endswith(".settings") and app in self._found.apps and name in _MOVED:
                return app, name, inner.value
        return None

    def _run_in(self, statement: Any) -> cst.Call | None:
        inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = inner.value if isinstance(inner, cst.Expr) else None
        if isinstance(call, cst.Call):
            front, _, name = text_of(call.func).rpartition(".")
            if name == "run" and front in self._found.apps:
                return call
        return None

    # --- annotations ------------------------------------------------------------------------------

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        """``Context[ServerSession, State]`` and ``Context[State, Any]`` are ``Context[State]``."""
        if self._theirs(original_node.value) != "Context" or len(original_node.slice) < 2:
            return updated_node
        first = original_node.slice[0].slice
        is_session = isinstance(first, cst.Index) and self._theirs(first.value) == "ServerSession"
        kept = updated_node.slice[1 if is_session else 0]
        return updated_node.with_changes(slice=[kept.with_changes(comma=cst.MaybeSentinel.DEFAULT)])


_VERSIONS: Final = ("._mcp_server.version", "._lowlevel_server.version")
"""What is assigned to give an app a version, where there is no option for it."""

_EQUAL: Final = cst.AssignEqual(
    whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
)
_FACTORIES: Final = ("Tool", "FunctionTool", "Prompt", "FunctionPrompt")
_SERVERS: Final = ("mcp", "server", "app", "mcp_server")


def _in_pars(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression as it is written to the left of a comparison."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _has_stars(args: Args) -> bool:
    return any(each.star for each in args.all)


def _pars(node: cst.BaseExpression) -> Any:
    return node


def _marked(statement: Any, marks: Sequence[str]) -> Any:
    """Put marks above a statement, those that are not there."""
    lines = list(statement.leading_lines)
    there = {line.comment.value for line in lines if line.comment is not None}
    new = [f"{MARK}{each}" for each in dict.fromkeys(marks)]
    made = [cst.EmptyLine(comment=cst.Comment(each)) for each in new if each not in there]
    return statement.with_changes(leading_lines=[*lines, *made])


def _without_unused(module: cst.Module, rewrite: _Rewrite) -> cst.Module:
    """Take out imports that nothing uses any more, merge ours, and add what is missing."""
    used = Used()
    module.visit(used)
    gone = {name for name in rewrite.kept if name not in used.names}
    before = rewrite.used_before
    gone |= {
        mine for mine, theirs in rewrite.made.items() if mine not in used.names and theirs in before
    }
    rewrite.needed -= {each for each in rewrite.needed if each[1] in gone}
    return with_imports(without(module, gone), rewrite.needed)
