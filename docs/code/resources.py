"""The resources of a notebook."""

# region first
from datetime import date
from pathlib import Path
from typing import Annotated

from mcpkit import Complete, Context, File, MCPKit, ResourceNotFound

app = MCPKit("notes", cache_ttl=60)

NOTES = {date(2026, 7, 28): "Ship it.", date(2026, 7, 29): "Rest."}


@app.resource("notes://days")
def days() -> list[date]:
    """The days that have a note."""
    return sorted(NOTES)


# endregion first
# region template
def known_days(typed: str) -> list[str]:
    return [day.isoformat() for day in sorted(NOTES)]


@app.resource("notes://day/{day}", mime_type="text/markdown")
def note(day: Annotated[date, Complete(known_days)]) -> str:
    """The note of a day."""
    if day not in NOTES:
        raise ResourceNotFound()
    return NOTES[day]


@app.resource("notes://find{?word,limit}")
def find(word: str = "", limit: int = 10) -> list[str]:
    """The notes that contain a word."""
    return [text for text in NOTES.values() if word in text][:limit]


# endregion template
# region files
FOLDER = Path(__file__).parent
app.files(FOLDER, "notes://code", pattern="*.py")


@app.resource("notes://print")
def printed() -> File:
    """All notes as one text."""
    return File("\n\n".join(NOTES.values()).encode(), "text/plain")


# endregion files
# region changed
@app.tool
async def write(day: date, text: str, ctx: Context) -> str:
    """Write the note of a day."""
    NOTES[day] = text
    ctx.notify_resource_updated(f"notes://day/{day}")
    return f"Written for {day:%A}."


# endregion changed
if __name__ == "__main__":
    app.run()
