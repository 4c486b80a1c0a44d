"""A login from start to end: a real server, a client, and a user with a browser."""

import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from mcpkit import Client
from mcpkit.client.auth import AuthorizationFailed, OAuth

from __PACKAGE__.auth import READ, WRITE, http_options
from __PACKAGE__.server import app
from __PACKAGE__.settings import Settings
from __PACKAGE__.users import add_user

pytestmark = pytest.mark.anyio


FORM = re.compile(r'<form[^>]*?(?:action="(.+?)")?>.*?name="state" value="(.+?)"')
"""The URL that a form is sent to, its page's own if it names none, and its state."""


@asynccontextmanager
async def serving(settings: Settings) -> AsyncGenerator[str, None]:
    """Serve on a free port; return the URL of the endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    serve = partial(app.serve, "http", port=port, **http_options(settings))
    client = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(retries=6))
    async with client, anyio.create_task_group() as group:
        group.start_soon(serve)
        await client.get(f"http://127.0.0.1:{port}/health")  # until the server listens
        yield f"http://127.0.0.1:{port}/mcp"
        group.cancel_scope.cancel()


async def use_browser(address: str, name: str, password: str, answer: str = "allow") -> None:
    """Open a URL, log in and allow the client, as a user would."""
    browser = httpx2.AsyncClient(follow_redirects=True)
    async with browser:
        page = await browser.get(address)
        for fields in ({"name": name, "password": password}, {"answer": answer}):
            form = FORM.search(page.text)
            assert form is not None, page.text
            page = await browser.post(form[1] or page.url, data={**fields, "state": form[2]})


async def test_a_user_logs_in_and_a_client_acts_for_them(data: Path) -> None:
    password = add_user(data, "ada")
    auth = OAuth(show=lambda address: use_browser(address, "ada", password))
    async with serving(Settings(data)) as url, Client(url, auth=auth) as client:
        caller = await client.call_tool("whoami")
        await client.call_tool("add_note", {"text": "Water the plants"})
        found = await client.call_tool("find_notes")
    assert caller.data["id"].endswith("|ada")
    assert caller.data["scopes"] == [READ, WRITE]
    assert [each["text"] for each in found.data] == ["Water the plants"]


async def test_a_client_that_is_not_allowed_gets_no_token(data: Path) -> None:
    password = add_user(data, "ada")
    auth = OAuth(show=lambda address: use_browser(address, "ada", password, "deny"))
    async with serving(Settings(data)) as url:
        with pytest.raises(AuthorizationFailed):
            async with Client(url, auth=auth):
                pass


async def test_nobody_gets_in_without_a_token(data: Path) -> None:
    add_user(data, "ada")
    endpoint = app.asgi(**http_options(Settings(data)))
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(endpoint))
    async with client:
        answer = await client.post("http://127.0.0.1/mcp", json={})
    assert answer.status_code == 401
    assert "resource_metadata" in answer.headers["WWW-Authenticate"]
