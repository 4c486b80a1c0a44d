"""Notes for users and for a program, which both log in."""

import os

from mcpkit import MCPKit, SyncContext
from mcpkit.auth import (
    AuthorizationServer,
    RegisteredClient,
    Users,
    hash_key,
    hash_password,
)

NIGHTLY = RegisteredClient(
    "nightly",
    secret_hash=hash_key(os.environ["NIGHTLY_SECRET"]),
    machine=True,
)

app = MCPKit(
    "notes",
    auth=AuthorizationServer(
        Users({"ada": hash_password(os.environ["PASSWORD_OF_ADA"])}),
        clients=[NIGHTLY],
        scopes={"notes:read": "Read your notes"},
    ),
)


@app.tool(scopes=["notes:read"])
def whoami(ctx: SyncContext) -> str:
    """Return the name of the caller."""
    assert ctx.principal is not None
    return f"It is {ctx.principal.claims['sub']}."
