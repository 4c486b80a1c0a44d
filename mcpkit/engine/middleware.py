"""Middleware: functions around every operation, composed once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mcpkit.context import CallNext, Context
from mcpkit.engine.methods import Operation
from mcpkit.engine.server import Server

__all__ = ["Middleware", "compose"]

Middleware: TypeAlias = Callable[[Context[Any], CallNext], Awaitable[Any]]
"""Given the context of a request and the way to go on, returns the value to answer with."""


def compose(operation: Operation, middleware: Sequence[Middleware]) -> Operation:
    """Put middleware around an operation, the first outermost; none leaves it as it is."""
    for each in reversed(middleware):
        operation = _around(operation, each)
    return operation


def _around(operation: Operation, middleware: Middleware) -> Operation:
    async def around(server: Server, params: Mapping[str, Any], context: Context[Any]) -> Any:
        async def call_next() -> Any:
            value = operation(server, params, context)
            return await value if inspect.isawaitable(value) else value

        return await middleware(context, call_next)

    return around
