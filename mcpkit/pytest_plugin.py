"""The pytest fixture, available wherever mcpkit is installed.

def test_add(mcp_client):
    client = mcp_client(app)
    assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mcpkit.testing import TestClient


@pytest.fixture
def mcp_client() -> Iterator[Callable[..., TestClient]]:
    """Yield a function that returns connected `mcpkit.testing.TestClient` objects.

    The function takes the arguments of `TestClient`: an app, and options such as ``revision``. The
    clients are closed after the test.
    """
    from mcpkit.testing import TestClient

    with ExitStack() as stack:

        def connect(target: Any, **options: Any) -> TestClient:
            return stack.enter_context(TestClient(target, **options))

        yield connect
