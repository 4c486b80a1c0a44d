"""Rules about descriptions: missing, without meaning, too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from mcpkit._utils.json import is_array
from mcpkit.cli._check.listing import Listing, Raw, text_of, words_of
from mcpkit.cli._check.rules import Match, rule
from mcpkit.cli._check.schema_walk import types_of

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
def too_long(listing: Listing) -> Iterator[Match]:
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
