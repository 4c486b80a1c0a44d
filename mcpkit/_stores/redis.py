"""Records in Redis or Valkey, which processes on many machines share.

A record is changed in two steps: it is read and edited here, and a script stores it unless another
write came first. The script also updates the indexes, so that no change is ever half done. A claim
first hides records from other workers for a moment, so that they do not all edit the same ones.

Each write has a unique name, which is stored in the record: a write whose answer was lost is
repeated, and recognized if it was done.

Each worker sends a heartbeat every few seconds. If that stops, others claim its records; if the
worker lives after all, it can no longer renew their leases.

All keys have the same slot in a cluster, so that a script may use them together. Changes are
announced by Pub/Sub, and missed while a connection is away.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha1
from typing import Any, Final, Protocol, TypeAlias

from mcpkit._stores.base import (
    Edit,
    Position,
    R,
    RecordExists,
    RecordStore,
    StoreUnavailable,
    TooManyRecords,
)
from mcpkit._stores.connections import Connections
from mcpkit._utils.logs import log

try:
    from redis import exceptions
    from redis.asyncio.connection import Connection, parse_url
    from redis.exceptions import ConnectionError as Lost
    from redis.exceptions import RedisError, ResponseError
except ModuleNotFoundError as error:
    if error.name != "redis":
        raise
    raise ImportError('Tasks in Redis need the redis extra: pip install "mcpkit[redis]"') from None


_VERSION: Final = 1
"""The version of the keys."""

_ANSWER_S: Final = 3.0
"""Seconds for one answer."""

_QUIET_S: Final = 10.0
"""Seconds after which the connection that listens is tested."""

MAX_BATCH: Final = 200
"""Jobs that are sent together."""

_SLACK_S: Final = 3600.0
"""Seconds for which an expired record stays, so that `sweep` can update the indexes."""

MAX_EXPIRY_S: Final = 100 * 365 * 86400.0
"""A record that expires later never does."""

_TEMPORARY: Final = (
    *(exceptions.AskError, exceptions.ClusterDownError, exceptions.NoScriptError),
    *(exceptions.ReadOnlyError, exceptions.TryAgainError),
)
"""Errors after which the command may succeed on another connection: another server has become the
primary, or will; or this one has forgotten the scripts."""

_Command: TypeAlias = tuple[Any, ...]

# --- scripts --------------------------------------------------------------------------------------

# KEYS[1] is the tag that all keys begin with, ARGV[1] the time, or '' for the server's.
#   :t:<id>         hash    v (the name of the last write), record, owner, holder, expires, runner
#   :s:<id>         hash    the values beside the record
#   :due            zset    id by the time from which it may be claimed
#   :of:<owner>     zset    id by its creation
#   :past           zset    id and owner by expiry
#   :open           set     unfinished ids; :open:<holder> those of one holder
#   :runs:<worker>  set     ids that the worker has a lease on
#   :alive          zset    worker by the time at which it is taken for dead (the server's)
#   :seen           string  when a worker has reached the server last
_HEAD: Final = """
local p = KEYS[1]
local clock = redis.call('TIME')
local real = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local now = ARGV[1] == '' and real or tonumber(ARGV[1])
local function exact(number) return string.format('%.17g', number) end

