"""The tools of a bookshop."""

# region first
from typing import Annotated, Literal

from mcpkit import Depends, MCPKit, SyncContext, ToolError
from pydantic import BaseModel, Field

app = MCPKit("bookshop")


class Book(BaseModel):
    """The facts about a book."""

    title: str
    cents: int
    copies: int


STOCK = {
    "The Left Hand of Darkness": Book(
        title="The Left Hand of Darkness", cents=1250, copies=3
    ),
    "The Dispossessed": Book(title="The Dispossessed", cents=1400, copies=0),
}


@app.tool(read_only=True)
def search(words: str, limit: int = 10) -> list[str]:
    """Find books by words of their titles.

    Args:
        words: Words, separated by blanks; each must occur.
        limit: The largest number of titles.
    """
    wanted = words.casefold().split()
    found = [
        title
        for title in STOCK
        if all(each in title.casefold() for each in wanted)
    ]
    return found[:limit]
    # endregion first


# region arguments
class Address(BaseModel):
    """The address of a parcel."""

    street: str
    town: str
    country: Annotated[
        str, Field(pattern="^[A-Z]{2}$", description="Two letters, as in PT")
    ] = "PT"


@app.tool(destructive=True, idempotent=False)
def order(
    title: str,
    address: Address,
    copies: Annotated[int, Field(ge=1, le=20)] = 1,
    wrapping: Literal["none", "paper", "box"] = "none",
    note: str | None = None,
) -> str:
    """Order copies of a book."""
    return f"{copies} of {title} go to {address.town} ({address.country})."
    # endregion arguments


# region results
@app.tool(read_only=True)
def look_up(title: str) -> Book:
    """Return all facts about a book."""
    if title not in STOCK:
        raise ToolError(f"There is no {title!r}. Use search to find titles.")
    return STOCK[title]
    # endregion results


# region depends
class Till:
    """A till with money."""

    def __init__(self) -> None:
        self.cents = 0


TILL = Till()


def till() -> Till:
    """Return the till."""
    return TILL


@app.tool
def pay(cents: int, till: Annotated[Till, Depends(till)]) -> int:
    """Take money; return the contents of the till."""
    till.cents += cents
    return till.cents
    # endregion depends


# region threads
@app.tool
def count_stock(ctx: SyncContext) -> int:
    """Count all copies."""
    total = 0
    for number, book in enumerate(STOCK.values(), 1):
        if ctx.cancelled:
            break
        total += book.copies
        ctx.progress(number, len(STOCK))
    return total


@app.tool(inline=True)
def vat(cents: int) -> int:
    """Return the tax in a price."""
    return cents - round(cents / 1.06)
    # endregion threads


# region runtime
def sell_out() -> str:
    """Sell the remaining books at half the price."""
    return "Sold."


def end_of_season() -> None:
    """Called by the shop, not by clients."""
    app.add_tool(sell_out, title="Sell out")
    app.remove_tool("order")


def close_till(closed: bool) -> None:
    """Called by the shop as well."""
    if closed:
        app.disable(["order", "pay"])
    else:
        app.enable(["order", "pay"])
    # endregion runtime


if __name__ == "__main__":
    app.run()
