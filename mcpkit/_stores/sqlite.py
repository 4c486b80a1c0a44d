"""Tasks in a file of SQLite, which the processes of one machine share, and which outlives them.

One thread owns the connection, and commits together what waits together. Each process holds a lock
on a file beside the database for as long as it lives: whoever can take it knows that the process
has died, and need not wait until its leases end.

The file has to be on a local disk, because locks and shared memory do not work over a network.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from glob import escape, iglob
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import anyio
from anyio import to_thread

from mcpkit._stores.lock import Lock, is_held
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Heard, Position, StoreUnavailable, TooManyTasks

__all__ = ["SqliteStore"]

T = TypeVar("T")

_VERSION: Final = 1
"""Of the tables, in ``user_version``."""

_BUSY_S: Final = 10.0
"""Seconds to wait for other processes that write."""

_GLANCE_S: Final = 0.02
"""Seconds between two looks for what other processes have changed."""

_LOCKED_BY_S: Final = 600.0
"""Seconds after which a process has surely locked the file that it has made to be locked."""

_MOST_AT_ONCE: Final = 500
"""Changes that are committed together."""

_TABLES: Final = (
    """
    CREATE TABLE IF NOT EXISTS tasks (
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
    "CREATE INDEX IF NOT EXISTS tasks_due ON tasks (due) WHERE due IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS tasks_run ON tasks (runner) WHERE runner IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS tasks_of_owner ON tasks (owner, created, id)",
    "CREATE INDEX IF NOT EXISTS tasks_past ON tasks (expires) WHERE expires IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS tasks_unfinished ON tasks (owner) WHERE unfinished",
    """
    CREATE TABLE IF NOT EXISTS steps (
        id TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (id, key)
    ) WITHOUT ROWID
    """,
)


class _Job(NamedTuple):
    """Something to do with the database.

    Args:
        do: Reads and writes; raises before it has written, if at all.
        writes: Whether it may write.
        done: Gets what `do` returns, once that is committed.
    """

    do: Callable[[sqlite3.Connection], Any]
    writes: bool
    done: Future[Any]


