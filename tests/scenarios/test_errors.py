"""What goes wrong, and who is told what (PROTOCOL §2.3, §4.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit.errors import InvalidParams, MethodNotFound, ProtocolError
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import HANDSHAKE, MODERN, MODERN_META, TappedClient

pytestmark = pytest.mark.anyio


def everything_sent(client: TappedClient) -> str:
    return json.dumps(client.received)


# --- tools ----------------------------------------------------------------------------------------


async def test_a_failure_is_a_result_with_its_message(client: TappedClient) -> None:
    """TOOL-8: also if it is alone in a task group."""
    result = await client.call_tool("complain", {"message": "no such town"})
    assert (result.is_error, result.text) == (True, "no such town")
    result = await client.call_tool("crash_in_group")
    assert (result.is_error, result.text) == (True, "a task failed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "a: required"),
        ({"a": 1}, "b: required"),
        ({"a": "one", "b": 2}, "a: expected an integer"),
        ({"a": 1, "b": 2, "c": 3}, "c: "),
        ({"a": None, "b": 2}, "a: expected an integer"),
    ],
    ids=["none", "too few", "wrong type", "too many", "null"],
)
async def test_unfit_arguments_are_a_result_that_names_them(
    client: TappedClient, arguments: dict[str, Any], said: str
) -> None:
    """TOOL-7, TOOL-16."""
    result = await client.call_tool("add", arguments)
    assert result.is_error
    assert said in result.text


@pytest.mark.parametrize(
    "params",
    [
        {"name": "subtract"},
        {},
        {"name": 7},
        {"name": "add", "arguments": [1, 2]},
        {"name": "add", "arguments": "a"},
    ],
    ids=["unknown", "no name", "name", "array", "string"],
)
async def test_an_unknown_tool_or_malformed_call_is_a_protocol_error(
    client: TappedClient, params: dict[str, Any]
) -> None:
    """TOOL-6, TOOL-8."""
    with pytest.raises(InvalidParams):
        await client.request("tools/call", params)


async def test_an_exception_is_a_result_that_hides_it(client: TappedClient) -> None:
    """ERR-6, TOOL-8."""
    result = await client.call_tool("crash")
    assert result.is_error
    assert "reference" in result.text
    sent = everything_sent(client)
    assert SECRET not in sent
    assert "RuntimeError" not in sent
    assert "Traceback" not in sent


async def test_an_exception_is_shown_if_its_author_says_so(client: TappedClient) -> None:
    """TOOL-8, ERR-3."""
    result = await client.call_tool("confess")
    assert (result.is_error, result.text) == (True, "no such town")
    result = await client.call_tool("confess", {"hidden": True})
    assert result.text.startswith("The tool failed (reference ")
    assert SECRET not in everything_sent(client)
    with pytest.raises(ProtocolError, match="no such note"):
        await client.read_resource("note://open")
    with pytest.raises(ProtocolError, match="no such words"):
        await client.get_prompt("open_prompt")


async def test_a_number_that_json_does_not_have_is_named(client: TappedClient) -> None:
    """TOOL-9."""
    result = await client.call_tool("infinite")
    assert result.is_error
    assert "result.rows[0].celsius is Infinity" in result.text
    with pytest.raises(ProtocolError, match=r"result\.celsius is NaN"):
        await client.read_resource("note://infinite")


async def test_what_nobody_can_be_sent_is_said_so(client: TappedClient) -> None:
    result = await client.call_tool("no_data")
    assert result.is_error
    assert "result[0] is an object, which has no public attributes" in result.text
    assert "output schema" not in result.text


async def test_a_value_that_does_not_fit_the_annotation_is_not_sent(client: TappedClient) -> None:
    """TOOL-9."""
    result = await client.call_tool("mismatch")
    assert result.is_error
    assert "output schema" in result.text
    assert "not a number" not in everything_sent(client)
    assert "structuredContent" not in result.raw


async def test_a_handler_may_answer_with_a_protocol_error(client: TappedClient) -> None:
    """ERR-3."""
    with pytest.raises(ProtocolError) as caught:
        await client.call_tool("refuse")
    assert (caught.value.code, caught.value.data) == (4004, {"customer": 7})


@pytest.mark.parametrize("name", ["leave", "give_up"])
async def test_a_handler_that_would_leave_is_answered_for(client: TappedClient, name: str) -> None:
    """sys.exit(), and a CancelledError that nobody asked for, end the call and nothing else."""
    with pytest.raises(ProtocolError) as caught:
        await client.call_tool(name)
    assert caught.value.code == -32603
    assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


# --- methods and parameters -----------------------------------------------------------------------


async def test_an_unknown_method(client: TappedClient) -> None:
    with pytest.raises(MethodNotFound):
        await client.request("tools/invent")


@pytest.mark.revisions(MODERN)
@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"],
)
async def test_a_removed_method_is_unknown(client: TappedClient, method: str) -> None:
    """ERA-1."""
    with pytest.raises(MethodNotFound):
        await client.request(method, {"uri": "note://hello", "level": "info"})


@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
async def test_a_method_of_the_other_era_wants_its_meta(client: TappedClient, method: str) -> None:
    """META-1."""
    client.spoken = MODERN
    try:
        with pytest.raises(InvalidParams, match="_meta"):
            await client.request(method)
    finally:
        client.spoken = client.revision


@pytest.mark.parametrize("params", [[], "text", 7])
async def test_params_must_be_an_object(client: TappedClient, params: object) -> None:
    message = {"jsonrpc": "2.0", "id": f"p-{params}", "method": "tools/list", "params": params}
    answer = await client.exchange(message)
    assert answer["error"]["code"] in (-32600, -32602)


@pytest.mark.parametrize("id", ["text", "", 0, -7, 12345678901234])
async def test_an_error_carries_the_id_with_its_type(client: TappedClient, id: str | int) -> None:
    """MSG-2, MSG-6, MSG-7, ERR-5."""
    answer = await client.exchange({"jsonrpc": "2.0", "id": id, "method": "tools/invent"})
    assert answer["id"] == id
    assert type(answer["id"]) is type(id)
    assert isinstance(answer["error"]["code"], int)
    assert "result" not in answer


@pytest.mark.revisions(MODERN)
async def test_an_id_may_be_used_again_once_it_is_answered(client: TappedClient) -> None:
    """MSG-4."""
    params = {"_meta": MODERN_META}
    for _ in range(2):
        client.forget()
        message = {"jsonrpc": "2.0", "id": "same", "method": "tools/list", "params": params}
        assert "tools" in (await client.exchange(message))["result"]


@pytest.mark.not_over("http")  # each is answered with a status there
async def test_notifications_are_never_answered(client: TappedClient) -> None:
    """MSG-5."""
    await client.send({"jsonrpc": "2.0", "method": "notifications/invented"})
    await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7})
    await client.send({"jsonrpc": "2.0", "method": "tools/list"})
    await client.settle()
    assert len(client.received) == 2


@pytest.mark.revisions(MODERN)
@pytest.mark.not_over("http")  # headers would have to agree
@pytest.mark.parametrize("version", ["2099-01-01", "", "draft"])
async def test_an_unsupported_version(client: TappedClient, version: str) -> None:
    """VER-1, ERR-1, ERR-4."""
    meta = {**MODERN_META, "io.modelcontextprotocol/protocolVersion": version}
    message = {"jsonrpc": "2.0", "id": f"v{version}", "method": "tools/list"}
    answer = await client.exchange({**message, "params": {"_meta": meta}})
    error = answer["error"]
    assert (error["code"], error["data"]["requested"]) == (-32022, version)
    discovered = await client.request("server/discover")
    assert set(error["data"]["supported"]) <= set(discovered["supportedVersions"])
