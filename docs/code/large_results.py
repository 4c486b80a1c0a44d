"""A tool whose result is large: a summary, and a link to the rest."""

# region first
from mcpkit import MCPKit, ResourceLink, ResourceNotFound, ToolResult

app = MCPKit("reports")
ROWS = [f"{day},{day % 7},{day * 3}" for day in range(20_000)]


@app.tool(read_only=True)
def sales(year: int) -> ToolResult:
    """Summarize the sales of a year, and link to all rows."""
    return ToolResult(
        [
            f"{len(ROWS)} rows; the first three:\n" + "\n".join(ROWS[:3]),
            ResourceLink(
                uri=f"sales://{year}", name="all rows", mime_type="text/csv"
            ),
        ]
    )


@app.resource("sales://{year}", mime_type="text/csv")
def rows(year: int) -> str:
    """All rows of a year."""
    if year != 2026:
        raise ResourceNotFound()
    return "\n".join(ROWS)
    # endregion first
