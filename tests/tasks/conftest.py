"""For tests of stores: their servers, and on which loops they are tested."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.tasks.servers import SERVERS, Line, Servers

T = TypeVar("T")


def present(value: T | None) -> T:
    """A value that is there: a change that applies, a task that is stored."""
    assert value is not None
    return value


class Place(NamedTuple):
    """Where tasks are kept."""

    folder: Path
    servers: Servers
    name: str
    clock: Callable[[], float] | None


class Time:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Those that are there; they end with the tests."""
    started = Servers()
    try:
        yield started
    finally:
        started.end()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def place(tmp_path: Path, servers: Servers, time: Time) -> Place:
    return Place(tmp_path, servers, secrets.token_hex(8), time)


@pytest.fixture
def location(kind: str, tmp_path: Path, servers: Servers) -> Any:
    """Where an app stores its tasks; None: in memory."""
    if kind == "memory":
        return None
    return servers.url(kind) if kind in SERVERS else str(tmp_path / "tasks.db")


@pytest.fixture(params=["redis", "postgres"])
def line(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Line]:
    """To a database of its own."""
    if not request.config.getoption("--deep"):
        pytest.skip("outages take their time: --deep")
    server = servers.new(request.param)
    line = Line(server)
    yield line
    line.end()
    server.end()


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out what needs asyncio on trio, before it is chosen which cases are run.

    That is what is kept on a server, and all of a module with ``ON_ASYNCIO``.
    """
    calls, is_bound = metafunc._calls, hasattr(metafunc.module, "ON_ASYNCIO")
    calls[:] = [each for each in calls if not _is_in_vain(each.params, is_bound)]


def _is_in_vain(params: Mapping[str, object], is_bound: bool) -> bool:
    on_trio = params.get("anyio_backend") == "trio"
    return on_trio and (is_bound or params.get("kind") in SERVERS)
