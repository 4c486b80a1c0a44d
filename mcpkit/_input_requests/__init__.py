"""Questions of a handler to its client, and the ways to get the answers."""
