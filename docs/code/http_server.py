"""A server over HTTP: its description, and facts about its requests."""

# region options
from typing import Annotated

from mcpkit import MCPKit, MirroredHeader, SyncContext

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
    """Return the name of the caller."""
    assert ctx.http is not None
    agent = ctx.http.headers.get("user-agent", "unknown")
    return f"{agent} at {ctx.http.client}, known as {ctx.principal}"
    # endregion whoami


# region header
@app.tool
def stock(
    item: str, region: Annotated[str, MirroredHeader("Region")] = "eu"
) -> str:
    """Return the stock of an item in a region."""
    return f"There is some {item} in {region}."
    # endregion header


if __name__ == "__main__":
    app.run("http")
