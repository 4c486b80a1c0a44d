"""Resources, templates, prompts, and the server as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit._utils.json import is_array
from mcpkit._utils.uri_template import UriTemplate
from mcpkit.cli._check.listing import Served, text_of
from mcpkit.cli._check.rules import SPEC, Found, rule
from mcpkit.cli._check.schema_walk import listed

_MAX_INSTRUCTION_CHARS: Final = 2048


@rule(
    "RES001",
    "note",
    "resource or template without a description",
    reason="It is all that a user or a model has to choose by, next to the name.",
    fix="say what can be read there (in mcpkit: the docstring)",
    source=f"{SPEC}/server/resources#resource",
)
def resource_undescribed(served: Served) -> Iterator[Found]:
    """A resource or a template has no description."""
    for entry in (*served.resources, *served.templates):
        if not entry.description:
            yield Found(entry, "has no description")


@rule(
    "RES002",
    "note",
    "resource or template without a MIME type",
    reason="Clients must guess whether it is text, data or a picture; some took binary contents "
    "for text. A template whose contents differ in type has none, rightly.",
    fix="name it (in mcpkit: mime_type=, or a return annotation that says it)",
    source="https://github.com/anthropics/anthropic-sdk-python/pull/1836",
)
def no_mime_type(served: Served) -> Iterator[Found]:
    """A resource or a template names no MIME type."""
    for entry in (*served.resources, *served.templates):
        if not text_of(entry.raw, "mimeType"):
            yield Found(entry, "has no MIME type")


_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`\x00-\x1f]+")


@rule(
    "RES003",
    "error",
    "URI that is none",
    reason="A URI has a scheme of letters, digits, '+', '-' and '.', and no blanks. Clients that "
    "parse it fail.",
    fix="write it as scheme://path, with other characters percent-encoded",
    source=f"{SPEC}/server/resources#custom-uri-schemes",
)
def bad_uri(served: Served) -> Iterator[Found]:
    """A resource's URI has no scheme, or characters that no URI has."""
    for entry in served.resources:
        if "{" not in entry.name and _URI.fullmatch(entry.name) is None:
            yield Found(entry, "is no URI")


@rule(
    "RES004",
    "note",
    "web address as the URI of a resource",
    reason="A client may fetch http and https URIs from the web itself, past the server, with its "
    "own rights or none.",
    fix="use a scheme of your own, unless every client can fetch it",
    source=f"{SPEC}/server/resources#common-uri-schemes",
)
def web_uri(served: Served) -> Iterator[Found]:
    """A resource or template is at http or https."""
    for entry in (*served.resources, *served.templates):
        if re.match(r"https?:", entry.name, re.IGNORECASE):
            yield Found(entry, "may be fetched from the web, past the server")


@rule(
    "RES005",
    "error",
    "template that cannot be expanded",
    reason="A client fills in the variables by the rules of RFC 6570; it cannot with this one.",
    fix="write it as scheme://path/{variable}",
    source=f"{SPEC}/server/resources#resource-templates",
)
def bad_template(served: Served) -> Iterator[Found]:
    """A template breaks RFC 6570, or has no variable."""
    for entry in served.templates:
        try:
            template = UriTemplate(entry.name)
        except ValueError as error:
            yield Found(entry, f"is no URI template: {error}")
        else:
            if template.is_literal:
                yield Found(entry, "has no variable, so it belongs among the resources")


@rule(
    "RES006",
    "error",
    "template among the resources",
    reason="resources/list is for what can be read as it is. A client that reads this URI asks "
    "for the braces.",
    fix="list it in resources/templates/list",
    source=f"{SPEC}/server/resources#resource-templates",
)
def template_among_resources(served: Served) -> Iterator[Found]:
    """A resource's URI has variables."""
    for entry in served.resources:
        if re.search(r"\{[^}]*\}", entry.name):
            yield Found(entry, "has variables, so it belongs among the templates")


@rule(
    "PROMPT001",
    "warning",
    "prompt without a description",
    reason="Users choose prompts from a menu, by name and description.",
    fix="say what it is for (in mcpkit: the docstring)",
    source=f"{SPEC}/server/prompts#prompt",
)
def prompt_undescribed(served: Served) -> Iterator[Found]:
    """A prompt has no description."""
    for entry in served.prompts:
        if not entry.description:
            yield Found(entry, "has no description")


