"""The client's side of OAuth: how programs get tokens for servers, and store them.

    from mcpkit import Client
    from mcpkit.client.auth import OAuth

    async with Client("https://notes.example.com/mcp", auth=OAuth()) as client: ...

The README of this folder says which file contains what.
"""

from __future__ import annotations

from mcpkit._utils.lazy import importer

TYPE_CHECKING = False  # type checkers know the name; importing `typing` for it would take longer
if TYPE_CHECKING:
    from mcpkit.client.auth.authorization_code import OAuth as OAuth
    from mcpkit.client.auth.base import AuthorizationFailed as AuthorizationFailed
    from mcpkit.client.auth.base import BearerToken as BearerToken
    from mcpkit.client.auth.base import HttpAuth as HttpAuth
    from mcpkit.client.auth.base import HttpRequest as HttpRequest
    from mcpkit.client.auth.client_credentials import ClientCredentials as ClientCredentials
    from mcpkit.client.auth.client_credentials import IdentityAssertion as IdentityAssertion
    from mcpkit.client.auth.client_credentials import JwtBearer as JwtBearer
    from mcpkit.client.auth.storage import Credentials as Credentials
    from mcpkit.client.auth.storage import FileTokenStore as FileTokenStore
    from mcpkit.client.auth.storage import MemoryTokenStore as MemoryTokenStore
    from mcpkit.client.auth.storage import TokenStore as TokenStore

__getattr__ = importer(
    __name__,
    {
        "mcpkit.client.auth.authorization_code": "OAuth",
        "mcpkit.client.auth.base": "AuthorizationFailed BearerToken HttpAuth HttpRequest",
        "mcpkit.client.auth.client_credentials": "ClientCredentials IdentityAssertion JwtBearer",
        "mcpkit.client.auth.storage": "Credentials FileTokenStore MemoryTokenStore TokenStore",
    },
)
