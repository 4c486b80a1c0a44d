"""Rules about JSON Schema that hosts and model APIs reject, drop or misread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from mcpkit._utils.json import References, is_array, is_object
from mcpkit.cli._check.listing import Entry, Listing
from mcpkit.cli._check.rules import SPEC, Match, in_schemas, rule
from mcpkit.cli._check.schema_walk import Node, is_recursive, listed, path_to, types_of, walk
from mcpkit.cli._schema_text import array_or_empty, object_or_empty

rule(
    "SCHEMA001 error: input schema of something other than an object",
    reason='Arguments are always an object, so the schema must have the type "object" at its root. '
    "If one input schema has another type, clients reject the whole list of tools.",
    fix='write {"type": "object", "properties": {…}}',
    source=f"{SPEC}/server/tools#tool",
    tool=lambda tool: tool.schema.get("type") != "object",
)


@rule(
    "SCHEMA002 error: anyOf, oneOf, allOf, enum or not at the root",
    reason="The APIs of Anthropic and OpenAI reject the whole request; Claude Code omits the tool.",
    fix="make the alternatives optional parameters, or one parameter, and check them in the tool",
    source="https://github.com/anthropics/claude-code/issues/95504",
)
def combined_at_the_root(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        found = [each for each in ("anyOf", "oneOf", "allOf", "enum", "not") if each in tool.schema]
        if found:
            yield Match(tool, f"the input schema has {listed(found)} at its root")


rule(
    "SCHEMA003 error: array without items",
    reason="VS Code omits the tool; the APIs of OpenAI and Gemini reject the whole request.",
    fix="declare the type of the items (in mcpkit: list[str] instead of list)",
    source="https://github.com/microsoft/vscode/issues/257537",
    schema=lambda node: (
        "array" in types_of(node.schema) and not {"items", "prefixItems"} & node.schema.keys()
    ),
)

rule(
    "SCHEMA004 warning: tuple",
    reason="VS Code, Gemini and bridges to other APIs reject or drop schemas for each position.",
    fix="use an object with named fields, or a list of one type",
    source="https://github.com/microsoft/vscode/issues/244467",
    schema=lambda node: "prefixItems" in node.schema or is_array(node.schema.get("items")),
)

rule(
    "SCHEMA005 warning: enum of numbers or booleans",
    reason="In Gemini's schemas the values of an enum are strings. It rejects the whole request "
    "over any other value, unless the host rewrites it.",
    fix="use strings, or a number with a minimum and a maximum",
    source="https://github.com/google-gemini/gemini-cli/issues/4127",
    schema=lambda node: any(
        each is not None and not isinstance(each, str)
        for each in array_or_empty(node.schema.get("enum"))
    ),
)

rule(
    "SCHEMA006 warning: list of types",
    reason='Gemini accepts one type for each value and rejects the whole request over ["string", '
    '"null"], unless the host rewrites it.',
    fix="name one type, and omit an optional parameter from `required` instead of allowing null",
    source="https://github.com/github/copilot-cli/issues/4623",
    schema=lambda node: is_array(node.schema.get("type")),
)

rule(
    "SCHEMA008 warning: recursive schema",
    reason="Frameworks that inline references have crashed on it; others drop its description.",
    fix="accept a flat list with parent ids, or text that the tool parses",
    source="https://github.com/mastra-ai/mastra/issues/15341",
    tool=lambda tool: is_recursive(tool.schema),
)


@rule(
    "SCHEMA009 error: reference that cannot be resolved",
    reason="A client fetches nothing from the network, and rejects what it cannot resolve.",
    fix="move the definition to $defs of the same schema",
    source="https://github.com/modelcontextprotocol/python-sdk/pull/2924",
)
def open_reference(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        schemas = [node.schema for node in walk(tool.schema)]
        own = {each["$id"] for each in schemas if isinstance(each.get("$id"), str)}
        references = References(tool.schema)
        lost = [
            each
            for each in (schema.get("$ref") for schema in schemas)
            if isinstance(each, str) and each not in own and references.resolve(each) is None
        ]
        if lost:
            yield Match(tool, f"{listed(lost)} cannot be resolved")


@rule(
    "SCHEMA013 error: parameter name that Anthropic's API rejects",
    reason="A parameter name must be 1 to 64 characters of A-Z, a-z, 0-9, '_', '.' and '-'. Over "
    "any other, such as filter[name], every request fails while the server is connected.",
    fix="rename the parameter",
    source="https://github.com/decocms/studio/pull/6874",
)
def bad_property_name(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        wrong = [
            each for each in tool.properties if not re.fullmatch(r"[A-Za-z0-9_.\-]{1,64}", each)
        ]
        if wrong:
            yield Match(tool, paths=wrong)


_SILENT: Final = frozenset(
    ("description", "title", "default", "examples", "deprecated", "readOnly", "$comment")
)

rule(
    "SCHEMA015 warning: parameter of any type",
    reason="It tells a model nothing, and Gemini CLI has omitted tools with such a parameter.",
    fix="declare a type (in mcpkit: annotate the parameter with something other than Any)",
    source="https://github.com/google/mcp-security/issues/148",
    schema=lambda node: (
        _SILENT.issuperset(node.schema) and node.path != "" and not node.path.endswith("{}")
    ),
)

rule(
    "SCHEMA016 note: const in a schema",
    reason="Gemini's schemas have no const; if a host passes it on, the whole request is rejected.",
    fix="use an enum of one string",
    source="https://github.com/taylorwilsdon/google_workspace_mcp/issues/1099",
    schema=lambda node: "const" in node.schema,
)


@rule(
    "SCHEMA017 error: required parameter that does not exist",
    reason="The model does not know the parameter; Gemini rejects the whole request.",
    fix="declare it in `properties`, or remove it from `required`",
    source="https://github.com/anomalyco/opencode/issues/3140",
)
def required_but_missing(listing: Listing) -> Iterator[Match]:
    combining = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties", "additionalProperties")
    for tool in listing.tools:
        lost: list[str] = []
        for node in walk(tool.schema):
            names, known = node.schema.get("required"), node.schema.get("properties", {})
            plain = "object" in types_of(node.schema) and is_object(known)
            if not plain or any(node.schema.get(each) for each in combining) or not is_array(names):
                continue
            lost += [each for each in names if isinstance(each, str) and each not in known]
        if lost:
            yield Match(tool, paths=lost)


@rule(
    "SCHEMA019 warning: true or false as a schema",
    reason="It is allowed, but Gemini rejects the whole request, unless the host rewrites it.",
    fix="write {} instead of true, or better a type",
    source="https://github.com/github/copilot-cli/issues/4623",
)
def boolean_schema(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        paths = list(_booleans(tool))
        if paths:
            yield Match(tool, paths=paths)


def _booleans(tool: Entry) -> Iterator[str]:
    for node in walk(tool.schema):
        for name, each in object_or_empty(node.schema.get("properties")).items():
            if isinstance(each, bool):
                yield path_to(node.path, name)
        if isinstance(node.schema.get("items"), bool) and "prefixItems" not in node.schema:
            yield f"{node.path}[]"


@rule(
    "SCHEMA020 note: alternatives that no member tells apart",
    reason="An error cannot tell a model which alternative it has missed. If they contain each "
    "other, every level multiplies the time of validation, and mcpkit limits the levels.",
    fix='give each a member with one value of its own (in mcpkit: kind: Literal["circle"])',
    source="https://docs.pydantic.dev/latest/concepts/unions/#discriminated-unions",
)
def untagged(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        yield from in_schemas(tool, partial(_is_untagged, References(tool.schema)))


def _is_untagged(references: References, node: Node) -> bool:
    schema, find = node.schema, references.resolve
    choices = [*array_or_empty(schema.get("anyOf")), *array_or_empty(schema.get("oneOf"))]
    found = [object_or_empty(each) for each in choices]
    found = [object_or_empty(find(str(each["$ref"])) if "$ref" in each else each) for each in found]
    members = [object_or_empty(each["properties"]) for each in found if "properties" in each]
    return len(members) > 1 and not any(
        all({"const", "enum"} & object_or_empty(each.get(name)).keys() for each in members)
        for name in members[0]
    )
