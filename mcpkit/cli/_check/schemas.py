"""Rules about JSON Schema that hosts and model APIs reject, drop or misread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mcpkit._utils.json import References, Step, is_array, is_object
from mcpkit.cli._check.listing import Entry, Listing
from mcpkit.cli._check.rules import SPEC, Find, Match, rule
from mcpkit.cli._check.schema_walk import Node, is_recursive, listed, path_to, types_of, walk
from mcpkit.cli._schema_text import array_or_empty, object_or_empty


def _schemas(is_fault: Callable[[Node], bool]) -> Find:
    """Turn a function that is True for a schema with a fault into one that looks at all tools."""

    def find(listing: Listing) -> Iterator[Match]:
        for tool in listing.tools:
            yield from _at(tool, filter(is_fault, walk(tool.schema)))

    return find


def _at(tool: Entry, nodes: Iterable[Node]) -> Iterator[Match]:
    paths = list(dict.fromkeys(node.path or "(root)" for node in nodes))
    if paths:
        yield Match(tool, paths=paths)


@rule(
    "SCHEMA001 error: input schema of something other than an object",
    reason='Arguments are always an object, so the schema must have the type "object" at its root. '
    "Over one other input schema clients reject the whole list.",
    fix='write {"type": "object", "properties": {…}}',
    source=f"{SPEC}/server/tools#tool",
)
def no_object(listing: Listing) -> Iterator[Match]:
    return (Match(tool) for tool in listing.tools if tool.schema.get("type") != "object")


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


@rule(
    "SCHEMA003 error: array without items",
    reason="VS Code omits the tool; the APIs of OpenAI and Gemini reject the whole request.",
    fix="declare the type of the items (in mcpkit: list[str] instead of list)",
    source="https://github.com/microsoft/vscode/issues/257537",
)
@_schemas
def array_without_items(node: Node) -> bool:
    return "array" in types_of(node.schema) and not {"items", "prefixItems"} & node.schema.keys()


@rule(
    "SCHEMA004 warning: tuple",
    reason="VS Code, Gemini and bridges to other APIs reject or drop schemas for each position.",
    fix="use an object with named fields, or a list of one type",
    source="https://github.com/microsoft/vscode/issues/244467",
)
@_schemas
def tuples(node: Node) -> bool:
    return "prefixItems" in node.schema or is_array(node.schema.get("items"))


@rule(
    "SCHEMA005 warning: enum of numbers or booleans",
    reason="In Gemini's schemas the values of an enum are strings. It rejects the whole request "
    "over any other value, unless the host rewrites it.",
    fix="use strings, or a number with a minimum and a maximum",
    source="https://github.com/google-gemini/gemini-cli/issues/4127",
)
@_schemas
def numbers_in_enum(node: Node) -> bool:
    values = array_or_empty(node.schema.get("enum"))
    return any(each is not None and not isinstance(each, str) for each in values)


@rule(
    "SCHEMA006 warning: list of types",
    reason='Gemini accepts one type for each value and rejects the whole request over ["string", '
    '"null"], unless the host rewrites it.',
    fix="name one type, and omit an optional parameter from `required` instead of allowing null",
    source="https://github.com/github/copilot-cli/issues/4623",
)
@_schemas
def list_of_types(node: Node) -> bool:
    return is_array(node.schema.get("type"))


@rule(
    "SCHEMA007 note: references to definitions",
    reason="Some hosts drop $defs on the way to Gemini, so the model does not see them.",
    fix="inline short definitions (mcpkit does so for those used once)",
    source="https://github.com/NousResearch/hermes-agent/issues/99438",
)
def references(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        found = [node for node in walk(tool.schema) if "$ref" in node.schema]
        if found and not is_recursive(tool.schema):
            yield from _at(tool, found)


@rule(
    "SCHEMA008 warning: recursive schema",
    reason="Frameworks that inline references have crashed on it; others drop its description.",
    fix="accept a flat list with parent ids, or text that the tool parses",
    source="https://github.com/mastra-ai/mastra/issues/15341",
)
def recursive(listing: Listing) -> Iterator[Match]:
    return (Match(tool) for tool in listing.tools if is_recursive(tool.schema))


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
    "SCHEMA010 note: string format that Gemini does not support",
    reason='Gemini supports the string formats "date-time" and "enum", and has rejected requests '
    "over others; hosts now drop them. Models need not follow a format.",
    fix="explain the format in the description",
    source="https://github.com/google-gemini/gemini-cli/issues/2237",
)
def string_format(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        nodes = list(walk(tool.schema))
        described = {(node.base, node.way) for node in nodes if node.schema.get("description")}
        yield from _at(
            tool,
            (
                node
                for node in nodes
                if "string" in types_of(node.schema)
                and node.schema.get("format") not in (None, "date-time", "enum")
                and not any((node.base, way) in described for way in _ways_of(node))
            ),
        )


_SAME_VALUE: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")


def _ways_of(node: Node) -> Iterator[tuple[Step, ...]]:
    way = node.way
    yield way
    while way and way[-1].keyword in _SAME_VALUE:
        way = way[:-1]
        yield way


_UNSUPPORTED: Final = (
    *("contains", "dependentRequired", "dependentSchemas", "if", "not", "patternProperties"),
    *("propertyNames", "unevaluatedItems", "unevaluatedProperties"),
)


@rule(
    "SCHEMA011 note: schema keywords that model APIs do not enforce",
    reason="Gemini rejects conditions, OpenAI's strict mode rejects all of them, and hosts drop "
    "them. A model that violates one learns of it only from the tool's error.",
    fix="repeat it in a description, and check it in the tool",
    source="https://github.com/zendev-sh/goai/pull/39",
)
def unsupported_keywords(listing: Listing) -> Iterator[Match]:
    for tool in listing.tools:
        used = [
            keyword
            for node in walk(tool.schema)
            for keyword in _UNSUPPORTED
            if keyword in node.schema and (node.path or keyword != "not")
        ]
        if used:
            yield Match(tool, f"the input schema uses {listed(list(dict.fromkeys(used)))}")


_DESCRIBING: Final = frozenset(
    (
        *("$ref", "additionalProperties", "allOf", "anyOf", "const", "enum", "oneOf"),
        *("patternProperties", "properties"),
    )
)


@rule(
    "SCHEMA012 note: object without any properties",
    reason="Bridges to OpenAI's strict mode have taken it for an object that must be empty.",
    fix="declare the properties, or set additionalProperties to true",
    source="https://github.com/openai/openai-agents-python/pull/4277",
)
@_schemas
def free_form(node: Node) -> bool:
    is_object = types_of(node.schema) == ("object",)
    return node.path != "" and is_object and _DESCRIBING.isdisjoint(node.schema)


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


@rule(
    "SCHEMA015 warning: parameter of any type",
    reason="It tells a model nothing, and Gemini CLI has omitted tools with such a parameter.",
    fix="declare a type (in mcpkit: annotate the parameter with something other than Any)",
    source="https://github.com/google/mcp-security/issues/148",
)
@_schemas
def without_type(node: Node) -> bool:
    is_member = node.path != "" and not node.path.endswith("{}")
    return is_member and _SILENT.issuperset(node.schema)


@rule(
    "SCHEMA016 note: const in a schema",
    reason="Gemini's schemas have no const; if a host passes it on, the whole request is rejected.",
    fix="use an enum of one string",
    source="https://github.com/taylorwilsdon/google_workspace_mcp/issues/1099",
)
@_schemas
def constant(node: Node) -> bool:
    return "const" in node.schema


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
    "SCHEMA018 note: alternatives inside the schema",
    reason="Some hosts keep only the first alternative for Gemini, or fail on several. One type or "
    "null, and lists of values, are not reported.",
    fix="accept one type, or use a parameter for each alternative",
    source="https://github.com/danny-avila/LibreChat/pull/13623",
)
@_schemas
def unions(node: Node) -> bool:
    for keyword in ("anyOf", "oneOf"):
        found = filter(is_object, array_or_empty(node.schema.get(keyword)))
        real = [one for one in found if one.get("type") != "null" and "const" not in one]
        if node.path and len(real) > 1:
            return True
    return False


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
