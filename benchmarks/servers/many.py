"""The function that calls are measured with, and five hundred others to register and list."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable

COUNT = 500
"""Functions, each of three plain parameters."""

_SOURCE = '''
async def tool_{n}(city: str, nights: int, breakfast: bool = False) -> int:
    """Price room {n} of the house."""
    return nights * 21
'''


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def register_all(register: Callable[[Callable[..., Awaitable[int]]], object]) -> None:
    """Register `COUNT` functions, each compiled from its own source.

    The seconds that took go to stderr as one line of JSON.
    """
    namespace: dict[str, Callable[..., Awaitable[int]]] = {}
    for n in range(COUNT):
        # dont_inherit: this file's postponed annotations are not the measured functions' affair.
        code = compile(_SOURCE.format(n=n), f"<tool {n}>", "exec", dont_inherit=True)
        exec(code, namespace)
    functions = [namespace[f"tool_{n}"] for n in range(COUNT)]
    started = time.perf_counter()
    for function in functions:
        register(function)
    seconds = time.perf_counter() - started
    print(json.dumps({"registered_s": seconds}), file=sys.stderr, flush=True)
