"""Marks inside ``Annotated[...]`` with which an author says where a value comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


class Claim(NamedTuple):
    """A parameter that is filled from the token: ``tenant: Annotated[str, Claim("tenant")]``.

    It is a claim of the principal (``ctx.principal.claims``); clients cannot send it. A request
    without the claim, or not over HTTP, is refused, unless the parameter has a default.

    Args:
        name: The name of the claim.
    """

    name: str


class Env(NamedTuple):
    """A parameter that is filled from the environment: ``key: Annotated[str, Env("API_KEY")]``.

    It is read when the function is called. A server does not start if a variable is missing or
    empty, unless the parameter has a default, or if it has a placeholder such as ``${NAME}``. The
    value appears in no schema, list, log or error.

    Args:
        name: The name of the variable.
    """

    name: str


class Depends(NamedTuple):
    """A parameter that the server fills in: ``db: Annotated[Database, Depends(connect)]``.

    The function runs once per call, also if several parameters and dependencies need it. Its own
    parameters are filled like a handler's: the context by annotation, further dependencies, and
    the handler's arguments by name.

    Args:
        provide: A function, sync or async. A generator function, a function decorated with
            `contextlib.contextmanager` or `asynccontextmanager`, and one annotated to return an
            ``AbstractContextManager[T]`` or ``AbstractAsyncContextManager[T]``, is entered before
            the call and exited after it. Any other result is injected as it is.
    """

    provide: Callable[..., Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Let ``pydantic.validate_call`` pass on the value, whatever its class."""
        del source, handler
        from pydantic_core import core_schema  # loaded only if it is used

        return core_schema.any_schema()


class InputMarker:
    """A request for input that is sent before a handler runs, to fill a parameter.

    The base class of those in `mcpkit._protocol.input_request`, such as
    ``sure: Annotated[Confirm, Elicit("Really?")]``.
    """

    __slots__ = ()


class Complete(NamedTuple):
    """Suggestions while a prompt argument or a template variable is typed.

    ``city: Annotated[str, Complete(cities)]``; ``Literal``, ``Enum`` and ``bool`` need none.

    Args:
        values: The values, or a function, sync or async, from the text so far to values. Its other
            parameters are filled with the arguments of the same name as far as they are known (None
            before 2025-06-18), or with the context. At most 100 values are sent (COMP-2).
    """

    values: Iterable[str] | Callable[..., Any]


class Idempotent(NamedTuple):
    """The key of a call of a tool: ``key: Annotated[str, Idempotent()]``.

    The first call with a key runs, and a repeat gets its result; see the guide. A parameter that is
    None has no key: each call runs.

    Args:
        lifetime: Seconds for which the result is kept.
    """

    lifetime: float = 86400.0


class MirroredHeader(NamedTuple):
    """A tool's parameter that clients repeat in an HTTP header, so that a gateway can read it.

    ``region: Annotated[str, MirroredHeader("Region")]`` adds ``"x-mcp-header": "Region"`` to the
    input schema. Clients of 2026-07-28 then send ``Mcp-Param-Region`` with each call over HTTP, and
    a call whose header and argument differ is refused (HDR-4). The model chooses the value, as that
    of any argument, so it says nothing about the caller: `Claim` fills a parameter from the token.

    The parameter, or a field of a model that is one, is a string, an integer (within ±(2^53−1)) or
    a boolean, perhaps with a default of None; not an item of an array or a choice of a union
    (HDR-2). Proxies log headers: use none for passwords, tokens and personal data (SEC-13).

    Args:
        name: The text after ``Mcp-Param-``: letters, digits, hyphens, and other characters of a
            token (RFC 9110, 5.6.2). It is unique in a tool, also if case is ignored (HDR-1).
    """

    name: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        if handler.mode == "validation":  # of the arguments, not of the result
            schema["x-mcp-header"] = self.name
        return schema
