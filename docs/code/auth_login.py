"""Notes behind the login of an identity provider."""

# region login
import os
from typing import Annotated

from mcpkit import Claim, MCPKit, SyncContext
from mcpkit.auth import JWT

app = MCPKit(
    "notes",
    auth=JWT(
        issuer=os.environ.get("ISSUER", "https://login.example.com"),
        audience="https://notes.example.com/mcp",
    ),
    http={"public_url": "https://notes.example.com/mcp"},
)


@app.tool
def my_notes(ctx: SyncContext) -> str:
    """List the notes of the user."""
    return f"The notes of {ctx.principal}."
    # endregion login


# region claims
@app.tool
def team_notes(tenant: Annotated[str, Claim("tenant")]) -> str:
    """List the notes of the user's team."""
    return f"The notes of {tenant}."
    # endregion claims
