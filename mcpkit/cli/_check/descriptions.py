"""Descriptions of tools, prompts and resources: missing, empty of meaning, too long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from math import ceil
from typing import Final

from mcpkit._utils.json import is_array
from mcpkit.cli._check.listing import Entry, Raw, Served, text_of, vocabulary, words_of
from mcpkit.cli._check.rules import SPEC, Found, rule
from mcpkit.cli._check.schema_walk import listed, types_of

_CLAUDE: Final = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools"
_OPENAI_MAX_CHARS: Final = 1024

_MAX_CHARS_READ: Final = 10_000
"""Characters of a description that are compared with others."""

_MAX_TOOLS: Final = 10_000
"""Tools that are compared with each other."""

_MAX_PAIRS: Final = 500_000
"""Pairs of them that are looked at."""

_MAX_NAME_CHARS: Final = 64
"""Characters of a name that is compared with others; a longer one is an error anyway."""

_ALIKE: Final = 0.9
"""The part of all words that descriptions share which are nearly the same."""


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


class _Mentioned:
    """The words of a tool's description, and those that it has in quotes or explains."""

    def __init__(self, tool: Entry) -> None:
        text = tool.description
        self._text = text[:_MAX_CHARS_READ]
        self._words = set(re.findall(r"\w+", text))
        self._marked = {
            *re.findall(r"[`'\"](?=([^`'\"]{1,100})[`'\"])", text),
            *re.findall(r"(?<![\w.\[\]-])([\w.\[\]-]+):", text),
        }

    def explains(self, name: str, schema: Raw) -> bool:
        """Return True if a parameter's values, or the text of its tool, explain it."""
        number = set(types_of(schema)) & {"number", "integer"}
        if number and len(name) == 1:  # as in mathematics
            return True
        values = schema.get("enum")
        if is_array(values) and values and all(isinstance(each, str) for each in values):
            return True
        if name in self._marked:
            return True
        is_word = re.fullmatch(r"\w+", name) is not None
        return len(name) > 3 and name in (self._words if is_word else self._text)


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
        mentioned = _Mentioned(tool)
        bare = [
            name
            for name, schema in tool.properties.items()
            if not text_of(schema, "description")
            and not _is_vague(name)
            and not mentioned.explains(name, schema)
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
        mentioned = _Mentioned(tool)
        vague = [
            name
            for name, schema in tool.properties.items()
            if _is_vague(name)
            and not text_of(schema, "description")
            and not mentioned.explains(name, schema)
        ]
        if vague:
            what = "parameter" if len(vague) == 1 else "parameters"
            yield Found(
                tool, f"nothing says what the {what} {listed(vague)} may be", ", ".join(vague)
            )


class _Said:
    """The words of a tool's name and description, for comparing it with others.

    Args:
        number: Its place in the list.
        tool: The tool.
    """

    def __init__(self, number: int, tool: Entry) -> None:
        self.number = number
        self.name = tool.name
        self.text = " ".join(tool.description.split())
        self.words = frozenset(words_of(tool.description[:_MAX_CHARS_READ])) - _LITTLE
        self.names = frozenset(words_of(tool.name[:_MAX_CHARS_READ]))

    def likeness(self, other: _Said) -> float:
        """Return the part of the words that two descriptions share."""
        both = self.words | other.words
        return len(self.words & other.words) / len(both) if both else 0.0

    def is_apart(self, other: _Said) -> bool:
        """Return True if descriptions differ in just the words in which the names differ."""
        own, others = self.names - other.names, other.names - self.names
        return bool(own & (self.words - other.words)) or bool(others & (other.words - self.words))


_LITTLE: Final = vocabulary("a an and by for from in of on or the to")


class _Pairs:
    """The pairs of tools that something makes likely, the earlier tool first.

    A rule on pairs would take a quarter of an hour for ten thousand tools if it looked at all.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, list[_Said]] = {}
        self._left = _MAX_PAIRS

    def before(self, keys: Iterable[str]) -> Iterator[_Said]:
        """Yield the tools with one of these keys, in their order."""
        lists = [self._by_key.get(key, ()) for key in keys]
        before: _Said | None = None
        for each in merge(*lists, key=lambda said: said.number):
            if each is not before:
                self._left -= 1
                if self._left < 0:
                    return
                yield each
            before = each

    def add(self, said: _Said, keys: Iterable[str]) -> None:
        """Let a tool be found by keys."""
        for key in keys:
            self._by_key.setdefault(key, []).append(said)


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
    tools = [_Said(number, tool) for number, tool in enumerate(served.tools[:_MAX_TOOLS])]
    rare = Counter(word for said in tools for word in said.words)
    pairs = _Pairs()
    same: dict[str, list[_Said]] = {}
    for said in tools:
        if not said.words:
            continue
        # Two sets that share nine tenths share one of the rarest words of each.
        rarest = sorted(said.words, key=lambda word: (rare[word], word))
        keys = rarest[: len(rarest) - ceil(_ALIKE * len(rarest)) + 1]
        twins = same.setdefault(said.text, [])
        twin = next((each for each in twins if each.name != said.name), None)
        for other in pairs.before(keys):
            if twin is not None and twin.number < other.number:
                break
            alike = other.name != said.name and said.likeness(other) >= _ALIKE
            if alike and not said.is_apart(other):
                twin = other
                break
        if twin is not None:
            yield Found(
                served.tools[said.number], f"the description is nearly that of {twin.name!r}"
            )
        if len(twins) < 2 and all(each.name != said.name for each in twins):
            twins.append(said)
        pairs.add(said, keys)


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
    pairs = _Pairs()
    for number, tool in enumerate(served.tools[:_MAX_TOOLS]):
        name = tool.name
        if not 4 <= len(name) <= _MAX_NAME_CHARS:
            continue
        said = _Said(number, tool)
        # Two names that are one edit apart are the same without one letter of either.
        keys = {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}
        for other in pairs.before(sorted(keys)):
            if len(name) < 5 or not _one_edit(name, other.name):
                continue
            if any(each.isdigit() for each in set(name) ^ set(other.name)):
                continue
            if said.likeness(other) >= 0.5 or not (said.text and other.text):
                yield Found(tool, f"the name is one letter from {other.name!r}")
                break
        pairs.add(said, keys)


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


@rule(
    "DESC011",
    "warning",
    "docstring that describes a parameter that is not there",
    reason="A model reads of an argument that it cannot give, because what a docstring says of "
    "anything but the parameters stays in the description. It is often one that has got another "
    "name.",
    fix="give it the name of the parameter, or take it out",
    source=_CLAUDE,
)
def unknown_parameters(served: Served) -> Iterator[Found]:
    """A docstring describes parameters that its function does not have."""
    for entry in (*served.tools, *served.templates, *served.prompts):
        names = entry.unknown_parameters
        if names:
            what = "which is no parameter" if len(names) == 1 else "which are no parameters"
            yield Found(
                entry, f"the docstring describes {listed([*names])}, {what}", ", ".join(names)
            )
