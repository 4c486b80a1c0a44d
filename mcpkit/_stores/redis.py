"""Tasks in Redis or Valkey, which processes on many machines share.

A record is changed in two steps: it is read and edited here, and a script puts it back if nobody
else has changed it meanwhile. The script changes the indexes as well, so nothing is ever half done.
Whoever claims a task first hides it from the others for a moment, so that they do not all reach
for the same one.

Each write has a name of its own, which stays in the record: a write whose answer was lost can be
done again, and is found to be done.

Each process shows that it lives by a sign it gives every few seconds. When it gives none, others
take up its work. If it lives after all, the number of the leg keeps it from writing anything.

All keys stand in one slot of a cluster, so a script may use them together. Changes are told by
Pub/Sub, and may be missed while a connection is away; the records are the truth.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import anyio

from mcpkit._stores.connections import Connections, Line, need_asyncio
from mcpkit._utils.logs import get_logger
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Heard, Position, StoreUnavailable, TooManyTasks

try:
    from redis.asyncio.connection import Connection, parse_url
    from redis.exceptions import (
        AskError,
        ClusterDownError,
        MasterDownError,
        MovedError,
        NoScriptError,
        ReadOnlyError,
        RedisError,
        ResponseError,
        TryAgainError,
    )
    from redis.exceptions import ConnectionError as Lost
    from redis.exceptions import TimeoutError as Late
except ModuleNotFoundError as error:
    if error.name != "redis":
        raise
    raise ImportError('Tasks in Redis need the redis extra: pip install "mcpkit[redis]"') from None

__all__ = ["RedisStore"]

_log: Final = get_logger("mcpkit")

_VERSION: Final = 1
"""Of the keys."""

_ANSWER_S: Final = 3.0
"""Seconds for one answer."""

_QUIET_S: Final = 10.0
"""Seconds after which the connection that listens is tried."""

_MOST_AT_ONCE: Final = 200
"""Pieces of work that are sent together."""

_MOST_FORGOTTEN: Final = 500
"""Tasks that one script forgets, while nobody else is served."""

_SLACK_S: Final = 3600.0
"""Seconds after its end for which a task may still be there, for `sweep` to clean up behind it."""

_LONGEST_S: Final = 100 * 365 * 86400.0
"""A task that is kept for longer is kept for ever."""

_FOR_NOW: Final = (
    *(
        AskError,
        ClusterDownError,
        MasterDownError,
        NoScriptError,
        ReadOnlyError,
        TryAgainError,
    ),
)
"""Refusals that do not last."""

_Script: TypeAlias = str
_Command: TypeAlias = "tuple[_Script, tuple[Any, ...]]"

# --- scripts --------------------------------------------------------------------------------------

# KEYS[1] is the tag that all keys begin with, ARGV[1] the time if it is not the server's.
#   :t:<id>         hash    v (the name of the last write), record, owner, expires, runner
#   :s:<id>         hash    the steps
#   :due            zset    id by when a leg may begin
#   :of:<owner>     zset    id by when it was created
#   :past           zset    id and owner by when the task may be forgotten
#   :open           set     ids that are not over; :open:<owner> those of one owner
#   :runs:<runner>  set     ids of which it runs a leg
#   :alive          zset    runner by when it is taken for dead, in the server's time
_HEAD: Final = """
local p = KEYS[1]
local clock = redis.call('TIME')
local real = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local now = ARGV[1] == '' and real or tonumber(ARGV[1])
local function exact(number) return string.format('%.17g', number) end
"""

_READ: Final = (
    _HEAD
    + """
