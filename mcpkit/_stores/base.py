"""RecordStore: what every database does alike, over the primitives that each one has.

A record is an id, an owner, times, and bytes that only its owner's code reads. A worker is a
process with a lease on records: while it runs them, no other claims them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import anyio

R = TypeVar("R", bound="_Record")

Edit: TypeAlias = Callable[[R, float], "R | None"]
"""From a record and the time to the next record, or to None if the change does not apply. A store
may call it several times, so it must have no side effects. It returns the same object to leave a
record as it is."""

OnChange: TypeAlias = Callable[["str | None"], object]
"""Called in any thread when another worker may have changed a record: its id, or None for any."""

Position: TypeAlias = tuple[float, str]
"""A position in the list of an owner: when a record was created, and its id."""

MAX_SWEPT: Final = 100
"""Records that are deleted together, while the store serves no one else."""

_SWEEP_PAUSE_S: Final = 0.01
"""Seconds in which the store serves others, between two of these deletions."""


class StoreUnavailable(Exception):
    """The store cannot be read or written. A change may have been made all the same: a server that
    does not answer may have done its work."""


class TooManyRecords(Exception):
    """The holder, or all holders together, have as many unfinished records as they may."""


class RecordExists(Exception):
    """There is a record of this id; it may have expired, and wait to be swept."""


class _Record(Protocol):
    """The part of a record that a store reads. Times are in seconds of the store's clock."""

    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...  # by which records are listed
    @property
    def holder(self) -> str: ...  # by which they are counted: the owner, or a caller
    @property
    def created(self) -> float: ...
    @property
    def expires(self) -> float | None: ...  # when it is gone, and may be swept; None: never
    @property
    def due(self) -> float | None: ...  # when it may be claimed; None: not in its present state
    @property
    def worker(self) -> str | None: ...  # the one that has the lease
    @property
    def is_over(self) -> bool: ...  # it no longer counts as unfinished


@dataclass(frozen=True)
class Codec(Generic[R]):
    """How records become bytes, and bytes records."""

    dump: Callable[[R], bytes]
    load: Callable[[bytes], R]


class RecordStore(ABC, Generic[R]):
    """Stores records. Every method is one atomic change, which is durable when it returns.

    After a cancellation the change may or may not have been made. All may raise `StoreUnavailable`.
    Records that have expired are not found.
    """

    is_shared = True
    """True if other processes may use the store too."""

    worker = ""
    """The name of this worker, which no other has, or had."""

    is_open = False
    """True between `open` and `aclose`."""

    _codec: Codec[R]
    _on_change: OnChange | None = None

    async def open(
        self, codec: Codec[R], worker: str = "", on_change: OnChange | None = None
    ) -> None:
        """Open the store under the name of a worker; empty if it claims nothing.

        `on_change` is called when others change records, as soon as the store knows. A hint: calls
        may be missing, or unfounded. Raises `StoreUnavailable`, whose message says why.
        """
        self._codec, self.worker, self._on_change = codec, worker, on_change
        try:
            await self._open()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._close()
            raise
        self.is_open = True

    async def aclose(self, release: Edit[R] | None = None) -> None:
        """Close the store, if it is open; `release` returns the records of this worker."""
        if not self.is_open:
            return
        with anyio.CancelScope(shield=True):
            try:
                if release is not None:
                    await self.change_own(release)
            finally:
                self.is_open = False
                await self._close()

    async def get(self, id: str) -> R | None:
        """Return a record; None if there is none."""
        return (await self.find([id])).get(id)

    async def change(self, id: str, edit: Edit[R]) -> R | None:
        """Return the changed record, or None if it does not apply; `KeyError` if it is gone."""
        return (await self._edit([id], edit))[id]

    async def keep(self, ids: Collection[str], renew: Edit[R]) -> Sequence[R]:
        """Return the records whose leases `renew` has renewed. Other workers are not notified."""
        renewed = await self._edit(ids, renew, notify=False)
        return [each for each in renewed.values() if each is not None]

    async def change_own(self, edit: Edit[R]) -> None:
        """Change the records that this worker has a lease on."""
        await self._edit(None, edit)

    async def sweep(self) -> int:
        """Delete what has expired, in pieces that let others in; return how many records."""
        total = swept = await self._sweep(MAX_SWEPT)
        while swept == MAX_SWEPT:
            await anyio.sleep(_SWEEP_PAUSE_S)
            total += (swept := await self._sweep(MAX_SWEPT))
        return total

    # --- primitives -------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None: ...
    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def find(self, ids: Collection[str]) -> Mapping[str, R]:
        """Return those of several records that are there, by id."""

    @abstractmethod
    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:
        """Change records, each atomically; without ids, those that this worker has a lease on.

        Returns by id what became of those that are there; None if the change does not apply.
        """

    @abstractmethod
    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_holder: int) -> R:
        """Store the record that `make` returns, given the time; `RecordExists` if its id is taken.

        Raises `TooManyRecords` if `limit` are unfinished, or `limit_per_holder` of its holder. The
        last eighth of `limit` is for holders that have none.
        """

    @abstractmethod
    async def claim(
        self, limit: int, start: Edit[R], *, skip: Collection[str] = (), calm: bool = False
    ) -> Sequence[R]:
        """Take the lease of records that are due, or whose worker has died; the oldest first.

        A record that `start` refuses stays as it is. Those whose id or holder is in `skip` are not
        even read. `calm` ignores leases that have run out, because living workers could not renew
        them.
        """

    @abstractmethod
    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Change a record, and store a value beside it: the first value of a key stays.

        Returns the value that is stored; None if there is no record, or the change does not apply.
        """

    @abstractmethod
    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values that `remember` has stored beside a record."""

    @abstractmethod
    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner behind a position, the oldest first."""

    @abstractmethod
    async def _sweep(self, limit: int) -> int:
        """Delete records that have expired, at most `limit`; return how many that were."""


def room(limit: int, limit_per_holder: int, of_all: int, of_holder: int) -> int:
    """Return how many records a holder may add; `of_all` and `of_holder` are unfinished."""
    kept = limit // 8 if of_holder and limit_per_holder < limit else 0
    return min(limit - kept - of_all, limit_per_holder - of_holder)
