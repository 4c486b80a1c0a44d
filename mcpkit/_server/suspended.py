"""Runs that wait for the next request of their client: handlers that are suspended at a question.

2026-07-28 has no requests to the client. When a handler asks, its request is answered with the open
questions, and the handler waits. The retry, the client's next request of the call, brings the
answers; it carries the same run on.

    running ──asks──▶ suspended ──retry──▶ running ──▶ over; its response is kept for a while
                          └──evicted──▶ gone; a retry replays the handler from its start

A run is evicted when its client does not come back in time or holds too many, when the server
stops, and when its entries are reloaded. Which client has vanished cannot be known.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final, cast

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._input_requests.replay import REQUIRED_PAGE, StatelessReplay
from mcpkit._input_requests.requester import InputRequired
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import encode
from mcpkit._server.lookup import uri_of
from mcpkit._server.run import ABANDONED, Failed, Outcome, Run
from mcpkit._utils.logs import log
from mcpkit._utils.quota import Quota, RateLimit
from mcpkit._utils.text import single_line, truncate
from mcpkit.context import Context, ContextBackend, RunOwner, do_nothing
from mcpkit.errors import InvalidArguments, InvalidParams, ResourceNotFound
from mcpkit.middleware import Handler
from mcpkit.types import LOG_RANK

MAX_SUSPENDED: Final = 1000
"""Runs that may be suspended at once, in one event loop."""

MAX_EACH: Final = 100
"""Those of one owner."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of their requests, answers and responses; half of them for one owner."""

