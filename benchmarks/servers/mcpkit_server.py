"""mcpkit, for `mcpkit run` or by itself over stdio: `mcpkit_server.py add|many`."""

from __future__ import annotations

import sys

from mcpkit import MCPKit

app = MCPKit("bench")


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__" and sys.argv[1] == "many":
    from benchmarks.servers.many import register_all

    register_all(app.tool)
else:
    app.add_tool(add)

if __name__ == "__main__":
    app.run()
