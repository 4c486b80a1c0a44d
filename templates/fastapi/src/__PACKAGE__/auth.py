"""Who asks: bearer tokens, checked in front of the API and of the MCP server alike."""

import logging
import os
import secrets
from collections.abc import Mapping

from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    BaseUser,
    SimpleUser,
)
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response

OPEN = frozenset({"/docs", "/health", "/openapi.json"})
"""Paths that need no token."""

log = logging.getLogger("uvicorn.error")


class BearerTokens(AuthenticationBackend):
    """Knows users by their tokens.

    Args:
        users: Token → name.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = {token.encode(): name for token, name in users.items()}

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        """Find out who asks.

        Raises:
            AuthenticationError: There is no token, or nobody has it.
        """
        if conn.url.path in OPEN:
            return None
        scheme, _, token = conn.headers.get("authorization", "").partition(" ")
        given = token.strip().encode()
        for known, name in self._users.items():
            if scheme.lower() == "bearer" and secrets.compare_digest(known, given):
                return AuthCredentials(["authenticated"]), SimpleUser(name)
        raise AuthenticationError("Send a valid token: Authorization: Bearer <token>")


def refuse(conn: HTTPConnection, error: Exception) -> Response:
    """What those get whom `BearerTokens` does not know."""
    return JSONResponse({"detail": str(error)}, 401, {"WWW-Authenticate": "Bearer"})


def users_from_environment() -> dict[str, str]:
    """Token → name, from ``API_TOKENS="ada=first-token bob=second-token"``.

    Without that variable there is one user, and the log has the token.

    Raises:
        ValueError: The variable is malformed.
    """
    users: dict[str, str] = {}
    for entry in os.environ.get("API_TOKENS", "").split():
        name, _, token = entry.partition("=")
        if not name or not token:
            raise ValueError("API_TOKENS must have entries such as ada=some-long-random-token")
        users[token] = name
    if not users:
        token = secrets.token_urlsafe(24)
        log.warning("API_TOKENS is not set; for this run the token of 'developer' is %s", token)
        users[token] = "developer"
    return users
