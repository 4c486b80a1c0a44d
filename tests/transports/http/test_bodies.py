"""Large bodies are parsed without the garbage collector, whoever else parses at the same time."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import pytest

from mcpkit.errors import ParseError
from mcpkit.transports.http import bodies
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body

PATIENCE: Final = 20.0
LARGE: Final = b" " * LARGE_BODY + b"1"


class Parsing:
    """Bodies that are being parsed, each in a thread of its own, until the test lets it end."""

    def __init__(self, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        self._threads = threads
        self._own = threading.local()
        monkeypatch.setattr(bodies, "parse", self._parse)

    def begin(self, body: bytes = LARGE) -> One:
        one = One()

        def run() -> Any:
            self._own.one = one
            return parse_body(body, 100)

        one.result = self._threads.submit(run)
        assert one.begun.wait(PATIENCE)
        return one

    def _parse(self, body: bytes) -> Any:
        one: One = self._own.one
        one.begun.set()
        assert one.released.wait(PATIENCE)
        if body.endswith(b"{"):
            raise ParseError("broken")
        return 1


class One:
    """A body that is being parsed."""

    result: Future[Any]

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()

    def end(self) -> None:
        self.released.set()
        assert self.result.result(PATIENCE) == 1


@pytest.fixture
def parsing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parsing]:
    assert gc.isenabled()
    with ThreadPoolExecutor() as threads:
        yield Parsing(threads, monkeypatch)
    gc.enable()


def test_the_collector_rests_while_a_large_body_is_parsed(parsing: Parsing) -> None:
    one = parsing.begin()
    assert not gc.isenabled()
    one.end()
    assert gc.isenabled()


def test_it_does_not_for_a_small_one(parsing: Parsing) -> None:
    one = parsing.begin(b"1")
    assert gc.isenabled()
    one.end()


def test_it_rests_until_the_last_of_several_is_parsed(parsing: Parsing) -> None:
    first = parsing.begin()
    second = parsing.begin()
    first.end()
    assert not gc.isenabled()
    third = parsing.begin()
    second.end()
    assert not gc.isenabled()
    third.end()
    assert gc.isenabled()


def test_whoever_has_turned_it_off_finds_it_off(parsing: Parsing) -> None:
    gc.disable()
    first, second = parsing.begin(), parsing.begin()
    first.end()
    second.end()
    assert not gc.isenabled()


def test_bodies_without_end_do_not_keep_it_off(
    parsing: Parsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-17: somebody has to look for garbage at some time."""
    now = 1000.0
    monkeypatch.setattr("mcpkit._utils.json.time.monotonic", lambda: now)
    first = parsing.begin()
    now += 0.5
    second = parsing.begin()
    first.end()
    assert not gc.isenabled()
    now += 2
    third = parsing.begin()
    second.end()
    assert gc.isenabled(), "the third does not prolong the pause"
    third.end()
    assert gc.isenabled()
