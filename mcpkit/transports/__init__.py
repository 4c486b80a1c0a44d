"""Ways of moving messages: one file each, found by name in one table."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

__all__ = ["TRANSPORTS", "load"]

TRANSPORTS: Final[dict[str, str]] = {
    "stdio": "mcpkit.transports.stdio",
}
"""Name → module. A module has ``run(running, **options)``, which serves until it is over."""


def load(name: str) -> Any:
    """The module of a transport, imported only now.

    Raises:
        ValueError: There is none of this name.
    """
    module = TRANSPORTS.get(name)
    if module is None:
        raise ValueError(f"unknown transport {name!r}; known: {', '.join(TRANSPORTS)}")
    return import_module(module)
