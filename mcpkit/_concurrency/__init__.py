"""Where work runs: event loops and threads."""
