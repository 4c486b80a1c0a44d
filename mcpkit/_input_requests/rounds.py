"""Handlers that run again until all that they ask has been answered.

A run of the handler is a round. An ask whose answer is not known suspends it; the answers, and the
results of steps, are kept until the next round. Where they are kept is for `by_result` and
`by_task` to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic_core import ValidationError, from_json, to_json

from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import Ask
from mcpkit._signature.hints import function_name, location, resolve_hints, underlying
from mcpkit._signature.schema import form_of
from mcpkit._utils.json import UNSET
from mcpkit.elicitation import ElicitUrl
from mcpkit.errors import InputRequestError, UrlElicitationRequired

__all__ = ["Rounds", "Step", "Suspended", "typed"]

_step: ContextVar[str] = ContextVar("mcpkit_step", default="")
"""The place of the step that runs: what happens inside it has names of its own, because a later
round does not run it again, and so does not count what it did."""


class Suspended(BaseException):
    """The handler waits for answers that only the next round can bring.

    Not an `Exception`, so that ``except Exception`` in a handler lets it pass.
    """


class Step:
    """One step of a call, found done or to be run now.

    Args:
        name: As its author has named it.
        place: Its name in the call, and different from that of every other step.
        done: Whether `value` is its result.
        value: The result, if it is done.
        end: Remembers the result, and returns what is remembered; without one it has failed, and
            may run again.
    """

    __slots__ = ("_end", "_name", "_place", "done", "value")

    def __init__(
        self, name: str, place: str, done: bool, value: Any, end: Callable[[Any], Awaitable[Any]]
    ) -> None:
        self._name = name
        self._place = place
        self._end = end
        self.done = done
        self.value = value

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Around the function of the step."""
        outer = _step.set(self._place)
        try:
            yield
        finally:
            _step.reset(outer)

    async def finish(self, result: Any) -> Any:
        """Remember the result; gives it as it will come back.

        Raises:
            ValueError: It is no JSON value, so it cannot be remembered.
        """
        try:
            value = from_json(to_json(result))
        except ValueError as error:
            await self._end(UNSET)
            kind = type(result).__name__
            raise ValueError(
                f"the step {self._name!r} returned a {kind}, which JSON cannot carry; return what "
                f"later code needs as JSON values"
            ) from error
        self.value = await self._end(value)
        return self.value

    async def fail(self) -> None:
        """It raised; it may run again."""
        await self._end(UNSET)


def typed(function: Callable[..., Any], value: Any) -> Any:
    """A JSON value as the type that a function says it returns; as it is if that says nothing.

    Raises:
        ValueError: It says something else.
    """
    name = function_name(function)
    try:
        target = underlying(function)
        returns = resolve_hints(target, name, location(target)).get("return")
        if returns in (None, Any):
            return value
        form = form_of(returns)
    except Exception:  # an annotation that cannot be resolved, or is no type for JSON
        return value
    try:
        return form.validate(value)
    except ValidationError as error:
        raise ValueError(
            f"the step's function {name}() says that it returns {returns}, and what it returned "
            f"is not that once it has been JSON: {error}"
        ) from error


class Rounds(ABC):
    """One round of one call.

    Args:
        request: As it was received.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._asks: set[str] = set()
        self._places: set[str] = set()
        self.ahead: set[str] = set()
        """What an earlier round came to, and this one has not come to yet."""
        self.pending: dict[str, Ask[Any]] = {}
        """What is to be asked before the next round, by key."""

    @property
    def repeats(self) -> bool:
        """True until the handler comes to where the round before ended."""
        return bool(self.ahead)

    @property
    def is_waiting(self) -> bool:
        """True if questions were put whose answers only the next round can bring."""
        return bool(self.pending)

    # --- the memory -------------------------------------------------------------------------------

    @abstractmethod
    def _find(self, key: str, mark: str, ask: Ask[Any]) -> tuple[bool, Any]:
        """Return True and the answer to a question; False if it is not known, and `pending` now.

        Args:
            key: Of the question within the call.
            mark: The fingerprint of the question.
            ask: The question.
        """

    @abstractmethod
    async def _find_step(self, key: str, place: str) -> Step:
        """Return a step that is done, or one to be run now.

        Args:
            key: As its author has named it.
            place: Its name in the call.
        """

    # --- asking -----------------------------------------------------------------------------------

    async def ask(self, ask: Ask[Any]) -> Any:
        """The answer to a question, or the end of this round.

        Raises:
            Suspended: The answer is not known yet.
            MissingClientCapability: The client did not declare that it can be asked.
        """
        self._check_askable()
        found, answer = self._look_up(ask)
        if not found:
            raise Suspended
        return answer

    def _check_askable(self) -> None:
        request = self._request
        if not request.known.asks:  # MRTR-1
            raise InputRequestError(f"Nothing can be asked in {request.method}")

    async def gather(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """The answers to several questions, which are asked in one round."""
        self._check_askable()
        for ask in asks:
            # First of all: what cannot be asked must not leave the others asked in vain.
            ask.check(self._request.revision, self._request.client)
            ask.params(self._request.revision)
        looked_up = [self._look_up(ask) for ask in asks]
        if not all(found for found, _ in looked_up):
            raise Suspended
        return [answer for _, answer in looked_up]

    def _look_up(self, ask: Ask[Any]) -> tuple[bool, Any]:
        revision = self._request.revision
        ask.check(revision, self._request.client)
        mark = ask.fingerprint(revision)
        return self._find(self._key_of(ask, mark), mark, ask)

    def _key_of(self, ask: Ask[Any], mark: str) -> str:
        key = ask.key
        if key is None:
            key = f"{ask.METHOD.replace('/', '_')}_{mark[:8]}"
            if not ask.IS_ASKED_AGAIN:
                return key
        return _unused(key, self._asks)

    async def begin_step(self, key: str) -> Step:
        """A step by its name: done in an earlier round, or to be run now."""
        return await self._find_step(key, _unused(key, self._places))

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Ask the user to open the page, since this revision has no error that says so."""
        ask = ElicitUrl(error.message, error.url, error.elicitation_id)
        try:
            answer = await self.ask(ask)
        except Exception as refused:
            return refused
        if not answer.accepted:
            return InputRequestError(f"The user did not open the page: {error.message}")
        # To open a page is not to be done there (ELIC-10), and the handler says that it is not. To
        # ask once more would be to ask until the user has finished, each time with a model between.
        return InputRequestError(
            f"{error.message}: the page is open, and to be finished before the next call"
        )

    def give_up(self) -> None:  # noqa: B027 - that is all there is to do
        """Do nothing: nobody waits here, since a handler that asks is suspended."""


def _unused(name: str, used: set[str]) -> str:
    """A name for one more of the same, by its order, which is the same in every round."""
    outer = _step.get()
    base = found = f"{outer} / {name}" if outer else name
    count = 1
    while found in used:
        count += 1
        found = f"{base}#{count}"
    used.add(found)
    return found
