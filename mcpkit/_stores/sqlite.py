"""Records in a file of SQLite, which the processes of one machine share, and which outlives them.

One thread owns the connection, and commits waiting jobs together. Each worker holds a lock on a
file beside the database while it lives: a process that can take this lock knows that the worker is
dead, and claims its records before their leases end.

The file must be on a local disk, because locks and shared memory do not work over a network.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from glob import escape, iglob
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from mcpkit._stores.base import (
    Codec,
    Edit,
    OnChange,
    Position,
    R,
    RecordExists,
    RecordStore,
    StoreUnavailable,
    TooManyRecords,
    room,
)

T = TypeVar("T")

_BUSY_S: Final = 10.0
"""Seconds to wait for other processes that write."""

_POLL_S: Final = 0.02
"""Seconds between two looks at what other processes have changed."""

_LOCKED_BY_S: Final = 600.0
"""The age in seconds at which a lock file has surely been locked by the process that made it."""

_MAX_LOG: Final = 16 * 1024 * 1024
"""Bytes that the log of the file keeps for later writes."""

MAX_BATCH: Final = 500
"""Jobs that are committed together."""

_TABLES: Final = (
    """
    CREATE TABLE IF NOT EXISTS {table} (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        created REAL NOT NULL,
        expires REAL,
        unfinished INTEGER NOT NULL,
        due REAL,
        runner TEXT,
        record BLOB NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS {table}_due ON {table} (due) WHERE due IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {table}_run ON {table} (runner) WHERE runner IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {table}_of_owner ON {table} (owner, created, id)",
    "CREATE INDEX IF NOT EXISTS {table}_past ON {table} (expires) WHERE expires IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {table}_held ON {table} (unfinished, owner) WHERE unfinished",
    """
    CREATE TABLE IF NOT EXISTS steps (
        id TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (id, key)
    ) WITHOUT ROWID
    """,
)


