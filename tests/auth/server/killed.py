"""An app with an authorization server in a process of its own, to be killed."""

from __future__ import annotations

import os

from mcpkit import Context, MCPKit
from mcpkit.auth import AuthorizationServer, RegisteredClient, User
from tests.auth.server.conftest import BACK, SECRET

BASE = "http://127.0.0.1:9"
"""Where all processes say that they are: a proxy would pass on to any of them."""

CLIENT = RegisteredClient("editor", (BACK,), name="An editor")
server = AuthorizationServer(
    lambda visit: User("ada"),
    os.environ.get("LOGINS"),
    secret=SECRET,
    clients=[CLIENT],
    cache_time=0,
)
app: MCPKit = MCPKit("notes", auth=server, http={"public_url": f"{BASE}/mcp"})


@app.tool
async def whoami(ctx: Context) -> str:
    assert ctx.principal is not None
    return str(ctx.principal.claims["sub"])
