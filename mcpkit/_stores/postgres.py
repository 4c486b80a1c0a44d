"""Records in PostgreSQL, which processes on many machines share.

Each change is a transaction that locks the row of its record. Each write has a unique name, which
is stored in the row: a write whose answer was lost is repeated, and recognized if it was done.

Each worker holds an advisory lock in a session of its own. The server releases it when the worker
dies, and others claim its records after a moment: a living worker may lose its connection, and all
do when the server restarts. If it does not reconnect in time, its records are claimed all the same,
and it can no longer renew their leases.

Changes are announced by ``NOTIFY``, and missed while the session is away. They are announced
outside of the transactions, because PostgreSQL commits those that notify one after the other.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from mcpkit._stores.base import (
    Edit,
    Position,
    R,
    RecordExists,
    RecordStore,
    StoreUnavailable,
    TooManyRecords,
    room,
)
from mcpkit._stores.connections import TIMEOUT_S, Connections

try:
    import asyncpg  # pyright: ignore[reportMissingTypeStubs]
except ModuleNotFoundError as error:
    if error.name != "asyncpg":
        raise
    raise ImportError(
        'Tasks in PostgreSQL need the postgres extra: pip install "mcpkit[postgres]"'
    ) from None

_VERSION: Final = 1
"""The version of the tables."""

_ANSWER_S: Final = 3.0
"""Seconds for one answer."""

_QUIET_S: Final = 5.0
"""Seconds after which the connection of the session is tested."""

_GRACE_S: Final = 10.0
"""Seconds for which a worker may be without its lock before it is taken for dead."""

_POLL_S: Final = 0.25
"""Seconds between two looks for dead workers."""

_NEAR: Final = 500
"""When no more records than this may be added, additions wait for each other to be counted."""

MAX_NOTIFIED: Final = 7000
"""Bytes in one ``NOTIFY``, which PostgreSQL limits to 8000."""

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

_HOLDERS: Final = """
    ALTER TABLE {schema}.tasks ADD COLUMN holder text COLLATE "C"; -- NULL: the owner
    CREATE INDEX tasks_held ON {schema}.tasks (owner, holder) WHERE unfinished;
"""
"""What the tables of the first version lack; processes of that version can use it, too."""

_NOW: Final = "coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8)"
"""The time: $1, or else the server's."""

_NOT_IN: Final = (  # hashed, unlike `<> ALL`
    "{0} AND id NOT IN (SELECT unnest(${1}::text[])) "
    "AND coalesce(holder, owner) NOT IN (SELECT unnest(${1}::text[]))"
)

T = TypeVar("T")


class _Connection(Protocol):
    """The methods of an asyncpg connection that are used here; asyncpg has no types."""

    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(self, query: str, values: Sequence[Sequence[object]]) -> None: ...
    async def fetch(self, query: str, *values: object) -> Sequence[Mapping[str, Any]]: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    def is_closed(self) -> bool: ...
    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def add_termination_listener(self, callback: Callable[[object], object]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., object]) -> None: ...
    async def close(self, *, timeout: float) -> None: ...


class _Row(NamedTuple):
    now: float
    v: str  # the name of its last write
    record: Any


@dataclass(slots=True)
class _Job:
    do: Callable[[_Connection, _Job], Awaitable[Any]]
    writes: bool  # needs a transaction
    name: str  # of the write, by which its repetition is recognized
    attempts: int = 0  # each may have been done
    changed: list[str] = field(default_factory=list[str])  # ids to announce, from `do`


_LOST: Final[tuple[type[Exception], ...]] = (
    asyncio.TimeoutError,
    *(OSError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError),
    # A deadlock, and a primary server that has become a standby.
    *(asyncpg.TransactionRollbackError, asyncpg.ReadOnlySQLTransactionError),
)


_UNFIT: Final[tuple[type[Exception], ...]] = (
    # Caused by the data: it is in vain to try again.
    *(asyncpg.DataError, asyncpg.IntegrityConstraintViolationError),
    asyncpg.ProgramLimitExceededError,
)