class SqliteStore(RecordStore[R]):
    """Stores records in a file.

    Args:
        path: The file; made if there is none, readable by its owner only.
        durable: True to have the disk confirm each commit, so that a power cut loses nothing. The
            death of a process never does.
        clock: Seconds since the epoch.
        table: The name of the table.
        app: The name of the app, whose records are kept apart from those of others: the first app
            that uses a file has the table, the others have tables of their own.
        version: The version of the tables, stored as ``user_version``.
        migrate: Called with a file of an older version, in the transaction that makes the tables,
            and a function that stores a record.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = False,
        clock: Callable[[], float] = time.time,
        table: str = "tasks",
        app: str = "",
        version: int = 1,
        migrate: Callable[[sqlite3.Connection, Callable[[R], None]], None] | None = None,
    ) -> None:
        # A file has one name: a process knows its own locks by it.
        self.path = os.path.realpath(path)
        self._durable = durable
        self._clock = clock
        self._name = self._table = table
        self._app = app
        self._version = version
        self._migrate = migrate
        self._file: _File | None = None
        self._opening = threading.Lock()

    # --- the file ---------------------------------------------------------------------------------

    async def _open(self) -> None:
        with anyio.CancelScope(shield=True):  # a thread cannot be cancelled
            await to_thread.run_sync(self._open_file)

    def _open_file(self) -> None:
        with self._opening:
            if self._file is not None:
                return
            lock: Lock | None = None
            try:
                # With its own rights, which the files that SQLite makes beside it copy.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                if self.worker:
                    lock = Lock(self._lock_of(self.worker))
                    for path in iglob(f"{escape(self.path)}-*.lock"):
                        with suppress(OSError):  # of a worker that died without a lease
                            # The maker of a younger one may not have locked it yet.
                            if time.time() - os.stat(path).st_mtime > _LOCKED_BY_S:
                                is_held(path)
                self._file = _File(self._connect, lock, self._on_change)
            except (OSError, sqlite3.Error) as error:
                if lock is not None:
                    lock.release()
                raise self._unavailable(error) from error

    def _lock_of(self, worker: str) -> str:
        return f"{self.path}-{worker}.lock"

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        reason = error.strerror if isinstance(error, OSError) else error
        return StoreUnavailable(f"{self.path}: {reason}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            _use_log(connection)
            connection.execute(f"PRAGMA journal_size_limit = {_MAX_LOG}")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > self._version:
                raise sqlite3.DatabaseError(
                    f"written by a newer mcpkit, whose tables have the version {version}"
                )
            if self._app:
                connection.execute("CREATE TABLE IF NOT EXISTS apps (name TEXT PRIMARY KEY)")
                first = "SELECT name FROM apps ORDER BY rowid LIMIT 1"
                connection.execute(
                    f"INSERT INTO apps SELECT ? WHERE ({first}) IS NULL", [self._app]
                )
                is_first = connection.execute(first).fetchone() == (self._app,)
                self._table = self._name if is_first else f"app_{self._app}_{self._name}"
            for statement in _TABLES:
                connection.execute(statement.format(table=self._table))
            if 0 < version < self._version and self._migrate is not None:
                self._migrate(connection, lambda record: self._put(connection, record))
            connection.execute(f"PRAGMA user_version = {self._version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    async def _close(self) -> None:
        def close() -> None:
            with self._opening:
                file, self._file = self._file, None
                if file is not None:
                    file.close()

        await to_thread.run_sync(close)

    async def _run(self, do: Callable[[sqlite3.Connection], T], *, writes: bool = False) -> T:
        """Run a function in the thread, within a transaction."""
        if self._file is None:
            raise StoreUnavailable(f"{self.path}: it is closed")
        done: Future[T] = Future()
        # Waiting in another thread would cost more than the database.
        arrived, wake = anyio.Event(), waker()
        done.add_done_callback(lambda _: wake(arrived.set))
        self._file.submit(_Job(do, writes, done))
        await arrived.wait()
        try:
            return done.result()
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    # --- records ----------------------------------------------------------------------------------

    def peek(self, codec: Codec[R], id: str) -> R | None:
        """Return a record without opening the store; None too if there is no file."""
        self._codec = codec
        if not os.path.exists(self.path):
            return None
        try:
            with closing(self._connect()) as connection:
                return self._select(connection, "id = ?", id).get(id)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    def _select(
        self, connection: sqlite3.Connection, where: str, *values: Any, end: str = ""
    ) -> dict[str, R]:
        """Return records that have not expired, by id."""
        rows = connection.execute(
            f"SELECT record FROM {self._table} WHERE ifnull(expires, 9e999) > ? AND {where} {end}",
            (self._clock(), *values),
        ).fetchall()
        return {record.id: record for (data,) in rows for record in [self._codec.load(data)]}

    def _put(self, connection: sqlite3.Connection, record: R) -> None:
        connection.execute(
            f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(record.id, record.owner, record.created, record.expires, _unfinished(record)),
                *(record.due, record.worker, self._codec.dump(record)),
            ),
        )
        if record.is_over:
            connection.execute("DELETE FROM steps WHERE id = ?", (record.id,))

    def _change(
        self, connection: sqlite3.Connection, records: Mapping[str, R], edit: Edit[R]
    ) -> dict[str, R | None]:
        now = self._clock()
        done: dict[str, R | None] = {}
        for id, record in records.items():
            done[id] = changed = edit(record, now)
            if changed is not None and changed is not record:
                self._put(connection, changed)
        return done

    async def find(self, ids: Collection[str]) -> Mapping[str, R]:
        """Return those of several records that are there."""
        return await self._run(lambda connection: self._by_id(connection, ids))

    def _by_id(self, connection: sqlite3.Connection, ids: Collection[str]) -> dict[str, R]:
        return self._select(connection, f"id IN ({_marks(ids)})", *ids)

    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:
        del notify  # others see each commit

        def change(connection: sqlite3.Connection) -> Mapping[str, R | None]:
            if ids is None:
                records = self._select(connection, "runner = ?", self.worker)
            else:
                records = self._by_id(connection, ids)
            return self._change(connection, records, edit)

        return await self._run(change, writes=True)

    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_holder: int) -> R:
        """Store a new record."""

        def add(connection: sqlite3.Connection) -> R:
            record = make(self._clock())
            by_id = f"SELECT count(*) FROM {self._table} WHERE id = ?"
            if connection.execute(by_id, (record.id,)).fetchone()[0]:
                raise RecordExists(record.id)
            count = f"SELECT count(*) FROM {self._table} WHERE unfinished"
            (of_all,) = connection.execute(count).fetchone()
            held = f"{count} AND unfinished = ? AND (? <> 1 OR owner = ?)"
            mark = _unfinished(record)
            (of_holder,) = connection.execute(held, (mark, mark, record.owner)).fetchone()
            if room(limit, limit_per_holder, of_all, of_holder) <= 0:
                raise TooManyRecords
            self._put(connection, record)
            return record

        return await self._run(add, writes=True)

    async def claim(
        self, limit: int, start: Edit[R], *, skip: Collection[str] = (), calm: bool = False
    ) -> Sequence[R]:
        """Take the lease of records that are due, or whose worker is dead."""

        def claim(connection: sqlite3.Connection) -> Sequence[R]:
            running = connection.execute(
                f"SELECT DISTINCT runner FROM {self._table} WHERE runner IS NOT NULL"
            ).fetchall()
            dead = [
                worker
                for (worker,) in running
                if worker != self.worker and not is_held(self._lock_of(worker))
            ]
            where = f"due <= ?{' AND runner IS NULL' if calm else ''}"
            values: list[Any] = [self._clock()]
            if dead:  # each half has its index
                ids = f"SELECT id FROM {self._table} WHERE"
                where = f"id IN ({ids} {where} UNION ALL {ids} runner IN ({_marks(dead)}))"
                values += dead
            if skip:
                where += (
                    " AND id NOT IN (SELECT value FROM json_each(?))"
                    " AND unfinished NOT IN (SELECT '1 ' || value FROM json_each(?))"
                )
                values += [json.dumps([*skip])] * 2
            end = "ORDER BY due, id LIMIT ?"
            due = self._select(connection, where, *values, limit, end=end)
            started = self._change(connection, due, start)
            return [each for each in started.values() if each is not None]

        return await self._run(claim, writes=True)

    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Store a value beside a record, once."""

        def remember(connection: sqlite3.Connection) -> bytes | None:
            changed = self._change(connection, self._by_id(connection, [id]), edit)
            if changed.get(id) is None:
                return None
            connection.execute(
                "INSERT INTO steps VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (id, key, value)
            )
            stored: bytes
            (stored,) = connection.execute(
                "SELECT value FROM steps WHERE id = ? AND key = ?", (id, key)
            ).fetchone()
            return stored

        return await self._run(remember, writes=True)

    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values beside a record."""
        query = "SELECT key, value FROM steps WHERE id = ?"
        return await self._run(lambda connection: dict(connection.execute(query, (id,)).fetchall()))

    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner."""
        values = (owner, *(after or (float("-inf"), "")), limit)
        where, end = "owner = ? AND (created, id) > (?, ?)", "ORDER BY created, id LIMIT ?"
        return await self._run(
            lambda connection: [*self._select(connection, where, *values, end=end).values()]
        )

    async def _sweep(self, limit: int) -> int:
        def sweep(connection: sqlite3.Connection) -> int:
            ids = connection.execute(
                f"SELECT id FROM {self._table} WHERE expires <= ? ORDER BY expires LIMIT ?",
                (self._clock(), limit),
            ).fetchall()
            for table in ("steps", self._table):
                connection.executemany(f"DELETE FROM {table} WHERE id = ?", ids)
            return len(ids)

        return await self._run(sweep, writes=True)


