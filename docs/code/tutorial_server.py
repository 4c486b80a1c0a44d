"""Trips: weather forecasts and rooms."""

from typing import Annotated, Literal

from mcpkit import Context, MCPKit, ToolError
from pydantic import BaseModel, Field

app = MCPKit(
    "trips",
    version="0.1.0",
    instructions="Plans trips. Look at the forecast before you book a room.",
)

City = Literal["Lisbon", "Oslo", "Quito"]
CELSIUS: dict[City, float] = {"Lisbon": 24.5, "Oslo": 11.0, "Quito": 18.0}


class Day(BaseModel):
    """The weather of one day."""

    day: int
    celsius: float


@app.tool(name="city_forecast", read_only=True, open_world=False)
def forecast(
    city: City, days: Annotated[int, Field(ge=1, le=7)] = 3
) -> list[Day]:
    """Forecast the weather in a city.

    Args:
        city: The name of the city.
        days: The number of days.
    """
    return [
        Day(day=day, celsius=CELSIUS[city] + day % 3)
        for day in range(1, days + 1)
    ]


@app.tool(
    name="book_room", read_only=False, destructive=False, open_world=False
)
async def book(
    city: City, nights: Annotated[int, Field(ge=1)], ctx: Context
) -> str:
    """Book a room, after the user has agreed.

    Args:
        city: The name of the city.
        nights: The number of nights.
    """
    answer = await ctx.elicit(
        f"Book {nights} nights in {city} for {80 * nights} euros?"
    )
    if not answer.accepted:
        raise ToolError("The user does not want that room.")
    return f"A room in {city} is booked for {nights} nights."


@app.resource("trips://cities")
def cities() -> list[str]:
    """The cities that trips go to."""
    return list(CELSIUS)


@app.prompt
def pack(city: City, days: int = 3) -> str:
    """Help with packing.

    Args:
        city: The destination.
        days: The length of the trip.
    """
    return f"What to pack for {days} days in {city}? Ask the forecast first."


if __name__ == "__main__":
    app.run()
