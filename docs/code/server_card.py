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
