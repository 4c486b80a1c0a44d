"""State of a session that was not negotiated at its beginning, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mcpkit.types import LogLevel

__all__ = ["NO_STATE", "SessionState"]


_OVERHEAD: Final = 512
"""Bytes that a URI takes beside its characters."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """State that another session object, perhaps of another process, can take up.

    Args:
        log_level: The level that the client has set; None: the server's default.
        watched: The URIs of the resources that the client has subscribed to.
    """

    log_level: LogLevel | None = None
    watched: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """True if it says anything."""
        return self.log_level is not None or bool(self.watched)

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return sum(len(uri) + _OVERHEAD for uri in self.watched)


NO_STATE: Final = SessionState()
