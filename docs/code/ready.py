"""A server that tells its load balancer if it can serve requests."""

# region check
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcpkit import MCPKit


@asynccontextmanager
async def lifespan(
    app: MCPKit[sqlite3.Connection],
) -> AsyncGenerator[sqlite3.Connection, None]:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        yield database
    finally:
        database.close()


app = MCPKit("trips", lifespan=lifespan, http={"health": True, "ready": True})


@app.ready(timeout=2)
def database(connection: sqlite3.Connection) -> None:
    """Raise an exception if the database does not respond."""
    connection.execute("SELECT 1")
    # endregion check


@app.tool(read_only=True)
def distance(start: str, end: str) -> float:
    """Return the distance of two towns in kilometres."""
    return 12.5 if start != end else 0.0
