"""Five hundred tools on mcpkit, over stdio."""

from __future__ import annotations

from benchmarks.servers.many import register_all
from mcpkit import MCPKit

if __name__ == "__main__":
    app = MCPKit("bench")
    register_all(app.tool)
    app.run()