class SqliteStore:
    """Keeps tasks in a file.

    Args:
        path: The file; made if there is none, readable by its owner only.
        durable: True to have the disk confirm each commit, so that a power cut loses nothing
            either; a process that dies never does.
        clock: Seconds since the epoch.
    """

    is_shared = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durable: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        # One file has one name, by which this process knows its own locks.
        self._path = os.path.realpath(path)
        self._durable = durable
        self._clock = clock
        self._runner = ""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = True
        self._heard: Heard | None = None
        self._seen = 0

    # --- coming and going -------------------------------------------------------------------------

    async def open(self, runner: str, heard: Heard | None = None) -> None:
        """Begin to use the file.

        Raises:
            StoreUnavailable: It cannot be used; the message says why.
        """
        self._runner = runner
        self._heard = heard
        try:
            await to_thread.run_sync(self._begin)
        except anyio.get_cancelled_exc_class():
            self._jobs.put(None)  # a thread is not cancelled
            raise

    def _begin(self) -> None:
        try:
            # With rights of its own; the files that SQLite puts beside it have the same.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            lock = Lock(self._lock_of(self._runner))
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from error
        self._remove_dead_locks()
        ready: Future[None] = Future()
        self._is_closed = False
        self._thread = threading.Thread(
            target=self._serve, args=(ready, lock), name="mcpkit-tasks", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error

    def _remove_dead_locks(self) -> None:
        """Remove the locks of processes that died while they had nothing to do."""
        for path in iglob(f"{escape(self._path)}-*.lock"):
            with suppress(OSError):
                # A younger one may be somebody's who has made it, and not locked it yet.
                if time.time() - os.stat(path).st_mtime > _LOCKED_BY_S:
                    is_held(path)

    def _lock_of(self, runner: str) -> str:
        return f"{self._path}-{runner}.lock"

    async def aclose(self) -> None:
        """Give back what runs, and close the file."""

        def give_back(connection: sqlite3.Connection) -> None:
            for task in _select(connection, "runner = ?", self._runner):
                _put(connection, replace(task, runner=None))

        with anyio.CancelScope(shield=True):
            try:
                await self._write(give_back)
            finally:
                self._jobs.put(None)
                if self._thread is not None:
                    await to_thread.run_sync(self._thread.join)

    # --- the thread -------------------------------------------------------------------------------

    def _serve(self, ready: Future[None], lock: Lock) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            lock.release()
            ready.set_exception(error)
            return
        ready.set_result(None)
        try:
            self._work(connection)
        finally:
            connection.close()
            lock.release()
            self._is_closed = True
            self._turn_away()

    def _turn_away(self) -> None:
        """Say of all that is still to be done that it will not be."""
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.done.set_exception(sqlite3.ProgrammingError("it is closed"))

    def _work(self, connection: sqlite3.Connection) -> None:
        while (job := self._next_job(connection)) is not None:
            jobs = [job]
            with suppress(Empty):
                while len(jobs) < _MOST_AT_ONCE and (job := self._jobs.get_nowait()) is not None:
                    jobs.append(job)
            _do_together(connection, jobs)
            if job is None:
                break
            self._look(connection)

    def _next_job(self, connection: sqlite3.Connection) -> _Job | None:
        """Wait for something to do, and look meanwhile for what other processes have changed."""
        if self._heard is None:
            return self._jobs.get()
        while True:
            with suppress(Empty):
                return self._jobs.get(timeout=_GLANCE_S)
            self._look(connection)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Tell if another process has changed something."""
        if self._heard is None:
            return
        with suppress(sqlite3.Error):  # whoever reads or writes next is told of it
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != self._seen:
                self._seen = version
                self._heard(None)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise sqlite3.DatabaseError(
                    f"written by a newer mcpkit, whose tables have the version {version}"
                )
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    async def _read(self, do: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(do, writes=False)

    async def _write(self, do: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(do, writes=True)

    async def _do(self, do: Callable[[sqlite3.Connection], T], *, writes: bool) -> T:
        done: Future[T] = Future()
        # A thread of its own that waits for each would cost more than the database.
        arrived, wake = anyio.Event(), waker()
        done.add_done_callback(lambda _: wake(arrived.set))
        self._jobs.put(_Job(do, writes, done))
        if self._is_closed:
            self._turn_away()
        await arrived.wait()
        try:
            return done.result()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{self._path}: {error}") from error

    # --- tasks ------------------------------------------------------------------------------------

    async def add(self, task: Task, *, most: int, most_of_owner: int) -> Task:
        """Keep a new task."""

        def add(connection: sqlite3.Connection) -> Task:
            count = "SELECT count(*) FROM tasks WHERE unfinished"
            (of_owner,) = connection.execute(f"{count} AND owner = ?", (task.owner,)).fetchone()
            (of_all,) = connection.execute(count).fetchone()
            if of_all >= most or of_owner >= most_of_owner:
                raise TooManyTasks
            now = self._clock()
            added = replace(task, created=now, updated=now)
            _put(connection, added)
            return added

        return await self._write(add)

    async def get(self, id: str) -> Task | None:
        """Return a task."""
        return await self._read(lambda connection: self._found(connection, id))

    def _found(self, connection: sqlite3.Connection, id: str) -> Task | None:
        found = _select(connection, "id = ? AND ifnull(expires, 9e999) > ?", id, self._clock())
        return found[0] if found else None

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task."""

        def change(connection: sqlite3.Connection) -> Task | None:
            task = self._found(connection, id)
            if task is None:
                raise KeyError(id)
            changed = edit(task, self._clock())
            if changed is not None:
                _put(connection, changed)
            return changed

        return await self._write(change)

    async def claim(self, most: int, lease: float) -> Sequence[Task]:
        """Begin a leg of tasks that are due."""

        def claim(connection: sqlite3.Connection) -> Sequence[Task]:
            now = self._clock()
            dead = self._dead_runners(connection)
            places = ", ".join("?" * len(dead))
            due = _select(
                connection,
                f"(due <= ? OR runner IN ({places})) AND ifnull(expires, 9e999) > ? "
                f"ORDER BY due, id LIMIT ?",
                *(now, *dead, now, most),
            )
            claimed: list[Task] = []
            for task in due:
                begun = record.claim(task, self._runner, now + lease)
                assert begun is not None
                _put(connection, begun)
                claimed.append(begun)
            return claimed

        return await self._write(claim)

    def _dead_runners(self, connection: sqlite3.Connection) -> list[str]:
        running = connection.execute("SELECT DISTINCT runner FROM tasks WHERE runner IS NOT NULL")
        return [
            runner
            for (runner,) in running.fetchall()
            if runner != self._runner and not is_held(self._lock_of(runner))
        ]

    async def keep(
        self, legs: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Let legs go on."""

        def keep(connection: sqlite3.Connection) -> Collection[tuple[str, int]]:
            until = self._clock() + lease
            kept: list[tuple[str, int]] = []
            for id, leg in legs:
                task = self._found(connection, id)
                renewed = task and record.keep(task, leg, until)
                if renewed:
                    _put(connection, renewed)
                    kept.append((id, leg))
            return kept

        return await self._write(keep)

    async def remember(self, id: str, leg: int, key: str, value: bytes) -> bytes | None:
        """Remember what a step has come to."""

        def remember(connection: sqlite3.Connection) -> bytes | None:
            task = self._found(connection, id)
            advanced = task and record.advance(task, leg)
            if not advanced:
                return None
            if advanced != task:
                _put(connection, advanced)
            connection.execute(
                "INSERT INTO steps VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (id, key, value)
            )
            found = connection.execute(
                "SELECT value FROM steps WHERE id = ? AND key = ?", (id, key)
            ).fetchone()
            kept: bytes = found[0]
            return kept

        return await self._write(remember)

    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return what steps have come to."""

        def steps(connection: sqlite3.Connection) -> Mapping[str, bytes]:
            found = connection.execute("SELECT key, value FROM steps WHERE id = ?", (id,))
            return dict(found.fetchall())

        return await self._read(steps)

    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of an owner."""
        behind = after or (float("-inf"), "")
        return await self._read(
            lambda connection: _select(
                connection,
                "owner = ? AND (created, id) > (?, ?) AND ifnull(expires, 9e999) > ? "
                "ORDER BY created, id LIMIT ?",
                *(owner, *behind, self._clock(), most),
            )
        )

    async def sweep(self) -> int:
        """Forget the tasks whose time is over."""

        def sweep(connection: sqlite3.Connection) -> int:
            now = self._clock()
            past = "SELECT id FROM tasks WHERE expires <= ?"
            connection.execute(f"DELETE FROM steps WHERE id IN ({past})", (now,))
            return connection.execute(f"DELETE FROM tasks WHERE id IN ({past})", (now,)).rowcount

        return await self._write(sweep)


def waker() -> Callable[[Callable[[], object]], object]:
    """Return what calls a function on the event loop that runs here, from any thread.

    Nothing happens if that has ended meanwhile: nobody waits any more.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        token = trio.lowlevel.current_trio_token()

        def wake_trio(function: Callable[[], object]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(function)

        return wake_trio
    loop = asyncio.get_running_loop()

    def wake(function: Callable[[], object]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(function)

    return wake


def _do_together(connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
    """Do several things in one transaction, and say of each what came of it."""
    results: list[Any] = []
    errors: list[BaseException | None] = []
    try:
        connection.execute("BEGIN IMMEDIATE" if any(each.writes for each in jobs) else "BEGIN")
        for job in jobs:
            result: Any = None
            refusal: Exception | None = None
            try:
                result = job.do(connection)
            except sqlite3.Error:
                raise
            except Exception as error:  # nothing has been written for it
                refusal = error
            results.append(result)
            errors.append(refusal)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        results, errors = [None] * len(jobs), [error] * len(jobs)
    for job, result, failure in zip(jobs, results, errors, strict=True):
        if failure is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(failure)


def _select(connection: sqlite3.Connection, where: str, *values: Any) -> list[Task]:
    found = connection.execute(f"SELECT record FROM tasks WHERE {where}", values)
    return [record.load(data) for (data,) in found.fetchall()]


def _put(connection: sqlite3.Connection, task: Task) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            task.id,
            task.owner,
            task.created,
            task.expires,
            not task.is_over,
            task.due,
            task.runner,
            record.dump(task),
        ),
    )
