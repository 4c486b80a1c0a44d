"""Measure mcpkit beside a bare loop and its peers, and say which budgets are reached."""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

from benchmarks import contenders
from benchmarks.budgets import judge_all, summary
from benchmarks.cases import CASES, KINDS, QUICK, Bench, Effort
from benchmarks.measure import Comparison, table
from benchmarks.peers import DEFAULT_DIRECTORY

GROUPS = {"kinds": ["stdio-kinds", "http-kinds"]}
"""Names that stand for several cases."""


def main() -> int:
    """Run the chosen benchmarks and print them; the exit status judges them if it is asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*CASES, *GROUPS])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), help="which kinds of calls")
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds and calls, and only what has a budget"
    )
    parser.add_argument("--peers", type=Path, metavar="DIR", default=DEFAULT_DIRECTORY)
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if a budget is missed"
    )
    options = parser.parse_args()

    found = contenders.find(options.peers.resolve())
    client_cpu, server_cpu = _pin()
    effort = QUICK if options.quick else Effort()
    bench = Bench(found, effort, client_cpu, server_cpu, options.kinds and tuple(options.kinds))
    pinned = (
        "not pinned (latencies depend on where processes happen to run)"
        if client_cpu is None
        else f"all on CPU {client_cpu}, servers with many connections on CPU {server_cpu}"
    )
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {pinned}, "
        f"load {load} before the run{', quick run' if options.quick else ''}"
    )
    for contender in found.values():
        versions = [f"{name} {version}" for name, version in contender.versions.items()]
        print(f"  {contender.name}: {', '.join(versions) or 'not installed'}")
    started = time.perf_counter()
    bench.warm_up()
    # "modern" has no budget and takes a while.
    chosen = options.only or [name for name in CASES if name != "modern" or not options.quick]
    comparisons: list[Comparison] = []
    for name in dict.fromkeys(case for each in chosen for case in GROUPS.get(each, [each])):
        for comparison in CASES[name](bench):
            print("\n" + table(comparison), flush=True)
            comparisons.append(comparison)
    judgements = judge_all(comparisons)
    print(f"\nbudgets, in {time.perf_counter() - started:.0f} s\n{summary(judgements)}")
    return int(options.strict and any(each.reached is False for each in judgements))


def _pin() -> tuple[int, int] | tuple[None, None]:
    """Keep this process and its children on one CPU, where the system can; return it and another.

    Left alone, identical servers differ by a factor of two and more, for as long as they live,
    according to whether the scheduler put them on the client's CPU or on another.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[-1]})
    return cpus[-1], cpus[0]


if __name__ == "__main__":
    raise SystemExit(main())
