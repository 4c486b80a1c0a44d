"""Every scenario runs over every transport, revision and event loop.

There is one connection for each combination, which all scenarios share; a scenario that needs the
beginning of a connection opens one with `connect`. Whatever the server sends is held against the
official schema when the scenario ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mcpkit.testing import REVISIONS
from tests.combinations import (
    Served,
    anyio_backend,
    client,
    connect,
    place,
    revision,
    shared,
    stderr,
)
from tests.scenarios.server import make_app
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient
from tests.selection import Case

__all__ = ["anyio_backend", "client", "connect", "place", "revision", "shared", "stderr"]

Connect = Callable[..., Awaitable[TappedClient]]

CASES = [
    *(Case("memory", revision, "asyncio") for revision in REVISIONS),
    *(Case("memory", revision, "trio") for revision in REVISIONS),
    *(Case("stdio", revision, "asyncio") for revision in REVISIONS),
    *(Case("stdio", revision, "trio") for revision in (HANDSHAKE[-1], MODERN)),
    *(Case("http", revision, "asyncio") for revision in REVISIONS),
    *(Case("http", revision, "trio") for revision in (HANDSHAKE[-1], MODERN)),
    *(Case("sse", revision, "asyncio") for revision in (HANDSHAKE[0], HANDSHAKE[-1])),
]


@pytest.fixture(scope="package", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="package")
def served() -> Served:
    return Served(Path(__file__).with_name("server.py"), make_app, TappedClient)
