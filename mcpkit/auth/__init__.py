"""Verifiers of bearer tokens for MCP servers, and an authorization server.

    from mcpkit.auth import JWT

    app = MCPKit("notes", auth=JWT(issuer="https://login.example.com", audience="notes"))

The README of this folder says which file contains what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpkit._utils.lazy import importer
from mcpkit.auth.api_keys import Keys, NewKey, hash_key, new_key
from mcpkit.auth.introspection import Introspection
from mcpkit.auth.jwt import JWT
from mcpkit.auth.verifiers import ResourceServer, Verifier, VerifierUnavailable

if TYPE_CHECKING:
    from mcpkit.auth.server.clients import RegisteredClient
    from mcpkit.auth.server.login import (
        Login,
        LoginAttempt,
        LoginRefused,
        Page,
        ProviderUnavailable,
        Redirect,
        UpstreamTokens,
        User,
    )
    from mcpkit.auth.server.providers import PROVIDERS, Provider, UpstreamLogin
    from mcpkit.auth.server.server import AuthorizationServer
    from mcpkit.auth.server.store import AuthStore, MemoryAuthStore, SqliteAuthStore
    from mcpkit.auth.server.users import Users, hash_password

__all__ = [
    "JWT",
    "PROVIDERS",
    "AuthStore",
    "AuthorizationServer",
    "Introspection",
    "Keys",
    "Login",
    "LoginAttempt",
    "LoginRefused",
    "MemoryAuthStore",
    "NewKey",
    "Page",
    "Provider",
    "ProviderUnavailable",
    "Redirect",
    "RegisteredClient",
    "ResourceServer",
    "SqliteAuthStore",
    "UpstreamLogin",
    "UpstreamTokens",
    "User",
    "Users",
    "Verifier",
    "VerifierUnavailable",
    "hash_key",
    "hash_password",
    "new_key",
]

__getattr__ = importer(
    __name__,
    {
        "mcpkit.auth.server.clients": ["RegisteredClient"],
        "mcpkit.auth.server.login": [
            "Login",
            "LoginAttempt",
            "LoginRefused",
            "Page",
            "ProviderUnavailable",
            "Redirect",
            "UpstreamTokens",
            "User",
        ],
        "mcpkit.auth.server.providers": ["PROVIDERS", "Provider", "UpstreamLogin"],
        "mcpkit.auth.server.server": ["AuthorizationServer"],
        "mcpkit.auth.server.store": ["AuthStore", "MemoryAuthStore", "SqliteAuthStore"],
        "mcpkit.auth.server.users": ["Users", "hash_password"],
    },
    renamed={
        "ProviderAway": "ProviderUnavailable",
        "VerifierAway": "VerifierUnavailable",
        "Visit": "LoginAttempt",
    },
)
