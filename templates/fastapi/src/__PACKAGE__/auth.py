"""Authentication of the API and the MCP server by bearer tokens."""

import logging
import os
import secrets
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from mcpkit import Principal
from mcpkit.auth import JWT, Keys, Verifier, hash_key

CLOSE = "tickets:close"
"""The scope for closing tickets."""

log = logging.getLogger("uvicorn.error")


def verifier_from_environment() -> Verifier:
    """Make the verifier of tokens from environment variables.

    With ``ISSUER``, users log in with that identity provider; its tokens are for ``AUDIENCE`` and
    have scopes. Otherwise ``API_TOKENS="ada=… bob=…"`` contains tokens of at least 16 characters
    for users with all scopes. Without either, one user exists, and the log shows the token.

    Raises:
        ValueError: A variable is missing or malformed.
    """
    issuer, audience = os.environ.get("ISSUER"), os.environ.get("AUDIENCE")
    if issuer:
        if not audience:
            raise ValueError("ISSUER is set: set AUDIENCE to the audience of its tokens")
        return JWT(issuer=issuer, audience=audience)
    users: dict[str, str] = {}
    for entry in os.environ.get("API_TOKENS", "").split():
        name, _, token = entry.partition("=")
        if not name or len(token) < 16:
            raise ValueError(
                "API_TOKENS needs entries such as ada=some-long-random-token,"
                " with tokens of at least 16 characters"
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
    """Return the user who sends a request to the API; the MCP server does this itself.

    Raises:
        HTTPException: The token is missing or unknown, or lacks a scope.
    """
    verifier: Verifier = request.app.state.verifier
    user = None if sent is None else await verifier.verify(sent.credentials, None)
    if user is None:
        problem = "Send a valid token: Authorization: Bearer <token>"
        raise HTTPException(401, problem, {"WWW-Authenticate": "Bearer"})
    if not user.scopes.issuperset(needed.scopes):
        raise HTTPException(403, f"This needs the scope {needed.scope_str}")
    return user
