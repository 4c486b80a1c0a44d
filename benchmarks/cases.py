"""The benchmarks: what each one does to a contender in a round.

Frameworks, and kinds of calls to mcpkit, are measured in the same ways: each is a row of a table,
with the command of its server and the call that is made again and again.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from benchmarks import budgets
from benchmarks.budgets import MANY, PLAIN, PYDANTIC
from benchmarks.client import ADD, IN_FLIGHT, LEGACY, MODERN, Call, Process, StdioServer, adding
from benchmarks.contenders import SERVERS, Contender, environment
from benchmarks.http_client import HttpServer, Load
from benchmarks.measure import (
    BARE,
    CONTROL,
    FAILURES,
    FASTMCP,
    LOWLEVEL,
    MCPKIT,
    OFFICIAL,
    Comparison,
    Dropout,
    Series,
    Unit,
    interleave,
    reason,
)
from benchmarks.peers import ROOT
from benchmarks.servers.many import COUNT

_MAXIMUM_CALLS = 40_000
_AT_FIRST = 320
_WINDOWS = 8
ProcessT = TypeVar("ProcessT", bound=Process)
Figures: TypeAlias = "dict[str, dict[str, Series]]"


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds of calls, of spawns and of large servers, and a round's size."""

    rounds: int = 9
    spawn_rounds: int = 7
    registry_rounds: int = 5
    sequential_calls: int = 300
    pipelined_seconds: float = 0.25
    http_rounds: int = 15
    http_seconds: float = 0.15

    def calls(self, rate: float) -> int:
        """Calls for a pipelined round at this rate: whole windows, not too few, not too many."""
        calls = min(int(rate * self.pipelined_seconds), _MAXIMUM_CALLS)
        return max(calls // IN_FLIGHT, _WINDOWS) * IN_FLIGHT

    def http_calls(self, rate: float) -> int:
        """Calls for an HTTP round at this rate, 0 while it is not known."""
        return min(int(rate * self.http_seconds), _MAXIMUM_CALLS) or _AT_FIRST


QUICK = Effort(
    rounds=5,
    spawn_rounds=3,
    registry_rounds=2,
    sequential_calls=100,
    pipelined_seconds=0.1,
    http_rounds=5,
    http_seconds=0.1,
)


class Row(NamedTuple):
    """A row of a table: the server that is called, and the call."""

    contender: Contender
    label: str
    command: list[str]
    call: Call = ADD


@dataclass
class Field:
    """All rows of a benchmark, and why some have no figures."""

    rows: dict[str, Row]
    references: tuple[str, ...] = (BARE, OFFICIAL)
    absent: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        missing = [name for name, row in self.rows.items() if not row.contender.installed]
        self.absent.update(dict.fromkeys(missing, "not installed"))

    @property
    def running(self) -> list[str]:
        return [name for name in self.rows if name not in self.absent]

    def start(
        self, stack: ExitStack, server: Callable[[list[str], str], ProcessT], revision: str
    ) -> dict[str, ProcessT]:
        """Start each server until the stack unwinds; rows with one command share it."""
        started: dict[tuple[str, ...], ProcessT] = {}
        found: dict[str, ProcessT] = {}
        for name in self.running:
            command = self.rows[name].command
            try:
                if tuple(command) not in started:
                    started[tuple(command)] = made = server(command, revision)
                    stack.callback(made.close)
                found[name] = started[tuple(command)]
            except FAILURES as error:
                self.absent[name] = reason(error)
        return found

    def interleave(
        self, rounds: int, measure: Callable[[str], dict[str, float]], *, warm_up: bool = False
    ) -> Figures:
        """Measure those that are there."""
        return interleave(self.running, rounds, measure, self.absent, warm_up=warm_up)

    def compare(
        self, title: str, unit: Unit, figures: Figures, key: str, figure: str = ""
    ) -> Comparison:
        """One of the figures as a table; `figure` is its name among the budgets."""
        labels = {name: row.label for name, row in self.rows.items()}
        series = figures.get(key, {})
        return Comparison(title, unit, labels, series, self.absent, figure, self.references)


@dataclass(frozen=True)
class Bench:
    """A run: its contenders, its effort, and the kinds of calls that take part (None: all).

    This process and its children are kept on `client_cpu`, unless it is None. `server_cpu` is
    another one, or the same if there is no other. Each public method is one benchmark, as tables.
    """

    contenders: dict[str, Contender]
    effort: Effort
    client_cpu: int | None = None
    server_cpu: int | None = None
    kinds: tuple[str, ...] | None = None

    def warm_up(self) -> None:
        """Start every server once, so that all that follows finds its files compiled and cached."""
        for contender in self.contenders.values():
            with suppress(*FAILURES):
                StdioServer(contender.cold_start()).close()

    def imports(self) -> list[Comparison]:
        """Import time, by the clock of a fresh interpreter around the statement."""

        def row(contender: str, statement: str, afterwards: str = "") -> Row:
            program = (
                f"import time; started = time.perf_counter()\n{statement}\n"
                f"seconds = time.perf_counter() - started\n{afterwards}\nprint(seconds)"
            )
            found = self.contenders[contender]
            return Row(found, statement, [found.python, "-c", program])

        field = Field(
            {
                PYDANTIC: row(BARE, "import pydantic"),
                "pydantic used": row(BARE, "from pydantic import BaseModel, TypeAdapter"),
                # What a server needs: the package alone imports its parts when they are asked for.
                MCPKIT: row(MCPKIT, "from mcpkit import MCPKit", "MCPKit"),
                "mcpkit, its name": row(MCPKIT, "import mcpkit", "mcpkit.MCPKit"),
                OFFICIAL: row(OFFICIAL, "from mcp.server import MCPServer"),
                FASTMCP: row(FASTMCP, "from fastmcp import FastMCP"),
            },
            references=(PYDANTIC,),
        )

        def measure(name: str) -> dict[str, float]:
            command = field.rows[name].command
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=60
            )
            if done.returncode:
                raise Dropout((done.stderr.strip().splitlines() or ["?"])[-1])
            return {"import": float(done.stdout)}

        figures = field.interleave(self.effort.spawn_rounds, measure)
        title = "import time (fresh interpreter, files cached)"
        return [field.compare(title, "s", figures, "import", budgets.IMPORT)]

    def cold_start(self) -> list[Comparison]:
        """From before the spawn to the answer to initialize."""
        found = self.contenders
        rows = {name: Row(each, each.label, each.cold_start()) for name, each in found.items()}
        rows[MCPKIT] = rows[MCPKIT]._replace(label="mcpkit run server.py")
        direct = found[MCPKIT].program("add")
        rows["mcpkit direct"] = Row(found[MCPKIT], "mcpkit, python server.py", direct)
        field = Field(rows)

        def measure(name: str) -> dict[str, float]:
            server = StdioServer(rows[name].command)
            server.close()
            return {"start": server.started_s}

        figures = field.interleave(self.effort.spawn_rounds, measure)
        title = "cold start (spawn to the answer to initialize, stdio)"
        return [field.compare(title, "s", figures, "start", budgets.START)]

    def many_tools(self) -> list[Comparison]:
        """A server with 500 tools: what it takes to make, to list first, and to list again."""
        field = self.frameworks("many")

        def measure(name: str) -> dict[str, float]:
            server = StdioServer(field.rows[name].command)
            with closing(server):
                return _measure_many_tools(server)

        figures = field.interleave(self.effort.registry_rounds, measure)
        tables: tuple[tuple[str, str, Unit, str], ...] = (
            ("both", "registration plus first tools/list", "s", budgets.FIRST_LIST),
            ("registering", "of that, registration (inside the server)", "s", ""),
            ("listing", "of that, first tools/list (at the client)", "s", ""),
            ("later", "later tools/list (median of 10)", "s", budgets.LATER_LIST),
            ("size", "length of the tools/list answer", "bytes", ""),
        )
        return [
            field.compare(f"{COUNT} tools: {title}", unit, figures, key, figure)
            for key, title, unit, figure in tables
        ]

    def frameworks(self, program: str) -> Field:
        """All frameworks; where calls are measured, with the low-level server and a control."""
        found = self.contenders
        if program != "many":
            found = found | {
                LOWLEVEL: replace(found[OFFICIAL], name=LOWLEVEL),
                CONTROL: replace(found[BARE], name=CONTROL),
            }
        return Field(
            {name: Row(each, each.label, each.program(program)) for name, each in found.items()}
        )

    def kinds_of(self, servers: Mapping[str, tuple[str, ...]]) -> Field:
        """The kinds that take part, of those with a server; the plain one always does."""
        bare, mcpkit = self.contenders[BARE], self.contenders[MCPKIT]
        program = "http" if servers is HTTP_SERVERS else "add"
        rows = {
            each.name: Row(each, each.label, each.program(program))
            for each in (bare, replace(bare, name=CONTROL))
        }
        for name, kind in KINDS.items():
            if kind.server in servers and (name == PLAIN or name in (self.kinds or KINDS)):
                command = [mcpkit.python, *servers[kind.server]]
                rows[name] = Row(mcpkit, f"{name}: {kind.about}", command, kind.call)
        return Field(rows, references=(BARE, PLAIN))

    def stdio(self, field: Field, revision: str, kinds: bool = False) -> list[Comparison]:
        """Latency of calls one after the other, and calls per second with 64 in flight."""
        effort = self.effort
        rates: dict[str, float] = {}
        with ExitStack() as stack:
            servers = field.start(stack, StdioServer, revision)

            def measure_sequential(name: str) -> dict[str, float]:
                latencies = servers[name].sequential(effort.sequential_calls, field.rows[name].call)
                return {"latency": statistics.median(latencies)}

            def measure_pipelined(name: str) -> dict[str, float]:
                calls = effort.calls(rates.get(name, 0))
                rate = servers[name].pipelined(calls, field.rows[name].call)
                rates.setdefault(name, rate)
                return {"rate": rate}

            one = field.interleave(effort.rounds, measure_sequential, warm_up=True)
            many = field.interleave(effort.rounds, measure_pipelined, warm_up=True)
        title = f"stdio, {revision}{', kinds of calls' if kinds else ''}: "
        return [
            field.compare(
                f"{title}latency (median of {effort.sequential_calls} calls a round)",
                "s",
                one,
                "latency",
                budgets.stdio(revision, 1, kinds),
            ),
            field.compare(
                f"{title}{IN_FLIGHT} in flight",
                "/s",
                many,
                "rate",
                budgets.stdio(revision, IN_FLIGHT, kinds),
            ),
        ]

    def http(
        self, field: Field, revision: str, connections: Iterable[int], kinds: bool = False
    ) -> list[Comparison]:
        """Calls per second, and the processor time of the server per call."""
        tables: list[Comparison] = []
        with ExitStack() as stack:
            servers = field.start(stack, HttpServer, revision)
            for count in connections:
                figures = self._rates(field, servers, count)
                title = (
                    f"HTTP, {revision}{', kinds of calls' if kinds else ''}, connections: {count}"
                )
                figure = budgets.http(revision, count, kinds)
                tables.append(field.compare(title, "/s", figures, "rate", figure))
                title += ": processor time of the server per call"
                tables.append(field.compare(title, "s", figures, "cpu"))
        return tables

    def _rates(self, field: Field, servers: Mapping[str, HttpServer], connections: int) -> Figures:
        # One connection has client and server take turns: on two CPUs, half of the time would be
        # spent on waking the other one.
        cpu = self.client_cpu if connections == 1 else self.server_cpu
        loads: dict[str, Load] = {}
        rates: dict[str, float] = {}
        for name in field.running:
            if cpu is not None:
                servers[name].move_to(cpu)
            try:
                loads[name] = Load(servers[name], connections, field.rows[name].call)
            except FAILURES as error:
                field.absent[name] = reason(error)

        def measure(name: str) -> dict[str, float]:
            rate, used = loads[name].calls(self.effort.http_calls(rates.get(name, 0)))
            rates.setdefault(name, rate)
            return {"rate": rate} | ({} if used is None else {"cpu": used})

        return field.interleave(self.effort.http_rounds, measure, warm_up=True)


