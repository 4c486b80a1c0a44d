"""What serves: the entries of the registry, the MCP methods, the sessions that run them."""
