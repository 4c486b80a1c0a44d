"""Five hundred tools on the official SDK, over stdio, logging only warnings."""

from __future__ import annotations

from mcp.server import MCPServer  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.many import register_all

if __name__ == "__main__":
    app = MCPServer("bench", log_level="WARNING")
    register_all(app.add_tool)
    app.run()
