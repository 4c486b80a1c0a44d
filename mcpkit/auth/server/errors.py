"""Refusals of an authorization server, as clients are told (RFC 6749, 4.1.2.1 and 5.2)."""

from __future__ import annotations

__all__ = ["OAuthError"]


class OAuthError(Exception):
    """A request is refused.

    Args:
        code: Of the standard that the request follows.
        description: For developers; nothing in it comes from a request.
        status: Of an answer that is JSON.
    """

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.status = status
