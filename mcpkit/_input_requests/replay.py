"""Input requests whose answers arrive with a later request, or in the record of a task.

A handler waits at its question until an answer arrives. If nothing holds it any more, it runs again
from its start, and gets the recorded answers and the results of its steps. In 2026-07-28 these
travel with the client: a round answers with the open requests and with the state that the next one
needs, sealed and bound to this very call (MRTR-5, MRTR-7, MRTR-15). Tasks keep them in their
records; see `mcpkit._input_requests.task_replay`.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic_core import from_json, to_json

from mcpkit._input_requests.requester import InputRequired, Requester
from mcpkit._input_requests.steps import Step, Suspended, unused_key
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import InputRequest
from mcpkit._utils.json import UNSET, is_object
from mcpkit._utils.quota import ANONYMOUS, Quota
from mcpkit._utils.sealing import SealBroken, Sealer
from mcpkit.elicitation import ElicitUrl
from mcpkit.errors import (
    InputRequestError,
    InvalidInputResponse,
    InvalidParams,
    UrlElicitationRequired,
)

if TYPE_CHECKING:
    from anyio import Event

_LAYOUT: Final = 2
REQUIRED_PAGE: Final = "required_page"
"""The key of the request to open a page without which a handler cannot be called."""

_BAD_STATE: Final = "The request state is not valid; start the request again without it"
"""One message for every cause: it reveals nothing to an attacker."""


class Replay(Requester):
    """The input requests of one run of a handler."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._keys: set[str] = set()
        self._step_keys: set[str] = set()
        self._changed: Event | None = None
        self._abandoned = False

    @abstractmethod
    def _find(self, key: str, mark: str, ask: InputRequest[Any]) -> tuple[bool, Any]:
        """Return True and the answer to a request; False if it is not known, and `pending` now.

        `key` identifies the request within the call, `mark` is its fingerprint.
        """

    @abstractmethod
    async def _find_step(self, name: str, key: str) -> Step:
        """Return a step that is done, or one to run now."""

    async def gather(self, asks: Sequence[InputRequest[Any]]) -> list[Any]:
        """Return the answers to several requests, which are sent in one round.

        Waits for them if the run is held; raises `Suspended` if it is not, or not any more.
        """
        if not self._request.known.may_request_input:  # MRTR-1
            raise InputRequestError(f"Nothing can be asked in {self._request.method}")
        self.check(asks)
        named = [(*self._name(ask), ask) for ask in asks]
        while True:
            looked_up = [self._find(*each) for each in named]
            if all(found for found, _ in looked_up):
                if self.pausing is not None:
                    await self.pausing.go_on()
                return [answer for _, answer in looked_up]
            try:
                await self._wait_for_answers()
            except Suspended:
                raise
            except BaseException:
                # The handler does not wait for these any more; another branch may.
                self.pending = {k: each for k, each in self.pending.items() if each not in asks}
                self.wake()
                raise
            self.check(asks)  # META-3: with the capabilities of the request that goes on

    def _name(self, ask: InputRequest[Any]) -> tuple[str, str]:
        """Return the key of a request within the call, and its fingerprint."""
        mark, key = ask.fingerprint(self._request.revision), ask.key
        if key is None:
            key = f"{ask.METHOD.replace('/', '_')}_{mark[:8]}"
            if not ask.IS_ASKED_AGAIN:
                return key, mark
        return unused_key(key, self._keys), mark

    async def _wait_for_answers(self) -> None:
        from anyio import Event  # importing an app should not load an event loop

        changed = self._changed or Event()
        if self.pausing is not None:
            self._changed = changed  # an answer may arrive meanwhile
            await self.pausing.pause()
        release = None if self.hold is None else self.hold()
        if release is None:
            self.is_suspended = True
            raise Suspended
        if self.pausing is None:
            self._changed = changed
        try:
            await changed.wait()
        finally:
            release()
        if self._abandoned:
            raise InputRequestError(
                "The client gave up on the request that this question belongs to"
            )

    @property
    def is_waiting(self) -> bool:
        """True if anything waits for an answer."""
        return self._changed is not None

    def wake(self) -> None:
        """Let everything that waits for an answer look again."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    def abandon(self) -> None:
        """End every wait: the client cancelled the request."""
        self._abandoned = True
        self.wake()

    async def start_step(self, name: str) -> Step:
        """Start a step: one that an earlier round has done, or one to run now."""
        return await self._find_step(name, unused_key(name, self._step_keys))

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Ask the user to open the URL by a request: this revision has no error for that."""
        ask = ElicitUrl(error.message, error.url, error.elicitation_id, key=REQUIRED_PAGE)
        # The handler has ended: with the answer it is called again.
        self.hold = None
        try:
            [answer] = await self.gather([ask])
        except Exception as refused:
            return refused
        if not answer.accepted:
            return InputRequestError(f"The user did not open the page: {error.message}")
        # The user who opened the URL is not done there yet (ELIC-10), as the handler has just said.
        # Asking again would repeat until they are, each time with a model in between.
        return InputRequestError(
            f"{error.message}: the page is open, and to be finished before the next call"
        )


