"""Large bodies are parsed without the garbage collector, in several threads at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import permutations

import pytest

from mcpkit._utils.json import CollectorPause
from mcpkit.transports.http import bodies
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def begin() -> CollectorPause:
    pause = CollectorPause()
    pause.__enter__()
    return pause


def test_the_collector_rests_while_a_large_body_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "parse", lambda body: gc.isenabled())
    assert parse_body(b" " * LARGE_BODY + b"1", 100) is False
    assert gc.isenabled()
    assert parse_body(b"1", 100) is True, "a small body takes no time"


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_it_runs_again_after_several_bodies_whatever_their_order(order: tuple[int, ...]) -> None:
    pauses = [begin() for _ in order]
    assert not gc.isenabled()
    for number in order:
        pauses[number].__exit__()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    for pause in (begin(), begin()):
        pause.__exit__()
    assert not gc.isenabled()


def test_bodies_without_end_do_not_keep_it_off() -> None:
    """SEC-17: garbage has to be collected at some time."""
    first, second = begin(), begin()
    first.__exit__()
    assert gc.isenabled(), "although the second body is still parsed"
    third = begin()
    assert not gc.isenabled()
    second.__exit__()
    third.__exit__()
    assert gc.isenabled()
