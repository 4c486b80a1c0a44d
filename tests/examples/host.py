"""What a host does with an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcpkit.client.results import CallResult
from mcpkit.testing import REVISIONS, TestClient
from mcpkit.types import ResourceContents, TextResourceContents
from tests.warm import python

EXAMPLES = Path(__file__).parents[2] / "examples"
MODERN = REVISIONS[-1]
ASKING = REVISIONS[2:]
"""The revisions in which the user can be asked."""

ERAS = (REVISIONS[0], REVISIONS[-2], MODERN)
"""The oldest revision, the last one with a handshake, and the one without: for tests that need a
server of their own each time."""


def example(name: str) -> list[str]:
    """The command that starts an example, named by its file."""
    return [python(), "-m", "mcpkit", "run", str(EXAMPLES / name)]


def call(client: TestClient, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed, and return its data."""
    return data_of(client.call_tool(tool, arguments))


def refused(client: TestClient, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail, and return its message."""
    result = client.call_tool(tool, arguments)
    assert result.is_error, result.text
    return result.text


def data_of(result: CallResult) -> Any:
    """The data of a tool; on revisions without structured content, what its text says."""
    assert not result.is_error, result.text
    if result.data is not None:
        return result.data
    try:
        return json.loads(result.text)
    except ValueError:
        return result.text


def uses(name: str, **arguments: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": f"use-{name}", "name": name, "input": arguments}
    return {"role": "assistant", "model": "test", "content": [use], "stopReason": "toolUse"}


class Model:
    """Gives its replies one after the other, and keeps what it was asked."""

    def __init__(self, *replies: Mapping[str, Any]) -> None:
        self.replies = list(replies)
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(params)
        return self.replies.pop(0)


def json_of(contents: Sequence[ResourceContents]) -> Any:
    """The value of a resource that is JSON."""
    (only,) = contents
    assert isinstance(only, TextResourceContents)
    return json.loads(only.text)
