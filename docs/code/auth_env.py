"""A server with an API key of another service."""

from typing import Annotated

from mcpkit import Env, MCPKit

app = MCPKit("weather")


@app.tool
def weather(city: str, key: Annotated[str, Env("WEATHER_KEY")]) -> str:
    """Return the weather in a city."""
    assert key, "a real server would pass it to the service"
    return f"It is sunny in {city}."
