"""Users found by a key, and their permissions."""

# region find
from mcpkit import HttpRequest, MCPKit, Principal, SyncContext, ToolError

KEYS = {
    "k-ada": Principal("ada", scopes=frozenset({"read", "write"})),
    "k-bob": Principal("bob", scopes=frozenset({"read"})),
}


def find_principal(http: HttpRequest) -> Principal | None:
    """Find the user by the key in the request."""
    return KEYS.get(http.headers.get("x-key", ""))


app = MCPKit("notes", http={"principal": find_principal})


@app.tool
def delete_note(title: str, ctx: SyncContext) -> str:
    """Delete a note."""
    if ctx.principal is None or "write" not in ctx.principal.scopes:
        raise ToolError("You may not delete notes.")
    return f"{ctx.principal.id} has deleted {title}."
    # endregion find


if __name__ == "__main__":
    app.run("http")