# --- 2026-07-28 -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Memory:
    """The results of the earlier rounds of a call, as they are sealed into the state."""

    call: str
    """The id of the call; in the state, the number of its rounds so far follows."""
    answers: dict[str, tuple[str, Any]] = field(default_factory=dict[str, "tuple[str, Any]"])
    """Key → fingerprint of the request, and the client's result."""
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """Key → fingerprint, of the requests of the round before."""
    steps: dict[str, Any] = field(default_factory=dict[str, Any])


StepKey: TypeAlias = tuple[str, str]
"""A step: the id of its call, and its key in it."""


class StepMemory:
    """Results of steps by call: a request that is sent twice does not repeat a side effect.

    Unlike the sealed state, it has the results of rounds whose response never arrived. An owner
    that exceeds its `share` of the limits loses its own oldest results, never those of others.
    """

    def __init__(
        self, limit: int = 10_000, max_bytes: int = 64 * 1024 * 1024, share: float = 0.5
    ) -> None:
        self._count = Quota(limit, int(limit * share))
        self._bytes = Quota(max_bytes, int(max_bytes * share))
        self._done: dict[StepKey, bytes] = {}
        """The results, as JSON."""
        self._by_owner: dict[str, OrderedDict[StepKey, float]] = {}
        """The ends of the lifetimes of the results of each owner, the oldest first."""
        self._running: dict[StepKey, Event] = {}

    async def start(self, step: StepKey) -> tuple[bool, Any]:
        """Return True and the result of a step that is done; False if the caller has to run it."""
        from anyio import Event  # importing an app should not load an event loop

        while step in self._running:
            await self._running[step].wait()
        if step in self._done:
            return True, from_json(self._done[step])
        self._running[step] = Event()
        return False, None

    def end(self, step: StepKey, result: Any, owner: str, lifetime: float) -> None:
        """Store the result of a step for some seconds; `UNSET`: it failed, and may run again."""
        if result is not UNSET:
            self._store(step, to_json(result), owner, time.monotonic() + lifetime)
        self._running.pop(step).set()

    def _store(self, step: StepKey, result: bytes, owner: str, until: float) -> None:
        own = self._by_owner.setdefault(owner, OrderedDict())
        self._done[step] = result
        own[step] = until
        self._count.add(owner)
        self._bytes.add(owner, len(result))
        now = time.monotonic()
        while own and (
            self._count.exceeds(owner)
            or self._bytes.exceeds(owner)
            or next(iter(own.values())) < now
        ):
            oldest, _ = own.popitem(last=False)
            self._count.add(owner, -1)
            self._bytes.add(owner, -len(self._done.pop(oldest)))
        if not own:
            del self._by_owner[owner]