def _kinds(bench: Bench, http: bool) -> list[Comparison]:
    found: list[Comparison] = []
    for revision in (LEGACY, MODERN):
        if http:
            found += bench.http(bench.kinds_of(HTTP_SERVERS), revision, (MANY,), kinds=True)
        else:
            found += bench.stdio(bench.kinds_of(STDIO_SERVERS), revision, kinds=True)
    return found


CASES: dict[str, Callable[[Bench], list[Comparison]]] = {
    "import": Bench.imports,
    "start": Bench.cold_start,
    "stdio": lambda bench: bench.stdio(bench.frameworks("add"), LEGACY),
    "modern": lambda bench: bench.stdio(bench.frameworks("add"), MODERN),
    "tools": Bench.many_tools,
    "http": lambda bench: bench.http(bench.frameworks("http"), LEGACY, (1, MANY)),
    "http-modern": lambda bench: bench.http(bench.frameworks("http"), MODERN, (1, MANY)),
    "stdio-kinds": lambda bench: _kinds(bench, http=False),
    "http-kinds": lambda bench: _kinds(bench, http=True),
}


def _measure_many_tools(server: StdioServer) -> dict[str, float]:
    listing, result, size = server.timed("tools/list", {})
    if len(result["tools"]) != COUNT:
        raise server.failed(f"listed {len(result['tools'])} tools")
    arguments = {"city": "Bern", "nights": 2}
    params = {"name": f"tool_{COUNT // 2}", "arguments": arguments}
    _, result, _ = server.timed("tools/call", params)
    if result.get("structuredContent") not in ({"result": 42}, 42):
        raise server.failed(f"answered {result}")
    later = statistics.median(server.timed("tools/list", {})[0] for _ in range(10))
    report = '{"registered_s"'
    (said,) = [line for line in server.stderr().splitlines() if line.startswith(report)]
    registering = float(json.loads(said)["registered_s"])
    return {
        "registering": registering,
        "listing": listing,
        "both": registering + listing,
        "later": later,
        "size": float(size),
    }


