"""An app with a server card."""

from mcpkit import MCPKit

app = MCPKit(
    "weather",
    version="1.2.0",
    title="Weather",
    description="Tells the weather of tomorrow.",
    http={
        "card": {"name": "com.example/weather"},
        "public_url": "https://weather.example.com/mcp",
    },
)


@app.tool(read_only=True)
def rain(city: str) -> bool:
    """Return True if it will rain in a city tomorrow."""
    return city == "Bergen"
