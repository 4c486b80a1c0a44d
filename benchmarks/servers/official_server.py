"""The official SDK, logging only warnings: `official_server.py add|many|http [PORT]`."""

from __future__ import annotations

import sys

from mcp.server import MCPServer  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.many import add, register_all

if __name__ == "__main__":
    kind, *port = sys.argv[1:]
    app = MCPServer("bench", log_level="WARNING")
    if kind == "many":
        register_all(app.add_tool)
    else:
        app.add_tool(add)
    if port:
        app.run("streamable-http", port=int(port[0]), json_response=True)
    else:
        app.run()
