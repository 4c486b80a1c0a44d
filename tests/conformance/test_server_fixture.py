"""What the conformance suite compares, held against its server in memory.

The suite itself needs Node and speaks HTTP; these are the same facts without either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pytest

from mcpkit import MissingClientCapability, ProtocolError
from mcpkit.testing import TestClient
from tests.conformance.server import PERSON_SCHEMA, app

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"

ALICE: Final = {"action": "accept", "content": {"name": "Alice"}}
SAID: Final = {
    "role": "assistant",
    "content": {"type": "text", "text": "Paris"},
    "model": "test-model",
    "stopReason": "endTurn",
}
ROOTS: Final = {"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}

Result = dict[str, Any]


def connected(revision: str, **options: Any) -> AbstractContextManager[TestClient]:
    return TestClient(app, revision=revision, **options)


@pytest.fixture(params=[OLD, NEW], scope="module")
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """On both revisions."""
    with connected(request.param) as client:
        yield client


@pytest.fixture(scope="module")
def modern() -> Iterator[TestClient]:
    """A client of 2026-07-28 that declares what the suite declares, and answers by hand."""
    declared = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
    with connected(NEW, capabilities=declared) as client:
        yield client


def call(client: TestClient, tool: str, **params: Any) -> Result:
    """One round, as it is on the wire."""
    return dict(client.request("tools/call", {"name": tool, **params}))


# --- lists ----------------------------------------------------------------------------------------


def test_everything_has_a_name_and_a_description(client: TestClient) -> None:
    listed: list[Any] = [*client.list_tools(), *client.list_prompts(), *client.list_resources()]
    listed += client.list_resource_templates()
    assert [each.name for each in listed if not (each.name and each.description)] == []


def test_tool_names_are_plain(client: TestClient) -> None:
    names = [tool.name for tool in client.list_tools()]
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name)] == []


def test_the_first_tool_needs_no_arguments(client: TestClient) -> None:
    first = client.list_tools()[0].name
    result = call(client, first)
    assert result["content"][0]["text"] == "This is a simple text response for testing."


def test_the_first_resource_is_readable(client: TestClient) -> None:
    assert client.read_resource(client.list_resources()[0].uri)


def test_a_schema_of_ones_own_is_listed_as_it_is(client: TestClient) -> None:
    (tool,) = (each for each in client.list_tools() if each.name == "json_schema_2020_12_tool")
    assert tool.input_schema == PERSON_SCHEMA


def test_an_argument_that_belongs_into_a_header_says_so(client: TestClient) -> None:
    (tool,) = (each for each in client.list_tools() if each.name == "test_x_mcp_header")
    assert tool.input_schema["properties"]["region"]["x-mcp-header"] == "Region"


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "types"),
    [
        ("test_image_content", [("image", "image/png")]),
        ("test_audio_content", [("audio", "audio/wav")]),
        ("test_embedded_resource", [("resource", "text/plain")]),
        (
            "test_multiple_content_types",
            [("text", None), ("image", "image/png"), ("resource", "application/json")],
        ),
    ],
)
def test_content(client: TestClient, tool: str, types: list[tuple[str, str | None]]) -> None:
    content = call(client, tool)["content"]
    found = [(each["type"], each.get("resource", each).get("mimeType")) for each in content]
    assert found == types


def test_a_failure_is_a_result(client: TestClient) -> None:
    result = call(client, "test_error_handling")
    assert result["isError"] is True
    assert "This tool intentionally returns an error for testing" in result["content"][0]["text"]


def test_progress_is_reported_three_times(client: TestClient) -> None:
    seen: list[tuple[float, float | None]] = []
    client.call_tool(
        "test_tool_with_progress", on_progress=lambda now: seen.append((now.progress, now.total))
    )
    assert seen == [(0, 100), (50, 100), (100, 100)]


@pytest.mark.parametrize(("revision", "messages"), [(OLD, 3), (NEW, 0)])
def test_logs_arrive_where_they_are_wanted(revision: str, messages: int) -> None:
    """On 2026-07-28 only with a log level in the request."""
    seen: list[Any] = []
    with connected(revision, on_log=lambda level, data, logger: seen.append(data)) as client:
        if revision == OLD:
            client.set_log_level("debug")
        client.call_tool("test_tool_with_logging")
    assert len(seen) == messages


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_a_change_is_announced_and_nothing_has_changed(kind: str) -> None:
    seen: list[str] = []
    with connected(OLD, on_notification=lambda method, _: seen.append(method)) as client:
        before = client.request(f"{kind}s/list")
        client.call_tool(f"test_trigger_{kind}_change")
        assert client.request(f"{kind}s/list") == before
    assert seen == [f"notifications/{kind}s/list_changed"]


def test_letting_go_of_the_connection_does_no_harm_in_memory(client: TestClient) -> None:
    assert client.call_tool("test_reconnection").text == "Reconnection test completed"


def test_an_argument_is_not_changed_by_its_header(client: TestClient) -> None:
    assert client.call_tool("test_x_mcp_header", {"region": "eu"}).text == "region=eu"


# --- resources and prompts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "mime_type", "member"),
    [
        ("test://static-text", "text/plain", "text"),
        ("test://static-binary", "image/png", "blob"),
        ("test://watched-resource", "text/plain", "text"),
        ("test://template/123/data", "application/json", "text"),
    ],
)
def test_resources(client: TestClient, uri: str, mime_type: str, member: str) -> None:
    (contents,) = client.request("resources/read", {"uri": uri})["contents"]
    assert (contents["uri"], contents["mimeType"]) == (uri, mime_type)
    assert contents[member]


def test_a_template_fills_in_its_variable(client: TestClient) -> None:
    (contents,) = client.request("resources/read", {"uri": "test://template/123/data"})["contents"]
    assert contents["text"] == '{"id":"123","templateTest":true,"data":"Data for ID: 123"}'


def test_an_unknown_resource_is_an_error_with_its_uri() -> None:
    uri = "test://nonexistent-resource-for-conformance-testing"
    with connected(NEW) as client, pytest.raises(ProtocolError) as refused:
        client.read_resource(uri)
    assert (refused.value.code, refused.value.data["uri"]) == (-32602, uri)


@pytest.mark.parametrize(
    ("prompt", "arguments", "types", "part"),
    [
        ("test_simple_prompt", {}, ["text"], "This is a simple prompt for testing."),
        (
            "test_prompt_with_arguments",
            {"arg1": "one", "arg2": "two"},
            ["text"],
            "Prompt with arguments: arg1='one', arg2='two'",
        ),
        (
            "test_prompt_with_embedded_resource",
            {"resourceUri": "test://example"},
            ["resource", "text"],
            "test://example",
        ),
        ("test_prompt_with_image", {}, ["image", "text"], "Please analyze the image above."),
    ],
)
def test_prompts(
    client: TestClient, prompt: str, arguments: dict[str, str], types: list[str], part: str
) -> None:
    params = {"name": prompt, "arguments": arguments}
    messages = client.request("prompts/get", params)["messages"]
    assert [each["content"]["type"] for each in messages] == types
    assert part in str(messages)


def test_an_argument_is_completed(client: TestClient) -> None:
    assert client.complete("arg1", "test", prompt="test_prompt_with_arguments").values


# --- asking, while the handler waits --------------------------------------------------------------


def asked(tool: str, answer: Result, arguments: Result | None = None) -> tuple[Result, str]:
    """What a tool asks on 2025-11-25, and what it says about the answer."""
    seen: list[Any] = []

    def answering(params: Any) -> Result:
        seen.append(params)
        return answer

    with connected(OLD, elicitation=answering, sampling=answering) as client:
        text = client.call_tool(tool, arguments).text
    (params,) = seen
    return params, text


def fields(requested: Result) -> dict[str, Result]:
    """The fields of a form, without what only people read."""
    properties = requested["requestedSchema"]["properties"]
    return {
        name: {key: value for key, value in field.items() if key not in ("title", "description")}
        for name, field in properties.items()
    }


def test_the_model_is_asked() -> None:
    params, text = asked("test_sampling", SAID, {"prompt": "Say it"})
    assert params["messages"] == [{"role": "user", "content": {"type": "text", "text": "Say it"}}]
    assert params["maxTokens"] == 100
    assert text == "LLM response: Paris"


def test_the_user_is_asked() -> None:
    content = {"username": "testuser", "email": "test@example.com"}
    answer = {"action": "accept", "content": content}
    params, text = asked("test_elicitation", answer, {"message": "Who?"})
    assert params["message"] == "Who?"
    assert fields(params) == {"username": {"type": "string"}, "email": {"type": "string"}}
    assert params["requestedSchema"]["required"] == ["username", "email"]
    assert text == f"User response: action=accept, content={content}"


def test_a_form_that_is_filled_in_already() -> None:
    """SEP-1034."""
    params, _ = asked("test_elicitation_sep1034_defaults", {"action": "accept", "content": {}})
    assert fields(params) == {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }


def test_every_kind_of_choice() -> None:
    """SEP-1330."""
    content: Result = {
        "untitledSingle": "option1",
        "titledSingle": "value1",
        "legacyEnum": "opt1",
        "untitledMulti": ["option1", "option2"],
        "titledMulti": ["value1", "value2"],
    }
    params, text = asked("test_elicitation_sep1330_enums", {"action": "accept", "content": content})
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]
    assert fields(params) == {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    assert text == f"Elicitation completed: action=accept, content={content}"


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "dismissed")])
def test_a_user_who_does_not_answer(action: str, word: str) -> None:
    _, text = asked("test_elicitation", {"action": action}, {"message": "Who?"})
    assert text == f"User response: action={word}"


# --- asking, in rounds ----------------------------------------------------------------------------


def accept(**content: Any) -> Result:
    return {"action": "accept", "content": content}


ASKING: Final[list[tuple[str, list[Result], str]]] = [
    ("elicitation", [{"user_name": ALICE}], "Hello, Alice!"),
    ("sampling", [{"capital_question": SAID}], "Paris"),
    ("list_roots", [{"client_roots": ROOTS}], "file:///test/root"),
    ("request_state", [{"confirm": accept(ok=True)}], "state-ok"),
    ("tampered_state", [{"confirm": accept(ok=True)}], "action=accept"),
    (
        "multiple_inputs",
        [{"user_name": ALICE, "greeting": SAID, "client_roots": ROOTS}],
        "Alice",
    ),
    ("multi_round", [{"step1": ALICE}, {"step2": accept(color="blue")}], "blue"),
    ("capabilities", [{"sample": SAID, "ask": accept(value="hello")}], "2 answers"),
]
"""Tool → the answers of each round, by the keys that the suite expects → part of the result."""

ANSWERED_WITH: Final = {
    "elicitation/create": "action",
    "sampling/createMessage": "model",
    "roots/list": "roots",
}
"""The member that tells the answers of the methods apart."""


@pytest.mark.parametrize(("tool", "rounds", "said"), ASKING, ids=[each[0] for each in ASKING])
def test_rounds(modern: TestClient, tool: str, rounds: list[Result], said: str) -> None:
    """MRTR-2, MRTR-3: each round asks for these keys, with a state of its own."""
    name = f"test_input_required_result_{tool}"
    found = call(modern, name)
    states: list[str] = []
    for answers in rounds:
        assert found["resultType"] == "input_required"
        assert found["inputRequests"].keys() == answers.keys()
        for key, request in found["inputRequests"].items():
            assert ANSWERED_WITH[request["method"]] in answers[key]
        states.append(found["requestState"])
        found = call(modern, name, inputResponses=answers, requestState=states[-1])
    assert found["resultType"] == "complete"
    assert said in found["content"][0]["text"]
    assert len(set(states)) == len(rounds)


def test_a_prompt_asks_as_well(modern: TestClient) -> None:
    params: Result = {"name": "test_input_required_result_prompt"}
    first = modern.request("prompts/get", params)
    assert first["inputRequests"].keys() == {"user_context"}
    params["inputResponses"] = {"user_context": accept(context="spring")}
    params["requestState"] = first["requestState"]
    messages = modern.request("prompts/get", params)["messages"]
    assert "spring" in messages[0]["content"]["text"]


@pytest.mark.parametrize(
    ("responses", "outcome"),
    [
        ({"user_name": ALICE}, "complete"),
        ({"user_name": ALICE, "unknown_extra_key": {}, "another_unexpected": 1}, "complete"),
        ({"wrong_key": ALICE}, "input_required"),
        ({"user_name": 12345}, "input_required"),
        (None, "input_required"),
    ],
    ids=["right", "more than asked", "something else", "malformed", "null"],
)
def test_answers_without_a_state(modern: TestClient, responses: Any, outcome: str) -> None:
    """MRTR-10, MRTR-11, MRTR-13."""
    name = "test_input_required_result_elicitation"
    assert call(modern, name, inputResponses=responses)["resultType"] == outcome


def test_a_state_that_was_changed_is_refused(modern: TestClient) -> None:
    """MRTR-7."""
    name = "test_input_required_result_tampered_state"
    state = call(modern, name)["requestState"] + "-TAMPERED"
    with pytest.raises(ProtocolError) as refused:
        call(modern, name, inputResponses={"confirm": accept(ok=True)}, requestState=state)
    assert refused.value.code == -32602


@pytest.mark.parametrize(("capability", "key"), [("sampling", "sample"), ("elicitation", "ask")])
def test_only_what_the_client_has_is_asked(capability: str, key: str) -> None:
    """MRTR-4."""
    with connected(NEW, capabilities={capability: {}}) as client:
        asked = call(client, "test_input_required_result_capabilities")["inputRequests"]
    assert asked.keys() == {key}


def test_what_the_client_lacks_is_named() -> None:
    """MRTR-4."""
    with connected(NEW) as client, pytest.raises(MissingClientCapability) as refused:
        call(client, "test_missing_capability")
    assert refused.value.data["requiredCapabilities"] == {"sampling": {}}


def test_progress_comes_before_the_question() -> None:
    seen: list[Any] = []
    with connected(NEW, elicitation=lambda params: {"action": "accept"}) as client:
        text = client.call_tool("test_streaming_elicitation", on_progress=seen.append).text
    assert seen
    assert text.startswith("action=accept")


def test_a_log_that_nobody_wants_is_not_sent() -> None:
    seen: list[Any] = []
    with connected(NEW, on_log=lambda *message: seen.append(message)) as client:
        assert client.call_tool("test_logging_tool").text == "Logged"
    assert seen == []
