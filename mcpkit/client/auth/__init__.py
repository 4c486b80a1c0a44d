"""The client's side of OAuth: how programs get tokens for servers, and store them.

    from mcpkit import Client
    from mcpkit.client.auth import OAuth

    async with Client("https://notes.example.com/mcp", auth=OAuth()) as client: ...

The README of this folder says which file contains what.
"""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcpkit.client.auth.authorization_code import OAuth
    from mcpkit.client.auth.base import AuthorizationFailed, BearerToken, HttpAuth, HttpRequest
    from mcpkit.client.auth.client_credentials import (
        ClientCredentials,
        IdentityAssertion,
        JwtBearer,
    )
    from mcpkit.client.auth.storage import Credentials, FileTokenStore, MemoryTokenStore, TokenStore

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

__getattr__ = importer(
    __name__,
    {
        "mcpkit.client.auth.authorization_code": ["OAuth"],
        "mcpkit.client.auth.base": [
            "AuthorizationFailed",
            "BearerToken",
            "HttpAuth",
            "HttpRequest",
        ],
        "mcpkit.client.auth.client_credentials": [
            "ClientCredentials",
            "IdentityAssertion",
            "JwtBearer",
        ],
        "mcpkit.client.auth.storage": [
            "Credentials",
            "FileTokenStore",
            "MemoryTokenStore",
            "TokenStore",
        ],
    },
)
