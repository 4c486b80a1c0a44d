"""Steps: work that a handler does once, even if it is replayed."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from mcpkit._utils.json import UNSET

_step: ContextVar[str] = ContextVar("mcpkit_step", default="")
"""The key of the step that runs. Keys inside of it begin with it, because the next round does not
run the step again, and so does not count what happens there."""


class Suspended(BaseException):
    """The handler waits for answers that only the next round can bring.

    Not an `Exception`, so that ``except Exception`` in a handler lets it pass.
    """


@dataclass(slots=True)
class Step:
    """One step of a call."""

    name: str
    """The name that its author gave it."""
    key: str
    """Its unique name within the call."""
    done: bool
    """True if an earlier round has finished it."""
    value: Any
    """The result, if it is done."""
    end: Callable[[Any], Awaitable[Any]]
    """Stores the result, and returns the stored one; given `UNSET`, the step has failed and may run
    again."""

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Return a context for running the function of the step."""
        outer = _step.set(self.key)
        try:
            yield
        finally:
            _step.reset(outer)

    async def finish(self, result: Any) -> Any:
        """Store the result, and return it as later rounds will see it."""
        try:
            value = from_json(to_json(result))
        except ValueError as error:
            await self.end(UNSET)
            kind = type(result).__name__
            raise ValueError(
                f"the step {self.name!r} returned a {kind}, which JSON cannot carry; return what "
                f"later code needs as JSON values"
            ) from error
        self.value = await self.end(value)
        return self.value

    async def fail(self) -> None:
        """Note that the step raised: it may run again."""
        await self.end(UNSET)


async def called(
    function: Callable[[], Any], in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Any:
    """Return the result of a function, which is called in a thread if it may block."""
    is_async = inspect.iscoroutinefunction(function)
    result = function() if is_async else await in_thread(function)
    return await result if inspect.isawaitable(result) else result


def unused_key(name: str, used: set[str]) -> str:
    """Return a key for one more of a name. The order decides, which is the same in every round."""
    outer = _step.get()
    base = found = f"{outer} / {name}" if outer else name
    count = 1
    while found in used:
        count += 1
        found = f"{base}#{count}"
    used.add(found)
    return found
