"""Python functions: their signatures, JSON Schemas, arguments and results."""
