"""An authorization server made with the official Python SDK, or with FastMCP if it is installed.

Usage: issuer_python.py ORIGIN DESCRIPTOR

Listens on a socket that it inherits. Everybody is Ada and agrees to everything. It knows the client
``robot`` with the secret ``oil`` from the start. GET /tokens/TOKEN returns the scopes of a token.
"""

from __future__ import annotations

import secrets
import sys
import time
from importlib.util import find_spec
from inspect import signature
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.provider import OAuthAuthorizationServerProvider as Provider
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ORIGIN, DESCRIPTOR = sys.argv[1:]
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ROBOT = OAuthClientInformationFull(
    client_id="robot",
    client_secret="oil",
    redirect_uris=None,
    grant_types=[GRANT],
    token_endpoint_auth_method="client_secret_basic",
)


class Memory(Provider[Any, Any, Any]):
    """What the examples of the SDK have, without a page for the user."""

    def __init__(self) -> None:
        self.clients: dict[str | None, Any] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.access_tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            client_id=client.client_id,
            expires_at=time.time() + 60,
            **params.model_dump(exclude={"state", "scopes"}),
            scopes=params.scopes or [],
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client, authorization_code.scopes)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: Any) -> Any:
        del self.refresh_tokens[refresh_token.token]
        return self._tokens(client, scopes)

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        assert params.assertion == "who the robot is"
        return self._tokens(client, params.scopes or [])

    async def load_access_token(self, token: str) -> Any:
        return self.access_tokens.get(token)

    def _tokens(self, client: Any, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_hex(20), secrets.token_hex(20)
        shared = {"client_id": client.client_id, "scopes": scopes}
        self.access_tokens[access] = AccessToken(token=access, **shared)
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, **shared)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=3600, scope=" ".join(scopes)
        )


provider: Any
registration = ClientRegistrationOptions(enabled=True, valid_scopes=["notes:read"])
if find_spec("fastmcp") is not None:
    from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

    provider = InMemoryOAuthProvider(base_url=ORIGIN, client_registration_options=registration)
    routes = provider.get_routes()
else:
    provider = Memory()
    provider.clients["robot"] = ROBOT
    assertions = {"identity_assertion_enabled": True}
    has_assertions = assertions.keys() <= signature(create_auth_routes).parameters.keys()
    routes = create_auth_routes(
        provider,
        AnyHttpUrl(ORIGIN),
        client_registration_options=registration,
        **(assertions if has_assertions else {}),
    )


async def about(request: Request) -> Response:
    found = await provider.load_access_token(request.path_params["token"])
    return JSONResponse(None if found is None else found.scopes)


app = Starlette(routes=[*routes, Route("/tokens/{token}", about)])
uvicorn.run(app, fd=int(DESCRIPTOR), log_level="warning")
