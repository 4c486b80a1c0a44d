"""What an author writes inside ``Annotated[...]`` to say where a value comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["Complete", "DeclaredAsk", "Depends"]


class Depends(NamedTuple):
    """A parameter that the server fills in: ``db: Annotated[Database, Depends(connect)]``.

    The function runs once per call, however many parameters and other dependencies want it. Its
    own parameters are filled like a handler's: the context by annotation, further dependencies,
    and the handler's arguments by name.

    Args:
        provide: A function, sync or async. A generator function, or one decorated with
            `contextlib.contextmanager` or `asynccontextmanager`, is entered before the call and
            left after it.
    """

    provide: Callable[..., Any]


class DeclaredAsk:
    """A question to the client that is asked before a handler runs, to fill a parameter.

    The base of the questions in `mcpkit.asks`: ``sure: Annotated[Confirm, Elicit("Really?")]``.
    """

    __slots__ = ()


class Complete(NamedTuple):
    """Suggestions while a prompt argument or a template variable is typed.

    ``city: Annotated[str, Complete(cities)]``; ``Literal``, ``Enum`` and ``bool`` need none.

    Args:
        values: The values to choose from, or a function, sync or async, from what has been typed
            so far to values. Further parameters of the function are filled with the arguments of
            the same name as far as they are known (None before 2025-06-18), or with the context.
            At most 100 values are sent (COMP-2).
    """

    values: Iterable[str] | Callable[..., Any]
