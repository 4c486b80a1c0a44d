"""Middleware: functions around every request, composed once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from pydantic_core import from_json
from typing_extensions import TypeVar

from mcpkit._signature.converters import Converters
from mcpkit._signature.hints import location
from mcpkit._signature.output import Rendered, content_of, render_whole
from mcpkit._signature.signature import is_async
from mcpkit._utils.json import UNSET
from mcpkit._utils.names import caller, library_of, suggest
from mcpkit.context import CallNext, Context
from mcpkit.errors import RegistrationError
from mcpkit.types import ToolResult

ServerT = TypeVar("ServerT", default=Any)

Params: TypeAlias = Mapping[str, Any]
"""The ``params`` of a request."""

Handler: TypeAlias = Callable[[ServerT, Params, Context[Any]], Any]
"""Serves one method: from the server, the params and the context to a value, or an awaitable."""

Middleware: TypeAlias = Callable[[Context[Any], CallNext], Awaitable[Any]]
"""From the context of a request and `CallNext` to the value to answer with."""


MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)


def check_middleware(fn: MiddlewareT) -> MiddlewareT:
    """Return the function; raises `RegistrationError` if it cannot be middleware."""
    library = next(filter(None, map(library_of, inspect.getmro(type(fn)))), None)
    if library is not None:
        raise RegistrationError(
            f"{caller()}{type(fn).__name__} is middleware of {library}, which has another "
            f"signature; {suggest('app', 'add_middleware', ())}"
        )
    if not is_async(fn):
        raise RegistrationError(
            f"{location(fn)} is not async; write async def, and await call_next()"
        )
    return fn


def compose(
    handler: Handler[ServerT], middleware: Sequence[Middleware], converters: Converters
) -> Handler[ServerT]:
    """Return a handler with middleware around it, the first outermost."""
    for each in reversed(middleware):
        handler = _around(handler, each, converters)
    return handler


def _around(
    handler: Handler[ServerT], middleware: Middleware, converters: Converters
) -> Handler[ServerT]:
    async def around(server: ServerT, params: Params, context: Context[Any]) -> Any:
        async def call_next() -> Any:
            value = handler(server, params, context)
            if inspect.isawaitable(value):
                value = await value
            return MiddlewareResult(value) if isinstance(value, Rendered) else value

        value = await middleware(context, call_next)
        if value is None and context.request.known.operation != "listen":  # answered when it ends
            name = getattr(middleware, "__name__", type(middleware).__name__)
            raise TypeError(f"the middleware {name} returned None instead of a result")
        if isinstance(value, MiddlewareResult):
            return value.updated(converters)
        return render_whole(value, converters) if isinstance(value, ToolResult) else value

    return around


class MiddlewareResult(ToolResult):
    """The result of a tool, as middleware may change it; parts are decoded on first access."""

    def __init__(self, rendered: Rendered) -> None:
        self.rendered = rendered
        self.is_error = rendered.is_error
        self.meta = rendered.meta

    @cached_property
    def content(self) -> Any:
        """The blocks for the model."""
        return list(self.rendered.blocks())

    @cached_property
    def structured_content(self) -> Any:
        """The structured content, as clients get it: a non-object is wrapped in one (TOOL-11)."""
        rendered = self.rendered
        if rendered.structured is None:
            return UNSET
        value = from_json(rendered.structured)
        return value if rendered.is_object or rendered.is_raw else {"result": value}

    def updated(self, converters: Converters) -> Rendered:
        """Return the result with the changes."""
        rendered, decoded = self.rendered, vars(self)
        rendered.is_error, rendered.meta = self.is_error, self.meta
        structured = decoded.get("structured_content", rendered.structured)
        if "content" in decoded or structured is UNSET:
            # If the structured content is removed, the text of the content may be made from it.
            rendered.content = content_of(self, converters)
        if structured is UNSET:
            rendered.structured = None
        elif "structured_content" in decoded:
            rendered.structured = converters.json(structured)
            rendered.is_object = rendered.is_object or not rendered.is_raw
        return rendered
