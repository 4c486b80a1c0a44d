"""``mcpkit inspect``: the offer of a server, and its cost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.cells import cell_len
from rich.text import Text

from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE
from mcpkit._utils.json import is_object
from mcpkit._utils.text import escape_control, single_line, summarize
from mcpkit.cli._arguments import suggest
from mcpkit.cli._connection import is_python, run_async
from mcpkit.cli._options import (
    AsJson,
    ConnectionOptions,
    Env,
    Headers,
    Revision,
    TargetArgument,
    Timeout,
    Token,
)
from mcpkit.cli._render import on_terminal, put_json, size
from mcpkit.cli._schema_text import Effort, in_words, properties_of, required_of, resolved
from mcpkit.cli._target import TargetError, load_app
from mcpkit.cli._terminal import fail, on_stdout
from mcpkit.cli._token_estimate import estimate, tool_tokens
from mcpkit.client.client import Client
from mcpkit.client.results import ListedPrompt, ListedResource, ListedTemplate, ListedTool
from mcpkit.client.tasks import EXTENSION
from mcpkit.errors import MethodNotFound

if TYPE_CHECKING:
    from mcpkit.app import MCPKit

__all__ = ["inspect"]

_DEFAULT_COLUMNS: Final = 100
"""Columns of an output that is not a terminal and has no known width."""

_MAX_COLUMNS: Final = 120
"""Columns that are used of a terminal: longer lines of prose are hard to read."""

_MIN_COLUMNS_BESIDE: Final = 24
"""Columns that a description needs to stand beside what it describes."""

_MAX_NAME_COLUMNS: Final = 28
"""Columns that the names of arguments have at most."""

_MAX_STEPS: Final = 1_000_000
"""Steps through the schemas of all tools together."""

_MAX_DEFAULT_CHARS: Final = 200
"""Characters of a default value."""

_MAX_LINES_SHOWN: Final = 6
"""Lines of a description that are shown without being asked for."""


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

    @property
    def costs(self) -> dict[str, int]:
        """The estimated tokens of each tool."""
        return {tool.name: tool_tokens(tool.raw) for tool in self.tools}

    @property
    def instructions_cost(self) -> int:
        """The estimated tokens of the instructions."""
        return estimate(self.instructions or "")


def inspect(
    target: TargetArgument,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="NAME", help="Show all of this tool; several times for several"
        ),
    ] = None,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Show all of every tool, with its schemas")
    ] = False,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="SCOPES",
            help="Show what a caller with these scopes sees; several with commas, none as ''",
        ),
    ] = None,
    as_json: AsJson = False,
    revision: Revision = None,
    header: Headers = None,
    token: Token = None,
    env: Env = None,
    timeout: Timeout = None,
) -> None:
    """Show what a server offers: tools, resources, prompts, and what its tools cost a model.

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
    reach = ConnectionOptions(target, revision, header, env, timeout, token)
    app = None if as_ is None else _app_as(target, as_)

    async def main() -> None:
        here = reach.connected() if app is None else Client(app, revision=revision)
        async with here as client:
            offer = await _offer_of(client)
        names = [each.name for each in offer.tools]
        for name in tool or ():
            if name not in names:
                fail(suggest("tool", name, list(map(str, names))))
        if tool:
            offer.tools = [each for each in offer.tools if each.name in tool]
        if as_json:
            put_json(_document(offer))
            return
        try:
            if tool:
                _Page().tools(offer, whole=True)
            else:
                _Page().show(offer, whole=schemas)
        except (TypeError, AttributeError, KeyError) as error:
            # Nothing holds what a server sends against the protocol's schema.
            fail(f"{target}: the server describes something wrongly: {error}; see --json")

    run_async(main)


