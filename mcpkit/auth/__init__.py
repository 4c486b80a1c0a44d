"""Verifiers of bearer tokens, for servers that are resource servers of OAuth.

    from mcpkit.auth import JWT

    app = MCPKit("notes", auth=JWT(issuer="https://login.example.com", audience="notes"))

The README of this folder says what is in which file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpkit.auth.introspection import Introspection
from mcpkit.auth.jwt import JWT
from mcpkit.auth.keys import Keys, NewKey, hash_key, new_key
from mcpkit.auth.verifier import ResourceServer, Verifier, VerifierAway

if TYPE_CHECKING:
    from mcpkit.auth.server.clients import RegisteredClient
    from mcpkit.auth.server.login import (
        Login,
        LoginRefused,
        Page,
        ProviderAway,
        Redirect,
        UpstreamTokens,
        User,
        Visit,
    )
    from mcpkit.auth.server.providers import PROVIDERS, Provider
    from mcpkit.auth.server.server import AuthorizationServer
    from mcpkit.auth.server.store import AuthStore, MemoryAuthStore, SqliteAuthStore
    from mcpkit.auth.server.upstream import UpstreamLogin
    from mcpkit.auth.server.users import Users, hash_password

__all__ = [
    "JWT",
    "PROVIDERS",
    "AuthStore",
    "AuthorizationServer",
    "Introspection",
    "Keys",
    "Login",
    "LoginRefused",
    "MemoryAuthStore",
    "NewKey",
    "Page",
    "Provider",
    "ProviderAway",
    "Redirect",
    "RegisteredClient",
    "ResourceServer",
    "SqliteAuthStore",
    "UpstreamLogin",
    "UpstreamTokens",
    "User",
    "Users",
    "Verifier",
    "VerifierAway",
    "Visit",
    "hash_key",
    "hash_password",
    "new_key",
]

_IN_SERVER = {
    "PROVIDERS": "providers",
    "AuthStore": "store",
    "AuthorizationServer": "server",
    "Login": "login",
    "LoginRefused": "login",
    "MemoryAuthStore": "store",
    "Page": "login",
    "Provider": "providers",
    "ProviderAway": "login",
    "Redirect": "login",
    "RegisteredClient": "clients",
    "SqliteAuthStore": "store",
    "UpstreamLogin": "upstream",
    "UpstreamTokens": "login",
    "User": "login",
    "Users": "users",
    "Visit": "login",
    "hash_password": "users",
}
"""Names that only an authorization server of one's own needs → the modules that have them."""


def __getattr__(name: str) -> Any:
    module = _IN_SERVER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mcpkit.auth.server.{module}"), name)
