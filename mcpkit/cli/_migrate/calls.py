"""Calls of apps, contexts and clients, rewritten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import libcst as cst
from libcst import matchers as m

from mcpkit._utils.names import PeerName, peer_name, peer_names
from mcpkit.cli._migrate.source import Found, Names, code_of, text_of
from mcpkit.cli._migrate.values import (
    CONTENT,
    EQUAL,
    MEDIA,
    Args,
    content,
    expression,
    media,
    string_of,
)

_LEVELS: Final = {"log", "debug", "info", "warning", "error", "notice", "critical"}
_LISTS: Final = {
    "send_tool_list_changed": "tools",
    "send_resource_list_changed": "resources",
    "send_prompt_list_changed": "prompts",
}
REQUEST: Final = {
    "lifespan_context": "state",
    "meta": "meta",
    "request_id": "request_id",
    "request": "http",
}
"""Parts of the context of a request there, and of the context here."""

SETTINGS: Final = "mcpkit_settings"
"""The name of what keeps the settings of an app until it is run."""

_LOG_LEVEL: Final = "set the level of logging, or use mcpkit run --debug"
_RUNS: Final = {
    "run_async": None,
    "run_stdio_async": None,
    "run_http_async": "http",
    "run_streamable_http_async": "http",
    "run_sse_async": "sse",
}
_FACTORIES: Final = ("Tool", "FunctionTool", "Prompt", "FunctionPrompt")
_SERVERS: Final = ("mcp", "server", "app", "mcp_server")


def _say(on: str, theirs: str) -> str:
    return peer_names()[on, theirs].advice


def _closed(value: cst.BaseExpression) -> str:
    """Return an expression as it is written beside an operator."""
    is_plain = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return code_of(value) if is_plain or value.lpar else f"({code_of(value)})"


def _set_transport(args: Args, value: cst.BaseExpression) -> None:
    if "transport" in args.keywords:
        args.change("transport", value=value)
    else:
        args.all[0] = args.all[0].with_changes(value=value)


class Calls(Names, cst.CSTTransformer):
    """The part of the rewrite that is about calls, with the state that all parts share."""

    def __init__(self, found: Found, used: set[str]) -> None:
        super().__init__()
        self._found = found
        self.used_before = used
        # Of each statement that is visited: the statements before and behind it, and its marks.
        self._around: list[tuple[list[Any], list[Any]]] = [([], [])]
        self._marks: list[list[str]] = [[]]
        self.renamed: dict[str, str] = {}  # imported local name of theirs → that of ours
        self.needed: set[tuple[str, str]] = set()  # module and name of further imports

    def _ours(self, row: PeerName) -> str:
        """Return our name for one of theirs, and import it."""
        module, name = row.home
        if name in self._found.bound:
            self.needed.add((module, f"{name} as MCPKit{name}"))
            return f"MCPKit{name}"
        self.needed.add((module, name))
        return name

    def _mark(self, what: str, say: str) -> None:
        self._marks[-1].append(f"{what}: {say}")

    def _remove(self, args: Args, row: PeerName) -> None:
        """Remove an option, and mark it; what is not literal, or is by hand, stays in the mark."""
        value = args.get(row.theirs)
        if value is None:
            return
        args.take(row.theirs)
        is_constant = not m.findall(value, m.Call() | m.Name() | m.Attribute() | m.Await())
        is_constant = is_constant or text_of(value) in ("True", "False", "None")
        if row.how != "drop" or not is_constant:
            code = re.sub(r"\r\n?", "\n", code_of(value))
            self._marks[-1].append(f"{row.theirs}=: {row.advice}\n{row.theirs}={code}")

    def _options(self, on: str, args: Args) -> None:
        """Rename, drop or mark the options of a call."""
        for each in args.keywords:
            row = peer_name(on, each)
            if row is not None:
                self._option(row, args)

    def _option(self, row: PeerName, args: Args) -> None:
        if row.how == "rename":
            args.change(row.theirs, keyword=cst.Name(row.ours))
        elif row.how == "keep" or row.theirs == "enabled":  # what is off is not to be offered
            self._mark(f"{row.theirs}=", row.advice)
        else:
            self._remove(args, row)

    # --- the context ------------------------------------------------------------------------------

    def _of_context(
        self, original: cst.Attribute, updated: cst.Attribute, name: str
    ) -> cst.BaseExpression:
        row = peer_name("ctx", name)
        parent = self.parent(original)
        if row is None:
            return updated
        below = parent.attr.value if isinstance(parent, cst.Attribute) else ""
        if name == "request_context":
            if below in REQUEST:
                return updated  # see `leave_Attribute` for the one around it
        elif name == "session":
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
        self._mark(text_of(original), row.advice)
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
        if row.how == "rewrite":
            below = cst.Attribute if name == "settings" else cst.Call
            if name == "custom_route" or isinstance(self.parent(original), below):
                return updated  # see `leave_Call`, `leave_FunctionDef` and `_setting`
        self._mark(text_of(original), row.advice)
        return updated

    def _setting(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        """Return where a setting of an app is kept instead; mark it if it has no effect here."""
        name = original.attr.value
        row = peer_name("MCPKit(…)", name) or peer_names()["app", "settings"]
        if row.how != "move" or not self._found.runs:
            self._mark(text_of(original), _LOG_LEVEL if name == "log_level" else row.advice)
        if row.how in ("keep", "guard"):
            return updated
        self.needed.add(("types", "SimpleNamespace"))
        return updated.with_changes(value=cst.Name(SETTINGS))

    # --- calls ------------------------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        function = original_node.func
        theirs = self.theirs(function)
        args = Args(updated_node)
        if theirs in ("FastMCP", "MCPServer"):
            return self._constructor(original_node, args)
        if theirs in CONTENT:
            return content(theirs, args, self.needed)
        if theirs in MEDIA:
            row = peer_name(f"{theirs}(…)", "name")
            if row is not None:
                self._remove(args, row)
            return media(theirs, args)
        if theirs in ("McpError", "MCPError"):
            return self._protocol_error(original_node, updated_node, args)
        if theirs in ("NotFoundError", "ResourceNotFoundError"):
            args.positional_as(["message"], first=0)
            return args.call()
        if theirs == "Client":
            return self._client(args)
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
        if version := self._found.versions.get(self._found.made.get(original, "")):
            args.add("version", version)
        has_stars = any(each.star for each in args.all)
        if not args.positional and "name" not in args.keywords and not has_stars:
            args.first(expression('"server"'))
        for name in args.keywords:
            row = peer_name("MCPKit(…)", name)
            if name == "log_level":  # which is another option here
                self._remove(args, PeerName("", name, "hand", "", _LOG_LEVEL, ""))
            elif name == "tasks" and text_of(args.get(name)) in ("True", "False", "None"):
                if text_of(args.take(name)) == "True":
                    say = 'add task="optional" to each tool that may run as a task'
                    self._mark("tasks=True", say)
            elif row is None:
                continue
            elif name in self._found.settings and row.how == "move" and self._assigned_to(original):
                made = f"{SETTINGS}.{name} = {code_of(cast('Any', args.take(name)))}\n"
                self._around[-1][1].append(cst.parse_statement(made))
            elif row.how == "move" and any(
                row.ours in self._moved(original, run) for run in self._found.runs
            ):
                args.take(name)
            elif row.how == "guard":
                self._guarded(original, args, row)
            elif row.theirs == "middleware":
                self._middleware(original, args, row)
            else:
                self._option(row, args)
        return args.call()

    def _moved(self, made: cst.Call, run: cst.Call) -> dict[str, cst.BaseExpression]:
        """Return the options of an app that belong to one of its runs, under our names."""
        app = text_of(run.func).rpartition(".")[0]
        is_its = len(self._found.made) == 1 or self._found.made[made] == app
        if not is_its or app not in self._found.apps:
            return {}
        place, there, args = self._function(made), self._function(run), Args(run)
        names = {text_of(each) for each in m.findall(there.params, m.Name())} if there else {""}
        found: dict[str, cst.BaseExpression] = {}
        for each in Args(made).all:
            row = peer_name("MCPKit(…)", text_of(each.keyword))
            if row is None or row.how != "move" or row.ours in args.keywords:
                continue
            used = {text_of(name) for name in m.findall(each.value, m.Name())}
            if not used or place is there or (place is None and not used & names):
                found[row.ours] = each.value
        return {} if any(each.star == "**" for each in args.all) else found

    def _function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function that a node stands in."""
        while node is not None and not isinstance(node, cst.FunctionDef):
            node = self.parent(node)
        return node

    def _guarded(self, original: cst.Call, args: Args, row: PeerName) -> None:
        """Remove an option that may be off, and raise an error at the start if it is on."""
        value = args.get(row.theirs)
        if text_of(value) == "None":
            args.take(row.theirs)
            return
        self._mark(f"{row.theirs}=", row.advice)
        before = Args(original).get(row.theirs)
        is_made = isinstance(before, cst.Call) and self.theirs(before.func)
        if value is None or is_made or not self._assigned_to(original):
            return
        args.take(row.theirs)
        written = _closed(value)
        text = f"nothing here does what {row.theirs}= did: {row.advice}"
        made = f'if {written} is not None:\n    raise RuntimeError("{text}")\n'
        self._around[-1][0].append(cst.parse_statement(made))

    def _middleware(self, original: cst.Call, args: Args, row: PeerName) -> None:
        """Register middleware behind the app, in the same order."""
        value: Any = args.get(row.theirs)
        app = self._assigned_to(original)
        before = Args(original).get(row.theirs)
        is_listed = isinstance(value, cst.List) and all(
            type(each) is cst.Element for each in value.elements
        )
        if not is_listed or before is None or not app or not self._is_ours_now(before):
            self._mark(f"{row.theirs}=", row.advice)
            return
        args.take(row.theirs)
        for each in value.elements:
            made = f"{app}.middleware({code_of(each.value)})\n"
            self._around[-1][1].append(cst.parse_statement(made))

    def _is_ours_now(self, value: cst.BaseExpression) -> bool:
        """Return True if no middleware is of a class of theirs."""
        return not any(self.theirs(cast("Any", each).func) for each in m.findall(value, m.Call()))

    def _assigned_to(self, call: cst.Call) -> str:
        """Return the name that a call is assigned to by a statement of its own; else nothing."""
        parent = self.parent(call)
        line = self.parent(parent) if parent else None
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
            return ""
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            return text_of(parent.targets[0].target)
        return text_of(parent.target) if isinstance(parent, cst.AnnAssign) else ""

    def _protocol_error(
        self, original: cst.Call, updated: cst.Call, args: Args
    ) -> cst.BaseExpression:
        data = original.args[0].value if len(original.args) == 1 else None
        if isinstance(data, cst.Call) and self.theirs(data.func) == "ErrorData":
            args = Args(cast("cst.Call", updated.args[0].value))
        message, code = args.get("message"), args.get("code")
        if message is None or code is None:
            self._mark("McpError", "write ProtocolError(message, code=…)")
            return updated
        args.take("code")
        written = code_of(code)
        if written.endswith(".CODE"):
            name = written.removesuffix(".CODE")
        else:
            args.all.insert(0, cst.Arg(code, keyword=cst.Name("code"), equal=EQUAL))
            row = peer_name("import", "McpError")
            assert row is not None
            name = self.renamed.get(text_of(original.func)) or self._ours(row)
        args.lead("message")
        return Args(updated.with_changes(args=args.call().args)).call(expression(name))

    def _client(self, args: Args) -> cst.BaseExpression:
        target = text_of(args.positional[0].value) if args.positional else ""
        is_app = target in self._found.apps or target in _SERVERS
        module, name = ("mcpkit.testing", "AsyncTestClient") if is_app else ("mcpkit", "Client")
        self.needed.add((module, name))
        return args.call(cst.Name(name))

    def _context_call(self, front: str, name: str, args: Args) -> cst.BaseExpression:
        if name in _LEVELS:
            self._options("log(…)", args)
            if name == "log" and "level" in args.keywords and args.positional:
                args.lead("level")
            elif name == "log" and len(args.positional) > 1:
                first, second, *_ = (string_of(each.value) in _LEVELS for each in args.positional)
                if second and not first:
                    args.all[:2] = reversed(args.all[:2])
        elif name in ("elicit", "sample"):
            self._options(f"{name}(…)", args)
        elif name in _LISTS:
            args.all = [cst.Arg(expression(f'"{_LISTS[name]}"'))]
            return args.call(expression(f"{front}.list_changed"))
        elif name == "send_resource_updated":
            return args.call(expression(f"{front}.notify_resource_updated"))
        return args.call()

    def _inclusion(self, front: str, name: str, args: Args) -> cst.BaseExpression:
        """Return the inclusion of another app; FastMCP had its prefix first, once."""
        if len(args.positional) == 2 and string_of(args.positional[0].value) is not None:
            args.all[:2] = reversed(args.all[:2])
        args.positional_as(["prefix"])
        for each in args.keywords:
            if each == "namespace":
                args.change(each, keyword=cst.Name("prefix"))
            elif each == "server":
                args.lead(each)
            elif each != "prefix":
                self._mark(f"{front}.{name}({each}=…)", _say("app", name))
        return args.call()

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Remove the ``await`` from calls that are not coroutines in mcpkit."""
        inner = updated_node.expression
        if isinstance(inner, cst.Call):
            front, _, name = text_of(inner.func).rpartition(".")
            synchronous = ("list_changed", "notify_resource_updated", "close_stream")
            if name in synchronous and front in self._found.contexts:
                return inner
            if name == "include" and front in self._found.apps:
                return inner
            if name == "run" and front in self._found.apps:
                self._mark(f"await {front}.run_async()", _say("app", "run_async"))
                return original_node
        return updated_node

    def _app_call(
        self, front: str, name: str, args: Args, original: cst.Call, updated: cst.Call
    ) -> cst.BaseExpression:
        if name in ("tool", "prompt", "resource"):
            parent = self.parent(original)
            is_decorator = isinstance(parent, cst.Decorator) or (
                isinstance(parent, cst.Call) and parent.func is original
            )
            if isinstance(parent, cst.Decorator) and self.excluded(original):
                args.take("exclude_args")  # see `leave_Param`
            first = args.positional[0].value if args.positional else None
            if name != "resource" and first and (is_decorator or string_of(first) is not None):
                args.positional_as(["name"], first=0)
            test = args.get("enabled") if isinstance(parent, cst.Decorator) else None
            if test is None or text_of(test) in ("True", "None"):
                return self._registration(name, args)
            args.take("enabled")
            made = code_of(self._registration(name, args))
            return expression(f"({made} if {_closed(test)} else lambda fn: fn)")
        if name in ("add_tool", "add_prompt"):
            inner = updated.args[0].value if updated.args else None
            if isinstance(inner, cst.Call):
                kind, _, method = text_of(inner.func).rpartition(".")
                if method == "from_function" and kind.rpartition(".")[2] in _FACTORIES:
                    inside = Args(inner)
                    inside.lead("fn")
                    inside.positional_as(["name", "title", "description"])
                    return Args(inside.call(updated.func)).call()
            args.lead("fn")
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
            self._mark(f"{front}.{name}", _say("app", name))
            return updated
        if name == "run":
            return self._run(original, args)
        if name in _RUNS and isinstance(self.parent(original), cst.Await):
            if _RUNS[name] is not None:
                args.first(expression(f'"{_RUNS[name]}"'))
            return self._run(original, Args(args.call(expression(f"{front}.serve"))))
        if name in _RUNS:
            self._mark(f"{front}.{name}()", _say("app", name))
            return updated
        if name in ("enable", "disable"):
            self._options("enable(…)", args)
            return args.call()
        if name == "sse_app":
            args.add("sse", expression("True"))
            return args.call(expression(f"{front}.asgi"))
        if name in ("http_app", "streamable_http_app"):
            for each in ("transport", "lifespan"):
                args.take(each)
            self._options("run(…)", args)
            return args.call()
        return updated

    def excluded(self, decorator: cst.BaseExpression) -> list[str | None]:
        """Return the names of the parameters that a decorator hides from clients."""
        app = text_of(getattr(decorator, "func", None)).rpartition(".")[0]
        names = (
            Args(cast("Any", decorator)).get("exclude_args") if app in self._found.apps else None
        )
        return [string_of(each.value) for each in getattr(names, "elements", ())]

    def _registration(self, kind: str, args: Args) -> cst.BaseExpression:
        if kind == "resource":
            for each in ("uri", "uri_template"):
                args.lead(each)
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
                ours = cst.Name("structured_output")
                args.change(each, keyword=ours, value=expression("False"))
            elif text_of(value) == "None" or (each == "enabled" and text_of(value) == "True"):
                args.take(each)
            else:
                self._option(row, args)
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
                self._mark("TaskConfig(poll_interval=)", say)
        if mode == "forbidden":
            args.take("task")
        elif mode:
            args.change("task", value=expression(f'"{mode}"'))
        elif value is not None:
            say = 'write task="optional", "required" or "forbidden"'
            self._mark("task=", say)

    def _run(self, original: cst.Call, args: Args) -> cst.BaseExpression:
        transport = args.get("transport") or (args.positional[0].value if args.positional else None)
        known = string_of(transport)
        row = peer_name("run(…)", known) if known else None
        if row is not None:
            _set_transport(args, expression(f'"{row.ours}"'))
        self._options("run(…)", args)
        if original in self._found.runs:
            options = {
                k: v for made in self._found.made for k, v in self._moved(made, original).items()
            }
            for each in sorted(self._found.settings):
                row = peer_name("MCPKit(…)", each)
                if row is not None and row.how == "move":
                    options[row.ours] = expression(f"{SETTINGS}.{each}")
            self._serve_with(args, options)
        return args.call()

    def _serve_with(self, args: Args, options: Mapping[str, cst.BaseExpression]) -> None:
        """Add options for HTTP to a run, for when its transport is not stdio."""
        transport = args.get("transport") or (args.positional[0].value if args.positional else None)
        if transport is None or string_of(transport) is not None:
            for name, value in options.items():
                args.add(name, value)
        elif options:
            name = text_of(transport)
            if not name:  # it is evaluated once
                name = "mcp_transport"
                _set_transport(args, expression(f"({name} := {code_of(transport)})"))
            named = ", ".join(f'"{option}": {code_of(each)}' for option, each in options.items())
            late = f'({{}} if {name} == "stdio" else {{{named}}})'
            args.all.append(cst.Arg(expression(late), star="**"))

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
        return self._run(inner if isinstance(inner, cst.Call) else original, Args(call))
