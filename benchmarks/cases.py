"""The benchmarks: what each one does to a contender in a round."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from benchmarks import budgets
from benchmarks.client import IN_FLIGHT, LEGACY, MODERN, Process, StdioServer
from benchmarks.contenders import Contender, environment
from benchmarks.entrants import failures_drop_out, labels_of, missing, present
from benchmarks.measure import (
    BARE,
    CONTROL,
    FASTMCP,
    LOWLEVEL,
    MCPKIT,
    OFFICIAL,
    Comparison,
    Dropout,
    Unit,
    interleave,
)
from benchmarks.peers import ROOT

_PYDANTIC, _TYPER = budgets.PYDANTIC, budgets.TYPER
_PYDANTIC_USED, _MCPKIT_NAME = "pydantic used", "mcpkit, its name"
_DIRECT = "mcpkit direct"
_TOOLS = 500
_MAXIMUM_CALLS = 40_000


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds of calls, of spawns and of large servers, and a round's size.

    With how many connections `def` handlers are called over HTTP, beside the 32 of every kind, is
    in `thread_connections`.
    """

    rounds: int = 9
    spawn_rounds: int = 7
    registry_rounds: int = 5
    sequential_calls: int = 300
    pipelined_seconds: float = 0.25
    pipelined_windows: int = 8
    http_rounds: int = 15
    http_seconds: float = 0.15
    memory_rounds: int = 3
    thread_connections: tuple[int, ...] = (1, 64)

    def calls(self, rate: float) -> int:
        """Calls for a pipelined round at this rate: whole windows, not too few, not too many."""
        calls = min(int(rate * self.pipelined_seconds), _MAXIMUM_CALLS)
        return max(calls // IN_FLIGHT, self.pipelined_windows) * IN_FLIGHT

    def http_calls(self, rate: float, at_first: int = 320) -> int:
        """Calls for an HTTP round at this rate; `at_first`, while the rate is 0."""
        return min(int(rate * self.http_seconds), _MAXIMUM_CALLS) or at_first


QUICK = Effort(
    rounds=5,
    spawn_rounds=3,
    registry_rounds=2,
    sequential_calls=100,
    pipelined_seconds=0.1,
    pipelined_windows=3,
    http_rounds=5,
    http_seconds=0.1,
    memory_rounds=1,
    thread_connections=(),
)


@dataclass(frozen=True)
class Bench:
    """A run: its contenders and its effort. Each public method is one benchmark, as tables.

    This process and its children are kept on `client_cpu`, unless it is None. `server_cpu` is
    another one, or the same if there is no other. `kinds` are the kinds of calls that take part,
    where several do; None: all.
    """

    contenders: dict[str, Contender]
    effort: Effort
    client_cpu: int | None = None
    server_cpu: int | None = None
    kinds: tuple[str, ...] | None = None

    def warm_up(self) -> None:
        """Start every server once, so that all that follows finds its files compiled and cached."""
        for name in present(self.contenders, missing(self.contenders)):
            with suppress(Dropout):
                open_stdio(self.contenders[name].cold_start()).close()

    def imports(self) -> list[Comparison]:
        """Import time, by the clock of a fresh interpreter around the statement."""
        ours, mcpkit = self.contenders[BARE], self.contenders[MCPKIT]
        official, fastmcp = self.contenders[OFFICIAL], self.contenders[FASTMCP]
        targets: dict[str, tuple[Contender, str, str]] = {
            _PYDANTIC: (ours, "import pydantic", ""),
            _PYDANTIC_USED: (ours, "from pydantic import BaseModel, TypeAdapter", ""),
            # What a server needs: the package alone imports its parts when they are asked for.
            MCPKIT: (mcpkit, "from mcpkit import MCPKit", "MCPKit"),
            _MCPKIT_NAME: (mcpkit, "import mcpkit", "mcpkit.MCPKit"),
            OFFICIAL: (official, "from mcp.server import MCPServer", ""),
            FASTMCP: (fastmcp, "from fastmcp import FastMCP", ""),
        }
        absent = missing({target: contender for target, (contender, _, _) in targets.items()})

        def measure(target: str, number: int) -> dict[str, float]:
            return {"import": _import_seconds(*targets[target])}

        figures = interleave(present(targets, absent), self.effort.spawn_rounds, measure, absent)
        return [
            Comparison(
                "import time (fresh interpreter, files cached)",
                "s",
                {target: statement for target, (_, statement, _) in targets.items()},
                figures.get("import", {}),
                absent,
                budgets.IMPORT,
                references=(_PYDANTIC,),
            )
        ]

    def help(self) -> list[Comparison]:
        """What the command line's help takes, from the spawn to the end."""
        python = self.contenders[MCPKIT].python
        programs = {
            _TYPER: [python, "-c", "import typer"],
            MCPKIT: [python, "-m", "mcpkit", "--help"],
        }

        def measure(target: str, number: int) -> dict[str, float]:
            return {"help": _run_seconds(programs[target])}

        figures = interleave(list(programs), self.effort.spawn_rounds, measure, {})
        return [
            Comparison(
                "the command line's help (fresh process, files cached)",
                "s",
                {_TYPER: "import typer", MCPKIT: "mcpkit --help"},
                figures.get("help", {}),
                {},
                budgets.HELP,
                references=(_TYPER,),
            )
        ]

    def cold_start(self) -> list[Comparison]:
        """From before the spawn to the answer to initialize."""
        commands = {name: c.cold_start() for name, c in self.contenders.items()}
        commands[_DIRECT] = self.contenders[MCPKIT].program("add")
        labels = labels_of(self.contenders) | {
            MCPKIT: "mcpkit run server.py",
            _DIRECT: "mcpkit, python server.py",
        }
        absent = missing({**self.contenders, _DIRECT: self.contenders[MCPKIT]})

        def measure(name: str, number: int) -> dict[str, float]:
            server = open_stdio(commands[name])
            server.close()
            return {"start": server.started_s}

        figures = interleave(present(commands, absent), self.effort.spawn_rounds, measure, absent)
        return [
            Comparison(
                "cold start (spawn to the answer to initialize, stdio)",
                "s",
                labels,
                figures.get("start", {}),
                absent,
                budgets.START,
            )
        ]

    def stdio(self) -> list[Comparison]:
        """Sequential and pipelined calls on the newest handshake revision."""
        return self._stdio(LEGACY)

    def stdio_modern(self) -> list[Comparison]:
        """The same on 2026-07-28: no handshake, the envelope in every request."""
        return self._stdio(MODERN)

    def _stdio(self, revision: str) -> list[Comparison]:
        contenders = self.contenders | {
            LOWLEVEL: self.contenders[OFFICIAL].low_level(),
            CONTROL: self.contenders[BARE].control(),
        }
        effort, labels, absent = self.effort, labels_of(contenders), missing(contenders)
        rates: dict[str, float] = {}
        with ExitStack() as stack:
            servers: dict[str, StdioServer] = {}
            for name in present(contenders, absent):
                try:
                    servers[name] = open_stdio(contenders[name].program("add"), revision)
                except Dropout as reason:
                    absent[name] = str(reason)
                else:
                    stack.callback(servers[name].close)

            def measure_sequential(name: str, number: int) -> dict[str, float]:
                with failures_drop_out():
                    latencies = servers[name].sequential(effort.sequential_calls)
                return {"latency": statistics.median(latencies)}

            def measure_pipelined(name: str, number: int) -> dict[str, float]:
                with failures_drop_out():
                    rate = servers[name].pipelined(effort.calls(rates.get(name, 0)))
                rates.setdefault(name, rate)
                return {"rate": rate}

            running = present(contenders, absent)
            one = interleave(running, effort.rounds, measure_sequential, absent, warm_up=True)
            running = present(contenders, absent)
            many = interleave(running, effort.rounds, measure_pipelined, absent, warm_up=True)
        return [
            Comparison(
                f"stdio, {revision}: sequential tools/call"
                f" (median latency of {effort.sequential_calls} calls a round)",
                "s",
                labels,
                one.get("latency", {}),
                absent,
                budgets.stdio(revision, 1),
            ),
            Comparison(
                f"stdio, {revision}: pipelined tools/call ({IN_FLIGHT} in flight)",
                "/s",
                labels,
                many.get("rate", {}),
                absent,
                budgets.stdio(revision, IN_FLIGHT),
            ),
        ]

    def memory(self) -> list[Comparison]:
        """Sequential and concurrent calls through each framework's own in-memory client."""
        contenders = self.contenders
        effort, labels, absent = self.effort, labels_of(contenders), missing(contenders)
        rates: dict[str, float] = {}
        with ExitStack() as stack:
            programs = {
                name: contenders[name].program("memory") for name in present(contenders, absent)
            }
            workers = _start_workers(stack, programs, absent)

            def measure(name: str, number: int) -> dict[str, float]:
                one = _order(workers[name], effort.sequential_calls, 1)
                many = _order(workers[name], effort.calls(rates.get(name, 0)), IN_FLIGHT)
                rates.setdefault(name, many["per_second"])
                return {"latency": one["latency_s"], "rate": many["per_second"]}

            running = present(contenders, absent)
            figures = interleave(running, effort.rounds, measure, absent, warm_up=True)
        return [
            Comparison(
                "in memory: sequential tools/call"
                f" (median latency of {effort.sequential_calls} calls a round)",
                "s",
                labels,
                figures.get("latency", {}),
                absent,
            ),
            Comparison(
                f"in memory: concurrent tools/call ({IN_FLIGHT} tasks)",
                "/s",
                labels,
                figures.get("rate", {}),
                absent,
            ),
        ]

    def asking(self) -> list[Comparison]:
        """What a question to the user costs: a request in the middle, or another round."""
        variants = {
            "no question": (MODERN, 0),
            f"one question, {LEGACY}": (LEGACY, 1),
            f"one question, {MODERN}": (MODERN, 1),
            f"three questions, {LEGACY}": (LEGACY, 3),
            f"three questions, {MODERN}": (MODERN, 3),
        }
        absent: dict[str, str] = {}
        python = self.contenders[MCPKIT].python
        module = "benchmarks.servers.mcpkit_asking"
        with ExitStack() as stack:
            programs = {
                name: [python, "-m", module, revision, str(questions)]
                for name, (revision, questions) in variants.items()
            }
            workers = _start_workers(stack, programs, absent)

            def measure(name: str, number: int) -> dict[str, float]:
                one = _order(workers[name], self.effort.sequential_calls, 1)
                return {"latency": one["latency_s"]}

            figures = interleave([*workers], self.effort.rounds, measure, absent, warm_up=True)
        return [
            Comparison(
                "in memory: a tool that asks the user, answered at once"
                f" (median latency of {self.effort.sequential_calls} calls a round)",
                "s",
                {name: name for name in variants},
                figures.get("latency", {}),
                absent,
                references=("no question",),
            )
        ]

    def many_tools(self) -> list[Comparison]:
        """A server with 500 tools: what it takes to make, to list first, and to list again."""
        contenders = self.contenders
        labels, absent = labels_of(contenders), missing(contenders)

        def measure(name: str, number: int) -> dict[str, float]:
            server = open_stdio(contenders[name].program("500"))
            with ExitStack() as stack, failures_drop_out():
                stack.callback(server.close)
                return _measure_many_tools(server)

        running = present(contenders, absent)
        figures = interleave(running, self.effort.registry_rounds, measure, absent)
        tables: tuple[tuple[str, str, Unit, str], ...] = (
            ("both", "registration plus first tools/list", "s", budgets.FIRST_LIST),
            ("registering", "of that, registration (inside the server)", "s", ""),
            ("listing", "of that, first tools/list (at the client)", "s", ""),
            ("later", "later tools/list (median of 10)", "s", budgets.LATER_LIST),
            ("calling", "first tools/call", "s", ""),
            ("whole", "spawn to initialize answered, plus first tools/list", "s", ""),
            ("size", "length of the tools/list answer", "bytes", ""),
        )
        return [
            Comparison(
                f"{_TOOLS} tools: {title}", unit, labels, figures.get(key, {}), absent, figure
            )
            for key, title, unit, figure in tables
        ]


STDIO_CASES: dict[str, Callable[[Bench], list[Comparison]]] = {
    "import": Bench.imports,
    "help": Bench.help,
    "start": Bench.cold_start,
    "stdio": Bench.stdio,
    "modern": Bench.stdio_modern,
    "memory": Bench.memory,
    "asking": Bench.asking,
    "tools": Bench.many_tools,
}


def _start_workers(
    stack: ExitStack, programs: Mapping[str, list[str]], absent: dict[str, str]
) -> dict[str, Process]:
    """The programs that take orders on stdin, once they are ready."""
    workers: dict[str, Process] = {}
    for name, program in programs.items():
        worker = Process(program, environment=environment(), directory=str(ROOT))
        stack.callback(worker.close)
        try:
            with failures_drop_out(), worker.watchdog():
                worker.read_line()
        except Dropout as reason:
            absent[name] = str(reason)
        else:
            workers[name] = worker
    return workers


def _order(worker: Process, calls: int, concurrency: int) -> dict[str, float]:
    line = json.dumps({"calls": calls, "concurrency": concurrency}) + "\n"
    with failures_drop_out():
        report: dict[str, float] = worker.ask(line.encode())
    return report


def open_stdio(command: list[str], revision: str = LEGACY) -> StdioServer:
    """A server on stdio that speaks a revision.

    Raises:
        Dropout: If it does not.
    """
    with failures_drop_out():
        return StdioServer(
            command, environment=environment(), directory=str(ROOT), revision=revision
        )


def _measure_many_tools(server: StdioServer) -> dict[str, float]:
    listing, result, size = server.timed("tools/list", {})
    if len(result["tools"]) != _TOOLS:
        raise server.failed(f"listed {len(result['tools'])} tools")
    arguments = {"city": "Bern", "nights": 2}
    params = {"name": f"tool_{_TOOLS // 2}", "arguments": arguments}
    calling, result, _ = server.timed("tools/call", params)
    if result.get("structuredContent") not in ({"result": 42}, 42):
        raise server.failed(f"answered {result}")
    later = statistics.median(server.timed("tools/list", {})[0] for _ in range(10))
    registering = _registering_seconds(server)
    return {
        "registering": registering,
        "listing": listing,
        "both": registering + listing,
        "later": later,
        "calling": calling,
        "whole": server.started_s + listing,
        "size": float(size),
    }


def _registering_seconds(server: StdioServer) -> float:
    for line in server.stderr().splitlines():
        if line.startswith('{"registered_s"'):
            return float(json.loads(line)["registered_s"])
    raise server.failed("did not say how long registering took")


def _run_seconds(command: list[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, check=False, env=environment(), cwd=ROOT, timeout=60
    )
    if done.returncode:
        raise Dropout(f"failed: exit code {done.returncode}")
    return time.perf_counter() - started


def _import_seconds(contender: Contender, statement: str, afterwards: str) -> float:
    program = (
        "import time; started = time.perf_counter()\n"
        f"{statement}\n"
        f"seconds = time.perf_counter() - started\n{afterwards}\nprint(seconds)"
    )
    done = subprocess.run(
        [contender.python, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        cwd=ROOT,
        timeout=60,
    )
    if done.returncode:
        raise Dropout("failed: " + (done.stderr.strip().splitlines() or ["?"])[-1][:120])
    return float(done.stdout)
