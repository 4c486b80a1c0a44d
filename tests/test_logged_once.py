"""What a handler logs before a question, on every revision: once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcpkit import Context, MCPKit, SyncContext, ToolError
from mcpkit._server.suspended import SuspendedRuns
from mcpkit.testing import REVISIONS, AsyncTestClient

ASKING = REVISIONS[2:]
"""Those that have elicitation."""


def write(ctx: Context) -> None:
    ctx.info("in the step")


def make() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    async def twice(ctx: Context) -> str:
        ctx.info("before")
        first = await ctx.elicit("First?", str, key="first")
        ctx.info("between")
        second = await ctx.elicit(f"Second, after {first.data}?", str, key="second")
        ctx.info("after")
        return f"{first.data} {second.data}"

    @app.tool
    def in_a_thread(ctx: SyncContext) -> str:
        ctx.info("before")
        answer = ctx.elicit("First?", str)
        ctx.info("after")
        return str(answer.data)

    @app.tool
    async def stepping(ctx: Context) -> str:
        ctx.info("before")
        await ctx.elicit("First?", str)
        await ctx.step("write", write, ctx)
        await ctx.elicit("Second?", str)
        raise ToolError("enough")

    return app


def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": "accept", "content": {"value": params["message"][0]}}


def client_of(revision: str, logs: list[Any]) -> AsyncTestClient:
    """A client that answers, and records log messages."""
    return AsyncTestClient(
        make(),
        revision=revision,
        elicitation=answer,
        on_log=lambda level, data, _: logs.append(data),
    )


@pytest.mark.parametrize("revision", ASKING)
@pytest.mark.parametrize(
    ("tool", "logged"),
    [
        ("twice", ["before", "between", "after"]),
        ("in_a_thread", ["before", "after"]),
        ("stepping", ["before", "in the step"]),
    ],
)
@pytest.mark.parametrize("is_held", [True, False])
async def test_each_message_arrives_once(
    revision: str, tool: str, logged: list[str], is_held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MRTR-2: also if the handler runs again from its start with each answer (2026-07-28)."""
    if not is_held:
        monkeypatch.setattr(SuspendedRuns, "hold", lambda *_: None)
    logs: list[Any] = []
    async with client_of(revision, logs) as client:
        await client.call_tool(tool, log_level="info")
    assert logs == logged


async def test_an_answer_to_no_question_silences_nothing() -> None:
    """MRTR-10: it is passed over, in the log as well."""
    logs: list[Any] = []
    async with client_of(REVISIONS[-1], logs) as client:
        given = {"action": "accept", "content": {"value": "x"}}
        call = {"name": "twice", "arguments": {}}
        meta = {"io.modelcontextprotocol/logLevel": "info"}
        early = {**call, "inputResponses": {"first": given, "zzz": given}}
        asked = await client.request("tools/call", early, meta=meta)
        assert list(asked["inputRequests"]) == ["second"]
        late = {"inputResponses": {"second": given}, "requestState": asked["requestState"]}
        await client.request("tools/call", {**call, **late}, meta=meta)
    assert logs == ["before", "between", "after"]
