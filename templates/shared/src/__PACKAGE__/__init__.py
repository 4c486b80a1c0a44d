"""The MCP server __PROJECT__."""

__version__ = "0.1.0"
