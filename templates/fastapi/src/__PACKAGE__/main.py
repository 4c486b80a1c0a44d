"""The web application: `uvicorn --factory __PACKAGE__.main:create_api`."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.middleware.authentication import AuthenticationMiddleware

from . import __version__
from .api import router
from .auth import BearerTokens, refuse, users_from_environment
from .server import app
from .service import UnknownTicketError


def create_api(users: Mapping[str, str] | None = None) -> FastAPI:
    """The API, with the MCP server at ``/mcp``.

    Args:
        users: Token → name; from the environment if None.
    """
    api = FastAPI(title="__PROJECT__", version=__version__)
    known = users_from_environment() if users is None else users
    api.add_middleware(AuthenticationMiddleware, backend=BearerTokens(known), on_error=refuse)
    api.add_exception_handler(UnknownTicketError, not_found)
    api.add_api_route("/health", health, include_in_schema=False)
    api.include_router(router)
    app.attach(api, "/mcp")
    return api


async def health() -> dict[str, str]:
    """Say that it is there."""
    return {"status": "ok"}


async def not_found(request: Request, error: Exception) -> JSONResponse:
    """What programs get when a ticket is not there."""
    return JSONResponse({"detail": str(error)}, 404)
