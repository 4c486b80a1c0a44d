"""Every kind of result."""

# region data
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from mcpkit import (
    Annotations,
    Audio,
    File,
    Image,
    MCPKit,
    ResourceLink,
    TextContent,
    ToolError,
    ToolResult,
)
from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # that of typing from Python 3.12 on

app = MCPKit("almanac")


class Weather(BaseModel):
    """The weather of a day."""

    celsius: float = Field(description="At noon.")
    rain: bool


@dataclass
class Town:
    """A town."""

    name: str
    people: int


class Sheet(TypedDict):
    """A size of paper, in millimetres."""

    width: int
    height: int


@app.tool
def weather(town: str) -> Weather:
    """Return the weather of today."""
    return Weather(celsius=12.5, rain=town == "Bergen")


@app.tool
def towns() -> list[Town]:
    """List the largest towns."""
    return [Town("Oslo", 709_000), Town("Bergen", 291_000)]


@app.tool
def paper() -> Sheet:
    """Return the size of a sheet."""
    return {"width": 210, "height": 297}


@app.tool
def half(number: int) -> float:
    """Halve a number."""
    return number / 2


@app.tool
def about(town: str) -> dict[str, Any]:
    """Return all facts about a town."""
    return {"town": town, "rivers": ["Akerselva"] if town == "Oslo" else []}


@app.tool
def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"


# endregion data
# region raw
@app.tool(structured_output="raw")
def primes() -> list[int]:
    """List the first primes."""
    return [2, 3, 5, 7]


@app.tool(structured_output=False)
def rivers() -> list[str]:
    """List rivers, for the model alone."""
    return ["Akerselva", "Glomma"]


# endregion raw
# region media
PNG = b64decode(  # a single pixel
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNg"
    "AAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
WAV = b64decode(  # a single sample
    "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
)


@app.tool
def cover(title: str) -> Image:
    """Show the cover of a book."""
    return Image(PNG)


@app.tool
def chime() -> Audio:
    """Play a short sound."""
    return Audio(WAV)


@app.tool
def table() -> File:
    """Give the towns as a file."""
    return File(
        b"name,people\nOslo,709000\n", "text/csv", uri="file:///towns.csv"
    )


@app.tool
def page(title: str) -> list[str | Image]:
    """Show a page with a picture."""
    for_people = Annotations(audience=["user"])
    return ["Page 1", Image(PNG, annotations=for_people)]


# endregion media
# region blocks
@app.tool
def shelf(title: str) -> list[TextContent | ResourceLink]:
    """Find the place of a book, and link to its shelf."""
    return [
        TextContent(f"{title} is upstairs."),
        ResourceLink("shop://shelves/7", "shelf 7"),
    ]


# endregion blocks
# region whole
@app.tool
def find(title: str) -> ToolResult:
    """Find a book."""
    if title == "Ulysses":
        return ToolResult("It is lent out until May.", is_error=True)
    return ToolResult(
        [f"{title} is upstairs.", ResourceLink("shop://shelves/7", "shelf 7")],
        structured_content={"floor": 1, "shelf": 7},
        meta={"example.com/map": "m-7"},
    )


# endregion whole
# region plain
class Ticket:
    """A class that is neither a model nor a dataclass."""

    def __init__(self, number: int, seat: str) -> None:
        self.number = number
        self.seat = seat
        self._paid = True


@app.tool
def ticket() -> Ticket:
    """Give a ticket."""
    return Ticket(12, "4A")


# endregion plain
# region converter
class Money:
    """An amount, as a library of yours has it."""

    def __init__(self, cents: int) -> None:
        self.cents = cents


@app.converter(Money)
def in_words(money: Money) -> str:
    """Format an amount."""
    return f"{money.cents / 100:.2f} EUR"


@app.tool
def price(title: str) -> Money:
    """Return the price of a book."""
    return Money(100 * len(title))


# endregion converter
# region nan
@app.tool
def mean(numbers: list[float]) -> dict[str, float]:
    """Return the mean of numbers."""
    if not numbers:
        return {"mean": float("nan")}
    return {"mean": sum(numbers) / len(numbers)}


# endregion nan
# region failed
@app.tool
def tide(town: str) -> str:
    """Return the time of the high tide."""
    if town == "Madrid":
        raise ToolError("Madrid is not at the sea. Name a town that is.")
    return "At noon."


# endregion failed
# region others
@app.resource("almanac://towns")
def all_towns() -> list[Town]:
    """All towns."""
    return towns()


@app.resource("almanac://map")
def town_map() -> Image:
    """A map."""
    return Image(PNG)


@app.prompt
def describe(title: str) -> list[str | Image]:
    """Ask for a description of a cover."""
    return ["Describe this cover.", Image(PNG)]


# endregion others


if __name__ == "__main__":
    app.run()
