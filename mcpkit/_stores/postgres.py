"""Tasks in PostgreSQL, which processes on many machines share.

Each change is a transaction that locks the row of its task. Each write has a name of its own, which
stays in the row: a write whose answer was lost can be done again, and is found to be done.

Each process holds an advisory lock in a session of its own, which the server gives back as soon as
the process has died: then others take up its work. They wait a moment, because a process that lives
may lose this connection, and all do when the server is started again. If it does not come back in
time, its work is done by another as well, and the number of the leg keeps it from writing anything.

Changes are told by ``NOTIFY``, and may be missed while the session is away; the rows are the truth.
They are told outside of the transactions, because PostgreSQL commits those that tell something one
after the other.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio

from mcpkit._stores.connections import PATIENCE_S, Connections, Line, need_asyncio
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Heard, Position, StoreUnavailable, TooManyTasks

try:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]
except ModuleNotFoundError as error:
    if error.name != "asyncpg":
        raise
    raise ImportError(
        'Tasks in PostgreSQL need the postgres extra: pip install "mcpkit[postgres]"'
    ) from None

__all__ = ["PostgresStore"]

_VERSION: Final = 1
"""Of the tables."""

_ANSWER_S: Final = 3.0
"""Seconds for one answer."""

_QUIET_S: Final = 5.0
"""Seconds after which the session that listens is tried."""

_GRACE_S: Final = 1.0
"""Seconds for which a process may be without its lock before it is taken for dead."""

_GLANCE_S: Final = 0.25
"""Seconds between two looks for dead processes."""

_NEAR: Final = 500
"""If no more tasks than this may be added, they are counted one after the other."""

_MOST_TOLD: Final = 7000
"""Bytes in one ``NOTIFY``, which may have 8000."""

_TABLES: Final = """
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {schema}.version (version integer NOT NULL);
    CREATE TABLE IF NOT EXISTS {schema}.tasks (
        id text COLLATE "C" PRIMARY KEY,
        owner text COLLATE "C" NOT NULL,
        created double precision NOT NULL,
        expires double precision,
        unfinished boolean NOT NULL,
        due double precision,
        runner text COLLATE "C",
        v text COLLATE "C" NOT NULL, -- the name of the last write
        record bytea NOT NULL
    );
    CREATE INDEX IF NOT EXISTS tasks_due ON {schema}.tasks (due, id) WHERE due IS NOT NULL;
    CREATE INDEX IF NOT EXISTS tasks_run ON {schema}.tasks (runner) WHERE runner IS NOT NULL;
    CREATE INDEX IF NOT EXISTS tasks_of_owner ON {schema}.tasks (owner, created, id);
    CREATE INDEX IF NOT EXISTS tasks_past ON {schema}.tasks (expires) WHERE expires IS NOT NULL;
    CREATE INDEX IF NOT EXISTS tasks_unfinished ON {schema}.tasks (owner) WHERE unfinished;
    CREATE TABLE IF NOT EXISTS {schema}.steps (
        id text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (id, key)
    );
    INSERT INTO {schema}.version SELECT {version} WHERE NOT EXISTS (
        SELECT FROM {schema}.version
    );
"""

_NOW: Final = "coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8)"
"""The time; $1 is it if it is not the server's."""

T = TypeVar("T")


class _Connection(Protocol):
    """What is used of a connection of asyncpg, which has no types."""

    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(self, query: str, values: Sequence[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *values: object) -> Sequence[Mapping[str, Any]]: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def add_termination_listener(self, callback: Callable[[object], object]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., object]) -> None: ...
    async def close(self, *, timeout: float) -> None: ...


class _Found(NamedTuple):
    """A row.

    Args:
        now: The time.
        v: The name of its last write.
        task: Its record.
    """

    now: float
    v: str
    task: Task


