"""mcpkit, for `mcpkit run` or by itself over stdio: `mcpkit_server.py add|many`."""

from __future__ import annotations

import sys

from benchmarks.servers.many import add, register_all
from mcpkit import MCPKit

app = MCPKit("bench")

if __name__ == "__main__" and sys.argv[1] == "many":
    register_all(app.tool)
else:
    app.add_tool(add)

if __name__ == "__main__":
    app.run()
