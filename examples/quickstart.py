"""A first server: two tools, a resource, a template and a prompt."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from mcpkit import Context, MCPKit, ToolError

app = MCPKit("quickstart", instructions="Answers questions about the weather in three cities.")

City = Literal["Lisbon", "Oslo", "Quito"]
DEGREES: dict[City, float] = {"Lisbon": 24.5, "Oslo": 11.0, "Quito": 18.0}


class Forecast(BaseModel):
    """The weather of one day."""

    city: City
    day: int
    celsius: float


@app.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool(read_only=True)
async def forecast(
    city: City, days: Annotated[int, Field(ge=1, le=7)] = 3, *, ctx: Context
) -> list[Forecast]:
    """Forecast the weather of the next days.

    Args:
        city: The name of the city.
        days: The number of days.
    """
    ctx.info(f"looking at the sky over {city}")
    result: list[Forecast] = []
    for day in range(1, days + 1):
        result.append(Forecast(city=city, day=day, celsius=DEGREES[city] + day % 3))
        ctx.progress(day, days)
    return result


@app.tool
def travel(start: City, end: City) -> str:
    """Plan a route from one city to another."""
    if start == end:
        raise ToolError("Start and end are the same city.")
    return f"Take a plane from {start} to {end}."


@app.resource("weather://cities")
def cities() -> list[str]:
    """The cities with a forecast."""
    return list(DEGREES)


@app.resource("weather://{city}/now")
def now(city: City) -> Forecast:
    """The weather in a city right now."""
    return Forecast(city=city, day=0, celsius=DEGREES[city])


@app.prompt
def pack(city: City, days: int = 3) -> str:
    """Help with packing for a trip."""
    return f"What should I pack for {days} days in {city}? Look at the forecast first."


if __name__ == "__main__":
    app.run()
