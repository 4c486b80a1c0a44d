"""Verifiers of bearer tokens for MCP servers, and an authorization server.

    from mcpkit.auth import JWT

    app = MCPKit("notes", auth=JWT(issuer="https://login.example.com", audience="notes"))

The README of this folder says which file contains what.
"""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it would take longer
if TYPE_CHECKING:
    from mcpkit.auth.api_keys import Keys as Keys
    from mcpkit.auth.api_keys import NewKey as NewKey
    from mcpkit.auth.api_keys import hash_key as hash_key
    from mcpkit.auth.api_keys import new_key as new_key
    from mcpkit.auth.introspection import Introspection as Introspection
    from mcpkit.auth.jwt import JWT as JWT
    from mcpkit.auth.server.clients import RegisteredClient as RegisteredClient
    from mcpkit.auth.server.login import Login as Login
    from mcpkit.auth.server.login import LoginAttempt as LoginAttempt
    from mcpkit.auth.server.login import LoginRefused as LoginRefused
    from mcpkit.auth.server.login import Page as Page
    from mcpkit.auth.server.login import ProviderUnavailable as ProviderUnavailable
    from mcpkit.auth.server.login import Redirect as Redirect
    from mcpkit.auth.server.login import UpstreamTokens as UpstreamTokens
    from mcpkit.auth.server.login import User as User
    from mcpkit.auth.server.providers import PROVIDERS as PROVIDERS
    from mcpkit.auth.server.providers import Provider as Provider
    from mcpkit.auth.server.providers import UpstreamLogin as UpstreamLogin
    from mcpkit.auth.server.server import AuthorizationServer as AuthorizationServer
    from mcpkit.auth.server.store import AuthStore as AuthStore
    from mcpkit.auth.server.store import MemoryAuthStore as MemoryAuthStore
    from mcpkit.auth.server.store import SqliteAuthStore as SqliteAuthStore
    from mcpkit.auth.server.users import Users as Users
    from mcpkit.auth.server.users import hash_password as hash_password
    from mcpkit.auth.verifiers import ResourceServer as ResourceServer
    from mcpkit.auth.verifiers import Verifier as Verifier
    from mcpkit.auth.verifiers import VerifierUnavailable as VerifierUnavailable
    from mcpkit.types import Principal as Principal

__getattr__ = importer(
    __name__,
    {
        "mcpkit.auth.api_keys": "Keys NewKey hash_key new_key",
        "mcpkit.auth.introspection": "Introspection",
        "mcpkit.auth.jwt": "JWT",
        "mcpkit.auth.server.clients": "RegisteredClient",
        "mcpkit.auth.server.login": (
            "Login LoginAttempt LoginRefused Page ProviderUnavailable Redirect UpstreamTokens User"
        ),
        "mcpkit.auth.server.providers": "PROVIDERS Provider UpstreamLogin",
        "mcpkit.auth.server.server": "AuthorizationServer",
        "mcpkit.auth.server.store": "AuthStore MemoryAuthStore SqliteAuthStore",
        "mcpkit.auth.server.users": "Users hash_password",
        "mcpkit.auth.verifiers": "ResourceServer Verifier VerifierUnavailable",
        "mcpkit.types": "Principal",
    },
)
