"""A server in one file: `mcpkit run server.py`."""

from mcpkit import MCPKit

app = MCPKit("minimal")


@app.tool
def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"Hello, {name}!"


if __name__ == "__main__":
    app.run()
