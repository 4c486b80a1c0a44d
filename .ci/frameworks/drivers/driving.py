"""What all drivers in Python have in common.

A driver is told how the server is reached, by a URL or a command with its arguments, and prints one
line of JSON: the client's version, and the value that it showed for each thing tried. What the
client has no way to show is left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

WAIT = 40

ADD = {"a": 2, "b": 40}
BOOK = {"guests": [{"name": "Ann", "age": 7}, {"name": "Bob"}], "nights": 2}
LOCATE = {"city": "Lisbon"}
REFUSE = {"reason": "not today"}
COUNT = {"to": 2}
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
)
"""What the server draws."""

SERVER = sys.argv[1:]
"""How the server is reached."""
URL = SERVER[0] if SERVER[0].startswith("http") else None

FOLDER = Path(os.environ["FOLDER"])
"""Where the client is installed."""


def program(name: str) -> str:
    """A program of the client's, from npm or from PyPI."""
    found = [FOLDER / each / name for each in ("node_modules/.bin", "bin")]
    return str(next(each for each in found if each.exists()))


def version_of(package: str) -> str:
    """The version of the client's package, which need not be one of this Python's."""
    manifest = FOLDER / "node_modules" / package / "package.json"
    if manifest.exists():
        found: str = json.loads(manifest.read_text())["version"]
        return found
    where = [str(each) for each in FOLDER.glob("lib/python*/site-packages")]
    return next(iter(distributions(name=package, path=where))).version


class Report:
    """What a client showed.

    Args:
        package: Whose version it is.
    """

    def __init__(self, package: str) -> None:
        self.values: dict[str, Any] = {"version": version_of(package)}

    async def note(self, key: str, action: Callable[[], Awaitable[Any]]) -> None:
        """Try one thing; an exception is what was shown then."""
        try:
            self.values[key] = await asyncio.wait_for(action(), WAIT)
        except Exception as error:
            self.values[key] = {"raised": f"{type(error).__name__}: {error}"}

    async def note_answers(
        self, call: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    ) -> None:
        """Try the tools, with a client that shows results as the protocol has them."""

        async def text(name: str, values: dict[str, Any]) -> Any:
            return (await call(name, values))["content"][0]["text"]

        async def locate() -> Any:
            return (await call("locate", LOCATE))["structuredContent"]

        async def picture() -> Any:
            return (await call("picture", {}))["content"][0]["data"]

        async def refuse() -> Any:
            result = await call("refuse", REFUSE)
            return result["content"][0]["text"] if result["isError"] else None

        await self.note("add", lambda: text("add", ADD))
        await self.note("ready", lambda: text("ready", {}))
        await self.note("book", lambda: text("book", BOOK))
        await self.note("locate", locate)
        await self.note("picture", picture)
        await self.note("refuse", refuse)

    def note_now(self, key: str, action: Callable[[], Any]) -> None:
        """The same for a client that is not async."""
        try:
            self.values[key] = action()
        except Exception as error:
            self.values[key] = {"raised": f"{type(error).__name__}: {error}"}

    def print(self) -> None:
        """End with the line of JSON, on a line of its own whatever was printed before."""
        print("\n" + json.dumps(self.values), flush=True)
