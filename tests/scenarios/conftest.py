"""Every scenario runs over every transport, revision and event loop.

There is one connection for each combination, which all scenarios share; a scenario that needs the
beginning of a connection opens one with `connect`. Whatever the server sends is held against the
official schema when the scenario ends.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpkit.testing import REVISIONS
from tests.scenarios.server import make_app
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient
from tests.web import serving

SERVER = Path(__file__).with_name("server.py")
ROOT = SERVER.parents[2]

Connect = Callable[..., Awaitable[TappedClient]]


class Case(NamedTuple):
    """One combination."""

    transport: str
    revision: str
    backend: str

    def __str__(self) -> str:
        return "-".join(self)

    def target(self, url: str) -> Any:
        """What a client is given.

        Args:
            url: Of the server, if it is one over HTTP.
        """
        if self.transport == "memory":
            return make_app()
        if self.transport == "http":
            return url
        if self.transport == "sse":
            return url.removesuffix("/mcp") + "/sse"
        if self.backend == "trio":
            return [sys.executable, str(SERVER), "trio"]
        return [sys.executable, "-m", "mcpkit", "run", str(SERVER)]


CASES = [
    *(Case("memory", revision, "asyncio") for revision in REVISIONS),
    *(Case("memory", revision, "trio") for revision in REVISIONS),
    *(Case("stdio", revision, "asyncio") for revision in REVISIONS),
    *(Case("stdio", revision, "trio") for revision in (HANDSHAKE[-1], MODERN)),
    *(Case("http", revision, "asyncio") for revision in REVISIONS),
    *(Case("http", revision, "trio") for revision in (HANDSHAKE[-1], MODERN)),
    *(Case("sse", revision, "asyncio") for revision in (HANDSHAKE[0], HANDSHAKE[-1])),
]


@pytest.fixture(scope="package", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="package")
def anyio_backend(case: Case) -> str:
    return case.backend


@pytest.fixture(scope="package")
def revision(case: Case) -> str:
    return case.revision


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "revisions(*versions): the revisions that the rule of a scenario applies to"
    )
    config.addinivalue_line(
        "markers", "not_over(*transports, revisions): where its messages would mean something else"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a scenario for the revisions that it is marked for."""
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("revisions")
        case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
        away = mark is not None and isinstance(case, Case) and case.revision not in mark.args
        if isinstance(case, Case):
            away |= any(
                case.transport in apart.args
                and case.revision in apart.kwargs.get("revisions", REVISIONS)
                for apart in item.iter_markers("not_over")
            )
        (dropped if away else kept).append(item)
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)


def options_of(case: Case, stderr: Any) -> dict[str, Any]:
    if case.transport != "stdio":
        return {}
    return {"env": {"PYTHONPATH": str(ROOT)}, "stderr": stderr}


@pytest.fixture(scope="package")
def stderr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Where server processes log to."""
    path = tmp_path_factory.mktemp("scenarios") / "stderr.log"
    with path.open("w") as file:
        yield file


@pytest.fixture(scope="package")
def url(case: Case, stderr: Any) -> Iterator[str]:
    """Of a server over HTTP, which all connections of a combination share."""
    if case.transport in ("http", "sse"):
        with serving(SERVER, *(["--sse"] if case.transport == "sse" else []), log=stderr) as url:
            yield url
    else:
        yield ""


@pytest.fixture(scope="package")
async def shared(
    case: Case, anyio_backend: str, url: str, stderr: Any
) -> AsyncIterator[TappedClient]:
    made = TappedClient(case.target(url), revision=case.revision, **options_of(case, stderr))
    async with made as client:
        yield client


@pytest.fixture
async def client(shared: TappedClient) -> AsyncIterator[TappedClient]:
    """The connection that scenarios share, with nothing recorded yet."""
    shared.forget()
    shared.violations.clear()
    yield shared
    assert not shared.violations


@pytest.fixture
async def connect(case: Case, anyio_backend: str, url: str, stderr: Any) -> AsyncIterator[Connect]:
    """Opens connections of a scenario's own, with options of `mcpkit.Client`."""
    made: list[TappedClient] = []
    async with AsyncExitStack() as stack:

        async def open_one(**options: Any) -> TappedClient:
            settings = {"revision": case.revision, **options_of(case, stderr), **options}
            client = TappedClient(case.target(url), **settings)
            made.append(client)
            return await stack.enter_async_context(client)

        yield open_one
    assert not [each.violations for each in made if each.violations]
