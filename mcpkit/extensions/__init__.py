"""Extensions of MCP that a server may offer besides the core protocol."""
