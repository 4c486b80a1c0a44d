"""Tasks as clients see them, on every transport and in both of their shapes."""
