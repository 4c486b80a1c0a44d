"""The wire, without input or output."""
