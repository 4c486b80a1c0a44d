"""Rules about annotations, output schemas and the use of the context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mcpkit._utils.json import is_object
from mcpkit.cli._check.listing import READING, Entry, Listing, words_of
from mcpkit.cli._check.rules import Match, rule
from mcpkit.cli._check.schema_walk import listed

_DESTRUCTIVE: Final = {
    *("delete", "destroy", "drop", "erase", "kill", "overwrite", "purge", "remove"),
    *("revoke", "terminate", "uninstall", "wipe"),
}


def _is_destructive(tool: Entry) -> bool:
    """Return True if the verb in a tool's name is destructive, also after a service's name."""
    first, *rest = words_of(tool.name) or [""]
    return first in _DESTRUCTIVE or (first not in READING and not _DESTRUCTIVE.isdisjoint(rest[:1]))


@rule(
    "HINT001 warning: destructive tool, by its name, without destructiveHint",
    reason="Hosts ask before they call a tool marked as destructive. Some trust unmarked ones.",
    fix="set destructiveHint to true or false (in mcpkit: @app.tool(destructive=True))",
    source="https://github.com/pdogra1299/bitbucket-mcp-server/issues/18",
)
def undeclared_destruction(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        declared = "destructiveHint" in tool.hints or tool.hints.get("readOnlyHint") is not None
        if _is_destructive(tool) and not declared:
            yield Match(tool)


@rule(
    "HINT003 error: annotations that contradict each other or the name",
    reason="Hosts call tools marked as read-only without asking, so none may be destructive.",
    fix="set readOnlyHint to false, or rename the tool",
    source="https://github.com/daintreehq/daintree/issues/6630",
)
def contradiction(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        is_destructive = tool.hints.get("destructiveHint") is True or _is_destructive(tool)
        if tool.hints.get("readOnlyHint") is True and is_destructive:
            yield Match(tool)


@rule(
    "OUT003 error: output schema of something other than an object",
    reason="Before the newest revision structured content is always an object. If one output "
    "schema has another type, the TypeScript SDK rejects the whole list of tools.",
    fix='wrap it: {"type": "object", "properties": {"result": …}}',
    source="https://github.com/opentokenz/mcpx/issues/28",
)
def output_root(listing: Listing) -> Iterator[Match]:
    if listing.revision.structured_output != "object":
        return
    for tool in listing.tools:
        schema: Any = tool.raw.get("outputSchema")
        if is_object(schema) and schema.get("type") != "object":
            yield Match(tool)


@rule(
    "CODE001 warning: blocking call on the event loop",
    reason="Until it returns, the server answers no other call, no ping and no cancellation.",
    fix="write a plain def, which runs in a thread, or await an async library",
    source="https://docs.python.org/3/library/asyncio-dev.html#running-blocking-code",
)
def blocking(listing: Listing) -> Iterator[Match]:
    for entry in listing.entries:
        if entry.blocking_calls:
            yield Match(entry, f"is on the event loop, and calls {listed(entry.blocking_calls)}")


@rule(
    "CODE002 note: call before a question, and not in a step",
    reason="A handler that waits for an answer is replayed from its start if its process ends, or "
    "another one gets the answer. It then does again what it did before the question. This "
    "concerns tools with task=, and with --workers all tools.",
    fix='put it in a step, await ctx.step("key", fn, …), unless it only reads or computes',
    source="https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr",
)
def repeated(listing: Listing) -> Iterator[Match]:
    for entry in listing.tools:
        if entry.repeated_calls:
            yield Match(entry, f"a replay repeats {listed(entry.repeated_calls)}")


@rule(
    "MOVE001 error: context of another library",
    reason="The function uses its context as in FastMCP or the official SDK, and fails there.",
    fix="apply the advice; `mcpkit migrate server.py` does so",
    source="https://gofastmcp.com/servers/context",
)
def foreign_names(listing: Listing) -> Iterator[Match]:
    for entry in listing.entries:
        for name, advice in entry.foreign_names:
            yield Match(entry, f"uses {name}; {advice}")