local found = {exact(now)}
for i = 2, #ARGV do
  local task = redis.call('HMGET', p .. ':t:' .. ARGV[i], 'v', 'record')
  found[#found + 1] = task[1]
  found[#found + 1] = task[2]
end
return found
"""
)

# What may fail because there is no room comes first: what comes behind it is done then as well.
_PUT: Final = (
    _HEAD
    + """
local _, id, known, v, record, owner, created, expires, left, due, runner, open, telling, most,
  most_of_owner, step, value = unpack(ARGV)
local task, steps = p .. ':t:' .. id, p .. ':s:' .. id
local opened, opened_of_owner = p .. ':open', p .. ':open:' .. owner

-- An index is there for as long as the last that is in it.
local function index(command, key, ...)
  local before = redis.call('PTTL', key)
  redis.call(command, key, ...)
  if left == '' then
    redis.call('PERSIST', key)
  elseif before ~= -1 then
    redis.call('PEXPIRE', key, exact(math.max(before, tonumber(left))))
  end
end

local old = redis.call('HMGET', task, 'v', 'record', 'runner')
if old[1] ~= v then
  if (old[1] or '') ~= known then return {exact(now), old[1], old[2]} end
  if most ~= '' and (redis.call('SCARD', opened) >= tonumber(most)
      or redis.call('SCARD', opened_of_owner) >= tonumber(most_of_owner)) then
    return 0
  end
  if step then redis.call('HSETNX', steps, step, value) end
  if record ~= '' then
    redis.call('HSET', task, 'v', v, 'record', record, 'runner', runner)
    if known == '' then
      redis.call('HSET', task, 'owner', owner, 'expires', expires)
      if left ~= '' then redis.call('PEXPIRE', task, left) end
      index('ZADD', p .. ':of:' .. owner, created, id)
      if expires ~= '' then index('ZADD', p .. ':past', expires, id .. '\\n' .. owner) end
      index('SADD', opened, id)
      index('SADD', opened_of_owner, id)
    end
    if due == '' then
      redis.call('ZREM', p .. ':due', id)
    else
      index('ZADD', p .. ':due', due, id)
    end
    if old[3] and old[3] ~= '' and old[3] ~= runner then
      redis.call('SREM', p .. ':runs:' .. old[3], id)
    end
    if runner ~= '' then index('SADD', p .. ':runs:' .. runner, id) end
    if open == '' then
      redis.call('SREM', opened, id)
      redis.call('SREM', opened_of_owner, id)
    end
    if telling ~= '' then redis.call('PUBLISH', p .. ':heard', telling .. '\\n' .. id) end
  end
end
if step then
  if left ~= '' then redis.call('PEXPIRE', steps, left) end
  return redis.call('HGET', steps, step)
end
return 1
"""
)

_CLAIM: Final = (
    _HEAD
    + """
local _, me, alive, hidden, most = unpack(ARGV)
redis.call('ZADD', p .. ':alive', real + alive, me)
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', p .. ':alive', '-inf', exact(real))) do
  for _, id in ipairs(redis.call('SMEMBERS', p .. ':runs:' .. dead)) do
    local due = redis.call('ZSCORE', p .. ':due', id)
    if due and tonumber(due) > now then redis.call('ZADD', p .. ':due', exact(now), id) end
  end
  redis.call('DEL', p .. ':runs:' .. dead)
  redis.call('ZREM', p .. ':alive', dead)
end
local found, wanted = {exact(now)}, tonumber(most)
while wanted > 0 do
  local due = redis.call('ZRANGEBYSCORE', p .. ':due', '-inf', exact(now), 'LIMIT', 0, wanted)
  if #due == 0 then break end
  for _, id in ipairs(due) do
    local task = redis.call('HMGET', p .. ':t:' .. id, 'v', 'record', 'expires')
    if not task[1] or (task[3] ~= '' and tonumber(task[3]) <= now) then
      redis.call('ZREM', p .. ':due', id)
    else
      redis.call('ZADD', p .. ':due', exact(now + hidden), id)
      found[#found + 1] = task[1]
      found[#found + 1] = task[2]
      wanted = wanted - 1
    end
  end
end
return found
"""
)

_ALIVE: Final = (
    _HEAD
    + """
redis.call('ZADD', p .. ':alive', real + ARGV[3], ARGV[2])
redis.call('SET', p .. ':version', ARGV[4], 'NX')
return redis.call('GET', p .. ':version')
"""
)

_GONE: Final = (
    _HEAD
    + """
redis.call('ZREM', p .. ':alive', ARGV[2])
return redis.call('DEL', p .. ':runs:' .. ARGV[2])
"""
)

_RUNS: Final = _HEAD + "return redis.call('SMEMBERS', p .. ':runs:' .. ARGV[2])"

_STEPS: Final = _HEAD + "return redis.call('HGETALL', p .. ':s:' .. ARGV[2])"

_LIST: Final = (
    _HEAD
    + """
local _, owner, created, behind, most = unpack(ARGV)
local found, passed = {exact(now)}, 0
while true do
  local page = redis.call('ZRANGEBYSCORE', p .. ':of:' .. owner, created, '+inf', 'WITHSCORES',
    'LIMIT', passed, 100)
  if #page == 0 then return found end
  for i = 1, #page, 2 do
    passed = passed + 1
    if created == '-inf' or tonumber(page[i + 1]) > tonumber(created) or page[i] > behind then
      local task = redis.call('HMGET', p .. ':t:' .. page[i], 'v', 'record', 'expires')
      if task[1] and (task[3] == '' or tonumber(task[3]) > now) then
        if #found > 2 * tonumber(most) then return found end
        found[#found + 1] = task[1]
        found[#found + 1] = task[2]
      end
    end
  end
end
"""
)

_SWEEP: Final = (
    _HEAD
    + """
local past = redis.call('ZRANGEBYSCORE', p .. ':past', '-inf', exact(now), 'LIMIT', 0, ARGV[2])
for _, each in ipairs(past) do
  local id, owner = each:match('^([^\\n]*)\\n(.*)$')
  local runner = redis.call('HGET', p .. ':t:' .. id, 'runner')
  if runner and runner ~= '' then redis.call('SREM', p .. ':runs:' .. runner, id) end
  redis.call('DEL', p .. ':t:' .. id, p .. ':s:' .. id)
  redis.call('ZREM', p .. ':due', id)
  redis.call('ZREM', p .. ':of:' .. owner, id)
  redis.call('SREM', p .. ':open', id)
  redis.call('SREM', p .. ':open:' .. owner, id)
  redis.call('ZREM', p .. ':past', each)
end
return #past
"""
)

_SCRIPTS: Final = (_READ, _PUT, _CLAIM, _ALIVE, _GONE, _RUNS, _STEPS, _LIST, _SWEEP)


class _Connection(Protocol):
    """What is used of a connection of redis-py, which is not wholly typed."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    def pack_commands(self, commands: Sequence[tuple[Any, ...]]) -> Sequence[bytes]: ...
    async def send_packed_command(self, command: Sequence[bytes]) -> None: ...
    async def send_command(self, *command: str) -> None: ...
    async def read_response(
        self, *, timeout: float | None = None, disconnect_on_error: bool = True
    ) -> Any: ...


class _Server(NamedTuple):
    """A connection, and what the server calls the scripts."""

    connection: _Connection
    names: Mapping[_Script, bytes]


class _Found(NamedTuple):
    """A record, and the name of the write that it comes from."""

    v: bytes
    task: Task


class _Elsewhere(Lost):
    """The keys are on another server of the cluster."""


class RedisStore:
    """Keeps tasks in Redis 6.2 or newer, or in Valkey. Needs asyncio.

    What was acknowledged is lost with the server if that does not write it down: it should have
    ``appendonly yes``, and ``maxmemory-policy noeviction`` so that it throws away nothing.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://``, with whatever redis-py understands.
        prefix: What all keys begin with: apps with the same one share their tasks.
        alive: Seconds without a sign of life after which others take up the work of a process,
            if its leases are longer.
        clock: Seconds since the epoch; None for the server's time.
    """

    is_shared = True

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
        self._place: dict[str, Any] = {}
        """Where the keys are, if the cluster has said so."""
        self._tag = "{" + prefix + "}"
        self._alive = alive
        self._clock = clock
        self._runner = ""
        self._heard: Heard | None = None
        self._has_warned = False
        line = Line[_Server, Sequence[_Command]](
            self._server_name(), self._connect, _disconnect, self._carry_out, (Lost, Late, OSError)
        )
        self._connections = Connections(line, at_once=_MOST_AT_ONCE)

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
            version = await self._live()
            if version > _VERSION:
                raise StoreUnavailable(
                    f"{self._server_name()}: written by a newer mcpkit, "
                    f"whose keys have the version {version}"
                )
            self._connections.aside(self._keep_alive())
            if heard is not None:
                await self._connections.stay(self._subscribe, self._listen, lambda: heard(None))
        except BaseException:
            await self._connections.aclose()
            raise

    def _server_name(self) -> str:
        options = {**self._options, **self._place}
        where: str = options.get("path") or f"{options.get('host')}:{options.get('port', 6379)}"
        return f"Redis at {where}"

    async def aclose(self) -> None:
        """Give back what runs, and disconnect."""
        if not self._connections.is_open:
            return

        def give_back(task: Task, _: float) -> Task | None:
            return replace(task, runner=None) if task.runner == self._runner else None

        with anyio.CancelScope(shield=True):
            try:
                ids: list[bytes] = await self._one(_RUNS, self._runner)
                await self._edit([each.decode() for each in ids], give_back)
                await self._one(_GONE, self._runner)
            finally:
                await self._connections.aclose()

    async def _live(self) -> int:
        return int(await self._one(_ALIVE, self._runner, repr(self._alive), _VERSION))

    async def _keep_alive(self) -> None:
        """Give signs of life."""
        while True:
            await asyncio.sleep(self._alive / 5)
            with suppress(StoreUnavailable):
                await self._live()

    # --- connections ------------------------------------------------------------------------------

    async def _plain(self) -> _Connection:
        connection = self._make(
            **{
                "socket_connect_timeout": _ANSWER_S,
                "socket_timeout": _ANSWER_S,
                **self._options,
                **self._place,
                "protocol": 2,
                "decode_responses": False,
            }
        )
        try:
            await connection.connect()
        except (Lost, Late):
            self._place = {}  # the first server knows where they are now
            raise
        except RedisError as error:  # a password, for example
            raise Lost(str(error)) from error
        return connection

    async def _connect(self) -> _Server:
        connection = await self._plain()
        try:
            names = await _ask(connection, [("SCRIPT", "LOAD", each) for each in _SCRIPTS])
            for name in names:
                if isinstance(name, Exception):
                    raise _loss(name) or Lost(str(name))
            if not self._has_warned:
                self._has_warned = True
                await self._warn(connection)
        except BaseException:
            await _disconnect_plain(connection)
            raise
        return _Server(connection, dict(zip(_SCRIPTS, names, strict=True)))

    async def _warn(self, connection: _Connection) -> None:
        """Say if the server may lose tasks."""
        wanted = {"appendonly": "yes", "maxmemory-policy": "noeviction"}
        found = await _ask(connection, [("CONFIG", "GET", each) for each in wanted])
        for (name, value), pair in zip(wanted.items(), found, strict=True):
            # Many do not allow to ask.
            if not isinstance(pair, Exception) and len(pair) == 2 and pair[1] != value.encode():
                _log.warning(
                    "%s may lose tasks: %s is %s and should be %s",
                    *(self._server_name(), name, pair[1].decode(), value),
                )

    async def _carry_out(
        self, server: _Server, works: Sequence[Sequence[_Command]]
    ) -> Sequence[Any]:
        clock = "" if self._clock is None else repr(self._clock())
        commands = [
            ("EVALSHA", server.names[script], 1, self._tag, clock, *values)
            for work in works
            for script, values in work
        ]
        answers = iter(await _ask(server.connection, commands))
        outcomes: list[Any] = []
        for work in works:
            outcome = [next(answers) for _ in work]
            refusals = [each for each in outcome if isinstance(each, Exception)]
            for refusal in refusals:
                loss = _loss(refusal)
                if isinstance(loss, _Elsewhere):
                    host, _, port = str(loss).rpartition(":")
                    self._place = {"host": host or self._options.get("host"), "port": int(port)}
                if loss is not None:
                    raise loss
            outcomes.append(
                StoreUnavailable(f"{self._server_name()}: {refusals[0]}") if refusals else outcome
            )
        return outcomes

    async def _subscribe(self) -> _Server:
        connection = await self._plain()
        try:
            (answer,) = await _ask(connection, [("SUBSCRIBE", f"{self._tag}:heard")])
            if isinstance(answer, Exception):
                raise Lost(str(answer))
        except BaseException:
            await _disconnect_plain(connection)
            raise
        return _Server(connection, {})

    async def _listen(self, server: _Server) -> None:
        """Tell what others change."""
        is_quiet = False
        while True:
            message = await server.connection.read_response(timeout=_QUIET_S)
            if message is None:
                if is_quiet:
                    raise Lost("no answer")
                await server.connection.send_command("PING")
            elif message[0] == b"message":
                runner, _, id = message[2].decode().partition("\n")
                if runner != self._runner and self._heard is not None:
                    self._heard(id)
            is_quiet = message is None

    async def _do(self, *commands: _Command) -> Any:
        return await self._connections.do(commands)

    async def _one(self, script: _Script, *values: Any) -> Any:
        (answer,) = await self._do((script, values))
        return answer

    # --- records ----------------------------------------------------------------------------------

    def _put(
        self,
        now: float,
        known: bytes,
        task: Task,
        *more: Any,
        is_new: bool = True,
        tell: bool = True,
    ) -> _Command:
        """Return the command that puts a record where another one was.

        Args:
            now: The time.
            known: The name of the write that the other one comes from; empty if there was none.
            task: The record.
            more: How many tasks there may be, of all and of its owner; what a step has come to.
            is_new: False if the record stays as it is.
            tell: True to tell others.
        """
        keep = None if task.expires is None else max(0.0, task.expires - now) + _SLACK_S
        left = "" if keep is None or keep > _LONGEST_S else math.ceil(keep * 1000)
        return _PUT, (
            task.id,
            known,
            self._connections.new_name(),
            record.dump(task) if is_new else b"",
            task.owner,
            repr(task.created),
            "" if task.expires is None else repr(task.expires),
            left,
            "" if task.due is None else repr(task.due),
            task.runner or "",
            "" if task.is_over else 1,
            self._runner if tell else "",
            *(more or ("", "")),
        )

    async def _read(self, ids: Collection[str]) -> tuple[float, dict[str, _Found]]:
        """Return the time, and the records that are there."""
        return _found(await self._one(_READ, *ids))

    async def _edit(
        self, ids: Collection[str], edit: Change, *, tell: bool = True
    ) -> dict[str, Task | None]:
        """Change tasks.

        Returns:
            Each changed task, by id; None if the change does not apply, and nothing if there is no
            task.
        """
        done: dict[str, Task | None] = {}
        if not ids:
            return done
        now, found = await self._read(ids)
        while found:
            changed: dict[str, Task] = {}
            for id, (_, task) in found.items():
                done[id] = edited = edit(task, now)
                if edited is not None:
                    changed[id] = edited
            if not changed:
                break
            answers: list[Any] = await self._do(
                *(self._put(now, found[id].v, task, tell=tell) for id, task in changed.items())
            )
            found = dict[str, _Found]()
            for id, answer in zip(changed, answers, strict=True):
                if answer != 1:  # somebody else was faster
                    del done[id]
                    now, again = _found(answer)
                    found |= again
        return done

    # --- tasks ------------------------------------------------------------------------------------

    async def add(self, task: Task, *, most: int, most_of_owner: int) -> Task:
        """Keep a new task."""
        now, _ = await self._read(())
        task = replace(task, created=now, updated=now)
        (answer,) = await self._do(self._put(now, b"", task, most, most_of_owner))
        if answer == 0:
            raise TooManyTasks
        if answer != 1:
            raise ValueError(f"there is a task {task.id} already")
        return task

    async def get(self, id: str) -> Task | None:
        """Return a task."""
        _, found = await self._read([id])
        return found[id].task if found else None

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task."""
        return (await self._edit([id], edit))[id]

    async def claim(self, most: int, lease: float) -> Sequence[Task]:
        """Begin a leg of tasks that are due."""
        # What is not claimed after all is due again when the moment is over.
        answer = await self._one(_CLAIM, self._runner, repr(self._alive), 1, most)
        now, found = _found(answer)
        claimed: list[Task] = []
        puts: list[_Command] = []
        for v, task in found.values():
            begun = record.claim(task, self._runner, now + lease)
            assert begun is not None
            claimed.append(begun)
            puts.append(self._put(now, v, begun))
        answers: Sequence[Any] = await self._do(*puts) if puts else ()
        return [task for task, answer in zip(claimed, answers, strict=True) if answer == 1]

    async def keep(
        self, legs: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Let legs go on."""
        wanted = {*legs}

        def keep(task: Task, now: float) -> Task | None:
            is_wanted = (task.id, task.leg) in wanted
            return record.keep(task, task.leg, now + lease) if is_wanted else None

        found = await self._edit({id for id, _ in legs}, keep, tell=False)
        kept = {(task.id, task.leg) for task in found.values() if task is not None}
        return [each for each in legs if each in kept]

    async def remember(self, id: str, leg: int, key: str, value: bytes) -> bytes | None:
        """Remember what a step has come to."""
        now, found = await self._read([id])
        while found:
            v, task = found[id]
            advanced = record.advance(task, leg)
            if advanced is None:
                break
            step = ("", "", key, value)
            (answer,) = await self._do(
                self._put(now, v, advanced, *step, is_new=advanced != task, tell=False)
            )
            if isinstance(answer, bytes):
                return answer
            now, found = _found(answer)  # somebody else was faster
        return None

    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return what steps have come to."""
        found: list[bytes] = await self._one(_STEPS, id)
        return {key.decode(): value for key, value in zip(found[::2], found[1::2], strict=True)}

    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of an owner."""
        created, behind = ("-inf", "") if after is None else (repr(after[0]), after[1])
        _, found = _found(await self._one(_LIST, owner, created, behind, most))
        return [each.task for each in found.values()]

    async def sweep(self) -> int:
        """Forget the tasks whose time is over."""
        forgotten = 0
        while True:
            now: int = await self._one(_SWEEP, _MOST_FORGOTTEN)
            forgotten += now
            if now < _MOST_FORGOTTEN:
                return forgotten


def _found(answer: list[Any]) -> tuple[float, dict[str, _Found]]:
    """Return the time, and the records whose time is not over."""
    now = float(answer[0])
    found: dict[str, _Found] = {}
    for v, data in zip(answer[1::2], answer[2::2], strict=True):
        if v is not None:
            task = record.load(data)
            if task.expires is None or task.expires > now:
                found[task.id] = _Found(v, task)
    return now, found


async def _ask(connection: _Connection, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Send commands together, and return the answers; a refusal is one too."""
    await connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disconnect_on_error=False))
        except ResponseError as refusal:
            answers.append(refusal)
    return answers


def _loss(refusal: Exception) -> Exception | None:
    """Return what a refusal says of the connection; None if it is of use still."""
    # Some versions of the library have classes for these, and leave the first word away.
    said = str(refusal)
    code, _, rest = said.partition(" ")
    if code == "MOVED" or isinstance(refusal, MovedError):
        return _Elsewhere(rest.rpartition(" ")[2])
    # Another server has become the first one, or will; or this one has forgotten the scripts.
    if code in ("ASK", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN") or isinstance(refusal, _FOR_NOW):
        return Lost(said)
    return None


async def _disconnect(server: _Server) -> None:
    await _disconnect_plain(server.connection)


async def _disconnect_plain(connection: _Connection) -> None:
    with suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
