"""The server over HTTP, in this process, for users with tokens; each test has its own notes."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import httpx2
import pytest
from mcpkit import Client, Principal

from __PACKAGE__.server import app

URL = "http://127.0.0.1/mcp"

Connect: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the tests."""
    return "asyncio"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for the server's files."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def connect(data: Path) -> Connect:
    """Connects a user with some scopes: `async with connect("ada", READ) as client`."""

    @asynccontextmanager
    async def connect(
        name: str, *scopes: str, revision: str | None = None
    ) -> AsyncGenerator[Client, None]:
        user = Principal(name, frozenset(scopes), claims={"sub": name})
        endpoint = app.asgi(auth=lambda token: user)
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(endpoint))
        client = Client(URL, revision=revision, auth=f"token-of-{name}", http_client=http)
        async with http, client:
            yield client

    return connect
