"""Marks inside ``Annotated[...]`` with which an author says where a value comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


class Claim(NamedTuple):
    """A parameter that is filled from the token: ``tenant: Annotated[str, Claim("tenant")]``.

    It is a claim of the principal of the request (``ctx.principal.claims``), and never an argument:
    no client can send it. A request whose principal has no such claim is refused, unless the
    parameter has a default; so is one that does not come over HTTP.

    Args:
        name: Of the claim.
    """

    name: str


class Env(NamedTuple):
    """A parameter that is filled from the environment: ``key: Annotated[str, Env("API_KEY")]``.

    It is read when the function is called. A variable that is missing or empty ends the server
    before it begins to serve, unless the parameter has a default. Its value appears in no schema,
    list, log or error.

    Args:
        name: Of the variable.
    """

    name: str


class Depends(NamedTuple):
    """A parameter that the server fills in: ``db: Annotated[Database, Depends(connect)]``.

    The function runs once per call, however many parameters and other dependencies want it. Its
    own parameters are filled like a handler's: the context by annotation, further dependencies,
    and the handler's arguments by name.

    Args:
        provide: A function, sync or async. A generator function, or one decorated with
            `contextlib.contextmanager` or `asynccontextmanager`, is entered before the call and
            left after it, and so is what a function returns that is annotated with
            ``AbstractContextManager[T]`` or ``AbstractAsyncContextManager[T]``. Anything else it
            returns is injected as is.
    """

    provide: Callable[..., Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Let ``pydantic.validate_call`` pass on what the server has made, of whatever class."""
        del source, handler
        from pydantic_core import core_schema  # only those who use that pay for it

        return core_schema.any_schema()


class InputMarker:
    """A question to the client that is asked before a handler runs, to fill a parameter.

    The base of the questions in `mcpkit._protocol.input_request`:
    ``sure: Annotated[Confirm, Elicit("Really?")]``.
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


class Header(NamedTuple):
    """A tool's parameter that clients repeat in an HTTP header, for those who route requests.

    ``region: Annotated[str, Header("Region")]`` puts ``"x-mcp-header": "Region"`` into the input
    schema. A client of 2026-07-28 then sends ``Mcp-Param-Region`` along with each call over HTTP, a
    gateway can choose a server by it without reading the body, and a call whose header and argument
    disagree is refused (HDR-4). Elsewhere it changes nothing.

    The parameter is a string, an integer (within ±(2^53−1)) or a boolean, or one of these with a
    default of None; it may be a field of a model that is a parameter, but no item of an array and
    no choice of a union (HDR-2). Anything else is refused when the tool is registered.

    Proxies write headers into their logs: passwords, tokens and personal data do not belong there
    (SEC-13).

    Args:
        name: What follows ``Mcp-Param-``: letters, digits and hyphens, and other characters of a
            token (RFC 9110, section 5.6.2). Each name once per tool; case does not count (HDR-1).
    """

    name: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        if handler.mode == "validation":  # what is sent to a tool, not what it returns
            schema["x-mcp-header"] = self.name
        return schema
