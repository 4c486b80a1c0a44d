# region function
from mcpkit import Apps, Context, Html, MCPKit, ToolResult

app = MCPKit("shop")


@app.ui("ui://shop/hours.html", prefers_border=False)
def hours_page() -> str:
    """Return the page with the opening hours."""
    return "<!doctype html><title>Opening hours</title>…"


@app.tool(ui="ui://shop/hours.html")
def opening_hours() -> str:
    """Look up when the shop is open."""
    return "From 9 to 18 o'clock, except on Sundays."


# endregion function


# region options
CLAUDE = "1f3870be274f6c49b3e31a0c6728957f.claudemcpcontent.com"


def domain(ctx: Context) -> str | None:
    """Return the origin of the map."""
    info = ctx.client.info
    return CLAUDE if info and info.name.startswith("claude") else None


MAP = Html(
    "<!doctype html><title>Map</title>…",
    csp={
        "resourceDomains": ["https://*.tile.example.com"],
        "connectDomains": ["https://api.example.com"],
    },
    permissions=["geolocation"],
    domain=domain,
    prefers_border=False,
)


@app.tool(ui=MAP)
def find_shops(town: str) -> str:
    """Find the shops in a town."""
    return f"There is one shop in {town}, at the station."


# endregion options


# region visibility
@app.tool(visibility="app", scopes=["orders"])
def next_orders(after: int) -> ToolResult:
    """Load more orders into the list."""
    orders = [after + 1, after + 2]
    return ToolResult(
        f"Orders {orders}.", structured_content={"orders": orders}
    )


# endregion visibility


# region supports
@app.tool
def receipt(number: int, ctx: Context) -> str:
    """Show a receipt."""
    if ctx.client.supports(Apps):
        return f"Receipt {number}: 12 €."
    return f"Receipt {number}: 12 €. Print it at https://example.com/{number}."


# endregion supports
