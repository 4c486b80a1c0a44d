"""Descriptions of tools, prompts and resources: missing, empty of meaning, too long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit.cli.checks.findings import SPEC, Found, rule
from mcpkit.cli.checks.schemas import listed, types_of
from mcpkit.cli.checks.served import Entry, Raw, Served, text_of, vocabulary, words_of
from mcpkit.types import is_array

__all__ = [
    "missing",
    "only_the_name",
    "placeholder",
    "same_description",
    "same_title",
    "similar_names",
    "too_long",
    "too_short",
    "undescribed_parameters",
    "vague_parameters",
]

_CLAUDE: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools"
_OPENAI_MAX_CHARS: Final = 1024


@rule(
    "DESC001",
    "warning",
    "tool without a description",
    reason="The description is what a model chooses a tool by. Some hosts have failed on a tool "
    "without one.",
    fix="say what it does, when to use it and what it returns (in mcpkit: the docstring)",
    source="https://github.com/Amazon-Q-Developer/language-servers/pull/1612",
)
def missing(served: Served) -> Iterator[Found]:
    """A tool has no description."""
    for tool in served.tools:
        if not tool.description:
            yield Found(tool, "has no description")


def _speaks_for_itself(name: str, schema: Raw, tool: Entry) -> bool:
    """Return True if a parameter's values, or the text of its tool, explain it."""
    number = set(types_of(schema)) & {"number", "integer"}
    if number and len(name) == 1:  # as in mathematics
        return True
    values = schema.get("enum")
    if is_array(values) and values and all(isinstance(each, str) for each in values):
        return True
    quoted = re.search(rf"[`'\"]{re.escape(name)}[`'\"]|\b{re.escape(name)}:", tool.description)
    return quoted is not None or (
        len(name) > 3 and re.search(rf"\b{re.escape(name)}\b", tool.description) is not None
    )


_VAGUE: Final = vocabulary(
    "arg args argument blob body content data dict foo info input item json kwargs obj object "
    "opt options opts param params payload stuff thing tmp val value var x y z"
)


def _is_vague(name: str) -> bool:
    return len(name) == 1 or name.lower().strip("_") in _VAGUE


@rule(
    "DESC002",
    "warning",
    "parameters without a description",
    reason="A model fills in what it can only guess: units, formats, what an id refers to. "
    "Parameters whose values are listed, or that the tool's own description names, are not "
    "reported.",
    fix="describe each of them (in mcpkit: `Args:` in the docstring)",
    source=_CLAUDE,
)
def undescribed_parameters(served: Served) -> Iterator[Found]:
    """A parameter has no description, and nothing else explains it."""
    for tool in served.tools:
        bare = [
            name
            for name, schema in tool.properties.items()
            if not text_of(schema, "description")
            and not _is_vague(name)
            and not _speaks_for_itself(name, schema, tool)
        ]
        if bare:
            what = "parameter" if len(bare) == 1 else "parameters"
            verb = "has" if len(bare) == 1 else "have"
            yield Found(tool, f"{what} {listed(bare)} {verb} no description", ", ".join(bare))


def _repeats_the_name(entry: Entry) -> bool:
    if not (entry.name and entry.description and entry.description.isascii()):
        return False
    said = set(words_of(entry.description)) - {"a", "an", "the", "tool", "this", "function"}
    return said <= set(words_of(entry.name))


@rule(
    "DESC003",
    "warning",
    "description that only repeats the name",
    reason="It costs tokens and tells the model nothing that the name has not told.",
    fix="say what it does, when to use it and what it returns",
    source=_CLAUDE,
)
def only_the_name(served: Served) -> Iterator[Found]:
    """The words of a tool's or prompt's description are those of its name."""
    for entry in (*served.tools, *served.prompts):
        if _repeats_the_name(entry) and not _placeholder_in(entry.description):
            yield Found(entry, f"the description {entry.description!r} says what the name says")


@rule(
    "DESC004",
    "note",
    "very short tool description",
    reason="One or two words rarely tell a model when to use a tool and when not to. Anthropic "
    "asks for three to four sentences.",
    fix="add when to use it and what it returns",
    source=_CLAUDE,
)
def too_short(served: Served) -> Iterator[Found]:
    """A tool's description has fewer than three words."""
    for tool in served.tools:
        letters = re.findall(r"\w+", tool.description)
        spaced = all(ord(each) < 0x2E80 for each in tool.description)  # not Chinese, say
        reported = _repeats_the_name(tool) or _placeholder_in(tool.description)
        if 0 < len(letters) < 3 and spaced and not reported:
            yield Found(tool, f"the description is only {tool.description!r}")


@rule(
    "DESC005",
    "warning",
    "tool description longer than APIs take",
    reason="OpenAI models have refused descriptions of more than 1024 characters, with the whole "
    "request, and Claude Code cuts them off after 2 KB.",
    fix="put what decides between tools first, and move the rest to parameters, instructions or "
    "a resource",
    source="https://github.com/probelabs/probe/issues/9",
)
def too_long(served: Served) -> Iterator[Found]:
    """A tool's description has more than 1024 characters."""
    for tool in served.tools:
        length = len(tool.description)
        if length > _OPENAI_MAX_CHARS:
            yield Found(
                tool, f"the description has {length} characters; some APIs take {_OPENAI_MAX_CHARS}"
            )


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
    """Return the placeholder in a description, or that it is; empty if there is none."""
    found = _STOCK.fullmatch(text) or _MARK.search(text)
    return "" if found is None else found[0]


