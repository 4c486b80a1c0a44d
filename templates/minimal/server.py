"""An MCP server in one file: `mcpkit run server.py`, or `uv run server.py`."""

# /// script
# requires-python = ">=3.10"
# dependencies = ["__MCPKIT_REQUIREMENT__"]
# ///

# skill: from pathlib import Path
# skill:
from mcpkit import MCPKit

app = MCPKit(
    "__PROJECT__",
    version="0.1.0",
    description="__DESCRIPTION__",
)
# skill: app.skills(Path(__file__).with_name("skills"))


@app.tool(read_only=True, open_world=False)
def greet(name: str) -> str:
    """Greet a person by name.

    Args:
        name: The name of the person.
    """
    return f"Hello, {name}!"


@app.resource("greetings://formal", mime_type="text/plain")
def formal() -> str:
    """A greeting for strangers."""
    return "Good day to you."


@app.prompt
def welcome(name: str) -> str:
    """Welcome a person.

    Args:
        name: The name of the person.
    """
    return f"Greet {name} with the tool, then say something kind."


if __name__ == "__main__":
    app.run()
