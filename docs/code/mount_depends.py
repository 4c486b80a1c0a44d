"""An app behind a dependency of FastAPI: ``uvicorn mount_depends:api``."""

# region answer
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from mcpkit import Context, MCPKit

app = MCPKit("tenants")


@app.tool
async def tenant_name(ctx: Context) -> str:
    """Return the tenant whose data this is."""
    return str(ctx.http.state["tenant"]) if ctx.http else "anonymous"


async def tenant(
    request: Request, x_tenant: Annotated[str | None, Header()] = None
) -> None:
    """Return the tenant of the request, or reject it."""
    if x_tenant is None:
        raise HTTPException(401, "which tenant?")
    request.state.tenant = x_tenant


class Answer(Response):
    """Passes the request on to an ASGI application."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.application(scope, receive, send)


api = FastAPI()
endpoint = app.asgi(path="/mcp")


@api.api_route(
    "/mcp", methods=["GET", "POST", "DELETE"], dependencies=[Depends(tenant)]
)
async def mcp() -> Response:
    return Answer(endpoint)
    # endregion answer
