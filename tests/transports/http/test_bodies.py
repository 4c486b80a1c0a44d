"""Large bodies are parsed without the garbage collector, in several threads at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import TypeAlias

import pytest

from mcpkit.transports.http import bodies
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body
from tests.kit import PATIENCE, ThreadGate

Begin: TypeAlias = Callable[..., Callable[[], None]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Begins to parse a body in a thread, and returns a function that lets it end."""
    assert gc.isenabled()
    with ThreadPoolExecutor() as threads:

        def begin(body: bytes = b" " * LARGE_BODY + b"1") -> Callable[[], None]:
            gate = ThreadGate(1)
            monkeypatch.setattr(bodies, "parse", lambda body: gate())
            parsing = threads.submit(parse_body, body, 100)
            assert gate.started.wait(PATIENCE)

            def end() -> None:
                gate.open()
                assert parsing.result(PATIENCE) == 1

            return end

        yield begin
    gc.enable()


def test_the_collector_rests_while_a_large_body_is_parsed(begin: Begin) -> None:
    end = begin()
    assert not gc.isenabled()
    end()
    assert gc.isenabled()
    end = begin(b"1")
    assert gc.isenabled(), "a small body takes no time"
    end()


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_it_runs_again_after_several_bodies_whatever_their_order(
    begin: Begin, order: tuple[int, ...]
) -> None:
    ends = [begin() for _ in order]
    assert not gc.isenabled()
    for number in order:
        ends[number]()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(begin: Begin) -> None:
    gc.disable()
    for end in (begin(), begin()):
        end()
    assert not gc.isenabled()


def test_bodies_without_end_do_not_keep_it_off(begin: Begin) -> None:
    """SEC-17: garbage has to be collected at some time."""
    end_first, end_second = begin(), begin()
    end_first()
    assert gc.isenabled(), "although the second body is still parsed"
    end_third = begin()
    assert not gc.isenabled()
    end_second()
    end_third()
    assert gc.isenabled()