def _texts(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the descriptions of an entry and of its parts, with the parts' names."""
    yield "", entry.description
    for name, schema in entry.properties.items():
        yield name, text_of(schema, "description")
    for argument in entry.arguments:
        yield text_of(argument, "name"), text_of(argument, "description")


@rule(
    "DESC006",
    "warning",
    "placeholder instead of a description",
    reason="A model reads it as the description that it is not.",
    fix="write the description",
    source=_CLAUDE,
)
def placeholder(served: Served) -> Iterator[Found]:
    """A description has TODO or the like, or is a stock phrase."""
    for entry in served.entries:
        for name, text in _texts(entry):
            found = _placeholder_in(text)
            if found:
                of = f"of {name!r} " if name else ""
                yield Found(entry, f"the description {of}has a placeholder: {found!r}", name)


@rule(
    "DESC007",
    "warning",
    "parameters with a name that says nothing and no description",
    reason="Neither the name nor anything else tells a model what belongs there.",
    fix="rename it, or describe it",
    source=_CLAUDE,
)
def vague_parameters(served: Served) -> Iterator[Found]:
    """A parameter is called ``data``, ``x`` or the like, and has no description."""
    for tool in served.tools:
        vague = [
            name
            for name, schema in tool.properties.items()
            if _is_vague(name)
            and not text_of(schema, "description")
            and not _speaks_for_itself(name, schema, tool)
        ]
        if vague:
            what = "parameter" if len(vague) == 1 else "parameters"
            yield Found(
                tool, f"nothing says what the {what} {listed(vague)} may be", ", ".join(vague)
            )


def _telling(text: str) -> frozenset[str]:
    return frozenset(words_of(text)) - vocabulary("a an and by for from in of on or the to")


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def _apart(one: Entry, other: Entry) -> bool:
    """Return True if descriptions differ in just the words in which the names differ."""
    names = frozenset(words_of(one.name)), frozenset(words_of(other.name))
    own, others = names[0] - names[1], names[1] - names[0]
    said, says = _telling(one.description), _telling(other.description)
    return bool(own & (said - says)) or bool(others & (says - said))


@rule(
    "DESC008",
    "warning",
    "tools with nearly the same description",
    reason="A model cannot tell from them which of the two tools to call.",
    fix="say in each what sets it apart from the other, or make one tool of them",
    source=_CLAUDE,
)
def same_description(served: Served) -> Iterator[Found]:
    """Two tools' descriptions have (nearly) the same words."""
    for index, tool in enumerate(served.tools):
        words = _telling(tool.description)
        for other in served.tools[:index]:
            if not words or other.name == tool.name:
                continue
            same = " ".join(tool.description.split()) == " ".join(other.description.split())
            alike = _likeness(words, _telling(other.description)) >= 0.9
            if same or (alike and not _apart(tool, other)):
                yield Found(tool, f"the description is nearly that of {other.name!r}")
                break


def _one_edit(one: str, other: str) -> bool:
    """Return True if one letter more, less or other makes one name of the other."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    rest, others = one[start:], other[start:]
    return rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]


@rule(
    "DESC009",
    "note",
    "tools whose names differ by one letter",
    reason="A model that has chosen the right tool still writes the wrong name, and one letter "
    "more is a tool that exists. Pairs such as get_user and get_users are reported only if their "
    "descriptions are alike too.",
    fix="use a different verb, as in list_users and get_user",
    source="https://www.anthropic.com/engineering/writing-tools-for-agents",
)
def similar_names(served: Served) -> Iterator[Found]:
    """Two tools' names are one edit apart and their descriptions alike."""
    for index, tool in enumerate(served.tools):
        for other in served.tools[:index]:
            if len(tool.name) < 5 or not _one_edit(tool.name, other.name):
                continue
            if any(each.isdigit() for each in set(tool.name) ^ set(other.name)):
                continue
            alike = _likeness(_telling(tool.description), _telling(other.description)) >= 0.5
            if alike or not (tool.description and other.description):
                yield Found(tool, f"the name is one letter from {other.name!r}")
                break


@rule(
    "DESC010",
    "warning",
    "the same title twice",
    reason="People see the title instead of the name, and cannot tell the two apart when they "
    "are asked to allow a call.",
    fix="give them different titles",
    source=f"{SPEC}/server/tools#tool",
)
def same_title(served: Served) -> Iterator[Found]:
    """Two entries of a list have the same title."""
    for entries in (served.tools, served.resources, served.templates, served.prompts):
        seen: dict[str, str] = {}
        for entry in entries:
            other = seen.setdefault(entry.title.casefold(), entry.name)
            if entry.title and other != entry.name:
                yield Found(entry, f"the title {entry.title!r} is also that of {other!r}")
