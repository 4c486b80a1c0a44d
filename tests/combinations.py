"""The places where scenarios run, with a server in each: in memory, on pipes, over HTTP.

A package that uses these fixtures says in its ``conftest.py`` where its scenarios run (``case``)
and what they are run with (``served``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcpkit import MCPKit
from tests.selection import Case
from tests.warm import python
from tests.web import serving

__all__ = ["Place", "Served", "anyio_backend", "place", "revision", "stderr"]

ROOT = Path(__file__).parents[1]


class Served(NamedTuple):
    """What scenarios are run with.

    Args:
        file: That is served by processes.
        make_app: Makes the same app in memory.
    """

    file: Path
    make_app: Callable[[], MCPKit[Any]]


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
