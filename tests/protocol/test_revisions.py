"""The files of answers, compared with the table of methods and with the official schemas."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, REVISIONS
from tests.messages import (
    VERSIONS,
)
from tests.protocol.talk import (
    revision,
)
from tests.schemas import definitions

# A row for each message from a client, a mark for each revision that has it, oldest first.
METHODS = {
    "initialize": "✔✔✔✔–",
    "server/discover": "––––✔",
    "ping": "✔✔✔✔–",
    "tools/list": "✔✔✔✔✔",
    "tools/call": "✔✔✔✔✔",
    "resources/list": "✔✔✔✔✔",
    "resources/templates/list": "✔✔✔✔✔",
    "resources/read": "✔✔✔✔✔",
    "resources/subscribe": "✔✔✔✔–",
    "resources/unsubscribe": "✔✔✔✔–",
    "prompts/list": "✔✔✔✔✔",
    "prompts/get": "✔✔✔✔✔",
    "completion/complete": "✔✔✔✔✔",
    "logging/setLevel": "✔✔✔✔–",
    "subscriptions/listen": "––––✔",
    "tasks/get": "–––✔✔",
    "tasks/result": "–––✔–",
    "tasks/list": "–––✔–",
    "tasks/cancel": "–––✔✔",
    "tasks/update": "––––✔",
}
NOTIFICATIONS = {
    "notifications/initialized": "✔✔✔✔–",
    "notifications/cancelled": "✔✔✔✔✔",
    "notifications/progress": "✔✔✔✔–",
    "notifications/roots/list_changed": "✔✔✔✔–",
}
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

DESCRIPTIONS = {
    "tool_members": "Tool",
    "resource_members": "Resource",
    "template_members": "ResourceTemplate",
    "prompt_members": "Prompt",
    "argument_members": "PromptArgument",
    "implementation_members": "Implementation",
    "server_capabilities": "ServerCapabilities",
}


def column(table: dict[str, str], version: str) -> set[str]:
    place = VERSIONS.index(version)
    return {name for name, marks in table.items() if marks[place] == "✔"}


def properties(version: str, definition: str) -> dict[str, Any]:
    found: dict[str, Any] = definitions(version)[definition].get("properties", {})
    return found


def resolved(version: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What a ``$ref`` names."""
    while "$ref" in schema:
        schema = definitions(version)[schema["$ref"].rpartition("/")[2]]
    return schema


def union_methods(version: str, union: str) -> set[str]:
    """The methods of a union in the schema (of one message only, if it is no union)."""
    schema = definitions(version)[union]
    options = [resolved(version, each) for each in schema.get("anyOf", [schema])]
    return {each["properties"]["method"]["const"] for each in options}


# --- the order ------------------------------------------------------------------------------------


def test_the_revisions_are_these_oldest_first() -> None:
    assert VERSIONS == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def test_a_version_names_its_revision() -> None:
    assert {version: each.version for version, each in BY_VERSION.items()} == {
        version: version for version in VERSIONS
    }


def test_only_the_newest_announces_itself_in_each_request() -> None:
    assert [each.version for each in PER_REQUEST] == ["2026-07-28"]
    assert (*HANDSHAKE, *PER_REQUEST) == REVISIONS


