"""Tasks that outlive a request: their records, and where those are kept."""
