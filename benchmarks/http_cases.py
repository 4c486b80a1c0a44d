"""The benchmarks over HTTP: rates in both eras, streamed progress, and what sessions cost.

The servers are the bare application on uvicorn, mcpkit as `mcpkit run --http` starts it, and the
peers in their fastest documented way, which is JSON answers and sessions that are kept.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

from benchmarks import budgets
from benchmarks.cases import Bench
from benchmarks.client import LEGACY, MODERN
from benchmarks.contenders import Contender, environment
from benchmarks.entrants import failures_drop_out, labels_of, missing, present
from benchmarks.http_client import STEPS, HttpServer, Load
from benchmarks.measure import (
    BARE,
    CONTROL,
    FASTMCP,
    LOWLEVEL,
    MCPKIT,
    OFFICIAL,
    UVLOOP,
    Comparison,
    Dropout,
    Series,
    interleave,
)
from benchmarks.peers import ROOT

_CONNECTIONS = {1: "1 connection", 32: "32 connections"}
_WARM_UP_SESSIONS = 400
_IDLE_SESSIONS = {BARE: 5000, MCPKIT: 5000, OFFICIAL: 1000, FASTMCP: 500}
_ABANDONED_SESSIONS = 10_000
_BUSY = 0.9


def handshake(bench: Bench) -> list[Comparison]:
    """Calls per second in sessions of the newest handshake revision."""
    return _rates(bench, LEGACY)


def modern(bench: Bench) -> list[Comparison]:
    """Calls per second on 2026-07-28."""
    return _rates(bench, MODERN)


def _rates(bench: Bench, revision: str) -> list[Comparison]:
    contenders = bench.contenders | {
        LOWLEVEL: bench.contenders[OFFICIAL].low_level(),
        UVLOOP: bench.contenders[OFFICIAL].on_uvloop(),
        CONTROL: bench.contenders[BARE].control(),
    }
    labels, absent = _labels(contenders), missing(contenders)
    comparisons: list[Comparison] = []
    with ExitStack() as stack:
        servers = _start(stack, contenders, ("json",), revision, absent)
        for connections, many in _CONNECTIONS.items():
            title = f"HTTP, {revision}, {many}"
            loads = _load(servers, connections, absent)
            figures = measure_rates(bench, loads, connections, absent)
            rate, cpu = figures.get("rate", {}), figures.get("cpu", {})
            cpu_title = f"{title}: processor time of the server per call"
            comparisons += [
                Comparison(
                    f"{title}: tools/call",
                    "/s",
                    labels,
                    rate,
                    absent,
                    budgets.http(revision, connections),
                    doubt=idleness(rate, cpu) if connections > 1 else "",
                ),
                Comparison(cpu_title, "s", labels, cpu, absent),
            ]
    return comparisons


def idleness(
    rate: Mapping[str, Series], cpu: Mapping[str, Series], judged: Sequence[str] = (BARE, MCPKIT)
) -> str:
    """What to hold against rates at which a server that is judged was not busy all the time."""
    for name in judged:
        if name in rate and name in cpu:
            busy = statistics.median(
                calls * seconds
                for calls, seconds in zip(rate[name].rounds, cpu[name].rounds, strict=True)
            )
            if busy < _BUSY:
                return (
                    f"{name} had the CPU for {busy:.0%} of the time only; other work was in its way"
                )
    return ""


def measure_rates(
    bench: Bench, loads: Mapping[str, Load], connections: int, absent: dict[str, str]
) -> dict[str, dict[str, Series]]:
    """Calls per second, and the processor time of the server per call, as "rate" and "cpu"."""
    rates: dict[str, float] = {}
    # One connection has client and server take turns: on two CPUs, half of the time would be spent
    # on waking the other one.
    cpu = bench.client_cpu if connections == 1 else bench.server_cpu
    if cpu is not None:
        for load in loads.values():
            load.server.move_to(cpu)

    def measure(name: str, number: int) -> dict[str, float]:
        with failures_drop_out():
            rate, used = loads[name].calls(bench.effort.http_calls(rates.get(name, 0)))
        rates.setdefault(name, rate)
        return {"rate": rate} | ({} if used is None else {"cpu": used})

    running = present(loads, absent)
    return interleave(running, bench.effort.http_rounds, measure, absent, warm_up=True)


def progress(bench: Bench) -> list[Comparison]:
    """Notifications per second in the event streams that answer calls, one after the other."""
    return [_stream_progress(bench, revision) for revision in (LEGACY, MODERN)]


def _stream_progress(bench: Bench, revision: str) -> Comparison:
    contenders = bench.contenders
    labels, absent = _labels(contenders), missing(contenders)
    rates: dict[str, float] = {}
    with ExitStack() as stack:
        servers = _start(stack, contenders, (), revision, absent)
        loads = _load(servers, 1, absent)

        def measure(name: str, number: int) -> dict[str, float]:
            calls = bench.effort.http_calls(rates.get(name, 0), 10 * STEPS) // STEPS
            with failures_drop_out():
                rate = loads[name].streams(max(calls, 1))
            rates.setdefault(name, rate)
            return {"rate": rate}

        running = present(loads, absent)
        figures = interleave(running, bench.effort.http_rounds, measure, absent, warm_up=True)
    return Comparison(
        f"HTTP, {revision}, 1 connection: progress notifications in streams of {STEPS}",
        "/s",
        labels,
        figures.get("rate", {}),
        absent,
    )


def memory(bench: Bench) -> list[Comparison]:
    """What a session costs that stays open, and what is left of those that nobody ends."""
    return [_idle_sessions(bench), *_abandoned_sessions(bench)]


def _idle_sessions(bench: Bench) -> Comparison:
    contenders = bench.contenders
    absent = missing(contenders)

    def measure(name: str, number: int) -> dict[str, float]:
        sessions = _IDLE_SESSIONS[name]
        with (
            failures_drop_out(),
            closing(_serve(contenders[name], "json", "memory")) as server,
        ):
            server.open_sessions(_WARM_UP_SESSIONS)
            before, _ = server.memory_used()
            server.open_sessions(sessions)
            after, _ = server.memory_used()
        return {"bytes": (after - before) / sessions}

    running = present(contenders, absent)
    figures = interleave(running, bench.effort.memory_rounds, measure, absent)
    return Comparison(
        f"HTTP, {LEGACY}: resident memory per session, opened, called once and idle",
        "bytes",
        {
            name: f"{label}, {_IDLE_SESSIONS[name]:,} sessions"
            for name, label in _labels(contenders).items()
        },
        figures.get("bytes", {}),
        absent,
        budgets.IDLE_SESSION,
        references=(OFFICIAL,),
    )


def _abandoned_sessions(bench: Bench) -> list[Comparison]:
    def opened(server: HttpServer) -> None:
        server.open_sessions(_ABANDONED_SESSIONS, finished=False)

    def called(server: HttpServer) -> None:
        server.open_sessions(_ABANDONED_SESSIONS)

    def control(server: HttpServer) -> None:
        Load(server, 1).calls(_ABANDONED_SESSIONS)

    variants: dict[str, tuple[str, Callable[[HttpServer], None]]] = {
        budgets.OPENED: ("left after initialize", opened),
        budgets.CALLED: ("left after a call", called),
        "control": ("as many calls in one session (control)", control),
    }
    absent = {
        name: reason
        for contender, reason in missing(bench.contenders).items()
        if contender == MCPKIT
        for name in variants
    }

    def measure(name: str, number: int) -> dict[str, float]:
        _, leave = variants[name]
        mcpkit = bench.contenders[MCPKIT]
        with failures_drop_out(), closing(_serve(mcpkit, "memory")) as server:
            leave(server)
            before, blocks_before = server.memory_used()
            leave(server)
            after, blocks_after = server.memory_used()
        return {
            "bytes": (after - before) / _ABANDONED_SESSIONS,
            "blocks": (blocks_after - blocks_before) / _ABANDONED_SESSIONS,
        }

    running = present(variants, absent)
    figures = interleave(running, bench.effort.memory_rounds, measure, absent)
    labels = {name: f"mcpkit, {label}" for name, (label, _) in variants.items()}
    nth = f"from the {_ABANDONED_SESSIONS:,}th to the {2 * _ABANDONED_SESSIONS:,}th"
    return [
        Comparison(
            f"HTTP, {LEGACY}: growth of resident memory per session nobody ends, {nth}",
            "bytes",
            labels,
            figures.get("bytes", {}),
            absent,
            budgets.ABANDONED_SESSION,
            references=(),
        ),
        Comparison(
            "of that, blocks of the interpreter's allocator",
            "blocks",
            labels,
            figures.get("blocks", {}),
            absent,
            references=(),
        ),
    ]


def _labels(contenders: Mapping[str, Contender]) -> dict[str, str]:
    labels = labels_of(contenders) | {BARE: "bare ASGI"}
    if CONTROL in labels:
        labels[CONTROL] = "bare ASGI again (control)"
    return labels


def _start(
    stack: ExitStack,
    contenders: Mapping[str, Contender],
    switches: tuple[str, ...],
    revision: str,
    absent: dict[str, str],
) -> dict[str, HttpServer]:
    """A server of each contender that is there, until the stack unwinds."""
    servers: dict[str, HttpServer] = {}
    for name in present(contenders, absent):
        contender = contenders[name]
        try:
            with failures_drop_out():
                modules = _faster_uvicorn(stack, contender) if name == UVLOOP else ""
                servers[name] = _serve(contender, *switches, revision=revision, path=modules)
        except Dropout as reason:
            absent[name] = str(reason)
        else:
            stack.callback(servers[name].close)
    return servers


def _faster_uvicorn(stack: ExitStack, contender: Contender) -> str:
    """A directory with our uvloop and httptools alone, which uvicorn uses where it finds them."""
    ours, theirs = platform.python_version(), contender.versions["python"]
    if ours.rpartition(".")[0] != theirs.rpartition(".")[0]:
        raise Dropout(f"runs on Python {theirs}, and they are installed for {ours}")
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for module in ("uvloop", "httptools"):
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise Dropout(f"{module} is not installed")
        (directory / module).symlink_to(Path(spec.origin).parent)
    return str(directory)


def _serve(
    contender: Contender, *switches: str, revision: str = LEGACY, path: str = ""
) -> HttpServer:
    return serve(contender.http(*switches), revision, path)


def serve(command: list[str], revision: str = LEGACY, path: str = "") -> HttpServer:
    """A server on a port, with a directory more to import from if there is one."""
    variables = environment()
    if path:
        variables["PYTHONPATH"] += os.pathsep + path
    return HttpServer(command, environment=variables, directory=str(ROOT), revision=revision)


def _load(
    servers: Mapping[str, HttpServer], clients: int, absent: dict[str, str]
) -> dict[str, Load]:
    """That many clients of each server, with their sessions open."""
    loads: dict[str, Load] = {}
    for name in present(servers, absent):
        try:
            with failures_drop_out():
                loads[name] = Load(servers[name], clients)
        except Dropout as reason:
            absent[name] = str(reason)
    return loads


HTTP_CASES: dict[str, Callable[[Bench], list[Comparison]]] = {
    "http": handshake,
    "http-modern": modern,
    "http-progress": progress,
    "http-memory": memory,
}
