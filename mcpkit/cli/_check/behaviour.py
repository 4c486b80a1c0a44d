"""The annotations of tools about their effects, and the schemas of their results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mcpkit._utils.json import is_object
from mcpkit.cli._check.listing import Entry, Served, vocabulary, words_of
from mcpkit.cli._check.rules import SPEC, Found, rule
from mcpkit.cli._check.schema_walk import types_of, walk

_DESTROYS: Final = vocabulary(
    "delete destroy drop erase kill overwrite purge remove revoke terminate uninstall wipe"
)
_READS: Final = vocabulary("count describe fetch find get list lookup read search show view")


def _destroys(tool: Entry) -> bool:
    """Return True if the verb in a tool's name destroys; a service's name may stand before it."""
    words = words_of(tool.name)
    first = words[0] if words else ""
    return first in _DESTROYS or (first not in _READS and bool(_DESTROYS & set(words[1:2])))


def _reads(tool: Entry) -> bool:
    words = words_of(tool.name)
    return bool(words) and words[0] in _READS


@rule(
    "HINT001",
    "warning",
    "tool that destroys, by its name, and does not say so",
    reason="Hosts ask the user before a call that is marked as destructive. Some show a tool "
    "without the mark like any other.",
    fix="set destructiveHint to true or false (in mcpkit: @app.tool(destructive=True))",
    source="https://github.com/pdogra1299/bitbucket-mcp-server/issues/18",
)
def undeclared_destruction(served: Served) -> Iterator[Found]:
    """A tool named after destruction has no destructiveHint."""
    for tool in served.tools:
        hints = tool.hints
        if _destroys(tool) and "destructiveHint" not in hints and hints.get("readOnlyHint") is None:
            yield Found(tool, "does not say whether it is destructive")


@rule(
    "HINT002",
    "note",
    "tool that only reads, by its name, and does not say so",
    reason="VS Code calls tools marked as read-only without asking; without the mark the user is "
    "asked every time.",
    fix="set readOnlyHint (in mcpkit: @app.tool(read_only=True))",
    source="https://github.com/microsoft/copilot-for-eclipse/issues/112",
)
def undeclared_reading(served: Served) -> Iterator[Found]:
    """A tool named after reading has no readOnlyHint."""
    for tool in served.tools:
        if _reads(tool) and tool.hints.get("readOnlyHint") is None:
            yield Found(tool, "does not say whether it only reads")


@rule(
    "HINT003",
    "error",
    "annotations that contradict each other or the name",
    reason="Hosts skip their question for what is marked as read-only. A tool that destroys must "
    "not be among them.",
    fix="set readOnlyHint to false, or rename the tool",
    source="https://github.com/daintreehq/daintree/issues/6630",
)
def contradiction(served: Served) -> Iterator[Found]:
    """A tool is read-only and destructive, or read-only and named after destruction."""
    for tool in served.tools:
        if tool.hints.get("readOnlyHint") is not True:
            continue
        if tool.hints.get("destructiveHint") is True:
            yield Found(tool, "is marked as read-only and as destructive")
        elif _destroys(tool):
            yield Found(tool, "is marked as read-only, but its name says that it destroys")


_LISTS: Final = vocabulary("browse dump export find grep list query scan search")
_LIMITS: Final = vocabulary(
    """after amount before budget chars count cursor days depth end first from head k last length
    limit lines max n num number offset page per range results since size skip start tail take
    to tokens top truncate until"""
)
_LONG: Final = vocabulary("file files log logs page document")


@rule(
    "OUT001",
    "note",
    "tool that may return any amount",
    reason="Claude Code warns of results of more than 10,000 tokens and by default allows 25,000. "
    "A tool that lists, searches or reads needs a way to ask for less.",
    fix="add a parameter such as limit, with a default, and say what was left out",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def unbounded(served: Served) -> Iterator[Found]:
    """A tool that lists, searches or reads has no parameter that limits it."""
    for tool in served.tools:
        words = words_of(tool.name)
        lists = bool(words) and words[0] in _LISTS
        reads = words[:1] == ["read"] and bool(set(words[1:]) & _LONG)
        every = "all" in words[1:2] and words[0] in _READS
        limited = any(set(words_of(name)) & _LIMITS for name in tool.properties)
        if (lists or reads or every) and not limited and _may_be_long(tool):
            yield Found(tool, "has no parameter that limits how much it returns")


def _may_be_long(tool: Entry) -> bool:
    """Return True if a tool's output schema, if it has one, has an unbounded list."""
    schema: Any = tool.raw.get("outputSchema")
    if not is_object(schema):
        return True
    bounded = ("maxItems", "prefixItems")
    return any(
        "array" in types_of(node.schema) and not any(each in node.schema for each in bounded)
        for node in walk(schema)
    )


