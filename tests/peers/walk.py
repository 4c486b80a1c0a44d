"""What our own client and both official Python clients walk: from nothing to a second token.

Usage: walk_CLIENT.py NAME BROWSER LIFETIME (URL ROTATE) ...

NAME is its own; BROWSER follows the address that is added to it; URL is a server; ROTATE is posted
to before the token, which is good for LIFETIME seconds, has run out. It walks to all servers at a
time; prints what it saw at each as JSON, a list.

It needs the standard library alone: its importers run on a Python with one client.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

NAME, BROWSER, LIFETIME, *PLACES = sys.argv[1:]
WAIT = 40
"""Seconds that each step may take."""


def walk_to_all(walk_to: Callable[[str, str], Awaitable[dict[str, Any]]]) -> None:
    """Walk to all servers, each with its URL and ROTATE, and print the reports."""

    async def tried(url: str, rotate: str) -> dict[str, Any]:
        try:
            return await walk_to(url, rotate)
        except Exception:
            return {"failed": traceback.format_exc()}

    async def all_tried() -> list[dict[str, Any]]:
        return await asyncio.gather(*map(tried, PLACES[::2], PLACES[1::2]))

    print(json.dumps(asyncio.run(all_tried())))


class Walk:
    """A walk to one server, with the client's library of HTTP; `rotate` is posted to."""

    def __init__(self, http: Any, rotate: str) -> None:
        self.report: dict[str, Any] = {"asked": []}
        self._http = http
        self._rotate = rotate

    async def follow(self, address: str) -> str:
        """Log in at the address that a client shows; where the browser comes back to it."""
        fields = parse_qs(urlsplit(address).query)
        self.report["asked"].append(fields.get("scope", [""])[0])
        query = urlencode({"who": NAME, "url": address, "end": fields["redirect_uri"][0]})
        async with self.connection() as connection:
            answer = await connection.get(f"{BROWSER}?{query}")
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
        return answer.text

    def connection(self, **options: Any) -> Any:
        """A client of HTTP that goes through no proxy."""
        return self._http.AsyncClient(timeout=WAIT, trust_env=False, **options)

    async def go(
        self,
        names: Callable[[], Awaitable[list[str]]],
        call: Callable[[str], Awaitable[str]],
        token: Callable[[], str],
    ) -> None:
        """Take all steps; `token` returns the one that the client sends at the time."""
        await self._note("listed", names())
        await self._note("who", call("who"))
        await self._note("written", call("write"))
        await self._note("listed_then", names())
        first = token()
        async with self.connection() as connection:
            await connection.post(self._rotate)
        await asyncio.sleep(float(LIFETIME))
        await self._note("who_then", call("who"))
        self.report["refreshed"] = token() != first

    async def _note(self, key: str, step: Awaitable[Any]) -> None:
        try:
            self.report[key] = await asyncio.wait_for(step, WAIT)
        except Exception as error:
            self.report[key] = {"raised": repr(error)}
