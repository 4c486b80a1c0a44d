"""Five hundred tools on FastMCP, over stdio, without banner and log."""

from __future__ import annotations

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.many import register_all

if __name__ == "__main__":
    app = FastMCP("bench", dereference_schemas=False)
    register_all(app.tool)
    app.run(show_banner=False, log_level="ERROR")
