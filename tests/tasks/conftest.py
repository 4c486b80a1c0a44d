"""For tests of stores: their servers, and on which loops they are tested."""

from __future__ import annotations

from collections.abc import Iterator

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs asyncio on trio."""
    dropped = {id(each) for each in items if _is_in_vain(each)}
    items[:] = [each for each in items if id(each) not in dropped]


def _is_in_vain(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return params.get("anyio_backend") == "trio" and params.get("kind") in SERVERS
