"""Books a trip by asking the user on the way, and books it once, whatever the client's revision.

Shows forms from a dataclass and a pydantic model, choices, several questions at once with
``ctx.gather``, a mere confirmation, what to do when the user declines, and ``ctx.step``: on
2026-07-28 a handler may be replayed after an answer, and what is in a step is not.

    mcpkit run examples/trip_booking.py
"""

import itertools
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from mcpkit import (
    Accepted,
    Choices,
    Context,
    Declined,
    Dismissed,
    Elicit,
    MCPKit,
    ToolError,
)

app = MCPKit(
    "trips",
    version="1.0",
    instructions="Booking asks the user; do not ask for the details yourself.",
)

City = Literal["Lisbon", "Oslo", "Quito"]
PRICES: dict[City, int] = {"Lisbon": 9000, "Oslo": 14000, "Quito": 6000}
"""Cents for one night."""

ROOMS = {"single": "Single room", "double": "Double room, 50 % more"}


@dataclass
class Stay:
    """The first form: when and how long. Field metadata reaches the user's form."""

    arrival: date
    nights: Annotated[int, Field(ge=1, le=30)]


class Guest(BaseModel):
    """The second form: who travels."""

    name: Annotated[str, Field(min_length=1, max_length=80, title="Name in the passport")]
    meal: Annotated[str, Choices({"any": "Anything", "veg": "Vegetarian"})] = "any"


class Booking(BaseModel):
    """A trip that is booked."""

    number: int
    city: City
    arrival: date
    nights: int
    room: str
    guest: str
    cents: int


bookings: dict[int, Booking] = {}
numbers = itertools.count(1)


def reserve(city: City, stay: Stay, room: str, guest: Guest) -> Booking:
    """The side effect: it must happen once for each booking."""
    booking = Booking(
        number=next(numbers),
        city=city,
        arrival=stay.arrival,
        nights=stay.nights,
        room=room,
        guest=guest.name,
        cents=price(city, stay.nights, room),
    )
    bookings[booking.number] = booking
    return booking


def price(city: City, nights: int, room: str) -> int:
    """In cents."""
    return PRICES[city] * nights * (3 if room == "double" else 2) // 2


def still_wanted(number: int) -> str:
    """The question that `cancel` asks before it runs, if there is anything to ask about."""
    if number not in bookings:
        known = ", ".join(map(str, bookings)) or "none"
        raise ToolError(f"There is no booking {number}; there are: {known}.")
    return f"Cancel booking {number} for good?"


@app.tool(destructive=False)
async def book(city: City, ctx: Context) -> Booking:
    """Book a hotel. The user is asked for dates, room and guest, and has to confirm the price.

    Args:
        city: The city to stay in.
    """
    if not ctx.client.supports("elicitation", "form"):
        raise ToolError("Your client cannot ask the user, and nothing is booked without asking.")

    match await ctx.elicit(f"When do you travel to {city}?", Stay):
        case Accepted(data=stay):
            pass
        case Declined():
            raise ToolError("The user does not want to travel. Nothing is booked.")
        case Dismissed():
            raise ToolError("The user closed the form. Ask whether to try again later.")

    # Both in one round on 2026-07-28, side by side before.
    room, guest = await ctx.gather(
        Elicit("Which room?", Choices(ROOMS)), Elicit("Who travels?", Guest)
    )
    if not room.accepted or not guest.accepted:
        raise ToolError("The user did not say which room, or who travels. Nothing is booked.")

    cents = price(city, stay.nights, room.data)
    sure = await ctx.elicit(f"{stay.nights} nights in {city} for {cents / 100:.2f}. Book it?")
    if not sure.accepted:
        raise ToolError("The user declined the price. Nothing is booked.")

    booking = await ctx.step("reserve", reserve, city, stay, room.data, guest.data)
    # A question after the side effect: the handler runs once more, `reserve` does not.
    reminder = await ctx.elicit(f"Booked: number {booking.number}. Remind you?", ["yes", "no"])
    # After the last question, where it is said once.
    wanted = reminder.data if reminder.accepted else "no"
    ctx.info(f"booking {booking.number} is made; reminder: {wanted}")
    return booking


class Reason(BaseModel):
    """What the user says before a booking is cancelled."""

    cancel: Annotated[bool, Field(title="Yes, cancel it")]
    reason: Annotated[str, Field(max_length=200)] = ""


@app.tool(destructive=True)
async def cancel(number: int, sure: Annotated[Reason, Elicit(still_wanted)]) -> str:
    """Cancel a booking, after the user has agreed.

    Args:
        number: Of the booking.
    """
    if not sure.cancel:
        return f"Booking {number} stays."
    bookings.pop(number, None)
    return f"Booking {number} is cancelled."


@app.tool(read_only=True)
def list_bookings() -> list[Booking]:
    """List the bookings."""
    return list(bookings.values())


if __name__ == "__main__":
    app.run()
