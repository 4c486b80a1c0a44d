"""Measures mcpkit beside a bare loop and beside other frameworks: `python -m benchmarks`."""
