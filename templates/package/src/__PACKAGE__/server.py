"""The MCP server: tools, resources and prompts. `units` does the work."""

# skill: from pathlib import Path
from typing import Annotated

from mcpkit import Complete, MCPKit, ResourceNotFound, ToolError

from . import __version__, units

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Converts between units. Read units://quantities for the quantities it knows.",
    http={"health": True},
)
# skill: app.skills(Path(__file__).with_name("skills"))


@app.tool(read_only=True, idempotent=True, open_world=False)
def convert(value: float, source: str, target: str) -> units.Measure:
    """Convert a measure to another unit.

    Args:
        value: The number of source units.
        source: The unit to convert from, such as mi.
        target: The unit to convert to, such as km.
    """
    try:
        return units.convert(value, source, target)
    except units.UnitError as error:
        raise ToolError(str(error)) from None


@app.resource("units://quantities", mime_type="application/json")
def quantities() -> list[str]:
    """The quantities that can be converted."""
    return list(units.QUANTITIES)


@app.resource("units://{quantity}/units", mime_type="application/json")
def units_of(quantity: Annotated[str, Complete(units.QUANTITIES)]) -> dict[str, float]:
    """The units of a quantity, each with its size in the first one.

    Args:
        quantity: Such as length.
    """
    if quantity not in units.QUANTITIES:
        raise ResourceNotFound
    return units.QUANTITIES[quantity]


@app.prompt
def metric(text: str) -> str:
    """Rewrite a text with metric units.

    Args:
        text: The text to rewrite.
    """
    return f"Rewrite this with metric units, and convert with the tool:\n\n{text}"
