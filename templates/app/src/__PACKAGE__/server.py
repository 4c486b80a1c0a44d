"""The MCP server: a tool with a chart, and a tool for the buttons of the chart."""

# skill: from pathlib import Path
# skill:
from mcpkit import Html, MCPKit, ToolError, ToolResult

from . import __version__
from .sales import FIRST_YEAR, LAST_YEAR, MONTHS, SalesError, sold_in

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    http={"health": True},
)
# skill: app.skills(Path(__file__).with_name("skills"))


@app.tool(ui=Html("chart.html"), read_only=True, open_world=False)
def show_sales(year: int = LAST_YEAR) -> ToolResult:
    """Show the sales of a year, month by month, as figures and as a chart.

    Args:
        year: The year, such as 2026.
    """
    return sales(year)


@app.tool(visibility="app", read_only=True, open_world=False)
def load_year(year: int) -> ToolResult:
    """Load the sales of another year into the chart.

    Args:
        year: The year, such as 2025.
    """
    return sales(year)


def sales(year: int) -> ToolResult:
    """Return text for the model, and data for the chart."""
    try:
        sold = sold_in(year)
    except SalesError as error:
        raise ToolError(str(error)) from None
    months = ", ".join(f"{month} {count}" for month, count in zip(MONTHS, sold, strict=True))
    return ToolResult(
        f"Sales of {year}: {sum(sold)} in total. By month: {months}.",
        structured_content={
            "year": year,
            "years": [FIRST_YEAR, LAST_YEAR],
            "months": list(MONTHS),
            "sold": list(sold),
        },
    )
