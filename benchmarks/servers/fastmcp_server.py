"""FastMCP without banner and log: `fastmcp_server.py add|many|http [PORT]`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.many import add, register_all

if __name__ == "__main__":
    kind, *port = sys.argv[1:]
    app = FastMCP("bench", dereference_schemas=False)
    if kind == "many":
        register_all(app.tool)
    else:
        app.tool(add)
    http = {"transport": "http", "port": int(port[0]), "json_response": True} if port else {}
    app.run(show_banner=False, log_level="ERROR", **http)
