"""A server with a key for a service of others."""

from typing import Annotated

from mcpkit import Env, MCPKit

app = MCPKit("weather")


@app.tool
def weather(city: str, key: Annotated[str, Env("WEATHER_KEY")]) -> str:
    """Tell the weather in a city."""
    assert key, "here a service would be asked that wants it"
    return f"It is sunny in {city}."
