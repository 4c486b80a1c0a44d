"""The same app for `mcpkit run --http`, in a process that tells how much memory it has."""

from __future__ import annotations

from benchmarks.servers.mcpkit_http import app
from benchmarks.servers.sampling import tell_memory

__all__ = ["app"]

tell_memory()
