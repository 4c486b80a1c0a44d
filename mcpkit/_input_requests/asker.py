"""The strategy by which the run of a request asks its client, chosen once for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mcpkit._input_requests.rounds import Step
from mcpkit._protocol.input_request import Ask
from mcpkit.errors import UrlElicitationRequired

__all__ = ["Requester"]


class Requester(Protocol):
    """Asks a client on behalf of one request."""

    @property
    def repeats(self) -> bool:
        """True while the handler does again what it has done in an earlier round."""
        ...

    @property
    def is_waiting(self) -> bool:
        """True if the run cannot be answered before the client has answered something."""
        ...

    @property
    def used_input(self) -> bool:
        """True if answers of the client are part of the request, so that nobody may keep the
        result."""
        ...

    async def ask(self, ask: Ask[Any]) -> Any:
        """Ask something and wait for the answer."""
        ...

    async def gather(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Ask several things at once; the answers come in the order of the questions."""
        ...

    async def begin_step(self, key: str) -> Step | None:
        """Begin a step by its name; None if handlers do not run again."""
        ...

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Have the user open the page that an error wants; return what to answer with."""
        ...

    def give_up(self) -> None:
        """End every wait: the client gave up on the request."""
        ...

    def input_required(self) -> dict[str, Any]:
        """Return the members of the result that asks what the run waits for (MRTR-2)."""
        ...
