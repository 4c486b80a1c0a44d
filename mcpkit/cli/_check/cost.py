"""Rules about the cost of a server's definitions in every request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcpkit._utils.json import value_at
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import Match, rule
from mcpkit.cli._token_estimate import tool_tokens
from mcpkit.tools import HOST_HINTS

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
