"""The client's side of authorization: how programs get tokens for servers, and keep them.

    from mcpkit import Client
    from mcpkit.oauth import OAuth

    async with Client("https://notes.example.com/mcp", auth=OAuth()) as client: ...

The README of this folder says what is in which file.
"""

from __future__ import annotations

from mcpkit.oauth.credentials import Credentials, FileTokenStore, MemoryTokenStore, TokenStore
from mcpkit.oauth.errors import AuthorizationFailed
from mcpkit.oauth.machines import ClientCredentials, IdentityAssertion, JwtBearer
from mcpkit.oauth.oauth import OAuth
from mcpkit.oauth.source import BearerToken, HttpAuth, HttpRequest

__all__ = [
    "AuthorizationFailed",
    "BearerToken",
    "ClientCredentials",
    "Credentials",
    "FileTokenStore",
    "HttpAuth",
    "HttpRequest",
    "IdentityAssertion",
    "JwtBearer",
    "MemoryTokenStore",
    "OAuth",
    "TokenStore",
]