@rule(
    "OUT002",
    "note",
    "data without an output schema",
    reason="The function returns a dict or a list, but has no return annotation. So clients get "
    "text only, and neither models nor programs know its shape.",
    fix="annotate what the function returns, best with a model or a TypedDict",
    source=f"{SPEC}/server/tools#output-schema",
)
def untyped_result(served: Served) -> Iterator[Found]:
    """A function without a return annotation returns a dict or a list."""
    for tool in served.tools:
        if tool.untyped_data and tool.raw.get("outputSchema") is None:
            yield Found(tool, "returns data without a return annotation")


@rule(
    "OUT003",
    "error",
    "output schema that is not of an object",
    reason="Before the newest revision structured content is always an object. The TypeScript SDK "
    "refuses the whole list over one other output schema.",
    fix='wrap it: {"type": "object", "properties": {"result": …}}',
    source="https://github.com/opentokenz/mcpx/issues/28",
)
def output_root(served: Served) -> Iterator[Found]:
    """An output schema's type is not object, in a revision that wants it."""
    if served.revision.structured_output != "object":
        return
    for tool in served.tools:
        schema: Any = tool.raw.get("outputSchema")
        if is_object(schema) and schema.get("type") != "object":
            yield Found(tool, f"the output schema has the type {schema.get('type')!r}")


@rule(
    "OUT004",
    "note",
    "exceptions whose text is hidden",
    reason="What a tool raises is the model's only hint at what to do otherwise. It reads the text "
    "of a ToolError; of any other exception it gets a reference, because that may hold what nobody "
    "outside should see.",
    fix="show them with errors=(ValueError,) at the tool or the app, or raise ToolError",
    source=f"{SPEC}/server/tools#error-handling",
)
def hidden_errors(served: Served) -> Iterator[Found]:
    """A function raises ordinary exceptions with a text of its own."""
    for tool in served.tools:
        if tool.hidden_errors:
            names = " and ".join(tool.hidden_errors)
            yield Found(tool, f"raises {names}, whose text the model does not see")


@rule(
    "TASK001",
    "error",
    "task that is forgotten between two looks",
    reason="A client looks at a task at the server's interval. One that is kept for a shorter time "
    "is gone, with its result, before the client has looked.",
    fix="keep it for longer (task_ttl= of the tool), or have it looked at more often "
    '(MCPKit(tasks={"poll_interval": …}))',
    source=f"{SPEC}/basic/utilities/tasks",
)
def short_lived_task(served: Served) -> Iterator[Found]:
    """The tasks of a tool are kept for a shorter time than a client lets pass."""
    for tool in served.tools:
        ttl, interval = tool.task_times or (1, 0)
        if ttl < interval:
            yield Found(
                tool, f"its tasks are kept for {ttl:g} s, and looked at every {interval:g} s"
            )


@rule(
    "TASK002",
    "note",
    "slow tool that is no task",
    reason="Many clients give up after a minute, whatever progress is reported, and the work is "
    "lost with the connection. A task goes on, and its result waits; clients that know no tasks "
    "get the answer as before.",
    fix='@app.tool(task="optional")',
    source="https://github.com/modelcontextprotocol/typescript-sdk/issues/245",
)
def slow_without_task(served: Served) -> Iterator[Found]:
    """The function of a tool takes long, as far as its code tells, and never runs as a task."""
    for tool in served.tools:
        if tool.slow:
            yield Found(tool, f"{tool.slow}, and cannot be called as a task")


@rule(
    "MOVE001",
    "error",
    "context of another library",
    reason="The function uses its context as FastMCP or the official SDK have it. That is not "
    "there, so the function fails when it gets that far.",
    fix="write what is named; `mcpkit migrate server.py` does so",
    source="https://gofastmcp.com/servers/context",
)
def foreign_names(served: Served) -> Iterator[Found]:
    """A function uses a name of its context that only another library has."""
    for entry in served.entries:
        for name, advice in entry.foreign_names:
            yield Found(entry, f"uses {name}; {advice}")
