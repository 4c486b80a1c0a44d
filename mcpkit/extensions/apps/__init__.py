"""The extension `io.modelcontextprotocol/ui`: pages that hosts show with results (SEP-1865)."""
