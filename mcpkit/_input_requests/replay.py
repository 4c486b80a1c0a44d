"""Asking where the server may not send requests: the handler runs again with recorded answers.

A round is one request of the client. An ask whose answer is not known suspends the handler; the
answer to the request is then what has to be asked, and the state that the next round needs: the
answers and step results so far, sealed and bound to this very call (MRTR-5, MRTR-7, MRTR-15).
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from mcpkit._input_requests.rounds import Rounds, Step
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import Ask
from mcpkit._utils.json import UNSET, is_array, is_object
from mcpkit._utils.quota import ANONYMOUS, Quota
from mcpkit._utils.sealing import SealBroken, Sealer
from mcpkit.errors import InvalidInputResponse, InvalidParams

if TYPE_CHECKING:
    from anyio import Event

__all__ = ["Replay", "StepMemory"]

_LAYOUT: Final = 1
_BAD_STATE: Final = "The request state is not valid; start the request again without it"
"""One message for every cause, so that it tells an attacker nothing."""


@dataclass(slots=True)
class _Memory:
    """The memory that a call has of its earlier rounds; it is sealed into the state."""

    call: str
    round: int = 0
    answers: dict[str, tuple[str, Any]] = field(default_factory=dict[str, "tuple[str, Any]"])
    """Key → fingerprint of the question, and the result as it was sent."""
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """Key → fingerprint, of what the round before asked."""
    steps: dict[str, Any] = field(default_factory=dict[str, Any])


_Place: TypeAlias = tuple[str, str]
"""A step: the name of its call, and its own in it."""


class _Kept(NamedTuple):
    """The result of a step, as JSON; who has caused it, and until when it may be asked for."""

    result: bytes
    owner: str
    until: float


class StepMemory:
    """Results of steps by call, so that a request sent twice does not repeat a side effect.

    The sealed state carries the results of finished rounds; this one also knows of rounds whose
    answer never arrived. It is bounded: whoever has caused too many of them loses the oldest of its
    own, and never those of others.

    Args:
        limit: How many steps are remembered at most.
        most_bytes: How long their results may be together, as JSON.
        share: The part of both that one owner may have.
    """

    def __init__(
        self, limit: int = 10_000, most_bytes: int = 64 * 1024 * 1024, share: float = 0.5
    ) -> None:
        self._count = Quota(limit, int(limit * share))
        self._bytes = Quota(most_bytes, int(most_bytes * share))
        self._done: dict[_Place, _Kept] = {}
        self._places: dict[str, OrderedDict[_Place, None]] = {}
        self._running: dict[_Place, Event] = {}

    async def begin(self, call: str, key: str) -> tuple[bool, Any]:
        """Return True and the result of a step that is done; False if the caller has to run it."""
        from anyio import Event  # importing an app should not load an event loop

        place = (call, key)
        while place in self._running:
            await self._running[place].wait()
        if place in self._done:
            return True, from_json(self._done[place].result)
        self._running[place] = Event()
        return False, None

    def end(
        self,
        call: str,
        key: str,
        result: Any = UNSET,
        owner: str = ANONYMOUS,
        lifetime: float = math.inf,
    ) -> None:
        """A step that began is done; or has failed, and may run again, if there is no result.

        Args:
            call: The name of the call.
            key: The name of the step in it.
            result: A JSON value.
            owner: Whoever has caused it.
            lifetime: Seconds for which somebody may ask for it.
        """
        place = (call, key)
        if result is not UNSET:
            until = time.monotonic() + lifetime
            self._remember(place, _Kept(to_json(result), owner, until))
        self._running.pop(place).set()

    def _remember(self, place: _Place, kept: _Kept) -> None:
        owner = kept.owner
        own = self._places.setdefault(owner, OrderedDict())
        self._done[place] = kept
        own[place] = None
        self._count.add(owner)
        self._bytes.add(owner, len(kept.result))
        now = time.monotonic()
        while own and (
            self._count.exceeds(owner)
            or self._bytes.exceeds(owner)
            or self._done[next(iter(own))].until < now
        ):
            oldest, _ = own.popitem(last=False)
            self._count.add(owner, -1)
            self._bytes.add(owner, -len(self._done.pop(oldest).result))
        if not own:
            del self._places[owner]


class Replay(Rounds):
    """One round of one call.

    Args:
        request: As it was received.
        sealer: For the state.
        steps: Shared by all calls of the server.
        principal: Who asks; the state is worth nothing to anybody else.
        lifetime: Seconds that a state may be used for.
        now: Seconds since the epoch.

    Raises:
        InvalidParams: The state is not ours, was changed, has expired, or belongs to another
            call; or the answers are no object.
    """

    def __init__(
        self,
        request: Request,
        sealer: Sealer,
        steps: StepMemory,
        *,
        principal: str = "",
        lifetime: float = 3600,
        now: float | None = None,
    ) -> None:
        super().__init__(request)
        self._sealer = sealer
        self._steps = steps
        self._principal = principal
        origin = request.origin
        self._owner = ANONYMOUS if origin is None else origin.owner
        self._lifetime = lifetime
        self._expires = (time.time() if now is None else now) + lifetime
        self._now = time.time() if now is None else now
        state = request.params.get("requestState")
        self._memory = self._open(state)
        self._take(request.params.get("inputResponses"))
        if state is not None:
            self.ahead = set(self._memory.asked)

    @property
    def answers(self) -> Mapping[str, tuple[str, Any]]:
        """The answers that were used: key → fingerprint of the question, and the result."""
        return {key: found for key, found in self._memory.answers.items() if found[0]}

    # --- the state --------------------------------------------------------------------------------

    def _binding(self) -> str:
        """Return the digest of the call that the state belongs to, and of its caller."""
        params = self._request.params
        bound = {
            name: value
            for name, value in params.items()
            if name not in ("_meta", "inputResponses", "requestState")
        }
        text = to_json([self._principal, self._request.method, _sorted(bound)])
        from hashlib import sha256  # loaded when needed: it brings OpenSSL along

        return sha256(text).hexdigest()

    def _open(self, state: Any) -> _Memory:
        if state is None:
            return _Memory(call=os.urandom(12).hex())
        if not isinstance(state, str):
            raise InvalidParams(_BAD_STATE)
        try:
            opened = from_json(self._sealer.open(state))
        except (SealBroken, ValueError):
            raise InvalidParams(_BAD_STATE) from None
        if not is_array(opened) or opened[:1] != [_LAYOUT]:
            raise InvalidParams(_BAD_STATE)
        _, binding, expires, call, number, answers, asked, steps = opened
        if binding != self._binding() or expires < self._now:
            raise InvalidParams(_BAD_STATE)
        recorded = {key: (mark, result) for key, (mark, result) in answers.items()}
        return _Memory(call, number, recorded, asked, steps)

    def _seal(self, asked: Mapping[str, str]) -> str:
        memory = self._memory
        state = [
            _LAYOUT,
            self._binding(),
            self._expires,
            memory.call,
            memory.round + 1,
            memory.answers,
            asked,
            memory.steps,
        ]
        return self._sealer.seal(to_json(state))

    def _take(self, responses: Any) -> None:
        """Record the answers of this round; those nobody asked for are passed over (MRTR-10)."""
        if responses is None:
            return
        if not is_object(responses):
            raise InvalidParams('"inputResponses" must be an object')
        asked = self._memory.asked
        first_contact = self._request.params.get("requestState") is None
        for key, result in responses.items():
            if not is_object(result):
                continue  # MRTR-11: malformed, so it is asked again
            if first_contact:
                # MRTR-13: answers may come before any state; the key is all there is to go by.
                self._memory.answers[key] = ("", result)
            elif key in asked:
                self._memory.answers[key] = (asked[key], result)

    # --- asking -----------------------------------------------------------------------------------

    def _find(self, key: str, mark: str, ask: Ask[Any]) -> tuple[bool, Any]:
        """Look among the answers that the client has sent."""
        recorded = self._memory.answers.get(key)
        if recorded is not None and recorded[0] in ("", mark):
            try:
                answer = ask.read(recorded[1])
            except InvalidInputResponse:
                pass  # MRTR-11: what does not fit never counts as an answer
            else:
                # From now on it is an answer to this question, and to no other.
                self._memory.answers[key] = (mark, recorded[1])
                if key in self.ahead:
                    self.ahead.clear()
                return True, answer
        self.ahead.clear()
        self._memory.answers.pop(key, None)
        self.pending[key] = ask
        return False, None

    async def _find_step(self, key: str, place: str) -> Step:
        """Look among the steps that are sealed into the state, and those of this process."""
        memory, steps = self._memory, self._memory.steps
        if place not in steps:
            done, value = await self._steps.begin(memory.call, place)
            if not done:
                self.ahead.clear()
                return Step(key, place, False, None, functools.partial(self._end_step, place))
            steps[place] = value
        return Step(key, place, True, steps[place], functools.partial(self._end_step, place))

    async def _end_step(self, place: str, result: Any) -> Any:
        if result is not UNSET:
            self._memory.steps[place] = result
        self._steps.end(self._memory.call, place, result, self._owner, self._lifetime)
        return result

    # --- the end of a round -----------------------------------------------------------------------

    @property
    def used_input(self) -> bool:
        """True if the client's answers went into the result, because then nobody may keep it."""
        params = self._request.params
        return "inputResponses" in params or "requestState" in params

    def input_required(self) -> dict[str, Any]:
        """The members of the result that asks for what is pending (MRTR-2, MRTR-3)."""
        revision = self._request.revision
        requests = {
            key: {"method": ask.METHOD, "params": ask.params(revision)}
            for key, ask in self.pending.items()
        }
        asked = {key: ask.fingerprint(revision) for key, ask in self.pending.items()}
        return {"inputRequests": requests, "requestState": self._seal(asked)}


def _sorted(value: Any) -> Any:
    """A JSON value with its members in order, so that equal values have equal texts."""
    if is_object(value):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if is_array(value):
        return [_sorted(each) for each in value]
    return value
