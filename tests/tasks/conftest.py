"""For tests of stores: their servers, and on which loops they are tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.tasks.servers import SERVERS, Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Those that are there; they end with the tests."""
    started = Servers()
    try:
        yield started
    finally:
        started.end()


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out what needs asyncio on trio, before it is chosen which cases are run."""
    calls = metafunc._calls
    calls[:] = [each for each in calls if not _is_in_vain(each.params)]


def _is_in_vain(params: Mapping[str, object]) -> bool:
    return params.get("anyio_backend") == "trio" and params.get("kind") in SERVERS
