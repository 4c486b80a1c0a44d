"""Count the walk of one tools/call through mcpkit: `python -m benchmarks.walk`.

The walk is the sequence of calls of mcpkit's functions, in the order in which they begin, from the
arrival of a request until its answer is there, after some calls for warming up. A coroutine or
generator counts once, when it first runs. Comprehensions do not count, since newer Pythons make no
frame for most of them; nor does code without a file (dataclasses, named tuples) or of others. A
move is a call in another file than the call before.

The walk is taken in three places, in both eras, with and without a context:

- session: a `Session` is given the text of the message, as on stdio, and hands out that of the
  answer; the channel is that of the in-memory transport, of one function.
- ASGI: the HTTP application is called with a scope, `receive` and `send`.
- shortcut: `Endpoint.begin` is called with a scope and the body, as mcpkit's own server does with
  a POST that has arrived whole (Python 3.11 and later).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import mcpkit
from benchmarks.client import (
    INITIALIZED,
    LEGACY,
    MODERN,
    PATIENCE_S,
    Call,
    adding,
    initialize,
    request,
)
from benchmarks.measure import columns
from benchmarks.servers.mcpkit_kinds import make
from benchmarks.traffic import post, scope_of
from mcpkit._concurrency.loop import open_loop
from mcpkit.transports.memory import MemoryLink

Ask = Callable[[bytes], Awaitable[bytes]]
"""Takes a request; awaited, it returns the answer."""

_HOME = str(Path(mcpkit.__file__).parent) + os.sep
_INLINE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_HANDLERS = {"plain": adding("add"), "ctx": adding("add_ctx")}
_WARM_UP = 5
_FIRST_ID = 1_000_000


# --- counting -------------------------------------------------------------------------------------


def _counts(walk: list[CodeType]) -> tuple[int, int, int, int]:
    """Calls, functions, files and moves."""
    files = [code.co_filename for code in walk]
    moves = sum(one != other for one, other in pairwise(files))
    return len(walk), len(set(walk)), len(set(files)), moves


def _lines(walk: list[CodeType]) -> Iterator[str]:
    """The sequence, a call on each line, with a mark where it moves to another file."""
    before = ""
    for number, code in enumerate(walk, 1):
        place = code.co_filename.removeprefix(_HOME)
        mark = " " if place == before else ">"
        yield f"  {number:3} {mark} {place}:{code.co_firstlineno} {code.co_name}"
        before = place


@contextmanager
def walking() -> Generator[list[CodeType], None, None]:
    """Take note of every call in this thread, inside the `with`."""
    walk: list[CodeType] = []
    entered: set[FrameType] = set()  # kept, so that no frame takes the place of another

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(_HOME)
            and code.co_name not in _INLINE
            and frame not in entered
        ):
            entered.add(frame)
            walk.append(code)

    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)


# --- places ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _session(call: Call, revision: str) -> AsyncGenerator[Ask, None]:
    answers: list[bytes] = []
    async with make().running() as server, open_loop() as loop:
        session = MemoryLink(server, loop, answers.append).session

        async def ask(text: bytes) -> bytes:
            session.receive(text)
            while not answers:
                await asyncio.sleep(0)
            return answers.pop()

        if revision == LEGACY:
            await ask(initialize(revision))
            session.receive(INITIALIZED)
        yield ask
        await session.aclose()


@asynccontextmanager
async def _asgi(call: Call, revision: str) -> AsyncGenerator[Ask, None]:
    application = make().asgi()
    headers = await _headers(application, call, revision)

    async def ask(text: bytes) -> bytes:
        return (await post(application, headers, text))[2]

    yield ask


@asynccontextmanager
async def _shortcut(call: Call, revision: str) -> AsyncGenerator[Ask, None]:
    application = make().asgi()
    headers = await _headers(application, call, revision)
    # Whatever serves begins with the first request that is none of the shortcut's.
    first = request(1, "ping" if revision == LEGACY else "server/discover", {}, revision=revision)
    opening = {**headers, b"mcp-method": b"server/discover"}
    opening.pop(b"mcp-name", None)
    await post(application, opening, first)
    begin = application.shortcuts[b"/mcp"]

    async def ask(text: bytes) -> bytes:
        answered = begin(scope_of(headers, text), text, asyncio.get_running_loop())
        body: bytes = answered[2]
        return body

    yield ask


_PLACES: Mapping[str, Callable[[Call, str], AbstractAsyncContextManager[Ask]]] = {
    "session": _session,
    "ASGI": _asgi,
    "shortcut": _shortcut,
}


async def _headers(application: Any, call: Call, revision: str) -> dict[bytes, bytes]:
    """The headers of a call, by name, after the handshake if the revision has one."""
    headers = {
        b"host": b"127.0.0.1:8000",
        b"content-type": b"application/json",
        b"accept": b"application/json, text/event-stream",
    }
    version = {b"mcp-protocol-version": revision.encode()}
    if revision == MODERN:
        repeated = {b"mcp-method": call.method.encode(), b"mcp-name": call.name.encode()}
        return headers | version | repeated
    text = initialize(revision)
    _, found, _ = await post(application, headers, text)
    headers |= version | {b"mcp-session-id": found[b"mcp-session-id"]}
    await post(application, headers, INITIALIZED)
    return headers


async def _walk(place: str, call: Call, revision: str) -> list[CodeType]:
    """The walk of a call that was made a few times before."""
    walk: list[CodeType] = []
    async with _PLACES[place](call, revision) as ask:
        for number in range(_FIRST_ID, _FIRST_ID + _WARM_UP + 1):
            text = request(number, call.method, call.params, revision=revision).rstrip()
            with walking() as walk:
                answer = await ask(text)
            message = json.loads(answer)
            if message["id"] != number or not call.is_right(message.get("result", {})):
                raise SystemExit(f"answered {answer!r}")
    return walk


# --- the table ------------------------------------------------------------------------------------


def main() -> None:
    """Take every walk and print what was counted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.walk", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--verbose", action="store_true", help="print the calls of every walk")
    parser.add_argument("--only", nargs="+", choices=list(_PLACES), default=list(_PLACES))
    options = parser.parse_args()
    rows = [["place", "handler", "revision", "calls", "functions", "files", "moves"]]
    for place in options.only:
        for revision in (LEGACY, MODERN):
            for handler, call in _HANDLERS.items():
                if place == "shortcut" and sys.version_info < (3, 11):
                    continue
                walk = asyncio.run(asyncio.wait_for(_walk(place, call, revision), PATIENCE_S))
                rows.append([place, handler, revision, *map(str, _counts(walk))])
                if options.verbose:
                    print("\n".join([f"{place}, {handler}, {revision}", *_lines(walk), ""]))
    print("\n".join(columns(rows, left=3)))


if __name__ == "__main__":
    main()
