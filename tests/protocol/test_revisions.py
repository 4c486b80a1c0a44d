"""The revisions, compared with the official schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, REVISIONS
from tests.messages import VERSIONS
from tests.protocol.talk import revision
from tests.schemas import definitions

CAPABILITIES = {
    "tools": "tools",
    "resources": "resources",
    "prompts": "prompts",
    "completion": "completions",
    "logging": "logging",
    "tasks": "tasks",
}
EXTENSION = {"2026-07-28": {"tasks/get", "tasks/update", "tasks/cancel"}}
"""Methods of extensions, which are not in the schema of a revision."""


def properties(version: str, definition: str) -> dict[str, Any]:
    found: dict[str, Any] = definitions(version)[definition].get("properties", {})
    return found


def resolved(version: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What a ``$ref`` names."""
    while "$ref" in schema:
        schema = definitions(version)[schema["$ref"].rpartition("/")[2]]
    return schema


def union_methods(version: str, union: str) -> set[str]:
    """The methods of a union in the schema (of one message only, if it is not a union)."""
    schema = definitions(version)[union]
    options = [resolved(version, each) for each in schema.get("anyOf", [schema])]
    return {each["properties"]["method"]["const"] for each in options}


# --- the order ------------------------------------------------------------------------------------


def test_the_revisions_are_these_oldest_first() -> None:
    assert VERSIONS == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert list(BY_VERSION) == VERSIONS
    assert [each.version for each in PER_REQUEST] == ["2026-07-28"]
    assert (*HANDSHAKE, *PER_REQUEST) == REVISIONS


# --- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_messages_are_those_of_the_schema(version: str) -> None:
    methods, notices = set(revision(version).methods), set(revision(version).notices)
    assert methods == union_methods(version, "ClientRequest") | EXTENSION.get(version, set())
    official = union_methods(version, "ClientNotification")
    assert notices == official - {"notifications/tasks/status"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_needs_the_capability_of_its_family(version: str) -> None:
    """TOOL-1, DISC-1."""
    for name, method in revision(version).methods.items():
        assert method.capability == CAPABILITIES.get(name.partition("/")[0]), name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_header_repeats_the_name_or_uri(version: str) -> None:
    """HTTPM-2, TASKX-14."""
    methods = revision(version).methods
    expected = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    expected |= dict.fromkeys(EXTENSION["2026-07-28"], "taskId")
    found = {name: each.mirrored for name, each in methods.items() if each.mirrored is not None}
    assert found == (expected if version == "2026-07-28" else {})


@pytest.mark.parametrize("version", VERSIONS)
def test_cache_hints_belong_to_the_results_whose_schema_requires_them(version: str) -> None:
    """CACHE-1, DISC-4."""
    known = definitions(version)
    for definition in known:
        method = properties(version, definition).get("method", {}).get("const")
        if method in revision(version).methods and definition.endswith("Request"):
            result = known.get(definition.removesuffix("Request") + "Result", {})
            required = "ttlMs" in result.get("required", ())
            assert revision(version).methods[method].cacheable == required, method


def test_a_handler_may_ask_where_the_schema_lets_the_result_ask() -> None:
    """MSG-14."""
    version = "2026-07-28"
    for definition in definitions(version):
        method = properties(version, definition).get("method", {}).get("const")
        if method in revision(version).methods and definition.endswith("Request"):
            response = definition.removesuffix("Request") + "ResultResponse"
            options = str(properties(version, response)["result"])
            asks = revision(version).methods[method].may_request_input
            assert asks == ("InputRequiredResult" in options), method


# --- answers --------------------------------------------------------------------------------------


def content_types(version: str) -> set[str]:
    items = resolved(version, properties(version, "CallToolResult")["content"]["items"])
    blocks = [resolved(version, each) for each in items["anyOf"]]
    return {each["properties"]["type"]["const"] for each in blocks}


def annotation_members(version: str) -> set[str]:
    found = resolved(version, properties(version, "TextContent")["annotations"])
    return set(found["properties"])


def structured_output(version: str) -> str:
    schema = properties(version, "CallToolResult").get("structuredContent")
    return "none" if schema is None else "object" if schema.get("type") == "object" else "any"


def errors_without_id(version: str) -> bool:
    known = definitions(version)
    return "id" not in (known.get("JSONRPCErrorResponse") or known["JSONRPCError"])["required"]


def properties_of(definition: str) -> Callable[[str], set[str]]:
    return lambda version: set(properties(version, definition))


def in_params(definition: str, name: str) -> Callable[[str], bool]:
    def found(version: str) -> bool:
        params = resolved(version, properties(version, definition)["params"])
        return name in params["properties"]

    return found


OFFICIAL: dict[str, Callable[[str], Any]] = {
    "tool_members": properties_of("Tool"),
    "resource_members": properties_of("Resource"),
    "template_members": properties_of("ResourceTemplate"),
    "prompt_members": properties_of("Prompt"),
    "argument_members": properties_of("PromptArgument"),
    "implementation_members": properties_of("Implementation"),
    "server_capabilities": properties_of("ServerCapabilities"),
    "annotation_members": annotation_members,
    "content_types": content_types,
    "structured_output": structured_output,
    "batching": lambda version: "JSONRPCBatchRequest" in definitions(version),
    "errors_without_id": errors_without_id,
    "result_metadata": lambda version: (
        "resultType" in definitions(version)["Result"].get("required", [])
    ),
    "handshake": lambda version: "InitializeRequest" in definitions(version),
    "input_via": lambda version: "request" if "ServerRequest" in definitions(version) else "result",
    "progress_message": in_params("ProgressNotification", "message"),
    "completion_context": in_params("CompleteRequest", "context"),
    # Up to 2025-11-25 a code of its own, then that of invalid params.
    "resource_not_found": lambda version: -32002 if version < "2026-07-28" else -32602,
}
"""What the official schemas say: CONT-1, CONT-2, MSG-8…14, TOOL-11, TOOL-12."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OFFICIAL)
def test_a_revision_agrees_with_its_schema(name: str, version: str) -> None:
    assert getattr(revision(version), name) == OFFICIAL[name](version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("definition", ["TextContent", "TextResourceContents", "EmbeddedResource"])
def test_blocks_have_meta_where_the_schema_has(definition: str, version: str) -> None:
    assert revision(version).block_meta == ("_meta" in properties(version, definition))


def test_members_that_a_revision_lacks_are_omitted() -> None:
    """CONT-2."""
    tool = {"name": "t", "title": "T", "inputSchema": {}, "invented": 1}
    oldest, newest = REVISIONS[0], REVISIONS[-1]
    assert set(oldest.keep(oldest.tool_members, tool)) == {"name", "inputSchema"}
    assert set(newest.keep(newest.tool_members, tool)) == {"name", "title", "inputSchema"}