# --- kinds of calls -------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of call; `server` is the one that is asked."""

    about: str
    call: Call = ADD
    server: str = "app"


def _is_total(result: Any) -> bool:
    return bool(result["contents"][0]["text"] == "42")


def _is_question(result: Any) -> bool:
    return bool(result["messages"][0]["content"]["text"] == "What is 17 + 25?")


_QUESTION = {"name": "question", "arguments": {"a": "17", "b": "25"}}

OBSERVING = {
    "metrics": "with metrics",
    "audit": "with the audit log in a file",
    "traced": "with every span sampled, kept in memory",
    "observed": "with all three",
}

KINDS: Mapping[str, Kind] = {
    PLAIN: Kind("async def"),
    "ctx": Kind("async def that takes a Context", adding("add_ctx")),
    "inline": Kind("def on the event loop", adding("add_inline")),
    "def": Kind("def in a thread", adding("add_def"), "threads"),
    "resource": Kind("resources/read", Call("resources/read", {"uri": "sums://total"}, _is_total)),
    "prompt": Kind("prompts/get", Call("prompts/get", _QUESTION, _is_question)),
    "principal": Kind("plain, option principal", server="principal"),
    "rate_limit": Kind("plain, option rate_limit", server="rate_limit"),
    **{name: Kind(f"plain, {about}", server=name) for name, about in OBSERVING.items()},
    "mounted": Kind("plain, in Starlette on uvicorn", server="mounted"),
    "uvicorn": Kind("plain, on plain uvicorn", server="uvicorn"),
}
"""By name. `def` has its own server, so its threads do not disturb other kinds."""

_FILE, _MOUNTED = str(SERVERS / "mcpkit_kinds.py"), str(SERVERS / "mcpkit_mounted.py")

STDIO_SERVERS: Mapping[str, tuple[str, ...]] = {
    name: (_FILE, name) for name in ("app", "threads", *OBSERVING)
}
HTTP_SERVERS: Mapping[str, tuple[str, ...]] = {
    **{
        name: ("-m", "mcpkit", "run", f"{_FILE}:{name}", "--http", "--port", "{port}")
        for name in ("app", "threads", "principal", "rate_limit", *OBSERVING)
    },
    **{name: (_MOUNTED, "{port}", name) for name in ("mounted", "uvicorn")},
}
"""The arguments of Python that start each."""
