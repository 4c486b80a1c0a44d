"""Questions that a client answers with a task of its own (2025-11-25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from mcpkit import Context, InputRequestRefused, InputRequestTimeout, MCPKit, ProtocolError
from tests.asking.conftest import Asked, accept, speak
from tests.tasks.wire.conftest import CORE

pytestmark = pytest.mark.anyio

PATIENCE = 10.0
TAKES: dict[str, Any] = {
    "tasks": {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}
}
TASK = {
    "taskId": "mine",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttl": 60_000,
}


class Slow(Asked):
    """A client that answers with tasks; an outcome may be an exception, or None for never."""

    def __init__(self, app: MCPKit[Any], *outcomes: Any, takes: dict[str, Any] = TAKES) -> None:
        super().__init__(app, revision=CORE, capabilities=takes)
        self.outcomes = list(outcomes)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.cancelled = anyio.Event()
        self._handlers["elicitation/create"] = lambda params: self._put_off("elicitation", params)
        self._handlers["sampling/createMessage"] = lambda params: self._put_off("sampling", params)
        self._handlers["tasks/result"] = self._outcome
        self._handlers["tasks/cancel"] = self._call_off

    def _put_off(self, what: str, params: Mapping[str, Any]) -> Any:
        self.asked.append((what, params))
        return {"task": TASK} if "task" in params else accept("at once")

    async def _outcome(self, params: Mapping[str, Any]) -> Any:
        self.asked.append(("result", params))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is None:
            await anyio.sleep_forever()
        return outcome

    def _call_off(self, params: Mapping[str, Any]) -> Any:
        self.asked.append(("cancel", params))
        self.cancelled.set()
        return {**TASK, "status": "cancelled"}


def make_app() -> MCPKit[Any]:
    app: MCPKit = MCPKit("asks", ask_timeout=30)

    @app.tool
    async def ask(ctx: Context, timeout: float | None = None) -> str:
        try:
            return str((await ctx.elicit("Name?", str, timeout=timeout)).data)
        except (InputRequestRefused, InputRequestTimeout) as error:
            return type(error).__name__

    @app.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("A word")).text

    return app


async def test_the_server_wishes_for_a_task_where_the_client_has_them() -> None:
    """TASKL-1, TASKL-4, TASKL-6: the answer is what comes of it."""
    async with Slow(make_app(), accept("Ann"), speak("word")) as client:
        assert (await client.call_tool("ask")).text == "Ann"
        assert (await client.call_tool("sample")).text == "word"
    assert [what for what, _ in client.asked] == ["elicitation", "result", "sampling", "result"]
    assert client.asked[0][1]["task"] == {"ttl": 30_000}
    assert client.asked[1][1] == {"taskId": "mine"}
    assert not client.violations


async def test_a_client_may_answer_at_once_or_fail() -> None:
    """TASKL-2, TASKL-6."""
    async with Slow(make_app(), takes={"tasks": {"requests": {"sampling": {}}}}) as client:
        assert (await client.call_tool("ask")).text == "at once"
    assert "task" not in client.asked[0][1]
    async with Slow(make_app(), ProtocolError("no", code=-1)) as client:
        assert (await client.call_tool("ask")).text == "InputRequestRefused"
    assert [what for what, _ in client.asked] == ["elicitation", "result"]


async def test_a_task_without_a_waiter_is_cancelled() -> None:
    """CANC-8, TASKL-11."""
    async with Slow(make_app(), None) as client:
        assert (await client.call_tool("ask", {"timeout": 0.05})).text == "InputRequestTimeout"
        with anyio.fail_after(PATIENCE):
            await client.cancelled.wait()
    assert client.asked[-1] == ("cancel", {"taskId": "mine"})
