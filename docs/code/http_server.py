"""What a server over HTTP may say of itself and know of its requests."""

from typing import Annotated

# region options
from mcpkit import Header, MCPKit, SyncContext

app = MCPKit(
    "trips",
    http={
        "allowed_origins": ["https://app.example.com"],
        "cors": True,
        "health": True,
    },
)
# endregion options


# region whoami
@app.tool
def whoami(ctx: SyncContext) -> str:
    """Say who asks."""
    assert ctx.http is not None
    agent = ctx.http.headers.get("user-agent", "somebody")
    return f"{agent} at {ctx.http.client}, known as {ctx.principal}"
    # endregion whoami


# region header
@app.tool
def stock(item: str, region: Annotated[str, Header("Region")] = "eu") -> str:
    """Tell how much of an item is left in a region."""
    return f"There is some {item} in {region}."
    # endregion header


if __name__ == "__main__":
    app.run("http")
