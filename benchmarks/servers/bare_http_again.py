"""The bare application again, in a second program with all of pydantic: the control over HTTP."""

from __future__ import annotations

import sys

from pydantic import BaseModel, TypeAdapter

from benchmarks.servers.bare_http import run

LOADED = (BaseModel, TypeAdapter)

if __name__ == "__main__":
    run(int(sys.argv[1]))
