"""Checks that uvicorn has the internals that `uvicorn_protocol` relies on.

Uvicorn documents none of them and may change them in any version. So they are looked for when a
server starts, on a protocol that takes one request on a connection that leads nowhere. The parts
that rely on a missing name are left out then; uvicorn serves without them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Internals", "Needs"]

_REQUEST: Final = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


class Needs(NamedTuple):
    """The internals that a part of a protocol relies on.

    Args:
        gives: The benefit that a server is without, if the part is left out.
        methods: Methods of the protocol's class, with the number of arguments they are called with.
        attributes: Attributes of a protocol that has taken a request; dots lead to theirs.
    """

    gives: str
    methods: Mapping[str, int]
    attributes: Sequence[str]


class Internals:
    """The internals of a protocol class of uvicorn's.

    Args:
        protocol: The class.
    """

    def __init__(self, protocol: type[Any]) -> None:
        self._protocol = protocol
        self._made: Any = None
        self._failure: Exception | None = None
        try:
            self._made = _tried(protocol)
        except Exception as error:
            self._failure = error

    def missing(self, needs: Needs) -> list[str]:
        """Return the names that the class lacks, or has with another signature."""
        own = self._protocol.__name__
        missing = [
            f"{own}.{name}"
            for name, count in needs.methods.items()
            if not _takes(getattr(self._protocol, name, None), count)
        ]
        if self._failure is not None:
            # No attribute can be looked up; the reason says more than the names of all.
            why = f"{type(self._failure).__name__}: {self._failure}"
            return [*missing, f"a {own} that can be tried ({why})"]
        return missing + [f"{own}.{path}" for path in needs.attributes if not self._has(path)]

    def _has(self, path: str) -> bool:
        found = self._made
        for name in path.split("."):
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True


def _takes(method: Any, count: int) -> bool:
    """True if a method can be called with so many arguments, in their order."""
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(None, *(None for _ in range(count)))
    except (TypeError, ValueError):
        return False
    return True


def _tried(protocol: type[Any]) -> Any:
    """Return a protocol of a class that has taken one request, which is not served."""
    import uvicorn
    from uvicorn.server import ServerState

    async def serve_nothing(scope: Any, receive: Any, send: Any) -> None:
        """Never be run."""

    config = uvicorn.Config(
        serve_nothing,
        http=protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level=None,
    )
    made = protocol(config=config, server_state=ServerState(), app_state={}, _loop=_Loop())
    made.connection_made(_Transport())
    made.data_received(_REQUEST)
    return made


class _Handle:
    """A task or a timer that never comes."""

    def cancel(self, msg: object = None) -> None:
        """Cancel nothing."""

    def add_done_callback(self, callback: object, *, context: object = None) -> None:
        """Never call it."""


class _Loop:
    """An event loop that runs nothing."""

    def create_task(self, work: Coroutine[Any, Any, Any], **options: object) -> _Handle:
        """Drop the work, which has not begun."""
        work.close()
        return _Handle()

    def call_later(self, delay: float, callback: object, *args: object) -> _Handle:
        """Never call it."""
        return _Handle()

    call_soon = call_at = call_later


class _Transport(asyncio.Transport):
    """A connection that leads nowhere."""

    def is_closing(self) -> bool:
        """Stay open."""
        return False

    def write(self, data: object) -> None:
        """Drop what is written."""

    def close(self) -> None:
        """Stay open."""

    def pause_reading(self) -> None:
        """Read nothing anyway."""

    def resume_reading(self) -> None:
        """Read nothing anyway."""

    def get_write_buffer_size(self) -> int:
        """Return that nothing waits."""
        return 0
