"""A server with long lists."""

# region first
from typing import Annotated

from mcpkit import MCPKit, ToolError
from pydantic import BaseModel, Field

app = MCPKit("words", page_size=100)


def count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


for language in range(250):
    app.add_tool(count, name=f"count_{language}")
# endregion first

# region tool
WORDS = [f"word {number}" for number in range(1000)]


class Page(BaseModel):
    """Some words, and the cursor of the next page."""

    words: list[str]
    next_cursor: str | None = None


@app.tool(read_only=True)
def words(
    cursor: str = "0", limit: Annotated[int, Field(ge=1, le=200)] = 50
) -> Page:
    """List words in the order of the dictionary.

    Args:
        cursor: Where to continue: the next_cursor of the page before.
        limit: The largest number of words.
    """
    if not cursor.isdecimal():
        raise ToolError("Pass the next_cursor of an earlier page, or omit it.")
    end = int(cursor) + limit
    more = str(end) if end < len(WORDS) else None
    return Page(words=WORDS[int(cursor) : end], next_cursor=more)
    # endregion tool
