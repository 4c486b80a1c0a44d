"""A tool with a budget for its result."""

# region first
from dataclasses import dataclass

from mcpkit import MCPKit

app = MCPKit("reports")


@dataclass
class Report:
    """A report of sales."""

    year: int
    rows: list[str]
    remarks: str


@app.tool(read_only=True, max_result=2000)
def report(year: int) -> Report:
    """Return the sales of a year."""
    rows = [f"day {day}: {day * 3} sold" for day in range(365)]
    return Report(year, rows, "Nothing happened. " * 200)
    # endregion first
