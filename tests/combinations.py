"""The places where scenarios run, with a server and a connection in each.

They are in memory, on pipes and over HTTP. A package that uses these fixtures says in its
``conftest.py`` where its scenarios run (``case``) and what they are run with (``served``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpkit import MCPKit
from tests.selection import Case
from tests.warm import python
from tests.web import serving

ROOT = Path(__file__).parents[1]


class Served(NamedTuple):
    """What scenarios are run with.

    Args:
        file: That is served by processes.
        make_app: Makes the same app in memory.
        client: The class of their clients, a `TappedClient`.
    """

    file: Path
    make_app: Callable[[], MCPKit[Any]]
    client: Callable[..., Any]


class Place(NamedTuple):
    """Where the clients of one combination find their server.

    Args:
        find: What a client is given; an app of its own, in memory.
        options: Of the client.
    """

    find: Callable[[], Any]
    options: dict[str, Any]


@pytest.fixture(scope="package")
def anyio_backend(case: Case) -> str:
    return case.backend


@pytest.fixture(scope="package")
def revision(case: Case) -> str:
    return case.revision


@pytest.fixture(scope="package")
def stderr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Where server processes log to."""
    with (tmp_path_factory.mktemp("scenarios") / "stderr.log").open("w") as file:
        yield file


@pytest.fixture(scope="package")
def place(case: Case, served: Served, stderr: Any) -> Iterator[Place]:
    """The server of a combination, which all its scenarios share."""
    if case.transport == "memory":
        yield Place(served.make_app, {})
    elif case.transport == "stdio":
        command = [python(), "-m", "mcpkit", "run", str(served.file)]
        if case.backend == "trio":
            command = [python(), str(served.file), "trio"]
        yield Place(lambda: command, {"env": {"PYTHONPATH": str(ROOT)}, "stderr": stderr})
    else:
        sse = case.transport == "sse"
        with serving(served.file, *(["--sse"] if sse else []), log=stderr) as url:
            yield Place(lambda: url.removesuffix("/mcp") + "/sse" if sse else url, {})


@pytest.fixture(scope="package")
async def shared(
    anyio_backend: str, revision: str, place: Place, served: Served
) -> AsyncIterator[Any]:
    async with served.client(place.find(), revision=revision, **place.options) as client:
        yield client


@pytest.fixture
async def client(shared: Any) -> AsyncIterator[Any]:
    """The connection that scenarios share, with nothing recorded yet."""
    shared.forget()
    shared.violations.clear()
    yield shared
    assert not shared.violations


@pytest.fixture
async def connect(
    anyio_backend: str, revision: str, place: Place, served: Served
) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Opens connections of a scenario's own, with options of `mcpkit.Client`."""
    made: list[Any] = []
    async with AsyncExitStack() as stack:

        async def open_one(**options: Any) -> Any:
            client = served.client(
                place.find(), **{"revision": revision, **place.options, **options}
            )
            made.append(client)
            return await stack.enter_async_context(client)

        yield open_one
    assert not [each.violations for each in made if each.violations]
