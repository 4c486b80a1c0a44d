"""Names that hosts and model APIs refuse, shorten or mix up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit.cli._check.listing import Served, vocabulary, words_of
from mcpkit.cli._check.rules import SPEC, Found, rule
from mcpkit.cli._check.schema_walk import listed

_MAX_NAME_CHARS: Final = 64
_CURSOR_MAX_CHARS: Final = 60


@rule(
    "NAME001",
    "error",
    "characters that no tool name may have",
    reason="A tool's name may have ASCII letters, digits, '_', '-' and '.'. A model API refuses "
    "the whole request over one other character, so no tool of any server works.",
    fix="use letters, digits and '_' only",
    source=f"{SPEC}/server/tools#tool-names",
)
def unusable_characters(served: Served) -> Iterator[Found]:
    """A tool's name is empty or has a character outside ``A-Za-z0-9_.-``."""
    for tool in served.tools:
        wrong = sorted(set(re.findall(r"[^A-Za-z0-9_.\-]", tool.name)))
        if not tool.name:
            yield Found(tool, "the name is empty")
        elif wrong:
            yield Found(tool, f"the name has {listed(wrong)}")


@rule(
    "NAME002",
    "warning",
    "dot in a tool's name",
    reason="The protocol allows a dot, but model APIs do not: where a host passes the name on as "
    "it is, every request fails.",
    fix="write '_' instead of '.'",
    source="https://github.com/github/copilot-cli/issues/1879",
)
def dotted(served: Served) -> Iterator[Found]:
    """A tool's name has a dot."""
    for tool in served.tools:
        if "." in tool.name:
            yield Found(tool, "the name has a dot, which model APIs refuse")


@rule(
    "NAME003",
    "error",
    "tool name too long for model APIs",
    reason="Model APIs take names of at most 64 characters and refuse the whole request over a "
    "longer one.",
    fix="use a shorter name",
    source="https://github.com/microsoft/vscode/issues/243602",
)
def too_long(served: Served) -> Iterator[Found]:
    """A tool's name has more than 64 characters."""
    for tool in served.tools:
        if len(tool.name) > _MAX_NAME_CHARS:
            yield Found(
                tool, f"the name has {len(tool.name)} characters; {_MAX_NAME_CHARS} is the limit"
            )


@rule(
    "NAME004",
    "warning",
    "tool name too long with the prefix of a host",
    reason="Hosts put the server's name before the tool's, as in mcp__server__tool. What is then "
    "longer than 64 characters is refused, and Cursor leaves out tools whose two names make 60 "
    "characters or more. People may configure a longer server name than its own.",
    fix="use a shorter name for the tool or the server",
    source="https://github.com/ComposioHQ/composio/issues/2788",
)
def long_with_prefix(served: Served) -> Iterator[Found]:
    """Server and tool name together exceed what hosts allow, but the tool's alone does not."""
    server = re.sub(r"[^A-Za-z0-9_-]", "_", served.itself.name)
    found: list[Found] = []
    for tool in served.tools:
        both = len(server) + len(tool.name)
        prefixed = len(f"mcp__{server}__{tool.name}")
        if len(tool.name) > _MAX_NAME_CHARS:
            continue
        if both >= _CURSOR_MAX_CHARS:
            found.append(
                Found(tool, f"with the server's name it has {both} characters; Cursor skips it")
            )
        elif prefixed > _MAX_NAME_CHARS:
            said = (
                f"as mcp__{server}__… it has {prefixed} characters; {_MAX_NAME_CHARS} is the limit"
            )
            found.append(Found(tool, said))
    if len(found) > 3:  # it is the server's name that is too long
        example = found[0].subject.name
        said = f"with this name, {len(found)} tools are too long for hosts, such as {example!r}"
        found = [Found(served.itself, said)]
    yield from found


@rule(
    "NAME005",
    "warning",
    "tool names that differ in style only",
    reason="Hosts rewrite names to what their model API takes. Names that differ in letter case "
    "or separators may become the same, and a model mixes them up anyway.",
    fix="give them different words",
    source="https://github.com/openai/openai-agents-js/issues/1934",
)
def nearly_the_same(served: Served) -> Iterator[Found]:
    """Two tools have names of the same letters."""
    seen: dict[str, str] = {}
    for tool in served.tools:
        letters = re.sub(r"[^a-z0-9]", "", tool.name.lower())
        other = seen.setdefault(letters, tool.name)
        if other != tool.name and letters:
            yield Found(tool, f"the name is {other!r} in another style")


@rule(
    "NAME006",
    "error",
    "the same name or URI twice",
    reason="A client cannot say which of them it means. The OpenAI Agents SDK refuses servers "
    "whose tools share a name.",
    fix="rename or remove one of them",
    source="https://github.com/openai/openai-agents-python/pull/3136",
)
def duplicate(served: Served) -> Iterator[Found]:
    """Two entries of a list are known by the same name or URI."""
    for entries in (served.tools, served.resources, served.templates, served.prompts):
        seen: set[str] = set()
        for entry in entries:
            if entry.name in seen:
                what = "URI" if entry.kind in ("resource", "template") else "name"
                yield Found(entry, f"another {entry.kind} has the same {what}")
            seen.add(entry.name)


_COMMON: Final = vocabulary(
    "bash edit execute fetch find get list open query read run search send shell update write"
)


@rule(
    "NAME007",
    "note",
    "tool name that says only what every server does",
    reason="Users have several servers, and hosts have tools of their own. Tools that are all "
    "named 'search' cannot be told apart in pickers and prompts, nor by some models.",
    fix="say what it works on, as in search_orders",
    source="https://github.com/microsoft/vscode/issues/260134",
)
def common_name(served: Served) -> Iterator[Found]:
    """A tool's name is a single common verb."""
    for tool in served.tools:
        if "".join(words_of(tool.name)) in _COMMON:
            yield Found(tool, "the name may clash with tools of hosts and other servers")


@rule(
    "NAME008",
    "warning",
    "tool name that does not begin with a letter",
    reason="Gemini takes names that begin with a letter or an underscore, and refuses the whole "
    "request over any other.",
    fix="begin the name with a letter",
    source="https://googleapis.github.io/java-genai/javadoc/google-genai/"
    "com.google.genai.types/-function-declaration/-builder/name.html",
)
def bad_start(served: Served) -> Iterator[Found]:
    """A tool's name begins with a digit, a dash or a dot."""
    for tool in served.tools:
        if re.match(r"[0-9.\-]", tool.name):
            yield Found(tool, f"the name begins with {tool.name[0]!r}, which Gemini refuses")
