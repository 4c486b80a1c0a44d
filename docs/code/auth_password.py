"""Notes behind a login with passwords."""

import os

from mcpkit import MCPKit, SyncContext
from mcpkit.auth import AuthorizationServer, Users

app = MCPKit(
    "notes",
    auth=AuthorizationServer(
        login=Users({"ada": os.environ["ADA_HASH"]}),
        store="logins.db",
    ),
)


@app.tool(scopes=["notes:read"])
def my_notes(ctx: SyncContext) -> str:
    """List the notes of the user."""
    assert ctx.principal is not None
    return f"The notes of {ctx.principal.claims['sub']}."
