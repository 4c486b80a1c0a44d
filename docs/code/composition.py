"""A server made of parts."""

# region first
from mcpkit import MCPKit, resource, tool

app = MCPKit("shop")


class Reviews:
    """Tools that share state."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}

    @tool
    def add(self, title: str, text: str) -> int:
        """Add a review; return the number of reviews."""
        self.kept.setdefault(title, []).append(text)
        return len(self.kept[title])

    @resource("reviews://{title}")
    def read(self, title: str) -> list[str]:
        """The reviews of a book."""
        return self.kept.get(title, [])


app.include(Reviews(), prefix="reviews")  # offers reviews_add
# endregion first

# region app
stock = MCPKit("stock", expose_errors=(LookupError,))
COPIES = {"Emma": 3}


@stock.tool(read_only=True)
def copies(title: str) -> int:
    """Return the number of copies in stock."""
    if title not in COPIES:
        raise LookupError(f"There is no {title!r}.")
    return COPIES[title]


app.include(stock, prefix="stock")  # offers stock_copies
# endregion app
