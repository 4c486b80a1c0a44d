"""Refusals of an authorization server, as clients are told (RFC 6749, 4.1.2.1 and 5.2)."""

from __future__ import annotations

from mcpkit._utils.quota import RateLimit

__all__ = ["OAuthError", "check_rate"]


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


def check_rate(limit: RateLimit, address: str, what: str) -> None:
    """Refuse a request of an address that has made too many.

    Raises:
        OAuthError: It has; the message names `what` they are.
    """
    if limit.take(address):
        raise OAuthError("temporarily_unavailable", f"Too many {what}; try later", 429)
