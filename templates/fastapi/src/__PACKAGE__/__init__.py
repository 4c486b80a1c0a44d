"""__PROJECT__: a web API, and an MCP server over the same functions."""

__version__ = "0.1.0"
