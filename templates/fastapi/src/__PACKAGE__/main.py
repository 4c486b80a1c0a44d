"""The web application: `uvicorn --factory __PACKAGE__.main:create_api`."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from mcpkit.auth import Verifier, VerifierUnavailable

from . import __version__
from .api import router
from .auth import verifier_from_environment
from .server import app
from .service import UnknownTicketError


def create_api(verifier: Verifier | None = None) -> FastAPI:
    """Make the API, with the MCP server at ``/mcp``.

    Args:
        verifier: Verifies tokens for both; None: made from environment variables.
    """
    api = FastAPI(title="__PROJECT__", version=__version__)
    api.state.verifier = verifier or verifier_from_environment()
    api.add_exception_handler(UnknownTicketError, not_found)
    api.add_exception_handler(VerifierUnavailable, not_known)
    api.add_api_route("/health", health, include_in_schema=False)
    api.include_router(router)
    app.attach(api, "/mcp", auth=api.state.verifier)
    return api


async def health() -> dict[str, str]:
    """Report that the application runs."""
    return {"status": "ok"}


async def not_found(request: Request, error: Exception) -> JSONResponse:
    """Answer a request for an unknown ticket."""
    return JSONResponse({"detail": str(error)}, 404)


async def not_known(request: Request, error: Exception) -> JSONResponse:
    """Answer requests while tokens cannot be verified."""
    return JSONResponse({"detail": "The tokens cannot be verified at the moment"}, 503)
