"""An app with an authorization server in a process of its own, to be killed.

python -m tests.auth.server.killed PORT BASE FILE
"""

from __future__ import annotations

import sys

import uvicorn

from mcpkit import Context, MCPKit
from mcpkit.auth import AuthorizationServer, RegisteredClient, User
from tests.auth.server.conftest import BACK, SECRET

CLIENT = RegisteredClient("editor", (BACK,), name="An editor")


def main(port: str, base: str, file: str) -> None:
    server = AuthorizationServer(
        lambda visit: User("ada"), file, secret=SECRET, clients=[CLIENT], cache_time=0
    )
    app: MCPKit = MCPKit("notes", auth=server)

    @app.tool
    async def whoami(ctx: Context) -> str:
        assert ctx.principal is not None
        return str(ctx.principal.claims["sub"])

    asgi = app.asgi(public_url=f"{base}/mcp")
    uvicorn.run(asgi, host="127.0.0.1", port=int(port), log_level="critical", lifespan="on")


if __name__ == "__main__":
    main(*sys.argv[1:])
