"""A server with a view, for every transport."""

from __future__ import annotations

from mcpkit import Html, MCPKit, ToolResult

app = MCPKit("sales")


PAGE = Html(
    "<title>Sales</title>",
    csp={"connectDomains": ["https://api.example.com"]},
    permissions=["camera"],
    domain="a.example.com",
    prefers_border=False,
)


@app.tool(ui=PAGE)
def show_sales(year: int) -> ToolResult:
    """Show the sales of a year."""
    return ToolResult(f"12 in {year}.", structured_content={"sold": 12}, meta={"a/b": 1})


@app.tool(visibility="app")
def more_sales() -> str:
    """Load more sales."""
    return "13"
