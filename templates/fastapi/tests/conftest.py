"""The application in this process, with two users; bob may not close tickets."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI
from mcpkit import Client, Principal
from mcpkit.auth import Keys, hash_key

from __PACKAGE__.auth import CLOSE
from __PACKAGE__.main import create_api
from __PACKAGE__.service import get_desk

URL = "http://127.0.0.1"
TOKENS = {"ada": "the-token-of-ada", "bob": "the-token-of-bob"}
VERIFIER = Keys(
    {
        hash_key(TOKENS["ada"]): Principal("ada", frozenset({CLOSE})),
        hash_key(TOKENS["bob"]): Principal("bob"),
    }
)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the tests."""
    return "asyncio"


@pytest.fixture
def api() -> Iterator[FastAPI]:
    """The application, without tickets."""
    get_desk.cache_clear()
    yield create_api(VERIFIER)
    get_desk.cache_clear()


class Doors:
    """The ways to connect to the application."""

    def __init__(self, api: FastAPI) -> None:
        self._transport = httpx2.ASGITransport(api)

    @asynccontextmanager
    async def web(self, user: str | None = None) -> AsyncGenerator[httpx2.AsyncClient, None]:
        """Connect a program to the API, with or without the token of a user."""
        client = self._client(user)
        async with client:
            yield client

    @asynccontextmanager
    async def mcp(self, user: str, revision: str | None = None) -> AsyncGenerator[Client, None]:
        """Connect a host to the MCP server."""
        http = self._client(user)
        async with http, Client(f"{URL}/mcp", revision=revision, http_client=http) as client:
            yield client

    def _client(self, user: str | None) -> httpx2.AsyncClient:
        headers = {} if user is None else {"Authorization": f"Bearer {TOKENS[user]}"}
        return httpx2.AsyncClient(transport=self._transport, base_url=URL, headers=headers)


@pytest.fixture
def doors(api: FastAPI) -> Doors:
    """The ways to connect to the application."""
    return Doors(api)
