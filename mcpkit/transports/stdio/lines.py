"""Lines out of the chunks of bytes that a stream arrives in.

`Lines` feeds a server's session: a line that is too long is refused while it still arrives, and a
session that is full gets no further line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpkit._utils.json import excess_of
from mcpkit.errors import InvalidRequest

if TYPE_CHECKING:
    from mcpkit._server.session import Session

__all__ = ["MAX_VALUES", "Lines"]

MAX_VALUES: Final = 1_000_000
"""JSON values a line may have: each takes many times the bytes that it was written in."""

_LONG: Final = 64 * 1024


class Lines:
    """Splits a stream into lines for a session, bounds their length, and holds lines back.

    Args:
        session: Receives the lines, and the refusal of each line that is too long.
        max_line: Bytes a line may have.
        blocked: Returns True while no further line may be given to the session.
    """

    def __init__(self, session: Session, max_line: int, blocked: Callable[[], bool]) -> None:
        self.blocked = blocked
        self._session = session
        self._max = max_line
        self._held: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> None:
        """Give every line that a chunk completes to the session, or hold it back."""
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        if not rest:
            return
        self._end_line()
        last = rest.pop()
        self._held.extend(rest)
        self.go_on()
        self._keep(last)

    def go_on(self) -> bool:
        """Give the lines that were held back, as far as the session is not blocked.

        Returns:
            True if none is left, and the session is not blocked.
        """
        held = self._held
        while not self.blocked():
            if not held:
                return True
            self._give(held.popleft())
        return False

    def end(self) -> None:
        """Take an incomplete line as a whole one, because nothing follows."""
        self._end_line()

    def _keep(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        if self._size > self._max:
            self._parts.clear()
            self._skipping = True
            self._refuse()
        else:
            self._parts.append(part)

    def _end_line(self) -> None:
        if not self._skipping:
            self._give(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        self._skipping = False

    def _give(self, line: bytes) -> None:
        size = len(line)
        if size > self._max:
            self._refuse()
        elif size > _LONG and (excess := excess_of(line, MAX_VALUES)):
            self._session.refuse(InvalidRequest(f"A line has {excess}"))
        elif line and not line.isspace():
            self._session.receive(line)

    def _refuse(self) -> None:
        self._session.refuse(InvalidRequest(f"A line has more than {self._max} bytes"))
