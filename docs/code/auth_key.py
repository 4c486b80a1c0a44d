"""Notes for clients with a key."""

import os

from mcpkit import MCPKit, SyncContext
from mcpkit.auth import Keys, hash_key

app = MCPKit("notes", auth=Keys({hash_key(os.environ["NOTES_KEY"]): "me"}))


@app.tool
def whoami(ctx: SyncContext) -> str:
    """Return the name of the caller."""
    return f"It is {ctx.principal}."


if __name__ == "__main__":
    app.run("http")
