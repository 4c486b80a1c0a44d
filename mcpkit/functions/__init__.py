"""What a Python function looks like: signature, types as JSON Schema, arguments and results."""
