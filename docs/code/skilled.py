from pathlib import Path

from mcpkit import MCPKit

app = MCPKit("tea")
app.skills(Path(__file__).with_name("skills"))


@app.tool
def temperature(tea: str) -> int:
    """Look up at how many degrees Celsius a tea is brewed."""
    return {"black": 95, "green": 75}[tea]


@app.skill
def tasting() -> str:
    """Judge a tea. Use it when a guest asks if a tea is any good."""
    return "Ask for the color first. Today's tea is green."
