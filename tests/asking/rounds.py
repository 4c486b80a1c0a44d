"""Rounds of a request of 2026-07-28 on the wire, one message after the other."""

from __future__ import annotations

from itertools import count
from typing import Any

from mcpkit._protocol.connection import CAPABILITIES_KEY
from tests.asking.conftest import Asked, capabilities_in
from tests.messages import announced
from tests.scenarios.tapped import MODERN

_ids = count(1)


class Round:
    """One request and its answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.result: dict[str, Any] = answer.get("result", {})
        self.error: dict[str, Any] = answer.get("error", {})
        self.state: Any = self.result.get("requestState")
        self.asked: dict[str, Any] = self.result.get("inputRequests", {})

    @property
    def key(self) -> str:
        """The key of the only question."""
        (key,) = self.asked
        return key

    @property
    def text(self) -> str:
        found: str = self.result["content"][0]["text"]
        return found


def request(
    params: dict[str, Any],
    responses: Any = None,
    state: Any = None,
    *,
    method: str = "tools/call",
    lacks: str | None = None,
    **meta: Any,
) -> dict[str, Any]:
    capabilities = capabilities_in(MODERN)
    if lacks is not None:
        del capabilities[lacks]
    sent = {**params, "_meta": {CAPABILITIES_KEY: capabilities, **meta}}
    if responses is not None:
        sent["inputResponses"] = responses
    if state is not None:
        sent["requestState"] = state
    return announced(f"raw-{next(_ids)}", method, **sent)


async def send(
    client: Asked, params: dict[str, Any], responses: Any = None, state: Any = None, **options: Any
) -> Round:
    return Round(await client.exchange(request(params, responses, state, **options)))


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}