MAX_MESSAGES: Final = 100
"""Log messages and progress of one run that are kept for its next request; more are dropped."""

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Bytes of those messages; the one that exceeds them is the last."""

_VALUE_BYTES: Final = 64
"""Bytes that a value takes in memory beside its text."""

_TOLD_AGAIN_S: Final = 60.0
"""Seconds between two messages in the log about the same entry and cause."""

_CLEAN_UP_S: Final = 2.0
"""Seconds for evicted handlers to clean up: until they are cancelled, and when the server stops."""


class SuspendedRun(RunOwner):
    """A run that has asked: its host from then on, whichever request carries it."""

    def __init__(self, runs: SuspendedRuns, run: Run, asker: StatelessReplay) -> None:
        self.owner = asker.owner
        self.call = asker.call
        self.run = run
        self.threads = run.session.threads
        self.on_exception = run.session.on_exception
        self.is_suspended = False
        """True while no request carries it, and it is not over."""
        self.is_evicted = False
        self.is_dropped = False
        """True once it is over and not kept; it has no `run` any more."""
        self._stop_timer: Callable[[], object] = do_nothing
        self.size = 0
        """Bytes that it holds, once it was suspended or is over."""
        self.until = 0.0
        """The time at which it is evicted."""
        self._runs = runs
        self._asker = asker
        self._retries: dict[Run, None] = {}
        """The requests that wait for the next response; the first one carries the run."""
        self._responded = anyio.Event()
        self._response: bytes | Failed | object | None = None
        self._messages: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._messages_size = 0
        self._is_ending_round = False
        self._first_size = 0
        asker.hold = self.hold

    # --- questions --------------------------------------------------------------------------------

    def hold(self) -> Callable[[], object] | None:
        """Hold the run until the answer to a question arrives; see `Replay.hold`."""
        if self.is_evicted or self._runs.is_closing:
            return None
        release = self.threads.lend_place()
        if release is None:
            self._runs.let_go(self.call, "too many threads wait for clients")
        elif not self._is_ending_round:
            # Questions of the same turn of the loop are asked together.
            self._is_ending_round = True
            self._runs.loop.soon(self._end_round)
        return release

    def _end_round(self) -> None:
        """Answer the request that carries the run with the open questions, if there are any."""
        self._is_ending_round = False
        if self.is_dropped:
            return
        run, host = self.run, self.run.session
        if run.is_over or run.cancelled or self.is_suspended or not self._asker.pending:
            return
        try:
            outcome: Outcome = self._asker.input_required()
        except Exception as error:
            outcome = run.failed(error)
        run.session = self
        if host is self:
            self._respond(outcome)
        else:
            host.respond(run, outcome)
            self._runs.known[self.call] = self
            self._count_bytes(0)
        if type(outcome) is Failed:
            self._runs.drop(self)
            run.cancel()
        else:
            self.is_suspended = True
            self._runs.keep(self)

    def _respond(self, outcome: Outcome) -> None:
        response = outcome
        if type(outcome) is not Failed and outcome is not ABANDONED:
            try:
                response = self._runs.encode(self.run.server, self.run.request, outcome)
            except Exception as error:  # the value holds what JSON cannot carry
                response = self.run.failed(error)
        self._response = response
        self._count_bytes(len(response) if isinstance(response, bytes) else 0)
        self._responded.set()

    def _count_bytes(self, response: int) -> None:
        """Count a response, the last request, and the first, which the handler may still have."""
        size = _size_of(self.run.request.params)
        self._first_size = self._first_size or size
        self.size = self._first_size + size + response

    def take_outcome(self, run: Run, outcome: Outcome) -> None:
        """Keep the outcome of the run for the request that carries it, or for the next one."""
        self._runs.release(self)
        run.is_over, self.is_suspended = True, False
        if not self.is_evicted:
            self._respond(outcome)
        self._asker.hold = None
        if self.is_evicted or run.cancelled or type(outcome) is InputRequired:
            self._runs.drop(self)
        else:
            self._runs.keep(self)

    def evict(self) -> None:
        """End the run: `Suspended` is raised where it waits for an answer."""
        self.is_evicted = True
        if self._asker.is_waiting:
            self._asker.wake()
            # One that asks in a task of its own may not notice; others clean up until then.
            delay = 0 if len(self._runs.ending) > MAX_EACH else _CLEAN_UP_S
            self._stop_timer = self._runs.loop.later(delay, self.run.cancel)
        else:
            self.run.cancel()

    def forget(self) -> None:
        """Break the cycle with its run, which is over: it would keep the request for a while."""
        self.is_dropped = True
        self._stop_timer()
        del self.run

    # --- retries ----------------------------------------------------------------------------------

    async def carry_on(self, retry: Run, start: Callable[[], object] = do_nothing) -> Outcome:
        """Return the next response for a request that carries the run on, or waits for it.

        A state that was used before gets the latest response, also with other answers (MRTR-8).
        """
        asker = cast("StatelessReplay", retry.asker)
        if asker is not self._asker:
            asker.hold = None
        was_suspended, is_used = self.is_suspended, 0 < asker.rounds < self._asker.rounds
        if was_suspended and is_used:
            return self._response
        if was_suspended:
            self._runs.release(self)
            self.is_suspended = False
            self._responded, self._response = anyio.Event(), None
        responded = self._responded
        self._retries[retry] = None
        try:
            if len(self._retries) == 1:
                self._adopt(retry)
            start()
            if was_suspended:
                self._asker.continue_with(asker)
            await responded.wait()
        finally:
            del self._retries[retry]
            if not responded.is_set():
                self._lose()
        return self._response

    def _adopt(self, retry: Run) -> None:
        """Make a request the one of the run, and send it what was kept for it."""
        if not self.run.is_over:
            self.run.request, self.run.server = retry.request, retry.server
            self.on_exception = retry.session.on_exception
        self._messages_size = 0
        while self._messages:
            self._send(*self._messages.popleft())

    def _lose(self) -> None:
        """Let the next request carry the run; without one, the client has cancelled it."""
        if self._retries:
            self._adopt(next(iter(self._retries)))
        else:
            self._runs.end(self)
            self.run.cancel()

    # --- the host of the run ----------------------------------------------------------------------

    @property
    def is_closing(self) -> bool:
        """True if the run was evicted, or the session of its request ends."""
        return self.is_evicted or any(each.session.is_closing for each in self._retries)

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification with the request that carries the run, or keep it for the next."""
        if not self._runs.loop.on_loop():
            self._runs.loop.soon(partial(self.notify, request, method, params))
        elif not self.is_suspended:
            self._send(method, params)
        elif len(self._messages) < MAX_MESSAGES and self._messages_size < MAX_MESSAGE_BYTES:
            self._messages.append((method, params))
            self._messages_size += _size_of(params)

    def _send(self, method: str, params: Mapping[str, Any]) -> None:
        if not self._retries:
            return
        carrier = next(iter(self._retries))
        request = carrier.request
        if method == "notifications/progress":
            token = request.meta.get("progressToken")
            if token is None:
                return
            params = {**params, "progressToken": token}
        elif method == "notifications/message":
            threshold = self.log_threshold(request)
            if threshold is None or LOG_RANK[params["level"]] < threshold:
                return
        carrier.session.notify(request, method, params)

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the lowest level that the request wants; None: nothing."""
        if self.is_suspended:
            return 0  # the next request decides
        return None if request.log_level is None else LOG_RANK[request.log_level]

    async def drain(self, request: Request) -> None:
        """Wait until the client keeps up."""
        for each in list(self._retries)[:1]:
            await each.session.drain(request)


class SuspendedRuns:
    """The runs of one event loop that have asked their clients, and wait or are over.

    Args:
        loop: The event loop.
        lifetime: Seconds after which a run is evicted.
        encode: Encodes the result of a request, from its server and the outcome of its run.
    """

    def __init__(
        self, loop: Loop, lifetime: float, encode: Callable[[Any, Request, Outcome], bytes]
    ) -> None:
        self.loop = loop
        self.encode = encode
        self.lifetime = lifetime
        self.count = Quota(MAX_SUSPENDED, MAX_EACH)
        self._bytes = Quota(MAX_BYTES)
        self.known: dict[str, SuspendedRun] = {}
        """All, by the ids of their calls."""
        self._kept: OrderedDict[SuspendedRun, None] = OrderedDict()
        """Those that no request carries, the one that was suspended first before the others."""
        self._causes: OrderedDict[str, str] = OrderedDict()
        """Why calls are not held any more."""
        self.is_closing = False
        self.ending: set[SuspendedRun] = set()
        """Those that clean up."""
        self._all_ended: anyio.Event | None = None
        self._stop_timer: Callable[[], object] | None = None
        self._told = RateLimit(1, 1 / _TOLD_AGAIN_S)

    def hold(self, run: Run, asker: StatelessReplay) -> Callable[[], object] | None:
        """Hold a run that asks for the first time; see `Replay.hold`."""
        return SuspendedRun(self, run, asker).hold()

    def let_go(self, call: str, cause: str) -> None:
        """Note why a call is not held any more."""
        self._causes[call] = cause
        if len(self._causes) > MAX_SUSPENDED:
            self._causes.popitem(last=False)

    async def retry(self, retry: Run, handle: Handler) -> Outcome:
        """Serve a request with the state of an earlier one: its run goes on, or is replayed."""
        asker, server, request = cast("StatelessReplay", retry.asker), retry.server, retry.request
        await check_permissions(retry)
        held = self.known.get(asker.call)
        if held is not None:
            if request.operation is not None:
                request.operation.continues = held.run.request
            return await held.carry_on(retry)
        cause = self._causes.pop(asker.call, "this process does not hold it")
        if REQUIRED_PAGE not in asker.ahead:  # else the handler has ended, to be called again
            self.tell(request, f"is replayed from its start: {cause}")
        run = Run(retry.session, server, request)
        run.asker = asker
        held = self.known[asker.call] = SuspendedRun(self, run, asker)
        run.session = held

        async def replayed() -> Any:
            return await handle(server, request.params, Context(run))

        def start() -> None:
            run.cancel_task = self.loop.start(run.complete(replayed()))

        return await held.carry_on(retry, start)

    # --- what is kept -----------------------------------------------------------------------------

    def keep(self, held: SuspendedRun) -> None:
        """Keep a run, or the response of one that is over, until its next request."""
        self.release(held)
        if self.known.get(held.call) is not held:
            return
        held.until = monotonic() + self.lifetime
        self._kept[held] = None
        self.count.add(held.owner)
        self._bytes.add(held.owner, held.size)
        for quota in (self.count, self._bytes):
            while self._kept and quota.exceeds(held.owner):
                # A client that holds many makes room before others do.
                most = max({each.owner for each in self._kept}, key=quota.held)
                own = [each for each in self._kept if each.owner == most]
                # The oldest that is over, else the oldest.
                oldest = next((each for each in own if each.run.is_over), own[0])
                self._evict(oldest, "too many runs wait for their clients")
        if self._stop_timer is None:
            self._stop_timer = self.loop.later(self.lifetime, self._evict_expired)

    def release(self, held: SuspendedRun) -> None:
        """Do not count a run any more: a request carries it."""
        if held in self._kept:
            del self._kept[held]
            self.count.add(held.owner, -1)
            self._bytes.add(held.owner, -held.size)

    def drop(self, held: SuspendedRun) -> None:
        """Forget a run that has ended."""
        self.release(held)
        if self.known.get(held.call) is held:
            del self.known[held.call]
        self.ending.discard(held)
        if not self.ending and self._all_ended is not None:
            self._all_ended.set()
        if held.run.is_over:
            held.forget()

    def _evict_expired(self) -> None:
        self._stop_timer = None
        now = monotonic()
        for held in list(self._kept):
            if held.until > now:
                self._stop_timer = self.loop.later(held.until - now, self._evict_expired)
                return
            self._evict(held, f"its client did not answer within {self.lifetime:g} seconds")

    def _evict(self, held: SuspendedRun, cause: str) -> None:
        if held.run.is_over:
            self.drop(held)
            return
        self.tell(held.run.request, f"is not held any longer: {cause}")
        self.let_go(held.call, cause)
        self.end(held)
        held.evict()

    def end(self, held: SuspendedRun) -> None:
        """Forget a run that was cancelled, and clean up before the server stops."""
        self.drop(held)
        self.ending.add(held)

    def evict_all(
        self, cause: str = "the server stops", of: Container[ContextBackend] | None = None
    ) -> None:
        """Evict every run that no request carries, or those of some."""
        for held in list(self._kept):
            if of is None or held.run in of:
                self._evict(held, cause)

    async def aclose(self) -> None:
        """Hold no run any more, and wait until the handlers have cleaned up."""
        if self.is_closing:
            return
        self.is_closing = True
        self.evict_all()
        if self._stop_timer is not None:
            self._stop_timer()
        with anyio.move_on_after(_CLEAN_UP_S, shield=True):
            while self.ending:
                self._all_ended = anyio.Event()
                await self._all_ended.wait()

    def tell(self, request: Request, what: str) -> None:
        """Log what happens to the run of a request, once a minute for an entry and a cause."""
        name = request.params.get("name") or request.params.get("uri")
        entry = f"{request.method} {single_line(truncate(str(name)))}"
        if not self._told.take(f"{entry} {what}"):
            log.info("the run of %s %s", entry, what)


def _size_of(value: object) -> int:
    """Return about how many bytes a JSON value takes in memory."""
    text = encode(value, fallback=str)
    return len(text) + _VALUE_BYTES * (1 + text.count(b",") + text.count(b"{") + text.count(b"["))


async def check_permissions(run: Run) -> None:
    """Check what may have changed since the first request: visibility, scopes and ``allow=``."""
    request, params, catalog = run.request, run.request.params, run.server.catalog
    if request.known.operation == "read_resource":
        uri = uri_of(params)
        found = catalog.resource(uri)
        if found is None:
            raise ResourceNotFound(uri)
        await found[0].admit(uri, found[1], Context(run))
        return
    name: Any = params.get("name")
    entries = catalog.tools if request.known.operation == "call_tool" else catalog.prompts
    entry = entries.get(name) if isinstance(name, str) else None
    if entry is None:
        raise InvalidParams(f"{truncate(str(name))} is not offered any more")
    with suppress(InvalidArguments):  # since another version of the server has asked
        await entry.admit(params.get("arguments") or {}, request.origin)