# --- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_methods_are_those_of_the_table(version: str) -> None:
    assert set(revision(version).methods) == column(METHODS, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_notifications_are_those_of_the_table(version: str) -> None:
    assert set(revision(version).notices) == column(NOTIFICATIONS, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_methods_are_those_of_the_schema(version: str) -> None:
    official = union_methods(version, "ClientRequest") | EXTENSION.get(version, set())
    assert set(revision(version).methods) == official


@pytest.mark.parametrize("version", VERSIONS)
def test_the_notifications_are_those_of_the_schema(version: str) -> None:
    official = union_methods(version, "ClientNotification") - {"notifications/tasks/status"}
    assert set(revision(version).notices) == official


@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_needs_the_capability_of_its_family(version: str) -> None:
    """TOOL-1, DISC-1."""
    for name, method in revision(version).methods.items():
        assert method.capability == CAPABILITIES.get(name.partition("/")[0]), name


@pytest.mark.parametrize("version", VERSIONS)
def test_a_header_repeats_what_is_called_got_or_read(version: str) -> None:
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
            asks = revision(version).methods[method].asks
            assert asks == ("InputRequiredResult" in options), method


# --- descriptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("members", "definition"), DESCRIPTIONS.items(), ids=DESCRIPTIONS)
def test_members_are_those_of_the_schema(members: str, definition: str, version: str) -> None:
    """CONT-2."""
    official = set(properties(version, definition))
    assert getattr(revision(version), members) == official


@pytest.mark.parametrize("version", VERSIONS)
def test_annotation_members_are_those_of_the_schema(version: str) -> None:
    """CONT-2."""
    annotations = resolved(version, properties(version, "TextContent")["annotations"])
    assert revision(version).annotation_members == set(annotations["properties"])


@pytest.mark.parametrize("version", VERSIONS)
def test_content_types_are_those_of_the_schema(version: str) -> None:
    """CONT-1."""
    items = resolved(version, properties(version, "CallToolResult")["content"]["items"])
    blocks = [resolved(version, each) for each in items["anyOf"]]
    official = {each["properties"]["type"]["const"] for each in blocks}
    assert revision(version).content_types == official


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("definition", ["TextContent", "TextResourceContents", "EmbeddedResource"])
def test_blocks_have_meta_where_the_schema_has(definition: str, version: str) -> None:
    assert revision(version).block_meta == ("_meta" in properties(version, definition))


@pytest.mark.parametrize("version", VERSIONS)
def test_structured_output_is_what_the_schema_allows(version: str) -> None:
    """TOOL-11, TOOL-12."""
    schema = properties(version, "CallToolResult").get("structuredContent")
    official = "none" if schema is None else "object" if schema.get("type") == "object" else "any"
    assert revision(version).structured_output == official


# --- single questions -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_exist_where_the_schema_has_them(version: str) -> None:
    """MSG-9, MSG-11."""
    assert revision(version).batching == ("JSONRPCBatchRequest" in definitions(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_may_lack_its_id_where_the_schema_does_not_require_it(version: str) -> None:
    """MSG-8."""
    known = definitions(version)
    error = known.get("JSONRPCErrorResponse") or known["JSONRPCError"]
    assert revision(version).errors_without_id == ("id" not in error["required"])


@pytest.mark.parametrize("version", VERSIONS)
def test_results_are_stamped_where_the_schema_requires_it(version: str) -> None:
    """MSG-14."""
    required = definitions(version)["Result"].get("required", [])
    assert revision(version).stamped == ("resultType" in required)


@pytest.mark.parametrize("version", VERSIONS)
def test_there_is_a_handshake_where_the_schema_has_one(version: str) -> None:
    assert revision(version).handshake == ("InitializeRequest" in definitions(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_client_is_asked_by_request_where_the_schema_has_such_requests(version: str) -> None:
    """MSG-13."""
    official = "request" if "ServerRequest" in definitions(version) else "result"
    assert revision(version).client_asks == official


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_has_a_message_where_the_schema_has_it(version: str) -> None:
    params = resolved(version, properties(version, "ProgressNotification")["params"])
    assert revision(version).progress_message == ("message" in params["properties"])


@pytest.mark.parametrize("version", VERSIONS)
def test_completion_has_a_context_where_the_schema_has_it(version: str) -> None:
    params = resolved(version, properties(version, "CompleteRequest")["params"])
    assert revision(version).completion_context == ("context" in params["properties"])


@pytest.mark.parametrize("version", VERSIONS)
def test_completion_is_a_capability_where_the_schema_has_it(version: str) -> None:
    official = "completions" in properties(version, "ServerCapabilities")
    assert revision(version).completion_flag == official


@pytest.mark.parametrize("version", VERSIONS)
def test_the_code_for_a_missing_resource_changed_with_the_handshake(version: str) -> None:
    """-32002 up to 2025-11-25, -32602 after."""
    expected = -32002 if revision(version).handshake else -32602
    assert revision(version).resource_not_found == expected


def test_what_a_revision_lacks_is_left_out() -> None:
    """CONT-2."""
    tool = {"name": "t", "title": "T", "inputSchema": {}, "invented": 1}
    oldest, newest = REVISIONS[0], REVISIONS[-1]
    assert set(oldest.keep(oldest.tool_members, tool)) == {"name", "inputSchema"}
    assert set(newest.keep(newest.tool_members, tool)) == {"name", "title", "inputSchema"}
