"""What goes wrong, and what the model and the client see of it (PROTOCOL §2.3, §4.2)."""

from __future__ import annotations

import json

import pytest

from mcpkit.errors import InvalidParams, ProtocolError
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import TappedClient


def everything_sent(client: TappedClient) -> str:
    return json.dumps(client.received)


async def test_a_failure_is_a_result_with_its_message(client: TappedClient) -> None:
    """TOOL-8."""
    result = await client.call_tool("complain", {"message": "no such town"})
    assert (result.is_error, result.text) == (True, "no such town")


async def test_unfit_arguments_are_a_result_that_names_them(client: TappedClient) -> None:
    """TOOL-7, TOOL-16."""
    result = await client.call_tool("add", {"a": None, "c": 3})
    assert result.is_error
    problems = [line.partition(",")[0] for line in result.text.splitlines()]
    assert problems == ["a: expected an integer", "b: required", "c: unknown argument; known: a"]


async def test_an_unknown_tool_or_malformed_call_is_a_protocol_error(client: TappedClient) -> None:
    """TOOL-6, TOOL-8."""
    for params in ({"name": "subtract"}, {}, {"name": "add", "arguments": [1, 2]}):
        with pytest.raises(InvalidParams):
            await client.request("tools/call", params)


async def test_an_exception_is_hidden(client: TappedClient) -> None:
    """ERR-6, TOOL-8: the model reads of a tool's, the client of any other."""
    result = await client.call_tool("crash")
    assert result.is_error
    assert "reference" in result.text
    for use in (client.read_resource("note://broken"), client.get_prompt("broken_prompt")):
        with pytest.raises(ProtocolError, match="reference") as caught:
            await use
        assert caught.value.code == -32603
    sent = everything_sent(client)
    assert not any(part in sent for part in (SECRET, "RuntimeError", "Traceback"))


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


async def test_a_cancellation_that_the_client_did_not_ask_for_fails_the_call(
    client: TappedClient,
) -> None:
    with pytest.raises(ProtocolError) as caught:
        await client.call_tool("raise_cancelled")
    assert caught.value.code == -32603
    assert (await client.call_tool("echo", {"text": "still here"})).text == "still here"


@pytest.mark.not_over("http")  # each is answered with a status there
async def test_notifications_are_never_answered(client: TappedClient) -> None:
    """MSG-5."""
    await client.send({"jsonrpc": "2.0", "method": "notifications/invented"})
    await client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7})
    await client.send({"jsonrpc": "2.0", "method": "tools/list"})
    await client.settle()
    assert len(client.received) == 2
