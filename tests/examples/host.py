"""What a host does with an example."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcpkit.client.client import Client
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

PATIENCE = 20.0
"""Seconds to wait for what must happen."""


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


def json_of(contents: Sequence[ResourceContents]) -> Any:
    """The value of a resource that is JSON."""
    (only,) = contents
    assert isinstance(only, TextResourceContents)
    return json.loads(only.text)


class Heard:
    """The notifications that a client has got."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Mapping[str, Any]]] = []
        self._arrived = anyio.Event()

    def __call__(self, method: str, params: Mapping[str, Any]) -> None:
        self.messages.append((method, params))
        self._arrived.set()

    def of(self, method: str) -> list[Mapping[str, Any]]:
        """The params of those of one method."""
        return [params for name, params in self.messages if name == method]

    async def until(self, method: str, count: int = 1) -> list[Mapping[str, Any]]:
        """Wait for some of one method."""
        with anyio.fail_after(PATIENCE):
            while len(self.of(method)) < count:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        return self.of(method)


@asynccontextmanager
async def watching(client: Client, *uris: str) -> AsyncGenerator[None, None]:
    """Be told of changes of resources and of their list, in the way of the client's revision."""
    if client.revision == MODERN:
        async with client.listen(lambda *told: None, resources=True, uris=uris):
            yield
        return
    for uri in uris:
        await client.subscribe(uri)
    yield
