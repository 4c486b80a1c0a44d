"""Dice that the user sees and can roll again: a tool with a view, for hosts that show views."""

import random
from typing import Annotated

from pydantic import Field

from mcpkit import Html, MCPKit, ToolResult

app = MCPKit("dice")


@app.tool(ui=Html("dice.html"))
def roll_dice(count: Annotated[int, Field(ge=1, le=6)] = 2) -> ToolResult:
    """Roll dice for the user.

    Args:
        count: The number of dice.
    """
    faces = [random.randint(1, 6) for _ in range(count)]
    return ToolResult(
        f"Rolled {' and '.join(map(str, faces))}.",
        structured_content={"faces": faces},
    )