def _app_as(target: str, scopes: str) -> MCPKit[Any]:
    """Return the app with every caller granted `scopes`.

    Raises:
        typer.Exit: The target is not an mcpkit app; a message has said so.
    """
    if not is_python(target):
        fail(f"--as is for apps in files and modules, and {target!r} is none")
    try:
        with redirect_stdout(sys.stderr):
            app = load_app(target)
    except TargetError as error:
        fail(str(error))
    app.server.assumed_scopes = frozenset(filter(None, map(str.strip, scopes.split(","))))
    return app


async def _offer_of(client: Client) -> Offer:
    info = client.server_info
    said = {} if info is None else {"name": info.name, "version": info.version}
    if info is not None:
        more = {
            "title": info.title,
            "description": info.description,
            "websiteUrl": info.website_url,
        }
        said.update({name: value for name, value in more.items() if value})
    capabilities = client.server_capabilities
    offer = Offer(said, client.revision, client.instructions, capabilities)
    if "tools" in capabilities:
        offer.tools = await client.list_tools()
    if "resources" in capabilities:
        offer.resources = await client.list_resources()
        try:
            offer.templates = await client.list_resource_templates()
        except MethodNotFound:  # some servers have resources, and do not know of templates
            offer.templates = []
    if "prompts" in capabilities:
        offer.prompts = await client.list_prompts()
    return offer


def _document(offer: Offer) -> dict[str, Any]:
    costs = offer.costs
    return {
        "server": offer.info,
        "revision": offer.revision,
        "instructions": offer.instructions,
        "capabilities": offer.capabilities,
        "tools": [each.raw for each in offer.tools],
        "resources": [each.raw for each in offer.resources],
        "resourceTemplates": [each.raw for each in offer.templates],
        "prompts": [each.raw for each in offer.prompts],
        "tokens": {
            "total": sum(costs.values()) + offer.instructions_cost,
            "instructions": offer.instructions_cost,
            "tools": costs,
        },
    }


# --- for people -----------------------------------------------------------------------------------


