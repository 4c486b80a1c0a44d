"""The bare loop again, with pydantic loaded as well: the control, which should be no slower.

It is the same code in a process whose memory is laid out differently, because what depends on the
layout, such as when the allocator gives memory back, must not pass for a difference of the code.
"""

from __future__ import annotations

from pydantic import BaseModel, TypeAdapter

from benchmarks.servers.bare_asyncio import server

LOADED = (BaseModel, TypeAdapter)

if __name__ == "__main__":
    server.run()
