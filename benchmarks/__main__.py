"""Measure mcpkit beside a bare loop and its peers, and say which budgets are reached."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path

from benchmarks import contenders
from benchmarks.budgets import Judgement, judge_all, summary
from benchmarks.cases import QUICK, STDIO_CASES, Bench, Effort
from benchmarks.http_cases import HTTP_CASES
from benchmarks.kinds import KIND_CASES, KINDS
from benchmarks.measure import Comparison, table
from benchmarks.peers import DEFAULT_DIRECTORY

CASES = STDIO_CASES | HTTP_CASES | KIND_CASES
GROUPS = {"kinds": list(KIND_CASES)}
"""Names that stand for several cases."""

# These have no budget and take a while.
QUICK_CASES = [name for name in CASES if name not in ("modern", "http-progress")]


def main() -> int:
    """Run the chosen benchmarks and print them; the exit status judges them if it is asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*CASES, *GROUPS])
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), help="which kinds of calls, where several are"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds and calls, and only what has a budget"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round's figures")
    parser.add_argument("--peers", type=Path, metavar="DIR", default=DEFAULT_DIRECTORY)
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if a budget is missed"
    )
    options = parser.parse_args()

    found = contenders.find(options.peers.resolve())
    client_cpu, server_cpu = _pin()
    effort = QUICK if options.quick else Effort()
    kinds = None if options.kinds is None else tuple(options.kinds)
    bench = Bench(found, effort, client_cpu, server_cpu, kinds)
    pinned = (
        "not pinned (latencies depend on where processes happen to run)"
        if client_cpu is None
        else f"all on CPU {client_cpu}, servers with many connections on CPU {server_cpu}"
    )
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {pinned}{_load()}"
    print(machine + (", quick run" if options.quick else ""))
    for contender in found.values():
        print(f"  {contender.name}: {_versions(contender)}")
    started = time.perf_counter()
    bench.warm_up()
    comparisons: dict[str, list[Comparison]] = {}
    for name in _cases(options.only, options.quick):
        comparisons[name] = CASES[name](bench)
        for comparison in comparisons[name]:
            print("\n" + table(comparison), flush=True)
    judgements = judge_all(each for group in comparisons.values() for each in group)
    print(f"\nbudgets, in {time.perf_counter() - started:.0f} s\n{summary(judgements)}")
    if options.json:
        options.json.write_text(
            json.dumps(_report(machine, found, comparisons, judgements), indent=1)
        )
    missed = any(each.finding.reached is False for each in judgements)
    return 1 if options.strict and missed else 0


def _cases(only: list[str] | None, quick: bool) -> list[str]:
    """The cases to run, each once."""
    if only is None:
        return QUICK_CASES if quick else list(CASES)
    return list(dict.fromkeys(case for name in only for case in GROUPS.get(name, [name])))


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
    judgements: list[Judgement],
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
                }
                for comparison in group
            ]
            for name, group in comparisons.items()
        },
        "budgets": [
            {
                "figure": each.budget.figure,
                "promise": each.promise,
                "found": each.finding.found,
                "verdict": each.finding.verdict,
            }
            for each in judgements
        ],
    }


if __name__ == "__main__":
    raise SystemExit(main())
