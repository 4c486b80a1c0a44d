"""Texts of others, which may be of any length, as part of a sentence."""

from __future__ import annotations

__all__ = ["cut"]


def cut(text: str, limit: int = 100) -> str:
    """Return a text of at most `limit` characters; an ellipsis stands for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
