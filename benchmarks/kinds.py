"""The kinds of calls beside each other: what each costs, as a share of a plain one.

A plain call is one of an `async def` that takes no context, over HTTP under mcpkit's own server.
The kinds take their turns in the same rounds as the bare server and the plain call. Those that
differ in what is asked for alone share a process; `def` handlers have one to themselves, so that
their threads are in nobody's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from benchmarks import budgets
from benchmarks.budgets import PLAIN
from benchmarks.cases import Bench, open_stdio
from benchmarks.client import ADD, IN_FLIGHT, LEGACY, MODERN, Call, Process, StdioServer, adding
from benchmarks.contenders import SERVERS
from benchmarks.entrants import NOT_INSTALLED, failures_drop_out, present
from benchmarks.http_cases import idleness, measure_rates, serve
from benchmarks.http_client import HttpServer, Load
from benchmarks.measure import BARE, CONTROL, MCPKIT, Comparison, Dropout, Series, interleave

ProcessT = TypeVar("ProcessT", bound=Process)

_CONNECTIONS = 32
_SHARED, _THREADS = "shared", "threads"
_APP = str(SERVERS / "mcpkit_kinds.py")
_MOUNTED = str(SERVERS / "mcpkit_mounted.py")


@dataclass(frozen=True)
class Kind:
    """A kind of call.

    Args:
        label: How tables call it.
        call: What is asked for.
        process: Which of the servers is asked.
    """

    label: str
    call: Call = ADD
    process: str = _SHARED


def _is_total(result: Any) -> bool:
    return bool(result["contents"][0]["text"] == "42")


def _is_question(result: Any) -> bool:
    return bool(result["messages"][0]["content"]["text"] == "What is 17 + 25?")


def _is_list(result: Any) -> bool:
    return [tool["name"] for tool in result["tools"]] == ["add", "add_ctx", "add_inline", "add_def"]


_QUESTION = {"name": "question", "arguments": {"a": "17", "b": "25"}}

KINDS: Mapping[str, Kind] = {
    PLAIN: Kind("plain: async def"),
    "ctx": Kind("ctx: async def that takes a Context", adding("add_ctx")),
    "inline": Kind("inline: def on the event loop", adding("add_inline")),
    "def": Kind("def: in a thread", adding("add_def"), _THREADS),
    "resource": Kind(
        "resource: resources/read", Call("resources/read", {"uri": "sums://total"}, _is_total)
    ),
    "prompt": Kind("prompt: prompts/get", Call("prompts/get", _QUESTION, _is_question)),
    "list": Kind("list: tools/list, of 4", Call("tools/list", {}, _is_list)),
    "principal": Kind("principal: plain, option principal", process="principal"),
    "rate_limit": Kind("rate_limit: plain, option rate_limit", process="rate_limit"),
    "mounted": Kind("mounted: plain, in Starlette on uvicorn", process="mounted"),
    "uvicorn": Kind("uvicorn: plain, on plain uvicorn", process="uvicorn"),
}
"""By name. All but the last four are measured over stdio too."""

_HTTP_PROCESSES: Mapping[str, tuple[str, ...]] = {
    _SHARED: ("-m", "mcpkit", "run", f"{_APP}:app", "--http", "--port", "{port}"),
    _THREADS: ("-m", "mcpkit", "run", f"{_APP}:app", "--http", "--port", "{port}"),
    "principal": ("-m", "mcpkit", "run", f"{_APP}:principal", "--http", "--port", "{port}"),
    "rate_limit": ("-m", "mcpkit", "run", f"{_APP}:rate_limit", "--http", "--port", "{port}"),
    "mounted": (_MOUNTED, "{port}", "mounted"),
    "uvicorn": (_MOUNTED, "{port}", "uvicorn"),
}
_STDIO_PROCESSES: Mapping[str, tuple[str, ...]] = {_SHARED: (_APP,), _THREADS: (_APP,)}


def over_stdio(bench: Bench) -> list[Comparison]:
    """Calls per second over stdio, one and 64 in flight, in both eras."""
    return [each for revision in (LEGACY, MODERN) for each in _stdio(bench, revision)]


def over_http(bench: Bench) -> list[Comparison]:
    """Calls per second over HTTP in both eras, and of `def` handlers with few and many clients."""
    return [each for revision in (LEGACY, MODERN) for each in _http(bench, revision)]


KIND_CASES: dict[str, Callable[[Bench], list[Comparison]]] = {
    "stdio-kinds": over_stdio,
    "http-kinds": over_http,
}


def _stdio(bench: Bench, revision: str) -> list[Comparison]:
    kinds = _chosen(bench, _STDIO_PROCESSES)
    bare = bench.contenders[BARE]
    commands = {BARE: bare.program("add"), CONTROL: bare.control().program("add")}
    commands |= _commands(bench, kinds, _STDIO_PROCESSES)
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        servers = _start(
            stack, kinds, commands, lambda command: open_stdio(command, revision), absent
        )
        rates = {
            in_flight: _measure_stdio(bench, servers, kinds, in_flight, absent)
            for in_flight in (1, IN_FLIGHT)
        }
    return [
        Comparison(
            f"stdio, {revision}, kinds of calls: {in_flight} in flight",
            "/s",
            _labels("bare asyncio", kinds),
            rate,
            absent,
            budgets.stdio_kinds(revision, in_flight),
            references=(BARE, PLAIN),
        )
        for in_flight, rate in rates.items()
    ]


def _measure_stdio(
    bench: Bench,
    servers: Mapping[str, StdioServer],
    kinds: Mapping[str, Kind],
    in_flight: int,
    absent: dict[str, str],
) -> dict[str, Series]:
    rates: dict[str, float] = {}
    effort = bench.effort

    def measure(name: str, number: int) -> dict[str, float]:
        call = _call(name, kinds)
        with failures_drop_out():
            if in_flight == 1:
                latencies = servers[name].sequential(effort.sequential_calls, call)
                return {"rate": len(latencies) / sum(latencies)}
            rate = servers[name].pipelined(effort.calls(rates.get(name, 0)), call)
        rates.setdefault(name, rate)
        return {"rate": rate}

    running = present(servers, absent)
    return interleave(running, effort.rounds, measure, absent, warm_up=True).get("rate", {})


def _http(bench: Bench, revision: str) -> list[Comparison]:
    kinds = _chosen(bench, _HTTP_PROCESSES)
    bare = bench.contenders[BARE]
    commands = {BARE: bare.http(), CONTROL: bare.control().http()}
    commands |= _commands(bench, kinds, _HTTP_PROCESSES)
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        servers = _start(stack, kinds, commands, lambda command: serve(command, revision), absent)
        comparisons = _measure_http(bench, servers, kinds, revision, _CONNECTIONS, absent)
        if "def" in kinds:
            two = {name: kinds[name] for name in (PLAIN, "def")}
            few = {name: servers[name] for name in (BARE, CONTROL, *two) if name in servers}
            for connections in bench.effort.thread_connections:
                comparisons += _measure_http(bench, few, two, revision, connections, absent)
    return comparisons


def _measure_http(
    bench: Bench,
    servers: Mapping[str, HttpServer],
    kinds: Mapping[str, Kind],
    revision: str,
    connections: int,
    absent: dict[str, str],
) -> list[Comparison]:
    loads: dict[str, Load] = {}
    for name in present(servers, absent):
        try:
            with failures_drop_out():
                loads[name] = Load(servers[name], connections, _call(name, kinds))
        except Dropout as reason:
            absent[name] = str(reason)
    figures = measure_rates(bench, loads, connections, absent)
    rate, cpu = figures.get("rate", {}), figures.get("cpu", {})
    many = "1 connection" if connections == 1 else f"{connections} connections"
    title = f"HTTP, {revision}, kinds of calls: {many}"
    labels = _labels("bare ASGI", kinds)
    return [
        Comparison(
            title,
            "/s",
            labels,
            rate,
            absent,
            budgets.http_kinds(revision, connections),
            references=(BARE, PLAIN),
            doubt=idleness(rate, cpu, (BARE, PLAIN)) if connections > 1 else "",
        ),
        Comparison(
            f"{title}: processor time of the server per call",
            "s",
            labels,
            cpu,
            absent,
            references=(BARE, PLAIN),
        ),
    ]


def _chosen(bench: Bench, processes: Mapping[str, object]) -> dict[str, Kind]:
    """The kinds that take part, of those that these processes serve; the plain one always does."""
    return {
        name: kind
        for name, kind in KINDS.items()
        if kind.process in processes
        and (name == PLAIN or bench.kinds is None or name in bench.kinds)
    }


def _commands(
    bench: Bench, kinds: Mapping[str, Kind], processes: Mapping[str, tuple[str, ...]]
) -> dict[str, list[str]]:
    """How the processes start that the kinds need; none if mcpkit is not installed."""
    mcpkit = bench.contenders[MCPKIT]
    needed = {kind.process for kind in kinds.values()} if mcpkit.installed else ()
    return {each: [mcpkit.python, *processes[each]] for each in processes if each in needed}


def _start(
    stack: ExitStack,
    kinds: Mapping[str, Kind],
    commands: Mapping[str, list[str]],
    start: Callable[[list[str]], ProcessT],
    absent: dict[str, str],
) -> dict[str, ProcessT]:
    """The server of the bare call, of its control and of each kind, until the stack unwinds."""
    started: dict[str, ProcessT] = {}
    failed: dict[str, str] = {}
    for process, command in commands.items():
        try:
            with failures_drop_out():
                started[process] = start(command)
        except Dropout as reason:
            failed[process] = str(reason)
        else:
            stack.callback(started[process].close)
    process_of = {BARE: BARE, CONTROL: CONTROL}
    process_of |= {name: kind.process for name, kind in kinds.items()}
    for name, process in process_of.items():
        if process not in started:
            absent[name] = failed.get(process, NOT_INSTALLED)
    return {name: started[process_of[name]] for name in present(process_of, absent)}


def _call(name: str, kinds: Mapping[str, Kind]) -> Call:
    return kinds[name].call if name in kinds else ADD


def _labels(bare: str, kinds: Mapping[str, Kind]) -> dict[str, str]:
    labels = {BARE: bare, CONTROL: f"{bare} again (control)"}
    return labels | {name: kind.label for name, kind in kinds.items()}