@rule(
    "PROMPT002",
    "note",
    "prompt arguments without a description",
    reason="Hosts ask the user for each argument, and have no more to show than this.",
    fix="describe each of them (in mcpkit: `Args:` in the docstring)",
    source=f"{SPEC}/server/prompts#prompt",
)
def prompt_arguments_undescribed(served: Served) -> Iterator[Found]:
    """An argument of a prompt has no description."""
    for entry in served.prompts:
        bare = [
            text_of(each, "name") for each in entry.arguments if not text_of(each, "description")
        ]
        if bare:
            what = "argument" if len(bare) == 1 else "arguments"
            verb = "has" if len(bare) == 1 else "have"
            yield Found(entry, f"{what} {listed(bare)} {verb} no description", ", ".join(bare))


@rule(
    "SERVER001",
    "note",
    "server without instructions",
    reason="They tell a model what the server is for and how its tools work together. Claude Code "
    "searches for tools by them.",
    fix="add a few sentences (in mcpkit: MCPKit(name, instructions=…))",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def no_instructions(served: Served) -> Iterator[Found]:
    """The server has no instructions, though it has several tools."""
    if not served.instructions and len(served.tools) > 1:
        yield Found(served.itself, "has no instructions")


@rule(
    "SERVER002",
    "note",
    "server without a version",
    reason="It is what logs, bug reports and registries tell two releases apart by.",
    fix="name it (in mcpkit: MCPKit(name, version=…))",
    source=f"{SPEC}/basic/lifecycle#initialization",
)
def no_version(served: Served) -> Iterator[Found]:
    """The server's version is missing, or the default of a framework."""
    version = text_of(served.itself.raw, "version")
    if version in ("", "0", "0.0", "0.0.0"):
        yield Found(served.itself, f"has the version {version!r}" if version else "has no version")


@rule(
    "SERVER003",
    "warning",
    "instructions that are cut off",
    reason="Claude Code cuts instructions off after 2 KB.",
    fix="put what matters first, and the rest into tool descriptions or a resource",
    source="https://github.com/ericbuess/claude-code-docs/blob/main/docs/mcp.md",
)
def long_instructions(served: Served) -> Iterator[Found]:
    """The instructions have more than 2048 characters."""
    length = len(served.instructions)
    if length > _MAX_INSTRUCTION_CHARS:
        yield Found(served.itself, f"the instructions have {length} characters")


@rule(
    "SERVER004",
    "error",
    "list that cannot be read",
    reason="A host that gets an error, or an entry without a name, leaves out everything in the "
    "list, or the server.",
    fix="answer it, or do not declare the capability",
    source=f"{SPEC}/basic/lifecycle#capability-negotiation",
)
def unreadable(served: Served) -> Iterator[Found]:
    """A list whose capability is declared has failed."""
    for trouble in served.troubles:
        yield Found(served.itself, trouble)


@rule(
    "CAP001",
    "note",
    "capability without anything behind it",
    reason="Every client asks for the list at each start, to get nothing.",
    fix="declare it only if there is something to list, or may be later (listChanged)",
    source=f"{SPEC}/basic/lifecycle#capability-negotiation",
)
def empty_offer(served: Served) -> Iterator[Found]:
    """Tools, resources or prompts are declared, none are listed, and that never changes."""
    offers = {
        "tools": served.tools,
        "resources": (*served.resources, *served.templates),
        "prompts": served.prompts,
    }
    for name, entries in offers.items():
        declared = served.capability(name)
        if declared is None or entries or any(name in each for each in served.troubles):
            continue
        if declared.get("listChanged") is not True:
            yield Found(served.itself, f"declares {name}, but has none")


@rule(
    "CAP002",
    "note",
    "completions without anything to complete",
    reason="Clients ask for suggestions while the user types. Only arguments of prompts and "
    "variables of templates can have some.",
    fix="do not declare completions",
    source=f"{SPEC}/server/utilities/completion",
)
def nothing_to_complete(served: Served) -> Iterator[Found]:
    """Completions are declared, but no prompt has arguments and there are no templates."""
    if served.capability("completions") is None or served.templates or served.troubles:
        return
    if not any(is_array(each.raw.get("arguments")) and each.arguments for each in served.prompts):
        yield Found(served.itself, "declares completions, but nothing takes an argument")


@rule(
    "CAP003",
    "note",
    "subscriptions without anything to watch",
    reason="Clients may offer to watch resources that do not exist.",
    fix="declare subscribe only with resources that change",
    source=f"{SPEC}/server/resources#capabilities",
)
def nothing_to_watch(served: Served) -> Iterator[Found]:
    """Subscriptions are declared, but there are neither resources nor templates."""
    declared = served.capability("resources") or {}
    if declared.get("subscribe") is True and not (
        served.resources or served.templates or served.troubles or declared.get("listChanged")
    ):
        yield Found(served.itself, "declares subscriptions, but has no resources")
