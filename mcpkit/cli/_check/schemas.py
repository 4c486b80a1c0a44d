"""JSON Schema that named hosts and model APIs refuse, drop or misread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from mcpkit._utils.json import References, Step, is_array, is_object
from mcpkit.cli._check.listing import Entry, Served
from mcpkit.cli._check.rules import SPEC, Found, rule
from mcpkit.cli._check.schema_walk import Node, is_recursive, listed, path_to, types_of, walk


def _where(
    served: Served, message: str, holds: Callable[[Node], bool], plural: str | None = None
) -> Iterator[Found]:
    """Yield a fault for each tool with schemas for which something holds.

    Args:
        served: The server of the tools.
        message: With ``{}`` for the paths.
        holds: Returns True for a schema to be reported.
        plural: The message for several, if it differs.
    """
    for tool in served.tools:
        found = [node for node in walk(tool.schema) if holds(node)]
        yield from _at(tool, found, message, plural)


def _at(tool: Entry, nodes: Sequence[Node], message: str, plural: str | None) -> Iterator[Found]:
    distinct = list(dict.fromkeys(node.path or "(root)" for node in nodes))
    if distinct:
        text = plural if plural and len(distinct) > 1 else message
        yield Found(tool, text.format(listed(distinct)), ", ".join(distinct))


@rule(
    "SCHEMA001",
    "error",
    "input schema that is not of an object",
    reason="Arguments are always an object, so the schema must be an object with the type "
    '"object" at its root. Clients refuse the whole list over one other.',
    fix='write {"type": "object", "properties": {…}}',
    source=f"{SPEC}/server/tools#tool",
)
def no_object(served: Served) -> Iterator[Found]:
    """A tool has no input schema, or one without the type object."""
    for tool in served.tools:
        found: Any = tool.raw.get("inputSchema")
        if not is_object(found):
            yield Found(tool, "has no input schema")
        elif found.get("type") != "object":
            yield Found(tool, f"the input schema has the type {found.get('type')!r}")


@rule(
    "SCHEMA002",
    "error",
    "anyOf, oneOf, allOf, enum or not at the root",
    reason="The APIs of Anthropic and OpenAI refuse it, and with it the request and every other "
    "tool; Claude Code leaves the tool out without a word.",
    fix="make the alternatives optional parameters, or one parameter, and check them in the tool",
    source="https://github.com/anthropics/claude-code/issues/95504",
)
def combined_at_the_root(served: Served) -> Iterator[Found]:
    """An input schema combines others at its root."""
    for tool in served.tools:
        found = [each for each in ("anyOf", "oneOf", "allOf", "enum", "not") if each in tool.schema]
        if found:
            yield Found(tool, f"the input schema has {listed(found)} at its root")


@rule(
    "SCHEMA003",
    "error",
    "array without items",
    reason="VS Code leaves the tool out; the APIs of OpenAI and Gemini refuse the whole request.",
    fix="say of what the array is (in mcpkit: list[str] instead of list)",
    source="https://github.com/microsoft/vscode/issues/257537",
)
def array_without_items(served: Served) -> Iterator[Found]:
    """A schema of an array says nothing of its items."""
    return _where(
        served,
        "the array {} has no items",
        lambda node: (
            "array" in types_of(node.schema)
            and "items" not in node.schema
            and "prefixItems" not in node.schema
        ),
        "the arrays {} have no items",
    )


@rule(
    "SCHEMA004",
    "warning",
    "tuple",
    reason="Arrays with a schema for each place are refused or lost by VS Code, Gemini and several "
    "bridges to other APIs.",
    fix="use an object with named fields, or a list of one type",
    source="https://github.com/microsoft/vscode/issues/244467",
)
def tuples(served: Served) -> Iterator[Found]:
    """A schema of an array has a schema for each place."""
    return _where(
        served,
        "{} is a tuple",
        lambda node: "prefixItems" in node.schema or is_array(node.schema.get("items")),
        "{} are tuples",
    )


@rule(
    "SCHEMA005",
    "warning",
    "enum of numbers or booleans",
    reason="In Gemini's schemas the values of an enum are strings. It refuses the whole request "
    "over another one, unless the host rewrites it.",
    fix="use strings, or a number with a minimum and a maximum",
    source="https://github.com/google-gemini/gemini-cli/issues/4127",
)
def numbers_in_enum(served: Served) -> Iterator[Found]:
    """An enum has a value that is neither a string nor null."""

    def holds(node: Node) -> bool:
        values = node.schema.get("enum")
        return is_array(values) and any(
            each is not None and not isinstance(each, str) for each in values
        )

    return _where(served, "the enum {} has values that are not strings", holds)


@rule(
    "SCHEMA006",
    "warning",
    "list of types",
    reason='Gemini takes one type for each value and refuses the whole request over ["string", '
    '"null"], unless the host rewrites it.',
    fix="name one type, and leave an optional parameter out of `required` instead of allowing null",
    source="https://github.com/github/copilot-cli/issues/4623",
)
def list_of_types(served: Served) -> Iterator[Found]:
    """A schema's type is a list."""
    return _where(
        served,
        "{} has a list of types",
        lambda node: is_array(node.schema.get("type")),
        "{} have lists of types",
    )


