"""Rules about names that hosts and model APIs reject, truncate or confuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import SPEC, Match, rule
from mcpkit.cli._check.schema_walk import listed

_MAX_NAME_CHARS: Final = 64


@rule(
    "NAME001 error: forbidden characters in a tool name",
    reason="A tool name may have ASCII letters, digits, '_', '-' and '.'. Over any other character "
    "a model API rejects the whole request, so no tool of any server works.",
    fix="use only letters, digits and '_'",
    source=f"{SPEC}/server/tools#tool-names",
)
def unusable_characters(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        wrong = sorted(set(re.findall(r"[^A-Za-z0-9_.\-]", tool.name)))
        if wrong or not tool.name:
            yield Match(tool, f"the name has {listed(wrong) or 'no characters'}")


rule(
    "NAME002 warning: dot in a tool's name",
    reason="The protocol allows a dot, but model APIs reject every request with it.",
    fix="replace '.' with '_'",
    source="https://github.com/github/copilot-cli/issues/1879",
    tool=lambda tool: "." in tool.name,
)


@rule(
    "NAME003 error: tool name too long for model APIs",
    reason="Model APIs reject the whole request over a name of more than 64 characters.",
    fix="use a shorter name",
    source="https://github.com/microsoft/vscode/issues/243602",
)
def too_long(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        if len(tool.name) > _MAX_NAME_CHARS:
            yield Match(tool, f"the name has {len(tool.name)} characters; 64 is the limit")


@rule(
    "NAME004 warning: tool name too long with the prefix of a host",
    reason="Hosts prefix the tool's name with the server's, as in mcp__server__tool, and then "
    "reject more than 64 characters. Users may configure a longer name for the server.",
    fix="use a shorter name for the tool or the server",
    source="https://github.com/ComposioHQ/composio/issues/2788",
)
def long_with_prefix(listing: Listing) -> Iterator[Match]:
    server = re.sub(r"[^A-Za-z0-9_-]", "_", listing.itself.name)
    for tool in listing.tools:
        prefixed = f"mcp__{server}__{tool.name}"
        if len(tool.name) <= _MAX_NAME_CHARS < len(prefixed):
            yield Match(tool)


@rule(
    "NAME005 warning: tool names that differ only in style",
    reason="Hosts rewrite names for their model API. Names that differ only in letter case or "
    "separators may become the same, and models confuse them anyway.",
    fix="use different words",
    source="https://github.com/openai/openai-agents-js/issues/1934",
)
def nearly_the_same(listing: Listing) -> Iterator[Match]:
    seen: dict[str, str] = {}
    for tool in listing.tools:
        letters = re.sub(r"[^a-z0-9]", "", tool.name.lower())
        other = seen.setdefault(letters, tool.name)
        if other != tool.name and letters:
            yield Match(tool, f"the name is {other!r} in another style")


@rule(
    "NAME006 error: the same name or URI twice",
    reason="A client cannot address one of them. The OpenAI Agents SDK rejects such servers.",
    fix="rename or remove one of them",
    source="https://github.com/openai/openai-agents-python/pull/3136",
)
def duplicate(listing: Listing) -> Iterator[Match]:
    seen: set[tuple[str, str]] = set()
    for entry in listing.listed:
        if (entry.kind, entry.name) in seen:
            yield Match(entry)
        seen.add((entry.kind, entry.name))


rule(
    "NAME008 warning: tool name that does not begin with a letter",
    reason="Gemini rejects the whole request over a name that begins with a digit, '.' or '-'.",
    fix="begin the name with a letter",
    source="https://googleapis.github.io/java-genai/javadoc/google-genai/"
    "com.google.genai.types/-function-declaration/-builder/name.html",
    tool=lambda tool: re.match(r"[0-9.\-]", tool.name),
)