class PostgresStore(RecordStore[R]):
    """Stores records in PostgreSQL 12 or newer. Needs asyncio.

    Args:
        dsn: ``postgresql://``, as asyncpg understands it. It must lead to the server, or to a
            pooler that keeps sessions: others break locks and ``LISTEN``.
        schema: The schema of the tables; made if there is none. Apps with the same schema share
            their records.
        connections: The connections for changes; there is one more that listens.
        clock: Seconds since the epoch; None for the server's time.
    """

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
        self._clock: Callable[[], float | None] = clock or (lambda: None)
        where = urlsplit(dsn)  # without its password
        self._connections = Connections[_Connection, _Job](
            f"PostgreSQL at {where.hostname or 'its socket'}, database {where.path[1:]}",
            *(self._connect, _disconnect, self._carry_out, _LOST),
            size=connections,
        )
        self._is_made = False
        self._to_announce: list[str] = []
        self._wake = asyncio.Event()
        """Set when there are changes to announce, or the session is lost."""
        self._without_lock: dict[str, float] = {}
        """When a worker was first seen without its lock."""
        self._looked = self._settled = float("-inf")

    # --- connections ------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._connections.open()
        await self._connections.stay_connected(
            self._begin_session, self._announce, self._reconnected
        )

    async def _close(self) -> None:
        await self._connections.aclose()

    async def _connect(self) -> _Connection:
        connection: _Connection | None = None
        try:
            untyped: Any = asyncpg
            connection = cast(
                "_Connection",
                await untyped.connect(self._dsn, timeout=_ANSWER_S, command_timeout=_ANSWER_S),
            )
            # Or a process that is stopped within a transaction would block all others.
            await connection.execute(
                f"SET idle_in_transaction_session_timeout = {1000 * TIMEOUT_S:.0f}"
            )
            if not self._is_made:
                await self._make_tables(connection)
                self._is_made = True
        except BaseException as error:
            if connection is not None:
                await _disconnect(connection)
            if isinstance(error, asyncpg.PostgresError):  # a password, for example
                raise asyncpg.InterfaceError(str(error)) from error
            raise
        return connection

    async def _make_tables(self, connection: _Connection) -> None:
        name = f"{self._schema}.version"
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name)
            # A user who may not make tables can use those that exist.
            if await connection.fetchval("SELECT to_regclass($1) IS NULL", name):
                await connection.execute(_TABLES.format(schema=self._schema, version=_VERSION))
            if await connection.fetchval(
                "SELECT count(*) = 0 FROM pg_attribute WHERE attrelid = to_regclass($1) "
                "AND attname = 'holder'",
                f"{self._schema}.tasks",
            ):
                await connection.execute(_HOLDERS.format(schema=self._schema))
            version: int = await connection.fetchval(f"SELECT max(version) FROM {name}")
        self._connections.check_version(version, _VERSION)

    async def _carry_out(self, connection: _Connection, jobs: Sequence[_Job]) -> Sequence[Any]:
        (job,) = jobs  # they are not batched
        job.attempts += 1
        job.changed.clear()
        try:
            if job.writes:
                async with connection.transaction():
                    outcome = await job.do(connection, job)
            else:
                outcome = await job.do(connection, job)
        except _LOST as error:
            if isinstance(error, ValueError):  # asyncpg cannot encode a value
                return [error]
            raise
        except _UNFIT as error:
            return [error]
        except asyncpg.PostgresError as error:
            return [StoreUnavailable(f"{self._connections.server}: {error}")]
        except Exception as error:  # it was rolled back
            if connection.is_closed():
                raise asyncpg.InterfaceError(str(error)) from error
            return [error]
        if job.changed:
            self._to_announce.extend(job.changed)
            self._wake.set()
        return [outcome]

    async def _run(
        self, do: Callable[[_Connection, _Job], Awaitable[T]], *, writes: bool = False
    ) -> T:
        outcome: T = await self._connections.do(_Job(do, writes, self._connections.new_name()))
        return outcome

    # --- the session ------------------------------------------------------------------------------

    async def _begin_session(self) -> _Connection:
        """Show that this worker lives, and listen."""
        connection = await self._connect()
        try:
            # Shared, because the server may not know yet that the last session is over.
            await connection.execute(
                "SELECT pg_advisory_lock_shared(hashtextextended($1 || $2, 0))",
                *(self._schema, self.worker),
            )
            connection.add_termination_listener(lambda _: self._wake.set())
            if self._on_change is not None:
                await connection.add_listener(self._channel, self._hear)
        except BaseException:
            await _disconnect(connection)
            raise
        return connection

    def _reconnected(self) -> None:
        # All others have lost their locks as well, if the server was away.
        self._settled = time.monotonic() + 2 * TIMEOUT_S
        self._without_lock.clear()
        if self._on_change is not None:
            self._on_change(None)

    def _hear(self, _: object, pid: int, channel: str, payload: object) -> None:
        worker, *ids = str(payload).split("\n")
        if worker != self.worker and self._on_change is not None:
            for id in ids:
                self._on_change(id or None)

    async def _announce(self, connection: _Connection) -> None:
        """Announce the changes of this worker."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _QUIET_S)
            self._wake.clear()
            if not self._to_announce:
                await connection.execute("SELECT")  # is the server there?
                continue
            payload = "\n".join([self.worker, *self._to_announce])
            if len(payload.encode()) > MAX_NOTIFIED:
                payload = f"{self.worker}\n"  # any
            self._to_announce.clear()
            await connection.execute("SELECT pg_notify($1, $2)", self._channel, payload)

    # --- rows -------------------------------------------------------------------------------------

    async def _select(
        self, connection: _Connection, where: str, *values: object, end: str = ""
    ) -> Sequence[_Row]:
        """Return rows that have not expired; `values` are $2 and so on."""
        rows = await connection.fetch(
            f"SELECT {_NOW} AS now, v, record FROM {self._schema}.tasks "
            f"WHERE {where} AND (expires IS NULL OR expires > {_NOW}) {end}",
            *(self._clock(), *values),
        )
        return [_Row(row["now"], row["v"], self._codec.load(row["record"])) for row in rows]

    async def _change(
        self, connection: _Connection, job: _Job, rows: Sequence[_Row], edit: Edit[R]
    ) -> dict[str, R | None]:
        """Change rows that are locked, except those that this write has changed already."""
        done: dict[str, R | None] = {}
        changed: list[R] = []
        for now, v, record in rows:
            done[record.id] = edited = record if v == job.name else edit(record, now)
            if edited is not None and edited is not record:
                changed.append(edited)
        await connection.executemany(
            f"UPDATE {self._schema}.tasks SET expires = $2, unfinished = $3, due = $4, "
            "runner = $5, v = $6, record = $7 WHERE id = $1",
            [
                (
                    *(record.id, record.expires, not record.is_over, record.due),
                    *(record.worker, job.name, self._codec.dump(record)),
                )
                for record in changed
            ],
        )
        job.changed.extend(each.id for each in changed)
        if over := [each.id for each in changed if each.is_over]:
            await connection.execute(f"DELETE FROM {self._schema}.steps WHERE id = ANY ($1)", over)
        return done

    async def _locked(self, connection: _Connection, ids: Collection[str] | None) -> Sequence[_Row]:
        where, value = ("runner = $2", self.worker) if ids is None else ("id = ANY ($2)", ids)
        # In one order, or two transactions would wait for each other.
        return await self._select(connection, where, value, end="ORDER BY id FOR UPDATE")

    # --- records ----------------------------------------------------------------------------------

    async def find(self, ids: Collection[str]) -> Mapping[str, R]:
        """Return those of several records that are there."""
        where = "id = ANY ($2)"
        rows = await self._run(lambda connection, _: self._select(connection, where, [*ids]))
        return {row.record.id: row.record for row in rows}

    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:

        async def change(connection: _Connection, job: _Job) -> Mapping[str, R | None]:
            rows = await self._locked(connection, ids)
            done = await self._change(connection, job, rows, edit)
            if not notify:
                job.changed.clear()
            return done

        return await self._run(change, writes=True)

    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_holder: int) -> R:
        """Store a new record."""
        id, holder = make(0).id, make(0).holder

        async def left_for(connection: _Connection) -> tuple[float, int]:
            """Return the time, and how many records may still be added."""
            (row,) = await connection.fetch(
                f"SELECT {_NOW} AS now, count(*) AS of_all, "
                f"count(*) FILTER (WHERE coalesce(holder, owner) = $2) AS of_holder "
                f"FROM {self._schema}.tasks WHERE unfinished",
                *(self._clock(), holder),
            )
            return row["now"], room(limit, limit_per_holder, row["of_all"], row["of_holder"])

        async def add(connection: _Connection, job: _Job) -> R:
            job.changed.append(id)
            if job.attempts > 1:
                for row in await self._select(connection, "id = $2 AND v = $3", id, job.name):
                    return cast("R", row.record)
            now, left = await left_for(connection)
            if left <= _NEAR:
                await connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", self._schema
                )
                now, left = await left_for(connection)
            if left <= 0:
                raise TooManyRecords
            record = make(now)
            status = await connection.execute(
                f"INSERT INTO {self._schema}.tasks "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
                *(id, record.owner, record.created, record.expires, not record.is_over),
                *(record.due, record.worker, job.name, self._codec.dump(record)),
                None if holder == record.owner else holder,
            )
            if status == "INSERT 0 0":
                raise RecordExists(id)
            return record

        return await self._run(add, writes=True)

    async def claim(
        self, limit: int, start: Edit[R], *, skip: Collection[str] = (), calm: bool = False
    ) -> Sequence[R]:
        """Take the lease of records that are due, or whose worker is dead."""

        async def claim(connection: _Connection, job: _Job) -> Sequence[R]:
            rows: Sequence[_Row] = ()
            if job.attempts > 1:
                where = "runner = $2 AND v = $3"
                rows = await self._select(
                    connection, where, self.worker, job.name, end="ORDER BY id"
                )
            if not rows:
                dead = await self._dead_workers(connection)
                # A claim that is repeated is one that has waited for the server.
                is_calm = calm or job.attempts > 1
                where = f"due <= {_NOW}{' AND runner IS NULL' if is_calm else ''}"
                values: list[object] = [limit]
                for given, more in ((dead, "({} OR runner = ANY (${}))"), (skip, _NOT_IN)):
                    if given:
                        values.append([*given])
                        where = more.format(where, len(values) + 1)
                rows = await self._select(
                    connection,
                    where,
                    *values,
                    end="ORDER BY due, id LIMIT $2 FOR UPDATE SKIP LOCKED",
                )
            claimed = await self._change(connection, job, rows, start)
            return [each for each in claimed.values() if each is not None]

        return await self._run(claim, writes=True)

    async def _dead_workers(self, connection: _Connection) -> Sequence[str]:
        """Return the workers that have been without their locks for a while."""
        looked = time.monotonic()
        if looked < self._settled:
            return ()
        if looked >= self._looked + _POLL_S:
            self._looked = looked
            rows = await connection.fetch(
                f"SELECT DISTINCT runner FROM {self._schema}.tasks "
                "WHERE runner IS NOT NULL AND runner <> $2 AND hashtextextended($1 || runner, 0) "
                "NOT IN (SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks "
                "WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database()))",
                *(self._schema, self.worker),
            )
            before = self._without_lock
            workers: list[str] = [row["runner"] for row in rows]
            self._without_lock = {each: before.get(each, looked) for each in workers}
        return [
            worker for worker, since in self._without_lock.items() if since + _GRACE_S <= looked
        ]

    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Store a value beside a record, once."""
        steps = f"{self._schema}.steps"

        async def remember(connection: _Connection, job: _Job) -> bytes | None:
            rows = await self._locked(connection, [id])
            changed = await self._change(connection, job, rows, edit)
            job.changed.clear()
            if changed.get(id) is None:
                return None
            await connection.execute(
                f"INSERT INTO {steps} VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", id, key, value
            )
            stored: bytes = await connection.fetchval(
                f"SELECT value FROM {steps} WHERE id = $1 AND key = $2", id, key
            )
            return stored

        return await self._run(remember, writes=True)

    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values beside a record."""
        query = f"SELECT key, value FROM {self._schema}.steps WHERE id = $1"
        rows = await self._run(lambda connection, _: connection.fetch(query, id))
        return {row["key"]: row["value"] for row in rows}

    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner."""
        where, end = "owner = $2 AND (created, id) > ($3, $4)", "ORDER BY created, id LIMIT $5"
        values = (owner, *(after or (float("-inf"), "")), limit)
        rows = await self._run(
            lambda connection, _: self._select(connection, where, *values, end=end)
        )
        return [row.record for row in rows]

    async def _sweep(self, limit: int) -> int:
        async def sweep(connection: _Connection, _: _Job) -> int:
            rows = await connection.fetch(
                f"SELECT id FROM {self._schema}.tasks WHERE expires <= {_NOW} "
                "ORDER BY expires, id LIMIT $2 FOR UPDATE SKIP LOCKED",
                *(self._clock(), limit),
            )
            past: list[str] = [row["id"] for row in rows]
            for table in ("steps", "tasks"):
                await connection.execute(
                    f"DELETE FROM {self._schema}.{table} WHERE id = ANY ($1)", past
                )
            return len(past)

        return await self._run(sweep, writes=True)


async def _disconnect(connection: _Connection) -> None:
    with suppress(Exception):  # it may be broken in any way
        await connection.close(timeout=1)