@dataclass(slots=True)
class _Job:
    """Something to do.

    Args:
        do: Reads and writes. Is told if it has been tried before, and may have been done then.
        writes: True for a transaction.
        tells: The tasks of which others should hear then; not known before a claim.
        has_been_tried: True if it has.
    """

    do: Callable[[_Connection, bool], Awaitable[Any]]
    writes: bool
    tells: Sequence[str]
    has_been_tried: bool = False


_LOST: Final[tuple[type[Exception], ...]] = (
    asyncio.TimeoutError,
    *(OSError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError),
    # Two that waited for each other, and one that was the first server and is not any more.
    *(asyncpg.TransactionRollbackError, asyncpg.ReadOnlySQLTransactionError),
)


class PostgresStore:
    """Keeps tasks in PostgreSQL 12 or newer. Needs asyncio.

    Args:
        dsn: ``postgresql://``, with whatever asyncpg understands. It has to lead to the server, or
            to a pooler that keeps sessions: others break locks and ``LISTEN``.
        schema: Where the tables are; made if there is none. Apps with the same one share their
            tasks.
        connections: The connections for changes; one more listens.
        clock: Seconds since the epoch; None for the server's time.
    """

    is_shared = True

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "mcpkit",
        connections: int = 4,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,50}", schema):
            raise ValueError(f"schema: {schema!r} is not a name of letters, digits and _")
        self._dsn = dsn
        self._schema = f'"{schema}"'
        self._channel = f"mcpkit_{schema}"
        self._clock = clock
        self._runner = ""
        self._heard: Heard | None = None
        line = Line[_Connection, _Job](
            self._server_name(), self._connect, _disconnect, self._carry_out, _LOST
        )
        self._connections = Connections(line, size=connections)
        self._is_made = False
        self._to_tell: list[str] = []
        self._wake = asyncio.Event()
        """There is something to tell, or the session is over."""
        self._without_lock: dict[str, float] = {}
        """Since when a process has been seen without its lock."""
        self._looked = float("-inf")

    # --- coming and going -------------------------------------------------------------------------

    async def open(self, runner: str, heard: Heard | None = None) -> None:
        """Begin to use the server.

        Raises:
            StoreUnavailable: It cannot be reached or used; the message says why.
            RuntimeError: This is not asyncio.
        """
        need_asyncio(self)
        self._runner = runner
        self._heard = heard
        await self._connections.open()
        try:
            await self._connections.stay(self._begin_session, self._use_session, self._tell_of_any)
        except BaseException:
            await self._connections.aclose()
            raise

    def _server_name(self) -> str:
        where = urlsplit(self._dsn)  # without its password
        return f"PostgreSQL at {where.hostname or 'its socket'}, database {where.path[1:]}"

    async def aclose(self) -> None:
        """Give back what runs, and disconnect."""
        if not self._connections.is_open:
            return

        async def give_back(connection: _Connection, _: bool) -> None:
            found = await self._locked(connection, "runner = $2", self._runner)
            await self._put(connection, None, [replace(each.task, runner=None) for each in found])

        with anyio.CancelScope(shield=True):
            try:
                await self._write(give_back)
            finally:
                await self._connections.aclose()

    # --- connections ------------------------------------------------------------------------------

    async def _connect(self) -> _Connection:
        try:
            untyped: Any = asyncpg
            connection: _Connection = await untyped.connect(
                self._dsn, timeout=_ANSWER_S, command_timeout=_ANSWER_S
            )
        except asyncpg.PostgresError as error:  # a password, for example
            raise asyncpg.InterfaceError(str(error)) from error
        try:
            # Or a process that stands still within a transaction would hold up all others.
            await connection.execute(
                f"SET idle_in_transaction_session_timeout = {1000 * PATIENCE_S:.0f}"
            )
            if not self._is_made:
                await self._make_tables(connection)
                self._is_made = True
        except asyncpg.PostgresError as error:
            await _disconnect(connection)
            raise asyncpg.InterfaceError(str(error)) from error
        except BaseException:
            await _disconnect(connection)
            raise
        return connection

    async def _make_tables(self, connection: _Connection) -> None:
        name = f"{self._schema}.version"
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)
            # Whoever may not make tables can use those that are there.
            if await connection.fetchval("SELECT to_regclass($1) IS NULL", name):
                await connection.execute(_TABLES.format(schema=self._schema, version=_VERSION))
            version: int = await connection.fetchval(f"SELECT max(version) FROM {name}")
        if version > _VERSION:
            raise StoreUnavailable(
                f"{self._server_name()}: written by a newer mcpkit, "
                f"whose tables have the version {version}"
            )

    async def _carry_out(self, connection: _Connection, jobs: Sequence[_Job]) -> Sequence[Any]:
        return [await self._carry_out_one(connection, job) for job in jobs]

    async def _carry_out_one(self, connection: _Connection, job: _Job) -> Any:
        has_been_tried, job.has_been_tried = job.has_been_tried, True
        try:
            if not job.writes:
                return await job.do(connection, has_been_tried)
            async with connection.transaction():
                outcome = await job.do(connection, has_been_tried)
        except _LOST:
            raise
        except asyncpg.PostgresError as error:
            return StoreUnavailable(f"{self._server_name()}: {error}")
        except Exception as error:  # nothing has been written for it
            return error
        if job.tells:
            self._to_tell.extend(job.tells)
            self._wake.set()
        return outcome

    async def _read(self, do: Callable[[_Connection, bool], Awaitable[T]]) -> T:
        outcome: T = await self._connections.do(_Job(do, False, ()))
        return outcome

    async def _write(
        self, do: Callable[[_Connection, bool], Awaitable[T]], tells: Sequence[str] = ()
    ) -> T:
        outcome: T = await self._connections.do(_Job(do, True, tells))
        return outcome

    # --- the session ------------------------------------------------------------------------------

    async def _begin_session(self) -> _Connection:
        """Show that this process lives, and listen."""
        connection = await self._connect()
        try:
            # Shared, because the server may not know yet that the session before is over.
            await connection.execute(
                "SELECT pg_advisory_lock_shared(hashtextextended($1 || $2, 0))",
                *(self._schema, self._runner),
            )
            connection.add_termination_listener(lambda _: self._wake.set())
            if self._heard is not None:
                await connection.add_listener(self._channel, self._hear)
        except BaseException:
            await _disconnect(connection)
            raise
        return connection

    def _hear(self, _: object, pid: int, channel: str, told: object) -> None:
        runner, *ids = str(told).split("\n")
        if runner != self._runner and self._heard is not None:
            for id in ids:
                self._heard(id or None)

    def _tell_of_any(self) -> None:
        if self._heard is not None:
            self._heard(None)

    async def _use_session(self, connection: _Connection) -> None:
        """Tell what this process has changed."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _QUIET_S)
            self._wake.clear()
            told = "\n".join([self._runner, *self._to_tell])
            if not self._to_tell:
                await connection.execute("SELECT")  # to see whether the server is there
                continue
            if len(told.encode()) > _MOST_TOLD:
                told = f"{self._runner}\n"  # any
            self._to_tell.clear()
            await connection.execute("SELECT pg_notify($1, $2)", self._channel, told)

    # --- rows -------------------------------------------------------------------------------------

    def _time(self) -> float | None:
        return None if self._clock is None else self._clock()

    async def _select(
        self, connection: _Connection, where: str, *values: object, end: str = ""
    ) -> Sequence[_Found]:
        """Return the tasks whose time is not over.

        Args:
            connection: To the server.
            where: A condition.
            values: $2 and so on.
            end: What comes behind the conditions.
        """
        rows = await connection.fetch(
            f"SELECT {_NOW} AS now, v, record FROM {self._schema}.tasks "
            f"WHERE {where} AND (expires IS NULL OR expires > {_NOW}) {end}",
            *(self._time(), *values),
        )
        return [_Found(row["now"], row["v"], record.load(row["record"])) for row in rows]

    async def _locked(
        self, connection: _Connection, where: str, *values: object
    ) -> Sequence[_Found]:
        """Return tasks that nobody else changes until the transaction ends."""
        # In one order, or two would wait for each other.
        return await self._select(connection, where, *values, end="ORDER BY id FOR UPDATE")

    async def _put(
        self, connection: _Connection, name: str | None, tasks: Collection[Task]
    ) -> None:
        """Put records where others were.

        Args:
            connection: To the server.
            name: Of this write; None if it comes to the same when it is done twice.
            tasks: The records.
        """
        await connection.executemany(
            f"UPDATE {self._schema}.tasks "
            "SET unfinished = $2, due = $3, runner = $4, v = coalesce($5, v), record = $6 "
            "WHERE id = $1",
            [
                (task.id, not task.is_over, task.due, task.runner, name, record.dump(task))
                for task in tasks
            ],
        )

    # --- tasks ------------------------------------------------------------------------------------

    async def add(self, task: Task, *, most: int, most_of_owner: int) -> Task:
        """Keep a new task."""
        name = self._connections.new_name()

        async def room(connection: _Connection) -> tuple[float, int]:
            """Return the time, and how many tasks may still be added."""
            (row,) = await connection.fetch(
                f"SELECT {_NOW} AS now, "
                f"(SELECT count(*) FROM {self._schema}.tasks WHERE unfinished) AS of_all, "
                f"(SELECT count(*) FROM {self._schema}.tasks WHERE unfinished AND owner = $2) "
                "AS of_owner",
                *(self._time(), task.owner),
            )
            return row["now"], min(most - row["of_all"], most_of_owner - row["of_owner"])

        async def add(connection: _Connection, has_been_tried: bool) -> Task:
            if has_been_tried:
                done = await self._select(connection, "id = $2 AND v = $3", task.id, name)
                if done:
                    return done[0].task
            now, left = await room(connection)
            if left <= _NEAR:
                await connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", self._schema
                )
                now, left = await room(connection)
            if left <= 0:
                raise TooManyTasks
            added = replace(task, created=now, updated=now)
            await connection.execute(
                f"INSERT INTO {self._schema}.tasks VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                *(added.id, added.owner, added.created, added.expires, not added.is_over),
                *(added.due, added.runner, name, record.dump(added)),
            )
            return added

        return await self._write(add, (task.id,))

    async def get(self, id: str) -> Task | None:
        """Return a task."""
        found = await self._read(lambda connection, _: self._select(connection, "id = $2", id))
        return found[0].task if found else None

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task."""
        name = self._connections.new_name()

        async def change(connection: _Connection, _: bool) -> Task | None:
            found = await self._locked(connection, "id = $2", id)
            if not found:
                raise KeyError(id)
            now, v, task = found[0]
            if v == name:  # it has been done, and the answer was lost
                return task
            changed = edit(task, now)
            if changed is not None:
                await self._put(connection, name, [changed])
            return changed

        return await self._write(change, (id,))

    async def claim(self, most: int, lease: float) -> Sequence[Task]:
        """Begin a leg of tasks that are due."""
        name = self._connections.new_name()

        async def claim(connection: _Connection, has_been_tried: bool) -> Sequence[Task]:
            if has_been_tried:
                done = await self._select(
                    connection, "runner = $2 AND v = $3", self._runner, name, end="ORDER BY id"
                )
                if done:
                    return [each.task for each in done]
            dead = await self._dead_runners(connection)
            due = await self._select(
                connection,
                f"(due <= {_NOW} OR runner = ANY ($3))" if dead else f"due <= {_NOW}",
                *(most, *([dead] if dead else [])),
                end="ORDER BY due, id LIMIT $2 FOR UPDATE SKIP LOCKED",
            )
            claimed: list[Task] = []
            for now, _, task in due:
                begun = record.claim(task, self._runner, now + lease)
                assert begun is not None
                claimed.append(begun)
            await self._put(connection, name, claimed)
            return claimed

        claimed = await self._write(claim)
        if claimed:
            self._to_tell.extend(each.id for each in claimed)
            self._wake.set()
        return claimed

    async def _dead_runners(self, connection: _Connection) -> Sequence[str]:
        """Return the processes that have been without their locks for a while."""
        looked = time.monotonic()
        if looked >= self._looked + _GLANCE_S:
            self._looked = looked
            rows = await connection.fetch(
                f"SELECT DISTINCT runner FROM {self._schema}.tasks "
                "WHERE runner IS NOT NULL AND runner <> $2 AND hashtextextended($1 || runner, 0) "
                "NOT IN (SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks "
                "WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database()))",
                *(self._schema, self._runner),
            )
            before = self._without_lock
            runners: list[str] = [row["runner"] for row in rows]
            self._without_lock = {each: before.get(each, looked) for each in runners}
        return [
            runner for runner, since in self._without_lock.items() if since + _GRACE_S <= looked
        ]

    async def keep(
        self, legs: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Let legs go on."""
        wanted = {*legs}

        async def keep(connection: _Connection, _: bool) -> Collection[tuple[str, int]]:
            found = await self._locked(connection, "id = ANY ($2)", [id for id, _ in wanted])
            renewed = [
                renewed
                for now, _, task in found
                if (task.id, task.leg) in wanted
                and (renewed := record.keep(task, task.leg, now + lease)) is not None
            ]
            await self._put(connection, None, renewed)
            kept = {(task.id, task.leg) for task in renewed}
            return [each for each in legs if each in kept]

        return await self._write(keep)

    async def remember(self, id: str, leg: int, key: str, value: bytes) -> bytes | None:
        """Remember what a step has come to."""

        async def remember(connection: _Connection, _: bool) -> bytes | None:
            found = await self._locked(connection, "id = $2", id)
            advanced = record.advance(found[0].task, leg) if found else None
            if advanced is None:
                return None
            if advanced != found[0].task:
                await self._put(connection, None, [advanced])
            steps = f"{self._schema}.steps"
            await connection.execute(
                f"INSERT INTO {steps} VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                *(id, key, value),
            )
            kept: bytes = await connection.fetchval(
                f"SELECT value FROM {steps} WHERE id = $1 AND key = $2", id, key
            )
            return kept

        return await self._write(remember)

    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return what steps have come to."""

        async def steps(connection: _Connection, _: bool) -> Mapping[str, bytes]:
            rows = await connection.fetch(
                f"SELECT key, value FROM {self._schema}.steps WHERE id = $1", id
            )
            return {row["key"]: row["value"] for row in rows}

        return await self._read(steps)

    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of an owner."""
        behind = after or (float("-inf"), "")
        found = await self._read(
            lambda connection, _: self._select(
                connection,
                "owner = $2 AND (created, id) > ($3, $4)",
                *(owner, *behind, most),
                end="ORDER BY created, id LIMIT $5",
            )
        )
        return [each.task for each in found]

    async def sweep(self) -> int:
        """Forget the tasks whose time is over."""

        async def sweep(connection: _Connection, _: bool) -> int:
            past: list[str] = [
                row["id"]
                for row in await connection.fetch(
                    f"SELECT id FROM {self._schema}.tasks WHERE expires <= {_NOW} "
                    "ORDER BY id FOR UPDATE",
                    self._time(),
                )
            ]
            for table in ("steps", "tasks"):
                await connection.execute(
                    f"DELETE FROM {self._schema}.{table} WHERE id = ANY ($1)", past
                )
            return len(past)

        return await self._write(sweep)


async def _disconnect(connection: _Connection) -> None:
    with suppress(Exception):  # it may be broken in any way
        await connection.close(timeout=1)
