"""Middleware of FastMCP: a class with a method for each kind of message → one that is called.

A class is rewritten only if what it does can be told from its code: it passes the context on as it
is, and what comes back too, or looks at the parts of a tool's result. Any other stays and is
marked, and requests that it was to handle are refused.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final, cast

import libcst as cst
from libcst import matchers as m

from mcpkit.cli._migrate.imports import MARK
from mcpkit.cli._migrate.source import Names, code_of, text_of
from mcpkit.cli._migrate.values import Args, expression
from mcpkit.unmigrated import HOOKS

_EVERYTHING: Final = ("__call__", "on_message", "on_request")
_PARTS: Final = ("content", "structured_content", "meta", "is_error")
_LOGS: Final = ("debug", "info", "warning", "error")
_SENT: Final = {
    ("on_call_tool", "name"): '.request.params["name"]',
    ("on_call_tool", "arguments"): '.request.params.get("arguments")',
    ("on_read_resource", "uri"): '.request.params["uri"]',
    ("on_get_prompt", "name"): '.request.params["name"]',
    ("on_get_prompt", "arguments"): '.request.params.get("arguments")',
}
"""Parts of the message in a method of theirs, and where they are here."""


class _Unclear(Exception):
    """A class does something whose counterpart is not known."""


class Middlewares(Names, cst.CSTTransformer):
    """Rewrites the classes of a file."""

    HAS_CLASSES: Final = re.compile(r"\(.*(Middleware|ToolResult)\b.*\):")

    def __init__(self) -> None:
        super().__init__()
        self.changed = False  # whether a class was rewritten, or marked
        self.needed: set[tuple[str, str]] = set()  # module and name of what has to be imported

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        bases = [self.theirs(each.value) for each in original_node.bases]
        if "ToolResult" in bases and isinstance(updated_node.body, cst.IndentedBlock):
            return self._result(updated_node, updated_node.body)
        if "Middleware" in bases:
            with suppress(_Unclear):
                updated_node = self._middleware(original_node)
                self.changed = True
        return updated_node

    def _result(self, node: cst.ClassDef, block: cst.IndentedBlock) -> cst.ClassDef:
        """Mark the method of a result that the other library calls."""
        body = [*block.body]
        for index, each in enumerate(body):
            if isinstance(each, cst.FunctionDef) and each.name.value == "to_mcp_result":
                mark = cst.EmptyLine(comment=cst.Comment(MARK + _NOT_CALLED))
                body[index] = each.with_changes(leading_lines=[*each.leading_lines, mark])
                self.changed = True
        return node.with_changes(body=block.with_changes(body=body))

    def _middleware(self, node: cst.ClassDef) -> cst.ClassDef:
        if len(node.bases) > 1 or node.keywords or not isinstance(node.body, cst.IndentedBlock):
            raise _Unclear
        hooks = {
            each.name.value: each
            for each in node.body.body
            if isinstance(each, cst.FunctionDef)
            and (each.name.value == "__call__" or each.name.value.startswith("on_"))
        }
        # Several hooks are clear if none of them is for everything.
        known = {*HOOKS} if len(hooks) > 1 else {*HOOKS, *_EVERYTHING}
        if not hooks or not hooks.keys() <= known:
            raise _Unclear
        body: list[Any] = []
        for each in node.body.body:
            if not isinstance(each, cst.FunctionDef) or each.name.value not in hooks:
                # Nothing else may reach for the request of theirs.
                if any(
                    self.theirs(name).startswith("get_")
                    for name in m.findall(each, m.Name() | m.Attribute())
                ):
                    raise _Unclear
                body.append(each)
                continue
            made = self._hook(each)
            if hooks.keys() != {"__call__"} and each is next(iter(hooks.values())):
                body.append(_dispatcher(hooks, each))
                comments = [line for line in each.leading_lines if line.comment is not None]
                made = made.with_changes(leading_lines=[cst.EmptyLine(indent=False), *comments])
            body.append(made)
        return node.with_changes(
            bases=(),
            lpar=cst.MaybeSentinel.DEFAULT,
            rpar=cst.MaybeSentinel.DEFAULT,
            body=node.body.with_changes(body=body),
        )

    def _hook(self, node: cst.FunctionDef) -> cst.FunctionDef:
        params = node.params.params
        others = node.params.kwonly_params or node.params.star_kwarg or node.params.posonly_params
        if len(params) != 3 or others or node.asynchronous is None or node.decorators:
            raise _Unclear
        if isinstance(node.params.star_arg, (cst.Param, cst.ParamStar)):
            raise _Unclear
        context, call_next = params[1].name.value, params[2].name.value
        hook = _Hook(self, node.name.value, context, call_next)
        body = node.body.visit(hook)
        ours = [params[0]]
        for param, kind in ((params[1], "Context"), (params[2], "CallNext")):
            if param.annotation is not None:
                self.needed.add(("mcpkit", kind))
                param = param.with_changes(
                    annotation=param.annotation.with_changes(annotation=cst.Name(kind))
                )
            ours.append(param)
        return node.with_changes(
            params=node.params.with_changes(params=ours), body=cast("Any", body)
        )


_NOT_CALLED: Final = "to_mcp_result: nothing calls it; pass is_error= and the like to ToolResult"


def _dispatcher(hooks: dict[str, cst.FunctionDef], first: cst.FunctionDef) -> Any:
    """Return the method that the class is called by."""
    lines: list[str] = []
    for name in hooks:
        if name in _EVERYTHING:
            lines.append(f"    return await self.{name}(ctx, call_next)")
        else:
            lines.append(f'    if ctx.method == "{HOOKS[name]}":')
            lines.append(f"        return await self.{name}(ctx, call_next)")
    if hooks.keys().isdisjoint(_EVERYTHING):
        lines.append("    return await call_next()")
    kinds = [
        "" if each.annotation is None else f": {kind}"
        for each, kind in zip(first.params.params[1:], ("Context", "CallNext"), strict=True)
    ]
    head = f"async def __call__(self, ctx{kinds[0]}, call_next{kinds[1]}):"
    made = cst.parse_statement("\n".join([head, *lines]) + "\n")
    blank = [each for each in first.leading_lines if each.comment is None]
    return cast("Any", made).with_changes(leading_lines=blank)


_ALL_HEADERS: Final = "get_http_headers(include_all=True)"


class _Hook(cst.CSTTransformer):
    """Rewrites the body of a method; raises `_Unclear` at code with an unknown counterpart."""

    def __init__(self, around: Middlewares, name: str, context: str, call_next: str) -> None:
        super().__init__()
        self._around = around
        self._name = name
        self._context = context
        self._call_next = call_next
        self._results: set[str] = set()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        raise _Unclear

    def visit_Lambda(self, node: cst.Lambda) -> None:
        raise _Unclear

    def visit_Try(self, node: cst.Try) -> None:
        # A tool that fails raises nothing here: what comes back says so.
        if node.handlers and m.findall(node.body, m.Name(self._call_next)):
            raise _Unclear

    def visit_Name(self, node: cst.Name) -> None:
        """Refuse uses of the context, of what goes on and of a result that are not known."""
        parent = self._around.parent(node)
        if isinstance(parent, (cst.Attribute, cst.Arg)) and parent.value is not node:
            return
        if node.value == self._call_next:
            known = isinstance(parent, cst.Call) and parent.func is node and self._goes_on(parent)
        elif node.value == self._context:
            known = self._is_known(parent)
        elif node.value in self._results:
            known = self._is_passed_on(parent)
        else:
            is_theirs = self._around.theirs(node).startswith("get_")
            known = not is_theirs or code_of(parent) == _ALL_HEADERS
        if not known:
            raise _Unclear

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if self._around.theirs(node).startswith("get_"):
            raise _Unclear

    def _is_known(self, parent: Any) -> bool:
        """Whether the context is passed on, or asked for something that is here too."""
        if not isinstance(parent, cst.Attribute):
            return self._called_with(parent) == self._call_next
        part, above = parent.attr.value, self._around.parent(parent)
        if _is_stored(above, parent):
            return False
        if part == "method":
            return True
        if not isinstance(above, cst.Attribute):
            return False
        if part == "fastmcp_context":
            return above.attr.value in _LOGS
        is_stored = _is_stored(self._around.parent(above), above)
        return part == "message" and (self._name, above.attr.value) in _SENT and not is_stored

    def _is_passed_on(self, parent: Any) -> bool:
        """Whether a result is returned, or a part of it looked at that is the same here."""
        if isinstance(parent, (cst.Return, cst.AssignTarget)):
            return True
        if self._name != "on_call_tool":
            return False
        if not isinstance(parent, cst.Attribute):
            return self._called_with(parent) == "isinstance"
        part, above = parent.attr.value, self._around.parent(parent)
        if part != "structured_content" or isinstance(above, cst.Attribute):
            return part in _PARTS
        # Where there is none, it is None there, and here it is not.
        is_kept = m.matches(above, m.Arg(keyword=m.Name("structured_content")))
        return is_kept or self._called_with(above) == "isinstance"

    def _called_with(self, argument: Any) -> str:
        """Return the name of the function that gets an argument; empty for any other node."""
        call = self._around.parent(argument) if isinstance(argument, cst.Arg) else None
        return text_of(call.func) if isinstance(call, cst.Call) else ""

    def _goes_on(self, call: cst.Call) -> bool:
        """Whether what comes back is returned, or gets a name."""
        awaited = self._around.parent(call)
        above = self._around.parent(awaited)
        passed_on = m.Call(args=[m.Arg(m.Name(self._context))])
        if not m.matches(call, passed_on) or not isinstance(awaited, cst.Await):
            return False
        if m.matches(above, m.Assign(targets=[m.AssignTarget(m.Name())])):
            self._results.add(text_of(above.targets[0].target))
            return m.matches(self._around.parent(above), m.SimpleStatementLine(body=[m.Assign()]))
        return isinstance(above, cst.Return)

    # --- what is written instead ------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = text_of(original_node.func)
        if name == self._call_next:
            return updated_node.with_changes(args=())
        theirs = self._around.theirs(original_node.func)
        if theirs == "get_http_headers":
            front = self._context
            made = expression(f"(dict({front}.http.headers) if {front}.http else {{}})")
            is_alone = isinstance(self._around.parent(original_node), cst.Assign)
            return made.with_changes(lpar=(), rpar=()) if is_alone else made
        if theirs == "ClientError":
            self._around.needed.add(("mcpkit.errors", "InvalidRequest"))
            return Args(updated_node).call(cst.Name("InvalidRequest"))
        return updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        whole = text_of(original_node)
        if whole == f"{self._context}.fastmcp_context":
            return cst.Name(self._context)
        front, _, last = whole.rpartition(".")
        if front == f"{self._context}.message":
            return expression(self._context + _SENT[self._name, last])
        return updated_node

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Add a return after `call_next` for a failed tool: FastMCP raises there, mcpkit not."""
        failed = "{}.is_error" if self._name == "on_call_tool" else 'getattr({}, "is_error", False)'
        result = m.SaveMatchedNode(m.Name(), "name")
        called = m.Await(m.Call(func=m.Name(self._call_next)))
        assigned = m.Assign(targets=[m.AssignTarget(result)], value=called)
        body: list[Any] = []
        for each in updated_node.body:
            body.append(each)
            found: Any = m.extract(each, m.SimpleStatementLine(body=[assigned]))
            if found and self._name in ("on_call_tool", *_EVERYTHING):
                name = found["name"].value
                test = failed.format(name)
                body.append(cst.parse_statement(f"if {test}:\n    return {name}\n"))
        return updated_node.with_changes(body=body)


def _is_stored(above: Any, node: cst.CSTNode) -> bool:
    return isinstance(above, (cst.AssignTarget, cst.AugAssign, cst.Del)) or (
        isinstance(above, cst.AnnAssign) and above.target is node
    )