@rule(
    "SCHEMA007",
    "note",
    "references to definitions",
    reason="Some hosts drop $defs on the way to Gemini, and the model is then told nothing of what "
    "they describe. Others resolve them.",
    fix="write short definitions out where they are used (mcpkit does so for those used once)",
    source="https://github.com/NousResearch/hermes-agent/issues/99438",
)
def references(served: Served) -> Iterator[Found]:
    """A schema refers to another, without being recursive."""
    for tool in served.tools:
        found = [node.path for node in walk(tool.schema) if "$ref" in node.schema]
        paths = list(dict.fromkeys(found))
        if paths and not is_recursive(tool.schema):
            verb = "refers" if len(paths) == 1 else "refer"
            yield Found(tool, f"{listed(paths)} {verb} to definitions", ", ".join(paths))


@rule(
    "SCHEMA008",
    "warning",
    "recursive schema",
    reason="Frameworks that write references out have crashed on schemas that contain themselves; "
    "others replace them by an object of which nothing is said.",
    fix="take a flat list with parent ids, or text that the tool parses",
    source="https://github.com/mastra-ai/mastra/issues/15341",
)
def recursive(served: Served) -> Iterator[Found]:
    """A schema contains itself by its references."""
    for tool in served.tools:
        if is_recursive(tool.schema):
            yield Found(tool, "the input schema contains itself")


@rule(
    "SCHEMA009",
    "error",
    "reference that leads nowhere",
    reason="A client does not fetch references from the network, and refuses a schema it cannot "
    "resolve.",
    fix="put the definition into $defs of the same schema",
    source="https://github.com/modelcontextprotocol/python-sdk/pull/2924",
)
def open_reference(served: Served) -> Iterator[Found]:
    """A reference leaves the schema, or points to nothing in it."""
    for tool in served.tools:
        schemas = [node.schema for node in walk(tool.schema)]
        own = {each["$id"] for each in schemas if isinstance(each.get("$id"), str)}
        references = References(tool.schema)
        lost = [
            each
            for each in (schema.get("$ref") for schema in schemas)
            if isinstance(each, str) and each not in own and references.resolve(each) is None
        ]
        if lost:
            yield Found(tool, f"{listed(lost)} cannot be resolved")


@rule(
    "SCHEMA010",
    "note",
    "string format that Gemini does not know",
    reason='Gemini knows the formats "date-time" and "enum" of strings, and has refused requests '
    "over others; hosts drop them by now. No model is bound by them.",
    fix="say in the description how the text is to be written",
    source="https://github.com/google-gemini/gemini-cli/issues/2237",
)
def string_format(served: Served) -> Iterator[Found]:
    """A string has a format other than date-time, and no description."""
    for tool in served.tools:
        nodes = list(walk(tool.schema))
        described = {(node.base, node.way) for node in nodes if node.schema.get("description")}
        found = [
            node
            for node in nodes
            if "string" in types_of(node.schema)
            and node.schema.get("format") not in (None, "date-time", "enum")
            and not any((node.base, way) in described for way in _told_by(node))
        ]
        message = "only a format says how {} is written"
        yield from _at(tool, found, message, "only formats say how {} are written")