-- The answer of a script: the time, then the last write and the content of each record.
local found = {exact(now)}
local function add(id)
  local task = redis.call('HMGET', p .. ':t:' .. id, 'v', 'record', 'expires')
  local is_there = task[1] and (task[3] == '' or tonumber(task[3]) > now)
  if is_there then
    found[#found + 1] = task[1]
    found[#found + 1] = task[2]
  end
  return is_there
end
"""

_READ: Final = """
for i = 2, #ARGV do add(ARGV[i]) end
return found
"""

# Commands that fail when memory is full come first, so that a script is done wholly or not at all.
_PUT: Final = """
local _, id, known, v, record, owner, holder, created, expires, left, due, runner, open, sender,
  limit, holder_limit, step, value = unpack(ARGV)
local task, steps = p .. ':t:' .. id, p .. ':s:' .. id
local opened, opened_of_holder = p .. ':open', p .. ':open:' .. holder

-- An index lives as long as the last record in it.
local function index(command, key, ...)
  local before = redis.call('PTTL', key)
  redis.call(command, key, ...)
  if left == '' then
    redis.call('PERSIST', key)
  elseif before ~= -1 then
    redis.call('PEXPIRE', key, exact(math.max(before, tonumber(left))))
  end
end

local old = redis.call('HMGET', task, 'v', 'runner', 'expires')
if old[1] ~= v then
  if (old[1] or '') ~= known then
    add(id)
    return found
  end
  if limit ~= '' then
    local total, each = tonumber(limit), tonumber(holder_limit)
    local of_holder = redis.call('SCARD', opened_of_holder)
    if of_holder >= each then  -- workers of an earlier version leave what they finish
      for _, over in ipairs(redis.call('SDIFF', opened_of_holder, opened)) do
        redis.call('SREM', opened_of_holder, over)
      end
      of_holder = redis.call('SCARD', opened_of_holder)
    end
    local kept = of_holder > 0 and each < total and math.floor(total / 8) or 0
    if redis.call('SCARD', opened) >= total - kept or of_holder >= each then return 0 end
  end
  if step then redis.call('HSETNX', steps, step, value) end
  if record ~= '' then
    redis.call('HSET', task, 'v', v, 'record', record, 'runner', runner)
    if old[3] ~= expires then
      redis.call('HSET', task, 'owner', owner, 'holder', holder, 'expires', expires)
      if left ~= '' then
        redis.call('PEXPIRE', task, left)
      else
        redis.call('PERSIST', task)
      end
      index('ZADD', p .. ':of:' .. owner, created, id)
      if expires ~= '' then
        index('ZADD', p .. ':past', expires, id .. '\\n' .. owner)
      else
        redis.call('ZREM', p .. ':past', id .. '\\n' .. owner)
      end
      if open ~= '' then
        index('SADD', opened, id)
        index('SADD', opened_of_holder, id)
      end
    end
    if due == '' then
      redis.call('ZREM', p .. ':due', id)
    else
      index('ZADD', p .. ':due', due, id)
    end
    if old[2] and old[2] ~= '' and old[2] ~= runner then
      redis.call('SREM', p .. ':runs:' .. old[2], id)
    end
    if runner ~= '' then index('SADD', p .. ':runs:' .. runner, id) end
    if open == '' then
      redis.call('DEL', steps)
      redis.call('SREM', opened, id)
      redis.call('SREM', opened_of_holder, id)
    end
    if sender ~= '' then redis.call('PUBLISH', p .. ':heard', sender .. '\\n' .. id) end
  end
end
if step then
  if left ~= '' then redis.call('PEXPIRE', steps, left) end
  return redis.call('HGET', steps, step)
end
return 1
"""

# When no worker has reached the server for a while, or its clock was set, all get the time to
# report again.
_REPORT: Final = """
local seen = redis.call('GET', p .. ':seen')
if seen and math.abs(real - tonumber(seen)) > alive / 3 then
  for _, each in ipairs(redis.call('ZRANGE', p .. ':alive', 0, -1)) do
    redis.call('ZADD', p .. ':alive', real + alive, each)
  end
end
redis.call('SET', p .. ':seen', exact(real), 'EX', 86400)
redis.call('ZADD', p .. ':alive', real + alive, me)
"""

_CLAIM: Final = (
    """
local _, me, alive, hidden, limit, calm = unpack(ARGV, 1, 6)
"""
    + _REPORT
    + """
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', p .. ':alive', '-inf', exact(real))) do
  for _, id in ipairs(redis.call('SMEMBERS', p .. ':runs:' .. dead)) do
    local due = redis.call('ZSCORE', p .. ':due', id)
    if due and tonumber(due) > now then redis.call('ZADD', p .. ':due', exact(now), id) end
  end
  redis.call('DEL', p .. ':runs:' .. dead)
  redis.call('ZREM', p .. ':alive', dead)
end
local skipped = {}
for i = 7, #ARGV do skipped[ARGV[i]] = true end
local function is_held(id)
  local runner = redis.call('HGET', p .. ':t:' .. id, 'runner')
  return runner and runner ~= '' and redis.call('ZSCORE', p .. ':alive', runner)
end
local wanted, passed = tonumber(limit), 0
while wanted > 0 do
  local due = redis.call('ZRANGEBYSCORE', p .. ':due', '-inf', exact(now), 'LIMIT', passed, 500)
  if #due == 0 then break end
  for _, id in ipairs(due) do
    if wanted == 0 then break end
    if skipped[id] or skipped[redis.call('HGET', p .. ':t:' .. id, 'holder')]
        or (calm == '1' and is_held(id)) then
      passed = passed + 1
    elseif add(id) then
      redis.call('ZADD', p .. ':due', exact(now + hidden), id)
      wanted = wanted - 1
    else
      redis.call('ZREM', p .. ':due', id)
    end
  end
end
return found
"""
)

_ALIVE: Final = (
    "local me, alive = ARGV[2], ARGV[3]"
    + _REPORT
    + """
redis.call('SET', p .. ':version', ARGV[4], 'NX')
return redis.call('GET', p .. ':version')
"""
)

_LIST: Final = """
local _, owner, created, behind, limit = unpack(ARGV)
local passed = 0
while true do
  local page = redis.call('ZRANGEBYSCORE', p .. ':of:' .. owner, created, '+inf', 'WITHSCORES',
    'LIMIT', passed, 100)
  if #page == 0 then return found end
  for i = 1, #page, 2 do
    passed = passed + 1
    if created == '-inf' or tonumber(page[i + 1]) > tonumber(created) or page[i] > behind then
      if #found > 2 * tonumber(limit) then return found end
      add(page[i])
    end
  end
end
"""

_SWEEP: Final = """
local past = redis.call('ZRANGEBYSCORE', p .. ':past', '-inf', exact(now), 'LIMIT', 0, ARGV[2])
for _, each in ipairs(past) do
  local id, owner = each:match('^([^\\n]*)\\n(.*)$')
  local task = p .. ':t:' .. id
  local runner, holder = unpack(redis.call('HMGET', task, 'runner', 'holder'))
  if runner and runner ~= '' then redis.call('SREM', p .. ':runs:' .. runner, id) end
  redis.call('DEL', task, p .. ':s:' .. id)
  redis.call('ZREM', p .. ':due', id)
  redis.call('SREM', p .. ':open', id)
  redis.call('ZREM', p .. ':of:' .. owner, id)
  redis.call('SREM', p .. ':open:' .. (holder or owner), id)
  redis.call('ZREM', p .. ':past', each)
end
return #past
"""

_SHA: Final = {
    script: sha1((_HEAD + script).encode(), usedforsecurity=False).hexdigest()
    for script in (_READ, _PUT, _CLAIM, _ALIVE, _LIST, _SWEEP)
}
"""The names that servers give to the scripts."""


class _Connection(Protocol):
    """The methods of a redis-py connection that are used here; its types are incomplete."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    def pack_commands(self, commands: Sequence[tuple[Any, ...]]) -> Sequence[bytes]: ...
    async def send_packed_command(self, command: Sequence[bytes]) -> None: ...
    async def send_command(self, *command: str) -> None: ...
    async def read_response(
        self, *, timeout: float | None = None, disconnect_on_error: bool = True
    ) -> Any: ...


class RedisStore(RecordStore[R]):
    """Stores records in Redis 6.2 or newer, or in Valkey. Needs asyncio.

    A server that does not write to disk loses acknowledged changes when it ends: it should have
    ``appendonly yes``, and ``maxmemory-policy noeviction`` so that it evicts nothing.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, as redis-py understands it.
        prefix: The prefix of all keys; apps with the same prefix share their records.
        alive: Seconds without a heartbeat after which others claim the records of a worker, if its
            leases last longer.
        clock: Seconds since the epoch; None for the server's time.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "mcpkit",
        alive: float = 10.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ValueError(f"prefix: {prefix!r} is empty or has braces")
        self._options: dict[str, Any] = {**parse_url(url)}
        self._make: Callable[..., _Connection] = self._options.pop("connection_class", Connection)
        self._address: dict[str, Any] = {}
        """The server that has the keys, if the cluster has named one."""
        self._tag = "{" + prefix + "}"
        self._alive = alive
        self._clock = clock
        host, port = self._options.get("host"), self._options.get("port", 6379)
        self._connections = Connections[_Connection, Sequence[_Command]](
            f"Redis at {self._options.get('path') or f'{host}:{port}'}",
            partial(self._connect, *(("SCRIPT", "LOAD", _HEAD + each) for each in _SHA)),
            *(
                _disconnect,
                self._carry_out,
                (Lost, exceptions.TimeoutError, OSError, asyncio.TimeoutError),
            ),
            batch=MAX_BATCH,
        )

    # --- connections ------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._connections.open()
        self._connections.check_version(await self._beat(), _VERSION)
        await self._warn_of_losses()
        self._connections.in_background(self._keep_beating())
        on_change = self._on_change
        if on_change is not None:
            subscribe = partial(self._connect, ("SUBSCRIBE", f"{self._tag}:heard"))
            await self._connections.stay_connected(subscribe, self._listen, lambda: on_change(None))

    async def _close(self) -> None:
        with suppress(StoreUnavailable):
            alive = f"{self._tag}:alive"
            await self._connections.do([("ZREM", alive, self.worker), ("DEL", self._runs)])
        await self._connections.aclose()

    async def _beat(self) -> int:
        return int(await self._eval(_ALIVE, self.worker, repr(self._alive), _VERSION))

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._alive / 5)
            with suppress(StoreUnavailable):
                await self._beat()

    async def _warn_of_losses(self) -> None:
        with suppress(StoreUnavailable):  # many servers do not permit the question
            for name, wanted in (("appendonly", b"yes"), ("maxmemory-policy", b"noeviction")):
                found: list[bytes] = await self._ask("CONFIG", "GET", name)
                if found and found[1] != wanted:
                    log.warning(
                        "%s may lose tasks: %s is %s and should be %s",
                        *(self._connections.server, name, found[1].decode(), wanted.decode()),
                    )

    async def _connect(self, *commands: _Command) -> _Connection:
        """Return a connection over which commands have succeeded."""
        connection = self._make(
            **{
                "socket_connect_timeout": _ANSWER_S,
                "socket_timeout": _ANSWER_S,
                **self._options,
                **self._address,
                "protocol": 2,
                "decode_responses": False,
            }
        )
        try:
            await connection.connect()
            for answer in await _exchange(connection, commands):
                if isinstance(answer, Exception):
                    raise answer
        except BaseException as error:
            await _disconnect(connection)
            if not isinstance(error, RedisError):
                raise
            self._address = {}  # the first server knows where the keys are now
            raise Lost(str(error)) from error  # a password, for example
        return connection

    async def _carry_out(
        self, connection: _Connection, works: Sequence[Sequence[_Command]]
    ) -> Sequence[Any]:
        answers = iter(await _exchange(connection, [each for work in works for each in work]))
        outcomes: list[Any] = []
        for work in works:
            outcome = [next(answers) for _ in work]
            errors = [each for each in outcome if isinstance(each, Exception)]
            for error in errors:
                self._check_connection(error)
            outcomes.append(
                StoreUnavailable(f"{self._connections.server}: {errors[0]}") if errors else outcome
            )
        return outcomes

    def _check_connection(self, error: Exception) -> None:
        """Raise `Lost` if a command may succeed on another connection."""
        if isinstance(error, exceptions.MovedError):
            host, _, port = str(error).rpartition(" ")[2].rpartition(":")
            self._address = {"host": host or self._options.get("host"), "port": int(port)}
        if isinstance(error, _TEMPORARY):  # an error that keys have moved is an AskError
            raise Lost(str(error))

    async def _listen(self, connection: _Connection) -> None:
        """Notify the listener of the changes of others."""
        is_quiet = False
        while True:
            message = await connection.read_response(timeout=_QUIET_S)
            if message is None:
                if is_quiet:
                    raise Lost("no answer")
                await connection.send_command("PING")
            elif message[0] == b"message":
                worker, _, id = message[2].decode().partition("\n")
                if worker != self.worker and self._on_change is not None:
                    self._on_change(id)
            is_quiet = message is None

    async def _ask(self, *command: Any) -> Any:
        (answer,) = await self._connections.do([command])
        return answer

    def _call(self, script: str, *values: Any) -> _Command:
        clock = "" if self._clock is None else repr(self._clock())
        return ("EVALSHA", _SHA[script], 1, self._tag, clock, *values)

    async def _eval(self, script: str, *values: Any) -> Any:
        return await self._ask(*self._call(script, *values))

    @property
    def _runs(self) -> str:
        return f"{self._tag}:runs:{self.worker}"

    # --- records ----------------------------------------------------------------------------------

    def _put(
        self,
        now: float,
        known: bytes,
        record: R,
        *more: Any,
        is_new: bool = True,
        due: float | None = None,
        notify: bool = True,
    ) -> _Command:
        """Return the command that stores a record in the place of the write `known`.

        `more` are the limits of unfinished records, of all and of its holder, and a key and a value
        to store beside it. `is_new` is False if the record has not changed. `due` replaces the time
        in the record.
        """
        due = record.due if due is None else due
        keep = None if record.expires is None else max(0.0, record.expires - now) + _SLACK_S
        return self._call(
            _PUT,
            record.id,
            known,
            self._connections.new_name(),
            self._codec.dump(record) if is_new else b"",
            record.owner,
            record.holder,
            repr(record.created),
            "" if record.expires is None else repr(record.expires),
            "" if keep is None or keep > MAX_EXPIRY_S else math.ceil(keep * 1000),
            "" if due is None else repr(due),
            record.worker or "",
            "" if record.is_over else 1,
            self.worker if notify else "",
            *(more or ("", "")),
        )

    def _found(self, answer: list[Any]) -> tuple[float, dict[str, tuple[bytes, R]]]:
        """Return the time and the records of an answer, with the names of their last writes."""
        found: dict[str, tuple[bytes, R]] = {}
        for v, data in zip(answer[1::2], answer[2::2], strict=True):
            record = self._codec.load(data)
            found[record.id] = v, record
        return float(answer[0]), found

    async def find(self, ids: Collection[str]) -> Mapping[str, R]:
        """Return those of several records that are there."""
        _, found = self._found(await self._eval(_READ, *ids))
        return {id: record for id, (_, record) in found.items()}

    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:
        if ids is None:
            ids = [each.decode() for each in await self._ask("SMEMBERS", self._runs)]
        changed = await self._change(ids, edit, notify=notify)
        return {id: record for id, (record, _) in changed.items()}

    async def _change(
        self, ids: Collection[str], edit: Edit[R], *more: Any, notify: bool
    ) -> dict[str, tuple[R | None, Any]]:
        """Change records; `more` as for `_put`. Returns what became of each, and the answer."""
        done: dict[str, tuple[R | None, Any]] = {}
        now, found = self._found(await self._eval(_READ, *ids))
        while found:
            puts: dict[str, _Command] = {}
            for id, (v, record) in found.items():
                changed = edit(record, now)
                done[id] = changed, None
                if changed is not None:
                    is_new = changed is not record
                    puts[id] = self._put(now, v, changed, *more, is_new=is_new, notify=notify)
            if not puts:
                break
            answers: list[Any] = await self._connections.do([*puts.values()])
            found = dict[str, tuple[bytes, R]]()
            for id, answer in zip(puts, answers, strict=True):
                done[id] = done[id][0], answer
                if not isinstance(answer, (int, bytes)):  # another write came first
                    del done[id]
                    now, again = self._found(answer)
                    found |= again
        return done

    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_holder: int) -> R:
        """Store a new record."""
        now, _ = self._found(await self._eval(_READ))
        record = make(now)
        (answer,) = await self._connections.do(
            [self._put(now, b"", record, limit, limit_per_holder)]
        )
        if answer == 0:
            raise TooManyRecords
        if answer != 1:
            raise RecordExists(record.id)
        return record

    async def claim(
        self, limit: int, start: Edit[R], *, skip: Collection[str] = (), calm: bool = False
    ) -> Sequence[R]:
        """Take the lease of records that are due, or whose worker is dead."""
        # A record that another worker claims first is due again when the moment is over.
        options = (self.worker, repr(self._alive), 1, limit, int(calm))
        now, found = self._found(await self._eval(_CLAIM, *options, *skip))
        claimed: list[R | None] = []
        puts: list[_Command] = []
        for v, record in found.values():
            started = start(record, now)
            claimed.append(started)
            # A refused record keeps its place, and is due again for others.
            due = None if started is not None else min(record.due or now, now)
            puts.append(self._put(now, v, started or record, due=due, notify=due is None))
        answers: Sequence[Any] = await self._connections.do(puts) if puts else ()
        done = zip(claimed, answers, strict=True)
        return [each for each, answer in done if each is not None and answer == 1]

    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Store a value beside a record, once."""
        changed = await self._change([id], edit, "", "", key, value, notify=False)
        stored: bytes | None = changed[id][1] if id in changed else None
        return stored

    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values beside a record."""
        found: list[bytes] = await self._ask("HGETALL", f"{self._tag}:s:{id}")
        return {key.decode(): value for key, value in zip(found[::2], found[1::2], strict=True)}

    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner."""
        created, behind = ("-inf", "") if after is None else (repr(after[0]), after[1])
        _, found = self._found(await self._eval(_LIST, owner, created, behind, limit))
        return [record for _, record in found.values()]

    async def _sweep(self, limit: int) -> int:
        swept: int = await self._eval(_SWEEP, limit)
        return swept


async def _exchange(connection: _Connection, commands: Sequence[_Command]) -> list[Any]:
    """Send commands together, and return the answers or errors."""
    await connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disconnect_on_error=False))
        except ResponseError as error:
            answers.append(error)
    return answers


async def _disconnect(connection: _Connection) -> None:
    with suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
