"""What goes wrong while a client gets a token."""

from __future__ import annotations

from mcpkit.errors import ConnectionClosed

__all__ = ["AuthorizationFailed"]


class AuthorizationFailed(ConnectionClosed):
    """There is no token to be had; the message says why, and has none in it."""
