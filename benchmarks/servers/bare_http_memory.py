"""The bare application, in a process that tells how much memory it has."""

from __future__ import annotations

import sys

from benchmarks.servers.bare_http import run
from benchmarks.servers.sampling import tell_memory

if __name__ == "__main__":
    tell_memory()
    run(int(sys.argv[1]))
