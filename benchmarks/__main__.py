"""Measure mcpkit beside a bare loop and its peers, and say which budgets are reached."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

from benchmarks import contenders
from benchmarks.cases import QUICK, STDIO_CASES, Bench, Effort
from benchmarks.http_cases import HTTP_CASES
from benchmarks.measure import Comparison, table, verdict
from benchmarks.peers import DEFAULT_DIRECTORY

CASES = STDIO_CASES | HTTP_CASES
# These have no budget and take a while.
QUICK_CASES = [name for name in CASES if name not in ("modern", "http-progress")]


def main() -> int:
    """Run the chosen benchmarks and print them; the exit status does not judge them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CASES))
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds and calls, and only what has a budget"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures")
    parser.add_argument("--peers", type=Path, metavar="DIR", default=DEFAULT_DIRECTORY)
    options = parser.parse_args()

    found = contenders.find(options.peers.resolve())
    client_cpu, server_cpu = _pin()
    bench = Bench(found, QUICK if options.quick else Effort(), client_cpu, server_cpu)
    pinned = (
        "not pinned (latencies depend on where processes happen to run)"
        if client_cpu is None
        else f"all on CPU {client_cpu}, servers with 32 connections on CPU {server_cpu}"
    )
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {pinned}{_load()}"
    print(machine + (", quick run" if options.quick else ""))
    for contender in found.values():
        print(f"  {contender.name}: {_versions(contender)}")
    started = time.perf_counter()
    bench.warm_up()
    comparisons: dict[str, list[Comparison]] = {}
    for name in options.only or (QUICK_CASES if options.quick else CASES):
        comparisons[name] = CASES[name](bench)
        for comparison in comparisons[name]:
            print("\n" + table(comparison), flush=True)
    print(f"\nbudgets, in {time.perf_counter() - started:.0f} s")
    for comparison in (c for group in comparisons.values() for c in group if c.budgets):
        print(f"  {comparison.title}")
        for budget in comparison.budgets:
            print(f"    {verdict(comparison, budget)[0]}")
    if options.json:
        options.json.write_text(json.dumps(_report(machine, found, comparisons), indent=1))
    return 0


def _pin() -> tuple[int, int] | tuple[None, None]:
    """Keep this process, and with it all its children, on one CPU, where the system can.

    Left alone, identical servers differ by a factor of two and more, for as long as they live,
    according to whether the scheduler put them on the client's CPU or on another.

    Returns:
        That CPU, and another one if there is any, else the same.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[-1]})
    return cpus[-1], cpus[0]


def _load() -> str:
    return f", load {os.getloadavg()[0]:.1f} before the run" if hasattr(os, "getloadavg") else ""


def _versions(contender: contenders.Contender) -> str:
    if not contender.installed:
        return "not installed"
    return ", ".join(f"{name} {version}" for name, version in contender.versions.items())


def _report(
    machine: str,
    found: dict[str, contenders.Contender],
    comparisons: dict[str, list[Comparison]],
) -> dict[str, object]:
    return {
        "machine": machine,
        "contenders": {name: c.versions for name, c in found.items()},
        "benchmarks": {
            name: [
                {
                    "title": comparison.title,
                    "unit": comparison.unit,
                    "rounds": {c: s.rounds for c, s in comparison.series.items()},
                    "absent": comparison.absent,
                    "budgets": [
                        dict(zip(("text", "reached"), verdict(comparison, budget), strict=True))
                        for budget in comparison.budgets
                    ],
                }
                for comparison in group
            ]
            for name, group in comparisons.items()
        },
    }


if __name__ == "__main__":
    raise SystemExit(main())
