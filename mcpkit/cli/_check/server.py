"""Rules about resources, templates, the server as a whole, and the cost of its definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit._utils.json import value_at
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import SPEC, Match, rule
from mcpkit.cli._token_estimate import tool_tokens
from mcpkit.host_hints import HOST_HINTS

_MAX_INSTRUCTION_CHARS: Final = 2048
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`\x00-\x1f]+")


@rule(
    "RES003 error: invalid URI",
    reason="Clients that parse it fail: a URI begins with a scheme, and has no spaces.",
    fix="write it as scheme://path, with other characters percent-encoded",
    source=f"{SPEC}/server/resources#custom-uri-schemes",
)
def bad_uri(listing: Listing) -> Iterator[Match]:
    for entry in listing.of("resource"):
        if "{" not in entry.name and _URI.fullmatch(entry.name) is None:
            yield Match(entry)


@rule(
    "RES004 note: web address as the URI of a resource",
    reason="A client may fetch it from the web itself, with its own credentials or none.",
    fix="use a scheme of your own, unless every client can fetch it",
    source=f"{SPEC}/server/resources#common-uri-schemes",
)
def web_uri(listing: Listing) -> Iterator[Match]:
    for entry in listing.of("resource", "template"):
        if re.match(r"https?:", entry.name, re.IGNORECASE):
            yield Match(entry)


@rule(
    "RES005 error: template that cannot be expanded",
    reason="A client expands templates by the rules of RFC 6570, and cannot expand this one.",
    fix="write it as scheme://path/{variable}",
    source=f"{SPEC}/server/resources#resource-templates",
)
def bad_template(listing: Listing) -> Iterator[Match]:
    for entry in listing.of("template"):
        try:
            template = UriTemplate(entry.name)
        except ValueError as error:
            yield Match(entry, f"is not a URI template: {error}")
        else:
            if template.is_literal:
                yield Match(entry, "has no variable, so it belongs among the resources")


@rule(
    "RES006 error: template among the resources",
    reason="resources/list is for URIs that can be read as they are, without braces to fill in.",
    fix="list it in resources/templates/list",
    source=f"{SPEC}/server/resources#resource-templates",
)
def template_among_resources(listing: Listing) -> Iterator[Match]:
    return (Match(each) for each in listing.of("resource") if re.search(r"\{[^}]*\}", each.name))


@rule(
    "SERVER003 warning: truncated instructions",
    reason="Claude Code truncates instructions at 2 KB.",
    fix="put the important part first, and move the rest to tool descriptions or a resource",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def long_instructions(listing: Listing) -> Iterator[Match]:
    length = len(listing.instructions)
    if length > _MAX_INSTRUCTION_CHARS:
        yield Match(listing.itself, f"the instructions have {length} characters")


@rule(
    "SERVER004 error: list that cannot be read",
    reason="A host that gets an error or a nameless entry ignores the whole list, or the server.",
    fix="implement the method, or do not declare the capability",
    source=f"{SPEC}/basic/lifecycle#capability-negotiation",
)
def unreadable(listing: Listing) -> Iterator[Match]:
    for trouble in listing.troubles:
        yield Match(listing.itself, trouble)


# --- cost -----------------------------------------------------------------------------------------

_TOOL_TOKENS: Final = 1_500
_SERVER_TOKENS: Final = 15_000
_MANY_TOOLS: Final = 40
_MAX_TOOLS: Final = 128
_MAX_LOADED: Final = 5


@rule(
    "COST001 warning: tool definition that fills the context",
    reason="Name, description and schema are sent to the model with every request, used or not. "
    f"Most tools need 50 to 500 tokens; those over {_TOOL_TOKENS} are reported.",
    fix="shorten descriptions, omit rarely used parameters, or split the tool",
    source="https://github.com/modelcontextprotocol/python-sdk/issues/3391",
)
def heavy_tool(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        tokens = tool_tokens(tool.raw)
        if tokens > _TOOL_TOKENS:
            yield Match(tool, f"costs about {tokens:,} tokens in every request")


@rule(
    "COST002 warning: all tool definitions together fill the context",
    reason="Hosts without tool search send all definitions with every request; hosts with it may "
    f"load them up front if they are small. Over {_SERVER_TOKENS:,} tokens are reported.",
    fix="offer fewer tools, or shorten descriptions and schemas",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def heavy_server(listing: Listing) -> Iterator[Match]:
    tokens = sum(tool_tokens(tool.raw) for tool in listing.tools)
    if tokens > _SERVER_TOKENS:
        message = f"{len(listing.tools)} tools cost about {tokens:,} tokens in every request"
        yield Match(listing.itself, message)


@rule(
    "COST003 error: more tools than a request may have",
    reason="GitHub Copilot in VS Code rejects requests with more than 128 tools of all servers.",
    fix="combine tools, or split the server",
    source="https://github.com/microsoft/vscode-copilot-release/issues/11653",
)
def more_than_any(listing: Listing) -> Iterator[Match]:
    if len(listing.tools) > _MAX_TOOLS:
        yield Match(listing.itself, f"there are {len(listing.tools)} tools; 128 is the limit")


@rule(
    "COST004 warning: many tools",
    reason="Cursor warns of more than 80 tools, counting all servers, and used to ignore those "
    "after the first 40. Models choose worse among many.",
    fix="combine tools, or split the server",
    source="https://github.com/Snowflake-Labs/mcp/issues/77",
)
def many_tools(listing: Listing) -> Iterator[Match]:
    if _MANY_TOOLS < len(listing.tools) <= _MAX_TOOLS:
        yield Match(
            listing.itself, f"{len(listing.tools)} tools leave little room for other servers"
        )


@rule(
    "COST007 warning: many tools that hosts always load",
    reason="Claude Code defers tools until the model searches for them. Those with "
    f"anthropic/alwaysLoad are in every request; more than {_MAX_LOADED} are reported.",
    fix="set it on the few tools that nearly every conversation needs (in mcpkit: "
    "@app.tool(always_load=True))",
    source="https://code.claude.com/docs/en/mcp",
)
def many_loaded(listing: Listing) -> Iterator[Match]:
    key, _ = HOST_HINTS["always_load"]
    loaded = [tool for tool in listing.tools if value_at(tool.raw, "_meta", key) is True]
    if len(loaded) > _MAX_LOADED:
        yield Match(listing.itself, f"{len(loaded)} tools are always loaded")
