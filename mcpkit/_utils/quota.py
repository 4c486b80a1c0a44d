"""Budgets: how much of something a server holds, and how much of that each of its users has caused.

A user may be alone or one of many, so no fixed part of the total is reserved for anybody. Instead
nobody may hold more than a certain multiple of what is still free. Whoever is alone gets `share` of
the total; as more come, each may have less, and something is always left for whoever holds nothing.
(Such thresholds are known from switches whose ports share one memory: Choudhury and Hahne, 1998.)
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["ANONYMOUS", "Budget", "Exhausted", "Hold", "Holder"]


class Holder(NamedTuple):
    """A user of what is shared.

    Args:
        owner: The name of whoever answers for it: a principal, or the network of a client.
        part: The name of a part of what the owner does, such as a session, which has a share of the
            owner's; None if it belongs to no part.
    """

    owner: str
    part: str | bytes | None = None


ANONYMOUS: Final = Holder("")
"""The holder of what nobody in particular has caused."""


class Exhausted(Exception):
    """An amount is more than a holder may have at the moment.

    Args:
        own: True if the holder has its share; False if everything is in use.
    """

    def __init__(self, own: bool) -> None:
        super().__init__("the holder's share is used up" if own else "everything is in use")
        self.own = own


class Budget:
    """An amount that all users share.

    Args:
        total: The amount.
        share: The part of it that one user gets who is alone, above 0 and at most 1; 1 lets anybody
            have everything. A part of a user gets this share of the user's.
    """

    __slots__ = ("_held", "_parts", "_ratio", "_share", "plenty", "total", "used")

    def __init__(self, total: int, share: float = 0.5) -> None:
        self.total = total
        self.used = 0
        """The amount that all holders have together."""
        self._share = share
        self._ratio = math.inf if share >= 1 else share / (1 - share)
        self.plenty = total if share >= 1 else int(share * share * total)
        """The amount up to which every holder is within its share, whoever has what."""
        self._held: dict[str, int] = {}
        self._parts: dict[Holder, int] = {}

    def __repr__(self) -> str:
        return f"<Budget {self.used} of {self.total} by {len(self._held)}>"

    def held(self, owner: str) -> int:
        """Return what an owner has."""
        return self._held.get(owner, 0)

    def check(self, holder: Holder, amount: int = 1) -> None:
        """Check that a holder may take an amount.

        Whoever holds nothing may take whatever is free.

        Raises:
            Exhausted: It may not.
        """
        if self.used + amount <= self.plenty:
            return
        free = self.total - self.used
        if amount > free:
            raise Exhausted(own=False)
        if self._share >= 1:
            return
        mine = self._held.get(holder.owner, 0)
        if mine and mine + amount > self._ratio * (free - amount):
            raise Exhausted(own=True)
        if holder.part is None:
            return
        ours = self._parts.get(holder, 0)
        if ours:
            room = self._share * free - (1 - self._share) * mine  # what the owner may still take
            if ours + amount > self._ratio * (room - amount):
                raise Exhausted(own=True)

    def exceeds(self, holder: Holder) -> bool:
        """Return True if an owner has more than it may have."""
        if self.used <= self.plenty:
            return False
        free = self.total - self.used
        return free < 0 or self._held.get(holder.owner, 0) > self._ratio * free

    def has_room(self, holder: Holder, amount: int = 1) -> bool:
        """Return True if a holder may take an amount."""
        try:
            self.check(holder, amount)
        except Exhausted:
            return False
        return True

    def take(self, holder: Holder, amount: int = 1) -> None:
        """Give an amount to a holder.

        Raises:
            Exhausted: It may not have that; nothing has changed.
        """
        self.check(holder, amount)
        self.add(holder, amount)

    def add(self, holder: Holder, amount: int = 1) -> None:
        """Note that a holder has an amount more, whether it may have it or not."""
        self.used += amount
        owner = holder.owner
        self._held[owner] = self._held.get(owner, 0) + amount
        if holder.part is not None:
            self._parts[holder] = self._parts.get(holder, 0) + amount

    def give_back(self, holder: Holder, amount: int = 1) -> None:
        """Note that a holder has an amount less."""
        self.used -= amount
        owner = holder.owner
        rest = self._held.get(owner, 0) - amount
        if rest > 0:
            self._held[owner] = rest
        else:
            self._held.pop(owner, None)
        if holder.part is not None:
            rest = self._parts.get(holder, 0) - amount
            if rest > 0:
                self._parts[holder] = rest
            else:
                self._parts.pop(holder, None)


class Hold:
    """What one thing has of a budget, which it gives back as a whole.

    Args:
        budget: The budget.
        holder: Whoever has caused the thing.
    """

    __slots__ = ("_budget", "_holder", "amount")

    def __init__(self, budget: Budget, holder: Holder) -> None:
        self.amount = 0
        self._budget = budget
        self._holder = holder

    @property
    def exceeds(self) -> bool:
        """True if the owner has more than it may have."""
        return self._budget.exceeds(self._holder)

    def grow(self, amount: int) -> None:
        """Take an amount, or give it back if it is less than nothing.

        Raises:
            Exhausted: The holder may not have so much; nothing has changed.
        """
        if amount > 0:
            self._budget.check(self._holder, amount)
        self.set(self.amount + amount)

    def set(self, amount: int) -> None:
        """Have an amount from now on, whether it may be had or not."""
        amount = max(0, amount)
        change = amount - self.amount
        self.amount = amount
        if change > 0:
            self._budget.add(self._holder, change)
        elif change < 0:
            self._budget.give_back(self._holder, -change)

    def release(self) -> None:
        """Give everything back."""
        self.set(0)
