"""A till that is supplied to tools, and a database session for each call."""

# region first
import sqlite3
from collections.abc import Iterator
from typing import Annotated

from mcpkit import Depends, MCPKit, ToolError

app = MCPKit("orders")


def session() -> Iterator[sqlite3.Connection]:
    """Yield a transaction: committed if the tool returns, else rolled back."""
    connection = sqlite3.connect("orders.db", check_same_thread=False)
    try:
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS orders (title TEXT)")
            yield connection
    finally:
        connection.close()


Session = Annotated[sqlite3.Connection, Depends(session)]


@app.tool
def order(title: str, db: Session) -> int:
    """Order a book; return the number of orders."""
    db.execute("INSERT INTO orders VALUES (?)", [title])
    if title == "Ulysses":
        raise ToolError("Ulysses is out of print.")
    (count,) = db.execute("SELECT count(*) FROM orders").fetchone()
    return int(count)
    # endregion first


# region chain
class Orders:
    """The queries of this server."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def titles(self, words: str) -> list[str]:
        found = self.db.execute(
            "SELECT title FROM orders WHERE title LIKE ?", [f"%{words}%"]
        )
        return [title for (title,) in found]


def orders(db: Session) -> Orders:
    return Orders(db)


def is_polite(words: str) -> None:
    """Check an argument of the tool, which arrives by its name."""
    if "now!" in words:
        raise ToolError("Say please.")


@app.tool(read_only=True)
def find(
    words: str,
    orders: Annotated[Orders, Depends(orders)],
    checked: Annotated[None, Depends(is_polite)],
) -> list[str]:
    """Find orders by words of their titles."""
    return orders.titles(words)
    # endregion chain
