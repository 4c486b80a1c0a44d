"""Which cases of a test are run: a value is not tried again in every place.

Many tests have parameters of two kinds. Where they run is a *place*: a transport, a revision, an
event loop. The others are *values*. All values are tried in two places: the newest revision that
has a handshake and the newest one that has none, in memory on asyncio. Every other place has one of
the values, the next one in each further place. A test whose values mean something else in another
place is marked with ``every_place``; ``--deep`` tries everything everywhere, and ``--newest`` what
does not depend on old revisions: it leaves out all but these two.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from mcpkit.testing import REVISIONS

__all__ = ["Case", "pytest_addoption", "pytest_collection_modifyitems", "unit_of"]

PLACES: Final = frozenset({"case", "revision", "version", "backend", "anyio_backend"})
"""The parameters that say where a test runs."""

DEAR: Final = (
    "tests/peers",
    "tests/mounting",
    "tests/cli",
    "tests/docs",
    "tests/examples",
    "tests/test_examples",
    "tests/test_templates",
    "tests/transports",
)
"""What starts processes, and so comes first: what is cheap fills the gaps at the end."""

MARKERS: Final = (
    "revisions(*versions): the revisions that the rule of a test applies to",
    "not_over(*transports, revisions): where the messages of a test would mean something else",
    "in_memory: needs an app of its own",
    "every_place: its values mean something else in another place, so all are tried in all",
    "types: asks type checkers, which take long; with --types, and in the check of types",
)


class Case(NamedTuple):
    """One combination of where a scenario runs."""

    transport: str
    revision: str
    backend: str

    def __str__(self) -> str:
        return "-".join(self)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--deep",
        action="store_true",
        help="try every value in every place, and more generated examples",
    )
    parser.addoption("--types", action="store_true", help="run what asks type checkers as well")
    parser.addoption(
        "--newest",
        action="store_true",
        help="leave out revisions but for the newest with a handshake and the newest without",
    )


def configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for each in MARKERS:
        config.addinivalue_line("markers", each)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases that are to be run."""
    wanted = [each for each in items if _applies(each)]
    if config.getoption("--newest"):
        newest = ("", *REVISIONS[-2:])
        wanted = [each for each in wanted if _place(_params(each)).revision in newest]
    if not (config.getoption("--deep") or config.getoption("--types")):
        wanted = [each for each in wanted if each.get_closest_marker("types") is None]
    if not config.getoption("--deep"):
        wanted = _thinned(wanted)
    kept = set(map(id, wanted))
    dropped = [each for each in items if id(each) not in kept]
    items[:] = sorted(wanted, key=lambda each: not each.nodeid.startswith(DEAR))
    if dropped:
        config.hook.pytest_deselected(items=dropped)


def _params(item: pytest.Item) -> Mapping[str, Any]:
    return item.callspec.params if isinstance(item, pytest.Function) and _has_cases(item) else {}


def _has_cases(item: pytest.Item) -> bool:
    return hasattr(item, "callspec")


_CASE: Final = re.compile(
    r"(?:memory|sqlite|redis|postgres|stdio|http|sse)-\d{4}-\d\d-\d\d-(?:asyncio|trio)"
)


def unit_of(nodeid: str) -> str:
    """What a case is run together with, in one process: a module, or one place of a package.

    Servers and connections live as long as their module, and those of scenarios as their place.
    """
    path, _, rest = nodeid.partition("::")
    place = _CASE.search(rest)
    return path if place is None else f"{path.rpartition('/')[0]} {place[0]}"


# --- what a test applies to -----------------------------------------------------------------------


def _applies(item: pytest.Item) -> bool:
    case = _params(item).get("case")
    if not isinstance(case, Case):
        return True
    if any(case.revision not in mark.args for mark in item.iter_markers("revisions")):
        return False
    if item.get_closest_marker("in_memory") is not None and case.transport != "memory":
        return False
    return not any(
        case.transport in mark.args and case.revision in mark.kwargs.get("revisions", REVISIONS)
        for mark in item.iter_markers("not_over")
    )


# --- where its values are tried -------------------------------------------------------------------


def _place(params: Mapping[str, Any]) -> Case:
    """Where a case runs; what it does not say is as usual."""
    case = params.get("case")
    if isinstance(case, Case):
        return case
    revision = params.get("revision", params.get("version", ""))
    backend = params.get("anyio_backend", params.get("backend", "asyncio"))
    return Case("memory", str(revision), str(backend))


def _main(places: Iterable[Case]) -> set[Case]:
    """The two of these places in which all values are tried."""
    nearest = min(places, key=lambda each: (each.transport != "memory", each.backend != "asyncio"))
    here = [each for each in places if each[::2] == nearest[::2]]
    modern = [each for each in here if each.revision == REVISIONS[-1]]
    others = [each for each in here if each.revision != REVISIONS[-1]]
    return {*modern, *sorted(others, key=lambda each: each.revision)[-1:]}


def _thinned(items: list[pytest.Item]) -> list[pytest.Item]:
    """All values in the main places, and one of them in each of the others."""
    tests: dict[str, dict[Case, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.get_closest_marker("every_place") is None:
            tests[test][_place(_params(item))].append(item)
    dropped: set[int] = set()
    for places in tests.values():
        main = _main(places)
        for number, place in enumerate(sorted(places)):
            here = places[place]
            if place not in main:
                kept = here[number % len(here)]
                dropped.update(id(each) for each in here if each is not kept)
    return [each for each in items if id(each) not in dropped]
