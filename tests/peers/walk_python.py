"""Walks with an official Python client, of either generation; see `walk.py`."""

from __future__ import annotations

import importlib.metadata
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from walk import NAME, Walk, walk_to_all

IS_FIRST = importlib.metadata.version("mcp").startswith("1.")
if IS_FIRST:
    import httpx as http
    from mcp import ClientSession
else:
    import httpx2 as http
    from mcp import Client

REDIRECT = "http://127.0.0.1:49152/callback"


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

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._fields: dict[str, str] = {}

    async def go(self, url: str) -> None:
        self._fields = dict(parse_qsl(urlsplit(await self._walk.follow(url)).query))

    async def come_back(self) -> Any:
        fields = self._fields
        if IS_FIRST:
            return fields["code"], fields.get("state")
        from mcp.shared.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(
            code=fields["code"], state=fields.get("state"), iss=fields.get("iss")
        )


async def walk_to(url: str, rotate: str) -> dict[str, Any]:
    kept, walk = Kept(), Walk(http, rotate)
    user = User(walk)
    about = OAuthClientMetadata(
        client_name=NAME,
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    provider = OAuthClientProvider(url, about, kept, user.go, user.come_back)

    async def go_on(client: Any, revision: str) -> None:
        async def names() -> list[str]:
            return [each.name for each in (await client.list_tools()).tools]

        async def call(tool: str) -> str:
            return (await client.call_tool(tool, {})).content[0].text

        walk.report["revision"] = revision
        await walk.go(names, call, lambda: kept.tokens.access_token)

    async with walk.connection(auth=provider) as connection:
        transport = streamable_http_client(url, http_client=connection)
        if IS_FIRST:
            async with transport as streams, ClientSession(*streams[:2]) as client:
                await go_on(client, (await client.initialize()).protocolVersion)
        else:
            async with Client(transport) as client:
                await go_on(client, client.protocol_version)
    return walk.report


walk_to_all(walk_to)
