"""mcpkit as an ASGI application under a plain uvicorn: `mcpkit_mounted.py PORT uvicorn|mounted`.

With `uvicorn` the app is all there is, with `mounted` it is attached to a Starlette application.
The server stack is that of the bare application.
"""

from __future__ import annotations

import sys
from typing import Any

from starlette.applications import Starlette

from benchmarks.servers.bare_http import run
from benchmarks.servers.mcpkit_kinds import app

if __name__ == "__main__":
    served: Any = app
    if sys.argv[2] == "mounted":
        served = Starlette()
        app.attach(served, "/mcp")
    run(int(sys.argv[1]), served, lifespan="on")
