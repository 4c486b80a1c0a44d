"""A client for each protocol revision; each test has its own database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcpkit.testing import REVISIONS, TestClient

from __PACKAGE__.database import Database
from __PACKAGE__.server import app


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database file of the server."""
    path = tmp_path / "library.sqlite3"
    monkeypatch.setenv("DATABASE_PATH", str(path))
    return path


@pytest.fixture
def database(path: Path) -> Database:
    """A migrated database."""
    database = Database(path)
    database.migrate()
    return database


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest, path: Path) -> Iterator[TestClient]:
    """A client connected to the server in this process."""
    with TestClient(app, revision=request.param) as client:
        yield client


@pytest.fixture
def shelf(client: TestClient) -> TestClient:
    """A client of a library with three books."""
    for title, author, year in [
        ("Emma", "Jane Austen", 1815),
        ("Persuasion", "Jane Austen", 1817),
        ("Middlemarch", "George Eliot", 1871),
    ]:
        client.call_tool("add_book", {"title": title, "author": author, "year": year})
    return client
