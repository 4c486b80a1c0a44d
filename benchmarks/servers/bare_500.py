"""Five hundred tools on the bare loop, over stdio."""

from __future__ import annotations

from benchmarks.servers.bare_asyncio import BareServer
from benchmarks.servers.many import register_all

if __name__ == "__main__":
    server = BareServer()
    register_all(server.tool)
    server.run()
