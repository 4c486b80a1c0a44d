"""The extension `io.modelcontextprotocol/skills`: instructions and files for agents (SEP-2640)."""
