"""Budgets: who may take how much of what all share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.quota import Budget, Exhausted, Hold, Holder

ALICE, BOB, CAROL = Holder("alice"), Holder("bob"), Holder("carol")


def take_all(budget: Budget, holder: Holder, amount: int = 1) -> int:
    """Take amounts until no more is given; return how many were."""
    count = 0
    while budget.has_room(holder, amount):
        budget.take(holder, amount)
        count += 1
    return count


@pytest.mark.parametrize(("share", "most"), [(0.25, 25), (0.5, 50), (0.75, 75), (1, 100)])
def test_whoever_is_alone_gets_the_share(share: float, most: int) -> None:
    assert take_all(Budget(100, share), ALICE) == most


def test_two_get_less_each_and_three_still_less() -> None:
    budget = Budget(100)
    alice, bob, carol = (take_all(budget, each) for each in (ALICE, BOB, CAROL))
    assert (alice, bob, carol) == (50, 25, 12)


def test_two_who_take_in_turn_get_a_third_each() -> None:
    budget = Budget(90)
    while budget.has_room(ALICE) or budget.has_room(BOB):
        for each in (ALICE, BOB):
            if budget.has_room(each):
                budget.take(each)
    assert abs(budget.held("alice") - 30) <= 1
    assert abs(budget.held("bob") - 30) <= 1


def test_whoever_holds_nothing_may_take_whatever_is_free() -> None:
    budget = Budget(100)
    take_all(budget, ALICE)
    budget.take(BOB, 50)
    assert budget.used == 100
    with pytest.raises(Exhausted) as full:
        budget.take(CAROL)
    assert not full.value.own


def test_whoever_has_its_share_is_told_so() -> None:
    budget = Budget(100)
    take_all(budget, ALICE)
    with pytest.raises(Exhausted) as full:
        budget.take(ALICE)
    assert full.value.own


def test_a_total_of_one_serves_one() -> None:
    budget = Budget(1)
    budget.take(ALICE)
    assert not budget.has_room(BOB)


def test_a_total_of_nothing_serves_nobody() -> None:
    assert not Budget(0).has_room(ALICE)


def test_a_part_gets_a_share_of_its_owners() -> None:
    budget = Budget(160)
    one, other = Holder("alice", "one"), Holder("alice", "other")
    assert take_all(budget, one) == 40
    assert take_all(budget, other) > 0
    assert budget.held("alice") < 80
    assert take_all(budget, BOB) > 0


def test_what_is_given_back_can_be_taken_again() -> None:
    budget = Budget(100)
    take_all(budget, ALICE)
    budget.give_back(ALICE, 10)
    assert take_all(budget, ALICE) == 10


def test_what_is_noted_without_asking_counts() -> None:
    budget = Budget(10)
    budget.add(ALICE, 12)
    assert budget.exceeds(ALICE)
    assert not budget.has_room(BOB)
    budget.give_back(ALICE, 8)
    assert not budget.exceeds(ALICE)


def test_a_hold_gives_everything_back() -> None:
    budget = Budget(100)
    hold = Hold(budget, ALICE)
    hold.grow(30)
    hold.grow(-10)
    assert (hold.amount, budget.used) == (20, 20)
    with pytest.raises(Exhausted):
        hold.grow(40)
    assert budget.used == 20, "nothing has changed"
    hold.release()
    hold.release()
    assert (budget.used, budget.held("alice")) == (0, 0)


HOLDERS = st.builds(Holder, st.sampled_from("abcd"), st.sampled_from([None, "x", "y"]))


@given(
    total=st.integers(1, 200),
    share=st.sampled_from([0.3, 0.5, 0.75, 1]),
    moves=st.lists(st.tuples(HOLDERS, st.integers(1, 40), st.booleans()), max_size=60),
)
def test_what_holders_have_adds_up_and_is_never_too_much(
    total: int, share: float, moves: list[tuple[Holder, int, bool]]
) -> None:
    budget = Budget(total, share)
    held: dict[Holder, int] = {}
    for holder, amount, back in moves:
        if back:
            returned = min(amount, held.get(holder, 0))
            if returned:
                budget.give_back(holder, returned)
                held[holder] -= returned
        elif budget.has_room(holder, amount):
            budget.take(holder, amount)
            held[holder] = held.get(holder, 0) + amount
        assert budget.used == sum(held.values()) <= total
        for owner in "abcd":
            mine = sum(amount for each, amount in held.items() if each.owner == owner)
            assert budget.held(owner) == mine
    free = total - budget.used
    if free:
        assert budget.has_room(Holder("newcomer"), free)
    for holder, amount in held.items():
        if amount:
            budget.give_back(holder, amount)
    assert (budget.used, budget._held, budget._parts) == (0, {}, {})


@given(total=st.integers(1, 300), share=st.sampled_from([0.3, 0.5, 0.75, 1]))
def test_while_there_is_plenty_everybody_is_within_its_share(total: int, share: float) -> None:
    """The quick answer must be the right one, however what is used is spread."""
    budget = Budget(total, share)
    holder = Holder("alice", "one")
    while budget.used < budget.plenty:
        budget.add(holder)
        free = total - budget.used
        if share < 1:
            assert budget.used <= share / (1 - share) * free + 1e-9
            room = share * free - (1 - share) * budget.used
            assert budget.used <= share / (1 - share) * room + 1e-9