_SAME_VALUE: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")


def _told_by(node: Node) -> Iterator[tuple[Step, ...]]:
    """Yield the ways to a schema, and to those around it whose description is of its values too."""
    way = node.way
    yield way
    while way and way[-1].keyword in _SAME_VALUE:
        way = way[:-1]
        yield way


_UNSUPPORTED: Final = (
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "not",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


@rule(
    "SCHEMA011",
    "note",
    "schema keywords that model APIs do not enforce",
    reason="Gemini refuses conditions, OpenAI's strict mode refuses all of them, and hosts drop "
    "them on the way. A model that breaks such a rule learns of it from the tool's error only.",
    fix="say it in a description too, and check it in the tool",
    source="https://github.com/zendev-sh/goai/pull/39",
)
def unsupported_keywords(served: Served) -> Iterator[Found]:
    """A schema has a condition, or a rule about names of properties."""
    for tool in served.tools:
        used = [
            keyword
            for node in walk(tool.schema)
            for keyword in _UNSUPPORTED
            if keyword in node.schema and (node.path or keyword != "not")
        ]
        if used:
            yield Found(tool, f"the input schema uses {listed(list(dict.fromkeys(used)))}")


@rule(
    "SCHEMA012",
    "note",
    "object without any properties",
    reason="Bridges to OpenAI's strict mode have taken it for an object that must be empty, so "
    "that the model could only send {}.",
    fix="name the properties, or write additionalProperties: true",
    source="https://github.com/openai/openai-agents-python/pull/4277",
)
def free_form(served: Served) -> Iterator[Found]:
    """An object inside the schema has neither properties nor additionalProperties."""
    said = {
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "enum",
        "oneOf",
        "patternProperties",
        "properties",
    }
    return _where(
        served,
        "nothing says what is in the object {}",
        lambda node: (
            node.path != "" and types_of(node.schema) == ("object",) and not said & set(node.schema)
        ),
        "nothing says what is in the objects {}",
    )


@rule(
    "SCHEMA013",
    "error",
    "parameter name that Anthropic's API refuses",
    reason="Names of parameters must be 1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'. Over any "
    "other, such as filter[name], every request fails as long as the server is connected.",
    fix="rename the parameter",
    source="https://github.com/decocms/studio/pull/6874",
)
def bad_property_name(served: Served) -> Iterator[Found]:
    """A parameter's name has other characters, or too many."""
    for tool in served.tools:
        wrong = [
            each for each in tool.properties if not re.fullmatch(r"[A-Za-z0-9_.\-]{1,64}", each)
        ]
        if wrong:
            yield Found(tool, f"the parameter name {listed(wrong)} is refused", ", ".join(wrong))


@rule(
    "SCHEMA014",
    "note",
    "deeply nested or very large schema",
    reason="Structured outputs on Azure end at five levels and 100 properties, and models put "
    "values into the wrong place long before that.",
    fix="take fewer and flatter parameters",
    source="https://github.com/MicrosoftDocs/azure-ai-docs/blob/main/articles/ai-services/openai/"
    "how-to/structured-outputs.md",
)
def deep(served: Served) -> Iterator[Found]:
    """A schema has more than five levels or 100 properties."""
    for tool in served.tools:
        nodes = list(walk(tool.schema))
        depth = max(node.depth for node in nodes)
        count = sum(node.key is not None for node in nodes)
        if depth > 5:
            yield Found(tool, f"the input schema has {depth} levels")
        elif count > 100:
            yield Found(tool, f"the input schema has {count} properties")


def _says_nothing(node: Node) -> bool:
    silent = {"description", "title", "default", "examples", "deprecated", "readOnly", "$comment"}
    return node.path != "" and not set(node.schema) - silent


@rule(
    "SCHEMA015",
    "warning",
    "parameter of any type",
    reason="A schema without a type tells a model nothing, and Gemini CLI has left out tools with "
    "one.",
    fix="name a type (in mcpkit: annotate the parameter with something other than Any)",
    source="https://github.com/google/mcp-security/issues/148",
)
def without_type(served: Served) -> Iterator[Found]:
    """A property's or item's schema names no type, values or alternatives."""
    return _where(
        served,
        "{} may be anything",
        lambda node: _says_nothing(node) and not node.path.endswith("{}"),
    )


@rule(
    "SCHEMA016",
    "note",
    "const",
    reason="Gemini's schemas have no const; hosts that pass it on get a refusal of the whole "
    "request.",
    fix="use an enum of one string",
    source="https://github.com/taylorwilsdon/google_workspace_mcp/issues/1099",
)
def constant(served: Served) -> Iterator[Found]:
    """A schema has const."""
    return _where(served, "{} uses const", lambda node: "const" in node.schema, "{} use const")


@rule(
    "SCHEMA017",
    "error",
    "required parameter that does not exist",
    reason="Nothing describes what must be given; Gemini refuses the whole request.",
    fix="describe it in `properties`, or take it out of `required`",
    source="https://github.com/anomalyco/opencode/issues/3140",
)
def required_but_missing(served: Served) -> Iterator[Found]:
    """`required` has a name that `properties` has not."""
    combining = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties", "additionalProperties")
    for tool in served.tools:
        lost: list[str] = []
        for node in walk(tool.schema):
            names, known = node.schema.get("required"), node.schema.get("properties", {})
            plain = "object" in types_of(node.schema) and is_object(known)
            if not plain or any(node.schema.get(each) for each in combining) or not is_array(names):
                continue
            lost += [each for each in names if isinstance(each, str) and each not in known]
        if lost:
            verb = "is" if len(lost) == 1 else "are"
            yield Found(tool, f"{listed(lost)} {verb} required but not described", ", ".join(lost))


@rule(
    "SCHEMA018",
    "note",
    "alternatives inside the schema",
    reason="Some hosts keep only the first of several alternatives for Gemini, or fail on them. "
    "Alternatives with null alone are not reported, nor are lists of values.",
    fix="take one type, or a parameter for each alternative",
    source="https://github.com/danny-avila/LibreChat/pull/13623",
)
def unions(served: Served) -> Iterator[Found]:
    """A schema below the root has several alternatives that are not null."""

    def holds(node: Node) -> bool:
        for keyword in ("anyOf", "oneOf"):
            found: Any = node.schema.get(keyword)
            each = [one for one in found if is_object(one)] if is_array(found) else []
            real = [one for one in each if one.get("type") != "null" and "const" not in one]
            if node.path and len(real) > 1:
                return True
        return False

    return _where(served, "{} has alternatives", holds, "{} have alternatives")


@rule(
    "SCHEMA019",
    "warning",
    "true or false as a schema",
    reason="It is allowed, but Gemini refuses the whole request over it, unless the host rewrites "
    "it.",
    fix="write {} instead of true, or better a type",
    source="https://github.com/github/copilot-cli/issues/4623",
)
def boolean_schema(served: Served) -> Iterator[Found]:
    """A property or the items of an array have true or false for a schema."""
    for tool in served.tools:
        paths = list(_booleans(tool))
        if paths:
            verb = "has" if len(paths) == 1 else "have"
            yield Found(tool, f"{listed(paths)} {verb} true or false for a schema")


def _booleans(tool: Entry) -> Iterator[str]:
    for node in walk(tool.schema):
        inner = node.schema.get("properties")
        for name, each in inner.items() if is_object(inner) else ():
            if isinstance(each, bool):
                yield path_to(node.path, name)
        if isinstance(node.schema.get("items"), bool) and "prefixItems" not in node.schema:
            yield f"{node.path}[]"
