"""RecordStore: what every database does alike, over the primitives that each one has.

A record is an id, an owner, times, and bytes that only its owner's code reads. A worker is a
process with a lease on records: while it runs them, no other claims them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

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


class StoreUnavailable(Exception):
    """The store cannot be read or written. A change may have been made all the same: a server that
    does not answer may have done its work."""


class TooManyRecords(Exception):
    """The owner, or all owners together, have as many unfinished records as they may."""


class RecordExists(Exception):
    """There is a record of this id; it may have expired, and wait to be swept."""


class _Record(Protocol):
    """The part of a record that a store reads. Times are in seconds of the store's clock.

    Attributes:
        id: The key.
        owner: The owner, by which records are listed and counted.
        created: When it was created.
        expires: When it is gone, and may be swept; None: never.
        due: When it may be claimed; None: not in its present state.
        worker: The worker that has the lease.
        is_over: True if it no longer counts as unfinished.
    """

    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def created(self) -> float: ...
    @property
    def expires(self) -> float | None: ...
    @property
    def due(self) -> float | None: ...
    @property
    def worker(self) -> str | None: ...
    @property
    def is_over(self) -> bool: ...


@dataclass(frozen=True)
class Codec(Generic[R]):
    """How records become bytes, and bytes records."""

    dump: Callable[[R], bytes]
    load: Callable[[bytes], R]


class RecordStore(ABC, Generic[R]):
    """Stores records. Every method is one atomic change, which is durable when it returns.

    All may be cancelled, and have then been done or not; and all may raise `StoreUnavailable`.
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
        """Open the store.

        Args:
            codec: Of its records.
            worker: The name of this worker; empty if it claims nothing.
            on_change: Called when others change records, as soon as the store knows. A hint: calls
                may be missing, or unfounded.

        Raises:
            StoreUnavailable: It cannot be used; the message says why.
        """
        self._codec, self.worker, self._on_change = codec, worker, on_change
        await self._open()
        self.is_open = True

    async def aclose(self, release: Edit[R] | None = None) -> None:
        """Close the store, if it is open.

        Args:
            release: Releases a record that this worker still has a lease on, for others to claim.
        """
        if not self.is_open:
            return
        with anyio.CancelScope(shield=True):
            try:
                if release is not None:
                    await self._edit(None, release)
            finally:
                self.is_open = False
                await self._close()

    async def get(self, id: str) -> R | None:
        """Return a record; None if there is none."""
        return (await self._find([id])).get(id)

    async def change(self, id: str, edit: Edit[R]) -> R | None:
        """Change a record.

        Returns:
            The changed record; None if the change does not apply.

        Raises:
            KeyError: There is none.
        """
        return (await self._edit([id], edit))[id]

    async def keep(self, ids: Collection[str], renew: Edit[R]) -> Sequence[R]:
        """Renew leases of this worker. Other workers are not notified.

        Args:
            ids: The records.
            renew: Renews the lease of one, if this worker still has it.

        Returns:
            The records whose leases were renewed.
        """
        renewed = await self._edit(ids, renew, notify=False)
        return [each for each in renewed.values() if each is not None]

    # --- primitives -------------------------------------------------------------------------------

    @abstractmethod
    async def _open(self) -> None: ...
    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _find(self, ids: Sequence[str]) -> Mapping[str, R]:
        """Return those that are there, by id."""

    @abstractmethod
    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:
        """Change records, each atomically.

        Args:
            ids: The records; None for those that this worker has a lease on.
            edit: Changes one.
            notify: True to notify other workers.

        Returns:
            By id, what became of those that are there; None if the change does not apply.
        """

    @abstractmethod
    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_owner: int) -> R:
        """Store a new record.

        Args:
            make: Makes it, given the time.
            limit: The unfinished records that there may be.
            limit_per_owner: Those of its owner.

        Raises:
            TooManyRecords: There are as many.
            RecordExists: There is one of its id.
        """

    @abstractmethod
    async def claim(self, limit: int, start: Edit[R]) -> Sequence[R]:
        """Take the lease of records that are due, or whose worker has died; the oldest first.

        Args:
            limit: How many at most.
            start: Takes the lease of one.
        """

    @abstractmethod
    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Store a value beside a record, once: the first value of a key stays.

        Args:
            id: The record.
            edit: Changes it at the same time. If that does not apply, nothing is stored.
            key: The key.
            value: The value.

        Returns:
            The value that is stored; None if there is no record, or the change does not apply.
        """

    @abstractmethod
    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values that `remember` has stored beside a record."""

    @abstractmethod
    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner, the oldest first.

        Args:
            owner: The owner.
            after: The position after which the list begins.
            limit: How many at most.
        """

    @abstractmethod
    async def sweep(self) -> int:
        """Delete what has expired; return how many records that were."""
