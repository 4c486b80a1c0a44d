"""Rules about names that hosts reject, truncate or confuse, and about descriptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from mcpkit._utils.json import is_array
from mcpkit.cli._check.listing import Listing, Raw, text_of, words_of
from mcpkit.cli._check.rules import SPEC, Match, rule
from mcpkit.cli._check.schema_walk import listed, types_of

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
def long_name(listing: Listing) -> Iterator[Match]:
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


# --- descriptions ---------------------------------------------------------------------------------

_CLAUDE: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools"
_OPENAI_MAX_CHARS: Final = 1024

_MAX_CHARS_READ: Final = 10_000
"""Characters of a description that are searched for a parameter's name."""


rule(
    "DESC001 warning: tool without a description",
    reason="A model chooses a tool by its description. Some hosts have failed without one.",
    fix="say what it does, when to use it and what it returns (in mcpkit: the docstring)",
    source="https://github.com/Amazon-Q-Developer/language-servers/pull/1612",
    tool=lambda tool: not tool.description,
)


def _is_plain(name: str, schema: Raw) -> bool:
    """Return True if the values of a parameter explain it."""
    if len(name) == 1 and set(types_of(schema)) & {"number", "integer"}:  # as in mathematics
        return True
    values = schema.get("enum")
    return is_array(values) and bool(values) and all(isinstance(each, str) for each in values)


def _mentions(text: str) -> Callable[[str], bool]:
    """Return a function that checks if a description explains, quotes or has a name."""
    head, words = text[:_MAX_CHARS_READ], set(re.findall(r"\w+", text))
    marked = {
        *re.findall(r"[`'\"](?=([^`'\"]{1,100})[`'\"])", text),
        *re.findall(r"(?<![\w.\[\]-])([\w.\[\]-]+):", text),
    }

    def mentions(name: str) -> bool:
        within = words if re.fullmatch(r"\w+", name) else head
        return name in marked or (len(name) > 3 and name in within)

    return mentions


@rule(
    "DESC002 warning: parameters without a description",
    reason="The model has to guess units, formats and the meaning of ids. Parameters with an enum "
    "of strings, and those that the tool's description names, are not reported.",
    fix="describe each of them (in mcpkit: `Args:` in the docstring)",
    source=_CLAUDE,
)
def undescribed_parameters(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        mentions = _mentions(tool.description)
        bare = [
            name
            for name, schema in tool.properties.items()
            if not text_of(schema, "description")
            and not (_is_plain(name, schema) or mentions(name))
        ]
        if bare:
            yield Match(tool, paths=bare)


@rule(
    "DESC003 warning: description that only repeats the name",
    reason="It costs tokens and tells the model nothing beyond the name.",
    fix="say what it does, when to use it and what it returns",
    source=_CLAUDE,
)
def only_the_name(listing: Listing) -> Iterator[Match]:
    for entry in listing.of("tool", "prompt"):
        text = entry.description
        if not (entry.name and text and text.isascii()) or _placeholder_in(text):
            continue
        words = set(words_of(text)) - {"a", "an", "the", "tool", "this", "function"}
        if words <= set(words_of(entry.name)):
            yield Match(entry)


@rule(
    "DESC005 warning: tool description longer than APIs accept",
    reason="OpenAI models have rejected the whole request over a description of more than 1024 "
    "characters, and Claude Code truncates descriptions at 2 KB.",
    fix="put first what sets the tool apart, and move the rest to parameters, instructions or a "
    "resource",
    source="https://github.com/probelabs/probe/issues/9",
)
def long_description(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        length = len(tool.description)
        if length > _OPENAI_MAX_CHARS:
            yield Match(tool, f"the description has {length} characters; some APIs accept 1024")


_MARK: Final = re.compile(r"\b(?:TODO|FIXME|TBD)(?::|\s*\(|\s+(?:add|describe|document|write)\b)")
_STOCK: Final = re.compile(
    r"""
      \W*(?:todo|fixme|tbd|xxx)\W*
    | \.{2,} | … | -+ | lorem\ ipsum\b.*
    | (?:a\ )?description | (?:\S+\ )?description\ (?:goes\ )?here\.?
    | insert\ (?:a\ |the\ )?description.* | no\ description(?:\ \w+)?\.?
    | n/?a | none | null | undefined | example | test | my\ tool
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _placeholder_in(text: str) -> str:
    """Return the placeholder in a description; empty if there is none."""
    found = _STOCK.fullmatch(text) or _MARK.search(text)
    return "" if found is None else found[0]


@rule(
    "DESC006 warning: placeholder instead of a description",
    reason="A model takes the placeholder for the description.",
    fix="write the description",
    source=_CLAUDE,
)
def placeholder(listing: Listing) -> Iterator[Match]:
    for entry in listing.entries:
        texts = [("", entry.description)]
        texts += [(name, text_of(each, "description")) for name, each in entry.properties.items()]
        texts += [(text_of(each, "name"), text_of(each, "description")) for each in entry.arguments]
        for name, text in texts:
            found = _placeholder_in(text)
            if found:
                yield Match(entry, f"the description has a placeholder: {found!r}", [name])


@rule(
    "DESC011 warning: docstring that describes an unknown parameter",
    reason="A model reads about an argument that it cannot pass. It may have been renamed.",
    fix="rename it in the docstring, or delete it there",
    source=_CLAUDE,
)
def unknown_parameters(listing: Listing) -> Iterator[Match]:
    for entry in listing.of("tool", "template", "prompt"):
        if entry.unknown_parameters:
            yield Match(entry, paths=entry.unknown_parameters)
