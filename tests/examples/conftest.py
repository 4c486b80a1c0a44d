"""For tests of examples: their processes have their own event loop, so one is enough here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcpkit.testing import REVISIONS, TestClient


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """A client of the example that the module names."""
    with TestClient(request.module.SERVER, revision=request.param) as client:
        yield client
