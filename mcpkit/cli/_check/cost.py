"""The cost of a server in every conversation, before anything is called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from mcpkit.cli._check.listing import Served, words_of
from mcpkit.cli._check.rules import Found, rule
from mcpkit.cli._check.schema_walk import unused, walk
from mcpkit.cli._token_estimate import estimate, tool_tokens

_TOOL_TOKENS: Final = 1_500
_SERVER_TOKENS: Final = 15_000
_MANY_TOOLS: Final = 40
_MAX_TOOLS: Final = 128


@rule(
    "COST001",
    "warning",
    "tool definition that fills the context",
    reason="Name, description and schema are sent to the model with every request, whether the "
    "tool is used or not. Most tools need 50 to 500 tokens; reported is what needs over "
    f"{_TOOL_TOKENS}.",
    fix="shorten descriptions, leave out rarely used parameters, or split the tool",
    source="https://github.com/modelcontextprotocol/python-sdk/issues/3391",
)
def heavy_tool(served: Served) -> Iterator[Found]:
    """One tool's definition needs very many tokens."""
    for tool in served.tools:
        tokens = tool_tokens(tool.raw)
        if tokens > _TOOL_TOKENS:
            yield Found(tool, f"costs about {tokens:,} tokens in every request")


@rule(
    "COST002",
    "warning",
    "all tool definitions together fill the context",
    reason="Hosts without a search for tools send all definitions with every request; hosts with "
    f"one may load them up front if they are small. Reported is over {_SERVER_TOKENS:,} tokens.",
    fix="offer fewer tools, or shorter descriptions and schemas",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def heavy_server(served: Served) -> Iterator[Found]:
    """All tools' definitions together need very many tokens."""
    tokens = sum(tool_tokens(tool.raw) for tool in served.tools)
    if tokens > _SERVER_TOKENS:
        yield Found(
            served.itself,
            f"{len(served.tools)} tools cost about {tokens:,} tokens in every request",
        )


@rule(
    "COST003",
    "error",
    "more tools than a request can have",
    reason="GitHub Copilot in VS Code refuses requests with more than 128 tools, those of all "
    "servers together.",
    fix="make fewer tools that do more, or several servers",
    source="https://github.com/microsoft/vscode-copilot-release/issues/11653",
)
def more_than_any(served: Served) -> Iterator[Found]:
    """There are more than 128 tools."""
    if len(served.tools) > _MAX_TOOLS:
        yield Found(
            served.itself, f"there are {len(served.tools)} tools; {_MAX_TOOLS} is the limit"
        )


@rule(
    "COST004",
    "warning",
    "many tools",
    reason="Cursor warns of more than 80 tools of all servers together, and used to cut off at "
    "40. Models choose worse among many.",
    fix="make fewer tools that do more, or several servers",
    source="https://github.com/Snowflake-Labs/mcp/issues/77",
)
def many_tools(served: Served) -> Iterator[Found]:
    """There are more than 40 tools, but not so many that they are refused."""
    if _MANY_TOOLS < len(served.tools) <= _MAX_TOOLS:
        yield Found(served.itself, f"{len(served.tools)} tools leave little room for other servers")


@rule(
    "COST005",
    "note",
    "schema titles that repeat the name",
    reason="Schema generators write a title for each field that repeats its name. The model pays "
    "for it in every request; one server measured a fifth of its list.",
    fix="switch titles off in the schema generator (mcpkit writes none)",
    source="https://github.com/modelcontextprotocol/python-sdk/issues/3391",
)
def repeated_titles(served: Served) -> Iterator[Found]:
    """Properties have titles made of their names."""
    count = tokens = 0
    for tool in served.tools:
        for node in walk(tool.schema):
            title = node.schema.get("title")
            if node.key and isinstance(title, str) and words_of(title) == words_of(node.key):
                count += 1
                tokens += estimate(f'"title":"{title}",')
    if count >= 5:
        yield Found(served.itself, f"{count} titles repeat the name, at about {tokens:,} tokens")


@rule(
    "COST006",
    "note",
    "definitions that nothing refers to",
    reason="They are sent to the model with every request and describe nothing. Generators that "
    "copy all definitions of an API into each tool can make a list several times as long.",
    fix="leave out of $defs what the schema does not refer to",
    source="https://github.com/PrefectHQ/fastmcp/pull/897",
)
def unused_definitions(served: Served) -> Iterator[Found]:
    """A schema has definitions that it does not use."""
    for tool in served.tools:
        found = unused(tool.schema)
        if found:
            tokens = estimate(json.dumps(found, ensure_ascii=False, default=str))
            what = "definition is" if len(found) == 1 else "definitions are"
            yield Found(tool, f"{len(found)} {what} never used, at about {tokens:,} tokens")
