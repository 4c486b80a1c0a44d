"""Ways of asking."""

# region match
from typing import Annotated, Literal

from mcpkit import (
    Accepted,
    Choices,
    Context,
    Declined,
    Dismissed,
    Elicit,
    MCPKit,
    Roots,
)
from pydantic import BaseModel, Field

app = MCPKit("asking")


@app.tool
async def book(ctx: Context) -> str:
    """Book a room."""
    match await ctx.elicit("Which room?", ["single", "double"]):
        case Accepted(data=room):
            return f"A {room} room it is."
        case Declined():
            return "No room, then."
        case Dismissed():
            return "Ask me again later."
    # endregion match


# region schemas
class Guest(BaseModel):
    """Who comes."""

    name: str
    nights: Annotated[int, Field(ge=1, le=30)] = 1
    breakfast: bool = True
    floor: Literal["ground", "upper"] = "ground"


@app.tool
async def check_in(ctx: Context) -> str:
    """Check a guest in."""
    guest = await ctx.elicit("Who comes?", Guest)
    extras = await ctx.elicit(
        "Anything else?",
        Choices({"bike": "A bicycle", "sauna": "The sauna"}, multiple=True),
    )
    if not guest.accepted:
        return "No guest comes."
    wanted = extras.data if extras.accepted else "nothing"
    return f"{guest.data.name} stays {guest.data.nights} nights, with {wanted}."
    # endregion schemas


# region sample
class Invoice(BaseModel):
    """The facts in an invoice."""

    sender: str
    cents: int


@app.tool
async def read_invoice(text: str, ctx: Context) -> Invoice:
    """Have the client's model read an invoice."""
    return await ctx.sample(
        f"Read this invoice:\n{text}", result_type=Invoice, max_tokens=300
    )


def rate(currency: str) -> float:
    """Euros for one unit of a currency."""
    return {"USD": 0.9, "GBP": 1.2}.get(currency, 1.0)


@app.tool
async def to_euros(text: str, ctx: Context) -> str:
    """Convert an amount in a text."""
    answer = await ctx.sample(f"How many euros is this? {text}", tools=[rate])
    return answer.text
    # endregion sample


# region gather
@app.tool
async def look_around(ctx: Context) -> str:
    """Ask two things in one round."""
    name, roots = await ctx.gather(Elicit("Your name?", str), Roots())
    return f"{name.data} works in {', '.join(root.uri for root in roots)}."
    # endregion gather


if __name__ == "__main__":
    app.run()
