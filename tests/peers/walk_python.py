"""Walks with an official Python client, of either generation, from nothing to a second token.

Usage: walk_python.py NAME BROWSER LIFETIME (URL ROTATE) ...

NAME is its own; BROWSER follows the address that is added to it; URL is a server; ROTATE is posted
to before the token, which is good for LIFETIME seconds, has run out. It walks to all servers at a
time; prints what it saw at each as JSON, a list.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

IS_FIRST = importlib.metadata.version("mcp").startswith("1.")
if IS_FIRST:
    import httpx as http
    from mcp import ClientSession
else:
    import httpx2 as http
    from mcp import Client

REDIRECT = "http://127.0.0.1:49152/callback"
WAIT = 40


class Kept:
    """Where the client keeps what it knows."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class User:
    """Follows the address that the client shows, and comes back."""

    def __init__(self, name: str, browser: str) -> None:
        self._browser = f"{browser}?who={name}"
        self._fields: dict[str, str] = {}
        self.asked: list[str] = []

    async def go(self, url: str) -> None:
        self.asked.append(parse_qs(urlsplit(url).query).get("scope", [""])[0])
        address = f"{self._browser}&url={quote(url, safe='')}&end={quote(REDIRECT, safe='')}"
        async with http.AsyncClient(timeout=WAIT, trust_env=False) as client:
            answer = await client.get(address)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        found = parse_qs(urlsplit(answer.text).query)
        self._fields = {name: values[0] for name, values in found.items()}

    async def come_back(self) -> Any:
        fields = self._fields
        if IS_FIRST:
            return fields["code"], fields.get("state")
        from mcp.shared.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(
            code=fields["code"], state=fields.get("state"), iss=fields.get("iss")
        )


async def walk(name: str, browser: str, lifetime: str, url: str, rotate: str) -> dict[str, Any]:
    kept, user = Kept(), User(name, browser)
    about = OAuthClientMetadata(
        client_name=name,
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    provider = OAuthClientProvider(url, about, kept, user.go, user.come_back)
    report: dict[str, Any] = {}

    async def note(key: str, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            report[key] = await asyncio.wait_for(action(), WAIT)
        except Exception as error:
            report[key] = {"raised": repr(error)}

    async def go_on(client: Any) -> None:
        async def names() -> list[str]:
            return [each.name for each in (await client.list_tools()).tools]

        async def call(name: str) -> str:
            result = await client.call_tool(name, {})
            return result.content[0].text

        await note("listed", names)
        await note("who", lambda: call("who"))
        await note("written", lambda: call("write"))
        await note("listed_then", names)
        first = kept.tokens.access_token
        async with http.AsyncClient(timeout=WAIT, trust_env=False) as other:
            await other.post(rotate)
        await asyncio.sleep(float(lifetime))
        await note("who_then", lambda: call("who"))
        report["refreshed"] = kept.tokens.access_token != first

    async with http.AsyncClient(auth=provider, timeout=WAIT, trust_env=False) as connection:
        transport = streamable_http_client(url, http_client=connection)
        if IS_FIRST:
            async with transport as streams, ClientSession(*streams[:2]) as client:
                report["revision"] = (await client.initialize()).protocolVersion
                await go_on(client)
        else:
            async with Client(transport) as client:
                report["revision"] = client.protocol_version
                await go_on(client)
    report["asked"] = user.asked
    return report


async def tried(*arguments: str) -> dict[str, Any]:
    try:
        return await walk(*arguments)
    except Exception:
        return {"failed": traceback.format_exc()}


async def main(name: str, browser: str, lifetime: str, *pairs: str) -> list[dict[str, Any]]:
    walks = zip(pairs[::2], pairs[1::2], strict=True)
    return await asyncio.gather(*(tried(name, browser, lifetime, *each) for each in walks))


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