def _use_log(connection: sqlite3.Connection) -> None:
    """Make the file one with a write-ahead log, however many processes do so at once.

    SQLite does not wait for one that writes meanwhile, whatever its timeout.
    """
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _unfinished(record: Any) -> int | str:
    """Return the column `unfinished`; with the holder, SQLite takes it for 1 as a condition."""
    if record.is_over or record.holder == record.owner:
        return int(not record.is_over)
    return f"1 {record.holder}"


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


# --- the thread -----------------------------------------------------------------------------------


class _Job(NamedTuple):
    do: Callable[[sqlite3.Connection], Any]  # if it raises, it has not written anything
    writes: bool
    done: Future[Any]  # gets the result of `do` once that is committed


class _File:
    """An open file, and the thread that owns it; the lock shows that the worker lives."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        lock: Lock | None,
        on_change: OnChange | None,
    ) -> None:
        self._connection = connect()
        self._lock = lock
        self._on_change = on_change
        self._seen = 0
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="mcpkit-store", daemon=True)
        self._thread.start()

    def submit(self, job: _Job) -> None:
        """Have a job done; its future gets a `sqlite3.ProgrammingError` if the file is closed."""
        self._jobs.put(job)
        if self._is_closed:
            self._reject_jobs()

    def close(self) -> None:
        """Finish the jobs that wait, and close the file."""
        self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._work()
        finally:
            self._connection.close()
            if self._lock is not None:
                self._lock.release()
            self._is_closed = True
            self._reject_jobs()

    def _reject_jobs(self) -> None:
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.done.set_exception(sqlite3.ProgrammingError("it is closed"))

    def _work(self) -> None:
        wait = None if self._on_change is None else _POLL_S
        while True:
            try:
                job = self._jobs.get(timeout=wait)
            except Empty:
                self._look()
                continue
            if job is None:
                break
            jobs = [job]
            with suppress(Empty):
                while len(jobs) < MAX_BATCH and (job := self._jobs.get_nowait()) is not None:
                    jobs.append(job)
            do_together(self._connection, jobs)
            if job is None:
                break
            self._look()

    def _look(self) -> None:
        """Notify the listener if another process has changed the file."""
        if self._on_change is not None:
            with suppress(sqlite3.Error):  # the next job will raise it
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version != self._seen:
                    self._seen = version
                    self._on_change(None)


def do_together(connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
    """Do jobs in one transaction, and give each its result or exception."""
    outcomes: list[Any] = []
    try:
        connection.execute("BEGIN IMMEDIATE" if any(each.writes for each in jobs) else "BEGIN")
        for job in jobs:
            try:
                outcomes.append(job.do(connection))
            except sqlite3.Error:
                raise
            except Exception as error:  # it has not written anything
                outcomes.append(error)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        outcomes = [error] * len(jobs)
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, Exception):
            job.done.set_exception(outcome)
        else:
            job.done.set_result(outcome)


def waker() -> Callable[[Callable[[], object]], object]:
    """Return a function that calls another on the running event loop, from any thread.

    If the loop has ended, nothing happens: no task waits any longer.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        call_soon = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        call_soon = asyncio.get_running_loop().call_soon_threadsafe

    def wake(function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # trio's RunFinishedError is one
            call_soon(function)

    return wake


# --- locks ----------------------------------------------------------------------------------------

_OWN: Final[set[str]] = set()
"""The files that this process has locked: to a process, its own locks look free."""


class Lock:
    """A lock on a file, made and removed with it: held until its release or the process's end.

    Raises:
        OSError: The file cannot be made, or another process holds the lock.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _take(self._file)
        except OSError:
            os.close(self._file)
            raise
        _OWN.add(path)

    def release(self) -> None:
        """Release the lock, and remove its file."""
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._file)
        _OWN.discard(self._path)


def is_held(path: str) -> bool:
    """Return True if a living process holds the lock of a file; that of a dead one is removed."""
    if path in _OWN:
        return True
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:  # of another user, or too many files are open
        return True
    try:
        _take(file)
    except OSError:
        return True
    else:
        with suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: int) -> None:
        # Of the process, not of the open file, which a forked process would hold on to.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
