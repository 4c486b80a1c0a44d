"""Notes of each user, in a database that all workers share."""

# region first
import sqlite3
from collections.abc import Iterator
from typing import Annotated

from mcpkit import Depends, MCPKit, SyncContext
from mcpkit.auth import Keys, hash_key

app = MCPKit(
    "notes",
    auth=Keys(
        {
            hash_key("a-long-key-of-ada"): "ada",
            hash_key("a-long-key-of-bob"): "bob",
        }
    ),
)


def owner(ctx: SyncContext) -> str:
    """Return the id of the caller; on stdio there is only one user."""
    return ctx.principal.id if ctx.principal else "local"


def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect("notes.db", check_same_thread=False)
    try:
        with connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS notes (owner TEXT, text TEXT)"
            )
            yield connection
    finally:
        connection.close()


Owner = Annotated[str, Depends(owner)]
Database = Annotated[sqlite3.Connection, Depends(database)]


@app.tool
def note(text: str, owner: Owner, db: Database) -> str:
    """Store a note."""
    db.execute("INSERT INTO notes VALUES (?, ?)", [owner, text])
    return f"Noted for {owner}."


@app.resource("notes://mine")
def mine(owner: Owner, db: Database) -> list[str]:
    """The notes of the user."""
    rows = db.execute("SELECT text FROM notes WHERE owner = ?", [owner])
    return [text for (text,) in rows]
    # endregion first
