"""A client for each protocol revision; tests that use it run on all of them."""

from collections.abc import Iterator

import pytest
from mcpkit.testing import REVISIONS, TestClient

from __PACKAGE__.server import app


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    """Connected to the server, in this process."""
    with TestClient(app, revision=request.param) as client:
        yield client
