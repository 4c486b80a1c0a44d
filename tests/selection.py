"""Which cases of a test are run: a value is not tried again in every place.

Many tests have parameters of two kinds. Where they run is a *place*: a transport, a revision, an
event loop. The others are *values*. All values are tried in two places: the newest revision that
has a handshake and the newest one that has none, in memory on asyncio. Every other place has one of
the values, the next one in each further place. A test whose values mean something else in another
place is marked with ``every_place``; ``--deep`` tries everything everywhere, and ``--newest`` what
does not depend on old revisions: it leaves out all but these two. What is left out is not made, so
a case that ``--deep`` found is named together with ``--deep``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest

from mcpkit.testing import REVISIONS

PLACES: Final = frozenset({"case", "revision", "version", "backend", "anyio_backend"})
"""The parameters that say where a test runs."""

DEAR: Final = (
    "tests/peers",
    "tests/mounting",
    "tests/cli",
    "tests/docs",
    "tests/examples",
    "tests/test_dashboard",
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
    "nowhere: applies to none of its cases; `tests.selection` finds out",
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


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """Keep the cases of a test that are to be run, before there are objects for them.

    A third of the cases is not run, and to make them would take longer than to run most of them.
    """
    result = yield
    marks = list(metafunc.definition.iter_markers())
    calls = metafunc._calls  # what `Metafunc.parametrize` has added; there is no other way to it
    kept = [each for each in calls if _applies(each.params, [*marks, *each.marks])]
    if metafunc.config.getoption("--newest"):
        newest = ("", *REVISIONS[-2:])
        kept = [each for each in kept if _place(each.params).revision in newest]
    if not (metafunc.config.getoption("--deep") or _is_marked(marks, "every_place")):
        kept = _thinned(kept)
    if calls and not kept:
        # Without any it would be taken for a test that has no parameters.
        kept = calls[:1]
        kept[0].marks.append(pytest.mark.nowhere.mark)
    calls[:] = kept
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that are to be run, the dear ones first."""
    left_out = {"nowhere"}
    if not (config.getoption("--deep") or config.getoption("--types")):
        left_out.add("types")
    dropped = [each for each in items if any(map(each.get_closest_marker, left_out))]
    wanted = [each for each in items if not any(map(each.get_closest_marker, left_out))]
    items[:] = sorted(wanted, key=lambda each: not each.nodeid.startswith(DEAR))
    if dropped:
        config.hook.pytest_deselected(items=dropped)


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


def _applies(params: Mapping[str, Any], marks: Sequence[pytest.Mark]) -> bool:
    case = params.get("case")
    if not isinstance(case, Case):
        return True
    if any(case.revision not in mark.args for mark in marks if mark.name == "revisions"):
        return False
    if case.transport != "memory" and _is_marked(marks, "in_memory"):
        return False
    return not any(
        case.transport in mark.args and case.revision in mark.kwargs.get("revisions", REVISIONS)
        for mark in marks
        if mark.name == "not_over"
    )


def _is_marked(marks: Iterable[pytest.Mark], name: str) -> bool:
    return any(mark.name == name for mark in marks)


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


def _thinned(calls: Sequence[Any]) -> list[Any]:
    """All values in the main places, and one of them in each of the others.

    Args:
        calls: What a test is called with, each time.
    """
    places: dict[Case, list[Any]] = defaultdict(list)
    for each in calls:
        places[_place(each.params)].append(each)
    main = _main(places) if places else set()
    kept: set[int] = set()
    for number, place in enumerate(sorted(places)):
        here = places[place]
        kept.update(map(id, here if place in main else [here[number % len(here)]]))
    return [each for each in calls if id(each) in kept]