class StatelessReplay(Replay):
    """The input requests of one call, whose state travels with the client.

    The state can be used for `lifetime` seconds, and by its principal alone. The constructor raises
    `InvalidParams` if the state is not ours, was changed, has expired, or belongs to another call.
    """

    def __init__(
        self,
        request: Request,
        sealer: Sealer,
        steps: StepMemory,
        lifetime: float,
    ) -> None:
        super().__init__(request)
        self._sealer = sealer
        self._steps = steps
        self.owner = ANONYMOUS if request.origin is None else request.origin.owner
        self._lifetime = lifetime
        self._now = time.time()
        self.used_input = "requestState" in request.params or "inputResponses" in request.params
        self._memory = self._open(request.params.get("requestState"))
        self.call, _, rounds = self._memory.call.partition("/")
        self.rounds = int(rounds or 0)
        """The number of rounds that ended with open requests."""
        self._take(request.params.get("inputResponses"))
        self.ahead = set(self._memory.asked)

    def continue_with(self, retry: StatelessReplay) -> None:
        """Go on with the request, the answers and the steps of the client's next request."""
        self._request = retry._request
        self._now = retry._now
        self.used_input = True
        self._memory.answers.update(retry._memory.answers)
        self._memory.steps.update(retry._memory.steps)
        self.rounds = max(self.rounds, retry.rounds)
        self.wake()

    @property
    def answers(self) -> Mapping[str, tuple[str, Any]]:
        """The answers that were used: key → fingerprint of the request, and the result."""
        return {key: found for key, found in self._memory.answers.items() if found[0]}

    def _binding(self) -> str:
        """Return the digest of the call that the state belongs to, and of its caller."""
        import json  # loaded when needed, as is hashlib, which brings OpenSSL along
        from hashlib import sha256

        principal = self._request.principal
        bound = dict(self._request.params)
        for name in ("_meta", "inputResponses", "requestState"):
            bound.pop(name, None)
        caller = "" if principal is None else principal.id
        text = json.dumps([caller, self._request.method, bound], sort_keys=True)
        return sha256(text.encode()).hexdigest()

    def _open(self, state: Any) -> _Memory:
        if state is None:
            return _Memory(call=os.urandom(12).hex())
        try:
            layout, *opened = from_json(self._sealer.open(str(state)))
        except (SealBroken, TypeError, ValueError):
            raise InvalidParams(_BAD_STATE) from None
        if layout != _LAYOUT:
            raise InvalidParams(_BAD_STATE)
        binding, expires, *memory = opened
        if binding != self._binding() or expires < self._now:
            raise InvalidParams(_BAD_STATE)
        return _Memory(*memory)

    def _take(self, responses: Any) -> None:
        """Record the answers of this round, and ignore those without a request (MRTR-10)."""
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
                # MRTR-13: answers may arrive before any state; only their key identifies them.
                self._memory.answers[key] = ("", result)
            elif key in asked:
                self._memory.answers[key] = (asked[key], result)

    def _find(self, key: str, mark: str, ask: InputRequest[Any]) -> tuple[bool, Any]:
        recorded = self._memory.answers.get(key)
        if recorded is not None and recorded[0] in ("", mark):
            with suppress(InvalidInputResponse):  # MRTR-11: a malformed result is not an answer
                answer = ask.parse_result(recorded[1])
                # From now on it answers this request, and no other.
                self._memory.answers[key] = (mark, recorded[1])
                if key in self.ahead:
                    self.ahead.clear()
                self.pending.pop(key, None)
                return True, answer
        self.ahead.clear()
        self._memory.answers.pop(key, None)
        self.pending[key] = ask
        return False, None

    async def _find_step(self, name: str, key: str) -> Step:
        steps, end = self._memory.steps, partial(self._end_step, key)
        if key not in steps:
            done, value = await self._steps.start((self.call, key))
            if not done:
                self.ahead.clear()
                return Step(name, key, False, None, end)
            steps[key] = value
        return Step(name, key, True, steps[key], end)

    async def _end_step(self, key: str, result: Any) -> Any:
        if result is not UNSET:
            self._memory.steps[key] = result
        self._steps.end((self.call, key), result, self.owner, self._lifetime)
        return result

    def input_required(self) -> InputRequired:
        """Return the result with the open requests and the state (MRTR-2, MRTR-3)."""
        revision, memory = self._request.revision, self._memory
        self.rounds += 1
        requests = {
            key: {"method": ask.METHOD, "params": ask.params(revision)}
            for key, ask in self.pending.items()
        }
        state = [
            _LAYOUT,
            self._binding(),
            self._now + self._lifetime,
            f"{self.call}/{self.rounds}",
            memory.answers,
            {key: ask.fingerprint(revision) for key, ask in self.pending.items()},
            memory.steps,
        ]
        sealed = self._sealer.seal(to_json(state))
        return InputRequired({"inputRequests": requests, "requestState": sealed})
