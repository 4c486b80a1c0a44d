"""Servers of other libraries, rewritten for mcpkit; loaded by ``mcpkit migrate`` alone."""
