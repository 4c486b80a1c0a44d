"""Requester: how a handler gets input from its client, whichever way the revision has for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpkit._input_requests.steps import Step
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import InputRequest
from mcpkit.errors import UrlElicitationRequired


@dataclass(slots=True)
class InputRequired:
    """The outcome of a round that ended with open input requests (MRTR-2)."""

    members: Mapping[str, Any]
    """``inputRequests`` and ``requestState``; for a task, the encoded requests by key."""


class Requester(ABC):
    """Requests input from the client on behalf of one request; chosen once for each run.

    The defaults are those of a handler that waits for its answers, and runs once.
    """

    def __init__(self, request: Request) -> None:
        self._request: Request = request
        self.ahead: set[str] = set()
        """The keys of the requests and steps that this round has still to replay."""
        self.pending: dict[str, InputRequest[Any]] = {}
        """The requests to send before the next round, by key; the request waits for them."""
        self.hold: Callable[[], Callable[[], object] | None] | None = None
        """Called when the run waits for an answer. Returns a function to call once it does not wait
        any more; None if nothing holds the run, so that `Suspended` has to end it. It is None once
        the run is over."""
        self.pausing: Any = None
        """The claim on a call (`mcpkit.tasks.calls`), told before a run that may be replayed waits
        for an answer (`pause`), and when it has that (`go_on`)."""
        self.is_suspended = False
        """True once `Suspended` was raised: the run ends without the answers."""
        self.used_input = False
        """True if the request carried answers of the client: its result must not be cached."""

    @abstractmethod
    async def gather(self, asks: Sequence[InputRequest[Any]]) -> list[Any]:
        """Return the answers to several requests, in their order."""

    def check(self, asks: Sequence[InputRequest[Any]]) -> None:
        """Check that all of several requests can be sent, before the first of them is."""
        for ask in asks:
            ask.check(self._request.revision, self._request.client)
            ask.params(self._request.revision)

    async def start_step(self, name: str) -> Step | None:
        """Start a step; None if handlers are never replayed."""
        return None

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Ask the user to open the URL of an error. Returns the exception to answer with."""
        return error  # the client opens it by itself

    @abstractmethod
    def abandon(self) -> None:
        """End every wait: the client cancelled the request."""

    def input_required(self) -> InputRequired:
        """Return the outcome of a run with pending requests."""
        return InputRequired({})
