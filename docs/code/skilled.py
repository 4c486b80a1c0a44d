from pathlib import Path

from mcpkit import MCPKit

app = MCPKit("tea")
app.skills(Path(__file__).with_name("skills"))


@app.tool
def temperature(tea: str) -> int:
    """Look up at how many degrees Celsius a tea is brewed."""
    return {"black": 95, "green": 75}[tea]
