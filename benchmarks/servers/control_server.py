"""The bare server again, with all of pydantic loaded: the control, which should be no slower.

It is the same code in a process whose memory is laid out differently, because an effect of the
layout, such as when the allocator gives memory back, must not pass for a difference of the code.
"""

from __future__ import annotations

import sys

from pydantic import BaseModel, TypeAdapter

from benchmarks.servers.bare_server import main

LOADED = (BaseModel, TypeAdapter)

if __name__ == "__main__":
    main(sys.argv[1:])
