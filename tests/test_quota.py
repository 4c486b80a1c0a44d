"""Quotas and rate limits: how much an owner may hold, and how often it may act."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils import quota as module
from mcpkit._utils.quota import Quota, QuotaExceeded, RateLimit


def take_all(quota: Quota, owner: str) -> int:
    """Take one after the other until no more is given; return how many were."""
    count = 0
    while quota.has_room(owner):
        quota.take(owner)
        count += 1
    return count


@pytest.mark.parametrize(
    ("total", "each", "most"),
    [(100, None, 50), (100, 25, 25), (100, 1000, 100), (1, None, 1), (0, None, 0), (0, 5, 0)],
)
def test_one_owner_may_hold_its_share_and_half_of_the_total_by_default(
    total: int, each: int | None, most: int
) -> None:
    assert take_all(Quota(total, each), "alice") == most


def test_something_is_left_for_owners_that_hold_nothing() -> None:
    quota = Quota(40, 16)
    assert [take_all(quota, owner) for owner in ("alice", "bob", "carol")] == [16, 16, 3]
    assert [take_all(quota, str(owner)) for owner in range(7)] == [1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(("others", "own"), [(0, True), (70, False)])
def test_a_refusal_says_whether_the_owner_or_everything_is_at_its_limit(
    others: int, own: bool
) -> None:
    quota = Quota(100, 30)
    quota.add("others", others)
    quota.take("alice", 30 if own else 20)
    with pytest.raises(QuotaExceeded) as full:
        quota.take("alice", 11)
    assert full.value.own is own
    assert quota.held("alice") == (30 if own else 20), "nothing has changed"


def test_a_reservation_changes_and_is_given_back_as_a_whole() -> None:
    quota = Quota(100)
    held = quota.take("alice", 10)
    held.resize(50)
    with pytest.raises(QuotaExceeded):
        held.resize(51)
    assert (held.amount, quota.used, held.exceeds) == (50, 50, False)
    held.set(60)  # without asking
    assert held.exceeds
    held.resize(20)
    assert not held.exceeds
    held.release()
    held.release()
    assert (held.amount, quota.used, quota.held("alice")) == (0, 0, 0)


OWNERS = st.sampled_from("abcd")
MOVES = st.lists(st.tuples(OWNERS, st.integers(1, 30), st.booleans()))


@given(st.integers(1, 100), st.integers(1, 100), MOVES)
def test_the_amounts_of_owners_add_up_and_are_never_too_much(
    total: int, each: int, moves: list[tuple[str, int, bool]]
) -> None:
    quota = Quota(total, each)
    held: dict[str, int] = {}
    for owner, amount, back in moves:
        if back:
            amount = min(amount, held.get(owner, 0))
            quota.add(owner, -amount)
            held[owner] = held.get(owner, 0) - amount
        elif quota.has_room(owner, amount):
            quota.take(owner, amount)
            held[owner] = held.get(owner, 0) + amount
        assert quota.used == sum(held.values()) <= total
        assert all(quota.held(one) == size <= each for one, size in held.items())


# --- rates ----------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_caller_that_waits_as_long_as_required_is_served() -> None:
    clock = Clock()
    limit = RateLimit(1, 0.25, clock)
    assert limit.take("a") == 0
    wait = limit.take("a")
    assert wait == pytest.approx(4)
    clock.now += wait
    assert limit.take("a") == 0


def test_each_owner_may_use_its_burst_at_once_and_a_refusal_does_not_make_the_wait_longer() -> None:
    limit = RateLimit(13, 10, Clock())
    assert [limit.take(owner) for owner in "ab" for _ in range(13)] == [0] * 26
    assert {limit.take("a") for _ in range(10)} == {0.1}


def test_the_rates_of_many_owners_take_bounded_memory() -> None:
    limit = RateLimit(1, 1)
    for number in range(30_000):
        limit.take(str(number))
    assert len(limit._buckets) == module.MAX_RATED_OWNERS