class _Page:
    """Writes to stdout, as wide as is good to read."""

    def __init__(self) -> None:
        self._console = on_stdout()
        self._effort = Effort(_MAX_STEPS)
        if on_terminal():
            self.width = min(self._console.width, _MAX_COLUMNS)
        else:
            columns = os.environ.get("COLUMNS", "")
            self.width = int(columns) if columns.isdigit() and int(columns) else _DEFAULT_COLUMNS

    def put(self, what: Text | str, indent: int = 0) -> None:
        """Write a text, wrapped and indented by some columns."""
        for line in self._wrapped(what, self.width - indent):
            self._line(Text(" " * indent).append_text(line))

    def _wrapped(self, what: Text | str, width: int) -> list[Text]:
        text = Text(what) if isinstance(what, str) else what
        lines = list(text.wrap(self._console, max(width, 8), overflow="fold")) or [Text()]
        for line in lines:
            line.rstrip()
        return lines

    def _line(self, line: Text) -> None:
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def text(self, text: str, indent: int = 0) -> None:
        """Write a text from the server: its own lines, each wrapped."""
        for line in escape_control(text).strip().expandtabs(4).splitlines():
            stripped = line.lstrip()
            self.put(stripped, indent + min(len(line) - len(stripped), 8))

    def json(self, value: Any, indent: int) -> None:
        """Write a JSON document; its lines are not wrapped."""
        for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines():
            self._line(Text(" " * indent + line))

    def heading(self, name: str, about: str) -> None:
        """Begin a section."""
        self.put("")
        self.put(Text.assemble((name, "bold cyan"), (f"  {about}", "dim")))

    # --- sections -------------------------------------------------------------------------------

    def show(self, offer: Offer, *, whole: bool) -> None:
        """Write everything that a server offers."""
        self._server(offer)
        if offer.tools:
            self.put("")
            self.tools(offer, whole=whole)
        self._resources(offer.resources)
        self._templates(offer.templates)
        self._prompts(offer.prompts)
        if not (offer.tools or offer.resources or offer.templates or offer.prompts):
            self.heading("Nothing", "this server offers neither tools nor resources nor prompts")

    def _server(self, offer: Offer) -> None:
        info = {name: single_line(str(value)) for name, value in offer.info.items()}
        title = Text(info.get("name") or "A server without a name", style="bold")
        title.append(f" {info['version']}" if info.get("version") else "", style="not bold")
        if info.get("title") and info["title"] != info.get("name"):
            title.append(f"  {info['title']}", style="not bold")
        self.put(title)
        if "description" in info:
            self.put(info["description"], 2)
        if "websiteUrl" in info:
            self.put(info["websiteUrl"], 2)
        self.put(Text(f"speaks {offer.revision}", style="dim"), 2)
        said = [_capability(name, value) for name, value in offer.capabilities.items()]
        self.put(Text(f"capabilities: {', '.join(said) or 'none'}", style="dim"), 2)
        if offer.instructions:
            self.heading("Instructions", f"about {_tokens(offer.instructions_cost)}")
            self.text(offer.instructions, 2)

    def tools(self, offer: Offer, *, whole: bool) -> None:
        """Write the tools: shortly, or with their schemas and everything else."""
        costs = offer.costs
        if len(costs) > 1:
            self.put(
                Text.assemble(
                    ("Tools", "bold cyan"),
                    (f"  {len(costs)}, together about {_tokens(sum(costs.values()))}", "dim"),
                )
            )
        elif not whole:
            self.put(Text("Tools", style="bold cyan"))
        revision = BY_VERSION[offer.revision]
        extensions = offer.capabilities.get("extensions")
        if revision.tasks == "extension" and is_object(extensions) and EXTENSION in extensions:
            elsewhere = next(each.version for each in HANDSHAKE if each.tasks == "wished")
            said = f"Some may run as tasks; --revision {elsewhere} shows which."
            self.put(Text(said, style="dim"), 2)
        for number, each in enumerate(offer.tools):
            if number or not whole or len(costs) > 1:
                self.put("")
            self._tool(each, costs[each.name], whole=whole)

    def _tool(self, tool: ListedTool, cost: int, *, whole: bool) -> None:
        head = Text(single_line(tool.name), style="bold")
        title = single_line(tool.title or (tool.annotations and tool.annotations.title) or "")
        if title:
            head.append(f"  {title}", style="not bold")
        head.append(f"  about {_tokens(cost)}", style="not bold dim")
        for word, style in (*_hints(tool), *_TASKS.get(tool.task_support, ())):
            head.append(f"  {word}", style=f"not bold {style}")
        self.put(head, 2)
        self._description(tool.description, whole=whole, where=f"--tool {single_line(tool.name)}")
        self._members(tool.input_schema)
        if tool.output_schema is not None:
            words = in_words(tool.output_schema, tool.output_schema, self._effort)
            self.put(Text.assemble(("gives ", "dim"), escape_control(words)), 4)
        if whole:
            self.put(Text("input schema", style="dim"), 4)
            self.json(tool.input_schema, 4)
            if tool.output_schema is not None:
                self.put(Text("output schema", style="dim"), 4)
                self.json(tool.output_schema, 4)
            rest = {
                name: value
                for name, value in tool.raw.items()
                if name not in ("name", "title", "description", "inputSchema", "outputSchema")
            }
            if rest:
                self.put(Text("more", style="dim"), 4)
                self.json(rest, 4)

    def _description(self, text: str | None, *, whole: bool, where: str) -> None:
        shown = escape_control(text or "").strip()
        if not shown:
            return
        first, _, rest = shown.partition("\n\n")
        count = len(shown.splitlines())
        if whole or not rest.strip() or count <= _MAX_LINES_SHOWN:
            self.text(shown, 4)
            return
        self.text(first, 4)
        left = count - len(first.splitlines())
        self.put(Text(f"… {left} more lines: {where}", style="dim"), 4)

    def _members(self, schema: Mapping[str, Any]) -> None:
        """Write the members of an object: name, type and description."""
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
            # One that many members refer to would be shown as often.
            is_shown = effort.take(len(about) // _MAX_DEFAULT_CHARS)
            rows.append((name, words, about if is_shown else ""))
        self._rows(rows, 4)

    def _resources(self, resources: Sequence[ListedResource]) -> None:
        if not resources:
            return
        self.heading("Resources", str(len(resources)))
        for each in resources:
            about = [each.mime_type or "", size(each.size) if isinstance(each.size, int) else ""]
            self._place(each.uri, each.name, each.title, about, each.description)

    def _templates(self, templates: Sequence[ListedTemplate]) -> None:
        if not templates:
            return
        self.heading("Resource templates", str(len(templates)))
        for each in templates:
            about = [each.mime_type or ""]
            self._place(each.uri_template, each.name, each.title, about, each.description)

    def _place(
        self,
        uri: str,
        name: str,
        title: str | None,
        about: Iterable[str],
        description: str | None,
    ) -> None:
        head = Text(single_line(uri), style="bold")
        called = title or name
        for each in (called if called != uri else "", *about):
            if each:
                head.append(f"  {single_line(each)}", style="not bold dim")
        self.put(head, 2)
        self.text(description or "", 4)

    def _prompts(self, prompts: Sequence[ListedPrompt]) -> None:
        if not prompts:
            return
        self.heading("Prompts", str(len(prompts)))
        for number, each in enumerate(prompts):
            if number:
                self.put("")
            head = Text(single_line(each.name), style="bold")
            if each.title:
                head.append(f"  {single_line(each.title)}", style="not bold")
            self.put(head, 2)
            self.text(each.description or "", 4)
            rows = [
                (
                    argument.name,
                    "required" if argument.required else "optional",
                    argument.description or argument.title or "",
                )
                for argument in each.arguments
            ]
            self._rows(rows, 4)

    def _rows(self, rows: Sequence[tuple[str, str, str]], indent: int) -> None:
        """Write names, types and descriptions side by side, or the latter two below each other."""
        shown = [[single_line(cell) for cell in row] for row in rows]
        if not shown:
            return
        names, types, abouts = (max(map(cell_len, column)) for column in zip(*shown, strict=True))
        names = min(names, _MAX_NAME_COLUMNS)
        room = self.width - indent - names - 2
        types = min(types, max(28, room * 2 // 5, room - 2 - abouts))
        beside = room - 2 - types
        for name, kind, about in shown:
            dim = Text(kind, style="dim")
            if beside >= _MIN_COLUMNS_BESIDE or not abouts:
                columns = [self._wrapped(dim, types), self._wrapped(about, beside)]
            else:
                columns = [self._wrapped(dim, room), []]
                columns[0] += self._wrapped(about, room) if about else []
            cells = [self._wrapped(name, names), *columns]
            for parts in zip_longest(*cells, fillvalue=Text()):
                line = Text(" " * indent)
                for part, width in zip(parts, (names, types, beside), strict=True):
                    line.append_text(part).append(" " * (width + 2 - part.cell_len))
                self._line(line)


_TASKS: Final = {
    "optional": [("may run as a task", "cyan")],
    "required": [("runs as a task", "cyan")],
}
"""What is said of a tool, by what it says of tasks."""


def _capability(name: str, value: object) -> str:
    inner = [each for each, flag in value.items() if flag is not False] if is_object(value) else []
    return single_line(f"{name} ({', '.join(inner)})" if inner else name)


def _hints(tool: ListedTool) -> list[tuple[str, str]]:
    """Return the hints that a tool gives about its effects, with their colours."""
    hints = tool.annotations
    if hints is None:
        return []
    found: list[tuple[str, str]] = []
    if hints.read_only:
        found.append(("read-only", "green"))
    elif hints.destructive:
        found.append(("destructive", "red"))
    elif hints.destructive is False:
        found.append(("not destructive", "green"))
    if hints.idempotent:
        found.append(("idempotent", "cyan"))
    if hints.open_world is not None:
        found.append(("open world" if hints.open_world else "closed world", "cyan"))
    return found


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count != 1 else "1 token"
