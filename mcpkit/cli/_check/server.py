"""Rules about resources, templates, and the server as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit._utils.uri_template import UriTemplate
from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import SPEC, Match, rule

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
