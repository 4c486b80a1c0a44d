"""Serving over the standard streams."""
