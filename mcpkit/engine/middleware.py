"""Middleware: functions around every operation, composed once."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from mcpkit.context import Context
from mcpkit.engine.methods import Operation
from mcpkit.engine.server import Middleware, Server

__all__ = ["compose"]


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
