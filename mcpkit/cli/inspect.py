"""``mcpkit inspect``: the offer of a server, and its cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from rich.text import Text

from mcpkit._protocol.connection import SKILLS_EXTENSION, TASKS_EXTENSION
from mcpkit._protocol.revisions import APPS_EXTENSION, BY_VERSION, HANDSHAKE, VIEW_TYPE
from mcpkit._protocol.wire import implementation_to_wire
from mcpkit._utils.json import is_object, value_at
from mcpkit._utils.targets import TargetError
from mcpkit._utils.text import escape_control, single_line, summarize
from mcpkit.app import MCPKit
from mcpkit.cli import _options as options
from mcpkit.cli._arguments import suggest
from mcpkit.cli._connection import ConnectionOptions, is_python, run_async
from mcpkit.cli._options import flag, option
from mcpkit.cli._render import put_json, size
from mcpkit.cli._schema_text import Effort, in_words, properties_of, required_of, resolved
from mcpkit.cli._target import load_app
from mcpkit.cli._terminal import console, fail
from mcpkit.cli._token_estimate import estimate, tool_tokens
from mcpkit.client.client import Client
from mcpkit.client.results import ListedPrompt, ListedResource, ListedTemplate, ListedTool
from mcpkit.client.skills import ListedSkill
from mcpkit.errors import MethodNotFound

_AS: Final = "Show the view of a caller with these scopes, separated by commas; none is ''"
_MAX_COLUMNS: Final = 120
"""Columns of a page at most, because longer lines are hard to read."""

_MAX_NAME_COLUMNS: Final = 28
_MAX_STEPS: Final = 1_000_000
"""Steps through the schemas of all tools together."""

_MAX_DEFAULT_CHARS: Final = 200
_MAX_LINES_SHOWN: Final = 6
"""Lines of a description that are shown without --tool or --schemas."""

_TASKS: Final = {"optional": "may run as a task", "required": "runs as a task"}
"""Task support of a tool → its description."""


@dataclass
class Offer:
    """The description of a server, and the entries of its lists."""

    info: Mapping[str, Any]
    revision: str
    instructions: str | None
    capabilities: Mapping[str, Any]
    tools: list[ListedTool] = field(default_factory=list[ListedTool])
    resources: list[ListedResource] = field(default_factory=list[ListedResource])
    templates: list[ListedTemplate] = field(default_factory=list[ListedTemplate])
    prompts: list[ListedPrompt] = field(default_factory=list[ListedPrompt])
    skills: list[ListedSkill] = field(default_factory=list[ListedSkill])

    @property
    def costs(self) -> dict[str, int]:
        """The estimated tokens of each tool."""
        return {
            tool.name: 0 if _is_for_views(tool) else tool_tokens(tool.raw) for tool in self.tools
        }


def inspect(
    target: str = options.TARGET,
    tool: list[str] | None = option("Show this tool in full; can be repeated", metavar="NAME"),
    schemas: bool = flag("Show every tool in full, with its schemas", "--schemas"),
    as_: str | None = option(_AS, "--as", metavar="SCOPES"),
    as_json: bool = options.AS_JSON,
    revision: str | None = options.REVISION,
    header: list[str] | None = options.HEADERS,
    token: str | None = options.TOKEN,
    env: list[str] | None = options.ENV,
    timeout: float | None = options.TIMEOUT,
) -> None:
    """Show what a server offers: tools, resources, prompts, skills, and the cost of its tools.

    Tokens are estimated; a model reads the name, description and input schema of every tool in
    every conversation.

    \b
    Examples:
      mcpkit inspect server.py
      mcpkit inspect server.py --tool book
      mcpkit inspect mypackage.server --revision 2025-06-18
      mcpkit inspect server.py --as files:read,users
      mcpkit inspect "npx -y @example/server --verbose" --env API_KEY=secret
      mcpkit inspect https://example.com/mcp --json  (after mcpkit login https://example.com/mcp)
    """
    connection = ConnectionOptions(target, revision, header, env, timeout, token)
    app = None if as_ is None else _app_as(target, as_)

    async def main() -> None:
        # To list the tools of views, too.
        views = {APPS_EXTENSION: {"mimeTypes": [VIEW_TYPE]}}
        async with (
            connection.connected(extensions=views)
            if app is None
            else Client(app, revision=revision, extensions=views)
        ) as client:
            offer = await _offer_of(client)
        names = [str(each.name) for each in offer.tools]
        for name in tool or ():
            if name not in names:
                fail(suggest("tool", name, names))
        if tool:
            offer.tools = [each for each in offer.tools if each.name in tool]
        if as_json:
            return put_json(_document(offer))
        page = _Page(offer, whole=schemas or bool(tool))
        try:
            if tool:
                page.tools()
            else:
                page.show()
        except (TypeError, AttributeError, KeyError) as error:
            # The entries of the lists have not been validated.
            fail(f"{target}: the server sends a malformed description: {error}; see --json")

    run_async(main)


def _app_as(target: str, scopes: str) -> MCPKit[Any]:
    if not is_python(target):
        fail(f"--as is for apps in files and modules, not for {target!r}")
    try:
        with redirect_stdout(sys.stderr):
            app = load_app(target)
    except TargetError as error:
        fail(str(error))
    app.server.assumed_scopes = frozenset(filter(None, map(str.strip, scopes.split(","))))
    return app


async def _offer_of(client: Client) -> Offer:
    found, capabilities = client.server_info, client.server_capabilities
    info = implementation_to_wire(found, BY_VERSION[client.revision]) if found else {}
    offer = Offer(info, client.revision, client.instructions, capabilities)
    if "tools" in capabilities:
        offer.tools = await client.list_tools()
    if "resources" in capabilities:
        offer.resources = await client.list_resources()
        with suppress(MethodNotFound):  # some servers have resources, but no templates
            offer.templates = await client.list_resource_templates()
    if "prompts" in capabilities:
        offer.prompts = await client.list_prompts()
    if client.extension(SKILLS_EXTENSION) is not None:
        offer.skills = await client.skills()
    return offer


def _document(offer: Offer) -> dict[str, Any]:
    instructions = estimate(offer.instructions or "")
    return {
        "server": offer.info,
        "revision": offer.revision,
        "instructions": offer.instructions,
        "capabilities": offer.capabilities,
        "tools": [each.raw for each in offer.tools],
        "resources": [each.raw for each in offer.resources],
        "resourceTemplates": [each.raw for each in offer.templates],
        "prompts": [each.raw for each in offer.prompts],
        "skills": [each.raw for each in offer.skills],
        "tokens": {
            "total": sum(offer.costs.values()) + instructions,
            "instructions": instructions,
            "tools": offer.costs,
        },
    }


# --- for people -----------------------------------------------------------------------------------


class _Page:
    """Writes an offer to stdout, with tools in full if `whole`."""

    def __init__(self, offer: Offer, *, whole: bool) -> None:
        self._offer = offer
        self._whole = whole
        self._console = console()
        self._effort = Effort(_MAX_STEPS)
        self._width = min(self._console.width, _MAX_COLUMNS)

    def show(self) -> None:
        """Write everything that a server offers."""
        offer = self._offer
        self._server()
        if offer.tools:
            self._put("")
            self.tools()
        sections: list[tuple[str, Sequence[Any], Callable[[Any], None]]] = [
            ("Resources", offer.resources, self._resource),
            ("Resource templates", offer.templates, self._resource),
            ("Prompts", offer.prompts, self._prompt),
            ("Skills", offer.skills, self._skill),
        ]
        for heading, entries, write in sections:
            if entries:
                self._heading(heading, str(len(entries)))
            for number, each in enumerate(entries):
                if number and heading == "Prompts":
                    self._put("")
                write(each)
        if not offer.tools and not any(entries for _, entries, _ in sections):
            self._heading("Nothing", "this server offers neither tools nor resources nor prompts")

    # --- text -----------------------------------------------------------------------------------

    def _put(self, what: Text | str, indent: int = 0) -> None:
        text = Text(what) if isinstance(what, str) else what
        width = max(self._width - indent, 8)
        for line in list(text.wrap(self._console, width, overflow="fold")) or [Text()]:
            self._line(Text(" " * indent).append_text(line))

    def _line(self, line: Text) -> None:
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def _text(self, text: str, indent: int) -> None:
        """Write a text of the server, and wrap each of its lines."""
        for line in escape_control(text).strip().expandtabs(4).splitlines():
            stripped = line.lstrip()
            self._put(stripped, indent + min(len(line) - len(stripped), 8))

    def _heading(self, name: str, about: str) -> None:
        self._put("")
        self._put(Text.assemble((name, "bold cyan"), (f"  {about}", "dim")))

    def _title(self, name: str, *more: tuple[str, str]) -> None:
        head = Text(single_line(name), style="bold")
        for text, style in more:
            if text:
                head.append(f"  {single_line(text)}", style=f"not bold {style}")
        self._put(head, 2)

    # --- sections -------------------------------------------------------------------------------

    def _server(self) -> None:
        offer = self._offer
        info = {name: single_line(str(value)) for name, value in offer.info.items()}
        name, version = info.get("name", ""), info.get("version", "")
        title = Text(name or "A server without a name", style="bold")
        title.append(f" {version}" if version else "", style="not bold")
        if info.get("title", name) != name:
            title.append(f"  {info['title']}", style="not bold")
        self._put(title)
        for each in ("description", "websiteUrl"):
            if each in info:
                self._put(info[each], 2)
        self._put(Text(f"speaks {offer.revision}", style="dim"), 2)
        shown = [_capability(name, value) for name, value in offer.capabilities.items()]
        self._put(Text(f"capabilities: {', '.join(shown) or 'none'}", style="dim"), 2)
        if offer.instructions:
            self._heading("Instructions", f"about {_tokens(estimate(offer.instructions))}")
            self._text(offer.instructions, 2)

    def tools(self) -> None:
        """Write the tools."""
        offer, costs = self._offer, self._offer.costs
        is_alone = self._whole and len(costs) == 1
        if not is_alone:
            about = f"  {len(costs)}, together about {_tokens(sum(costs.values()))}"
            self._put(Text.assemble(("Tools", "bold cyan"), (about, "dim")))
        is_extension = BY_VERSION[offer.revision].tasks == "extension"
        if is_extension and value_at(offer.capabilities, "extensions", TASKS_EXTENSION) is not None:
            older = next(each.version for each in HANDSHAKE if each.tasks == "client")
            note = f"Some may run as tasks; --revision {older} shows which."
            self._put(Text(note, style="dim"), 2)
        for each in offer.tools:
            if not is_alone:
                self._put("")
            self._tool(each, costs[each.name])

    def _tool(self, tool: ListedTool, cost: int) -> None:
        self._title(
            tool.name,
            (tool.title or (tool.annotations and tool.annotations.title) or "", ""),
            ("for views" if _is_for_views(tool) else f"about {_tokens(cost)}", "dim"),
            *_hints(tool),
            (_TASKS.get(tool.task_support, ""), "cyan"),
        )
        self._description(tool)
        self._members(tool.input_schema)
        schemas = {"input schema": tool.input_schema}
        if tool.output_schema is not None:
            words = in_words(tool.output_schema, tool.output_schema, self._effort)
            self._put(Text.assemble(("gives ", "dim"), escape_control(words)), 4)
            schemas["output schema"] = tool.output_schema
        if not self._whole:
            return
        shown = ("name", "title", "description", "inputSchema", "outputSchema")
        if more := {name: each for name, each in tool.raw.items() if name not in shown}:
            schemas["more"] = more
        for name, value in schemas.items():
            self._put(Text(name, style="dim"), 4)
            for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines():
                self._line(Text(f"    {line}"))

    def _description(self, tool: ListedTool) -> None:
        shown = escape_control(tool.description or "").strip()
        first, _, rest = shown.partition("\n\n")
        left = len(shown.splitlines()) - len(first.splitlines())
        if self._whole or not rest.strip() or len(shown.splitlines()) <= _MAX_LINES_SHOWN:
            self._text(shown, 4)
        else:
            self._text(first, 4)
            hint = f"… {left} more lines: --tool {single_line(tool.name)}"
            self._put(Text(hint, style="dim"), 4)

    def _members(self, schema: Mapping[str, Any]) -> None:
        effort = self._effort
        needed = required_of(resolved(schema, schema, effort))
        rows: list[tuple[str, str, str]] = []
        for name, each in properties_of(schema, schema, effort).items():
            described = resolved(each, schema, effort)
            words = in_words(each, schema, effort)
            if "default" in described:
                words += f", default {summarize(described['default'], _MAX_DEFAULT_CHARS)}"
            elif name not in needed:
                words += ", optional"
            found = described.get("description")
            about = found if isinstance(found, str) else ""
            # A description that many members refer to would be shown as often.
            is_shown = effort.take(len(about) // _MAX_DEFAULT_CHARS)
            rows.append((name, words, about if is_shown else ""))
        self._rows(rows)

    def _resource(self, each: ListedResource | ListedTemplate) -> None:
        uri = each.uri_template if isinstance(each, ListedTemplate) else each.uri
        length = getattr(each, "size", None)
        name = each.title or each.name
        about = (
            name if name != uri else "",
            each.mime_type or "",
            size(length) if isinstance(length, int) else "",
        )
        self._title(uri, *((text, "dim") for text in about))
        self._text(each.description or "", 4)

    def _prompt(self, each: ListedPrompt) -> None:
        self._title(each.name, (each.title or "", ""))
        self._text(each.description or "", 4)
        rows = [
            (a.name, "required" if a.required else "optional", a.description or a.title or "")
            for a in each.arguments
        ]
        self._rows(rows)

    def _skill(self, skill: ListedSkill) -> None:
        files = [*(skill.files or {}).values()]
        number = "1 file" if len(files) == 1 else f"{len(files)} files"
        about = f"{number}, {size(sum(each.size for each in files))}" if files else "dynamic"
        self._title(skill.uri, (about, "dim"))
        self._text(skill.description, 4)

    def _rows(self, rows: Sequence[tuple[str, str, str]]) -> None:
        if not rows:
            return
        from rich.table import Table

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(max_width=_MAX_NAME_COLUMNS, overflow="fold")
        table.add_column(style="dim", overflow="fold")
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*(Text(single_line(cell)) for cell in row))
        options = self._console.options.update(width=self._width - 4)
        for line in self._console.render_lines(table, options):
            self._line(Text.assemble("    ", *((each.text, each.style or "") for each in line)))


def _capability(name: str, value: object) -> str:
    inner = [each for each, flag in value.items() if flag is not False] if is_object(value) else []
    return single_line(f"{name} ({', '.join(inner)})" if inner else name)


def _hints(tool: ListedTool) -> list[tuple[str, str]]:
    """Return the hints of a tool on its effects, with their styles."""
    hints = tool.annotations
    if hints is None:
        return []
    effects = {
        "read-only": (hints.read_only, "green"),
        "destructive": (hints.destructive and not hints.read_only, "red"),
        "not destructive": (hints.destructive is False and not hints.read_only, "green"),
        "idempotent": (hints.idempotent, "cyan"),
        "open world": (hints.open_world, "cyan"),
        "closed world": (hints.open_world is False, "cyan"),
    }
    return [(name, style) for name, (is_true, style) in effects.items() if is_true]


def _is_for_views(tool: ListedTool) -> bool:
    return bool(value_at(tool.raw, "_meta", "ui", "visibility") == ["app"])


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count != 1 else "1 token"
