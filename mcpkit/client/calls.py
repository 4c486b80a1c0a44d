"""Functions of one call: what the server asks and logs during it goes to them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeAlias

from typing_extensions import TypedDict, Unpack

from mcpkit.client.results import InputRequest, Params

OnInput: TypeAlias = Callable[[InputRequest], "Params | Awaitable[Params]"]
"""Answers what a server asks, as it is on the wire."""

OnLog: TypeAlias = Callable[[str, Any, "str | None"], object]
"""Called with level, data and logger of each log message."""


class CallFunctions(TypedDict, total=False):
    """The functions of one call, in place of those of the client.

    Over HTTP, and in 2026-07-28, messages belong to a call. Before that, nothing on stdio says what
    they belong to: they go to the call with such functions, as long as it is the only one.
    """

    on_input: OnInput | None
    """Answers what the server asks: called with an `InputRequest`, returns the result as on the
    wire. Tell the server what it may ask for: ``Client(…, capabilities={"elicitation": {}})``."""
    on_log: OnLog | None
    """Called with level, data and logger of each log message."""


class Call(NamedTuple):
    """The functions of an open call."""

    on_input: OnInput | None
    on_log: OnLog | None
    number: int  # makes it unlike others with the same functions


_CURRENT: Final[ContextVar[Call | None]] = ContextVar("current call", default=None)
"""The call that the running task makes, or reads messages for."""


class Calls:
    """The open calls of a client that have functions of their own."""

    def __init__(self) -> None:
        self._open: list[Call] = []
        self._numbers = itertools.count()

    @contextmanager
    def during(self, **functions: Unpack[CallFunctions]) -> Generator[None, None, None]:
        """Let the functions of a call have what belongs to it."""
        on_input, on_log = functions.get("on_input"), functions.get("on_log")
        if on_input is None and on_log is None:
            yield
            return
        call = Call(on_input, on_log, next(self._numbers))
        self._open.append(call)
        token = _CURRENT.set(call)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self._open.remove(call)

    @property
    def current(self) -> Call | None:
        """The call that a message of the server belongs to, if it has functions."""
        call = _CURRENT.get()
        if call is None or call not in self._open:
            call = self._open[0] if len(self._open) == 1 else None
        return call
