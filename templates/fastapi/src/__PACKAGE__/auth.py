"""Who asks, for the API and for the MCP server alike: bearer tokens, and whoever knows them."""

import logging
import os
import secrets
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from mcpkit import Principal
from mcpkit.auth import JWT, Keys, Verifier, hash_key

CLOSE = "tickets:close"
"""The scope that closing a ticket needs."""

log = logging.getLogger("uvicorn.error")


def verifier_from_environment() -> Verifier:
    """Whoever knows the tokens.

    With ``ISSUER``, an identity provider that users log in with; its tokens are for ``AUDIENCE``,
    and have scopes. Else ``API_TOKENS="ada=… bob=…"`` has the tokens of users who may do everything,
    of 16 characters at least. Without both there is one such user, and the log has the token.

    Raises:
        ValueError: A variable is missing or malformed.
    """
    issuer, audience = os.environ.get("ISSUER"), os.environ.get("AUDIENCE")
    if issuer:
        if not audience:
            raise ValueError("ISSUER is set: AUDIENCE has to say what its tokens are for")
        return JWT(issuer=issuer, audience=audience)
    users: dict[str, str] = {}
    for entry in os.environ.get("API_TOKENS", "").split():
        name, _, token = entry.partition("=")
        if not name or len(token) < 16:
            raise ValueError(
                "API_TOKENS must have entries such as ada=some-long-random-token,"
                " with tokens of 16 characters at least"
            )
        users[token] = name
    if not users:
        token = secrets.token_urlsafe(24)
        log.warning("API_TOKENS is not set; for this run the token of 'developer' is %s", token)
        users[token] = "developer"
    return Keys(
        {hash_key(token): Principal(name, frozenset({CLOSE})) for token, name in users.items()}
    )


async def signed_in(
    request: Request,
    needed: SecurityScopes,
    sent: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))],
) -> Principal:
    """Whoever sends a request to the API; the MCP server finds out by itself.

    Raises:
        HTTPException: There is no token that anybody knows, or it lacks a scope.
    """
    verifier: Verifier = request.app.state.verifier
    user = None if sent is None else await verifier.verify(sent.credentials, None)
    if user is None:
        problem = "Send a valid token: Authorization: Bearer <token>"
        raise HTTPException(401, problem, {"WWW-Authenticate": "Bearer"})
    if not user.scopes.issuperset(needed.scopes):
        raise HTTPException(403, f"This needs the scope {needed.scope_str}")
    return user
