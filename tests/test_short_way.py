"""A tool that wants nothing but its arguments is called in a short way, which nobody can notice.

Every behaviour is there twice: as a plain tool, and as one with a context that it does not use.
Both must answer alike, on every revision, over HTTP as well as in memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from pydantic import AfterValidator

from mcpkit import Context, MCPKit, TextContent, ToolError, ToolResult
from mcpkit.testing import REVISIONS
from tests.scenarios.tapped import MODERN, PATIENCE, TappedClient

pytestmark = pytest.mark.anyio


async def behave(what: str) -> Any:
    """What a tool may do."""
    if what.startswith("later "):
        await anyio.lowlevel.checkpoint()
        return await behave(what.removeprefix("later "))
    if what == "refuse":
        raise ToolError("not today")
    if what == "break":
        raise RuntimeError("a secret")
    if what == "leave":
        sys.exit(3)
    if what == "group":
        async with anyio.create_task_group():
            raise ToolError("one")
    if what == "misfit":
        return "no number"
    if what == "result":
        return ToolResult(TextContent("whole"), structured_content={"result": 7}, meta={"a/b": 1})
    if what == "failed":
        return ToolResult(TextContent("whole"), is_error=True)
    if what == "surrogate":
        return ToolResult(TextContent("\ud800"), structured_content={"result": 7})
    if what == "unsendable":
        return ToolResult(TextContent("x"), structured_content={"result": 7}, meta={"a": object()})
    if what == "wait":
        await anyio.sleep_forever()
    return 7


def odd(value: str) -> str:
    """A validator that fails in a way of its own."""
    if value == "odd":
        raise KeyError(value)
    return value


Odd = Annotated[str, AfterValidator(odd)]


def make_app() -> MCPKit:
    app: MCPKit = MCPKit("short", version="1")

    @app.tool(structured_output=True)
    async def plain(what: Odd = "") -> int:
        result: int = await behave(what)
        return result

    @app.tool(structured_output=True)
    async def whole(ctx: Context, what: Odd = "") -> int:
        result: int = await behave(what)
        return result

    return app


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
async def client(revision: str, anyio_backend: str) -> AsyncIterator[TappedClient]:
    async with TappedClient(make_app(), revision=revision) as client:
        yield client
        assert not client.violations


def call(tool: str, id: int | str, revision: str, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if revision == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def comparable(answer: Any) -> str:
    """An answer without what differs from call to call."""
    text = re.sub(r"reference \w+", "reference", json.dumps(answer, sort_keys=True))
    return text.replace("whole()", "plain()").replace('the tool whole"', 'the tool plain"')


NOW = ["", "refuse", "break", "leave", "group", "misfit", "result", "failed"]
NOW += ["surrogate", "unsendable"]
KINDS = [*NOW, *(f"later {each}" for each in NOW)]


@pytest.mark.parametrize("what", KINDS)
async def test_both_ways_answer_alike(client: TappedClient, revision: str, what: str) -> None:
    plain = await client.exchange(call("plain", "same", revision, what=what))
    client.forget()
    whole = await client.exchange(call("whole", "same", revision, what=what))
    assert comparable(plain) == comparable(whole)


@pytest.mark.parametrize(
    "arguments",
    [{"what": 5}, {"wat": ""}, {"what": "", "more": 1}, {"what": "odd"}],
    ids=json.dumps,
)
async def test_wrong_arguments_are_explained_alike(
    client: TappedClient, revision: str, arguments: dict[str, Any]
) -> None:
    plain = await client.exchange(call("plain", "args", revision, **arguments))
    client.forget()
    whole = await client.exchange(call("whole", "args", revision, **arguments))
    assert comparable(plain) == comparable(whole)


async def test_an_id_in_use_is_refused(client: TappedClient, revision: str) -> None:
    """MSG-3, MSG-4."""
    await client.send(call("plain", "busy", revision, what="wait"))
    answer = await client.exchange(call("plain", "busy", revision))
    assert answer["error"]["code"] == -32600
    await client.notify("notifications/cancelled", {"requestId": "busy"})


async def test_a_call_that_waits_can_be_cancelled(client: TappedClient, revision: str) -> None:
    """CANC-1, CANC-4."""
    await client.send(call("plain", "gone", revision, what="wait"))
    await client.notify("notifications/cancelled", {"requestId": "gone"})
    await client.settle()
    assert not [each for each in client.received if each.get("id") == "gone"]


async def test_calls_that_wait_do_not_hold_up_others(client: TappedClient, revision: str) -> None:
    for number in range(20):
        await client.send(call("plain", f"wait {number}", revision, what="wait"))
    with anyio.fail_after(PATIENCE):
        assert (await client.call_tool("plain")).text == "7"
    for number in range(20):
        await client.notify("notifications/cancelled", {"requestId": f"wait {number}"})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("what", KINDS)
async def test_both_ways_answer_alike_over_http(
    anyio_backend: str, revision: str, what: str
) -> None:
    app = make_app()
    headers = {"accept": "application/json, text/event-stream"}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        if revision == MODERN:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/call"}
        else:
            begin = {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"},
            }
            message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}
            answer = await http.post("/mcp", json=message, headers=headers)
            headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        seen: list[Any] = []
        for tool in ("plain", "whole"):
            named = {**headers, "mcp-name": tool} if revision == MODERN else headers
            answer = await http.post(
                "/mcp", json=call(tool, "same", revision, what=what), headers=named
            )
            seen.append((answer.status_code, sorted(answer.headers), comparable(answer.json())))
        assert seen[0] == seen[1]
