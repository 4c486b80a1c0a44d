"""examples/sqlite_explorer.py: reads a database, and cannot change it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.errors import ConnectionClosed, ProtocolError
from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import data_of, example, json_of

SERVER = example("sqlite_explorer.py")
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT max(n) FROM t"


@pytest.fixture(scope="module", params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[TestClient]:
    with TestClient(SERVER, revision=request.param) as client:
        yield client


def test_tables_and_views_are_listed(client: TestClient) -> None:
    assert json_of(client.read_resource("sqlite://tables")) == ["author", "book", "sold_out"]


def test_a_table_has_a_schema(client: TestClient) -> None:
    columns = json_of(client.read_resource("sqlite://tables/author"))
    assert columns == [
        {"name": "id", "type": "INTEGER", "required": False, "primary_key": True},
        {"name": "name", "type": "TEXT", "required": True, "primary_key": False},
    ]


def test_an_unknown_table_is_not_found(client: TestClient) -> None:
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("sqlite://tables/nothing")


def test_names_of_tables_are_completed(client: TestClient) -> None:
    suggested = client.complete("table", "b", template="sqlite://tables/{table}")
    assert list(suggested.values) == ["book"]


def test_a_query_gives_columns_and_rows(client: TestClient) -> None:
    arguments = {
        "sql": "SELECT title, cents FROM book WHERE cents < ? ORDER BY id",
        "parameters": [1200],
    }
    assert data_of(client.call_tool("query_database", arguments)) == {
        "columns": ["title", "cents"],
        "rows": [["Persuasion", 1100], ["Frankenstein", 990]],
        "more": False,
    }


def test_a_query_stops_at_its_limit(client: TestClient) -> None:
    found = data_of(client.call_tool("query_database", {"sql": "SELECT id FROM book", "limit": 2}))
    assert found["rows"] == [[1], [2]]
    assert found["more"] is True


def test_what_has_no_json_is_described(client: TestClient) -> None:
    found = data_of(client.call_tool("query_database", {"sql": "SELECT x'00ff', 9e999, NULL"}))
    assert found["rows"] == [["<2 bytes>", "inf", None]]


def test_a_mistake_is_explained(client: TestClient) -> None:
    refused = client.call_tool("query_database", {"sql": "SELECT titel FROM book"})
    assert refused.is_error
    assert refused.text == "SQLite: no such column: titel"


WRITES = [
    "DELETE FROM book",
    "UPDATE book SET stock = 99",
    "INSERT INTO author VALUES (9, 'x') RETURNING id",
    "DROP TABLE book",
    "CREATE TEMP TABLE t (x)",
    "PRAGMA query_only = off",
    "PRAGMA writable_schema = on",
    "BEGIN IMMEDIATE",
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("database") / "own.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("CREATE TABLE book (stock); INSERT INTO book VALUES (1);")
        connection.executescript("CREATE TABLE author (id, name);")
    return file


@pytest.fixture(scope="module")
def own(database: Path) -> Iterator[TestClient]:
    """A client of a server for a database of one's own."""
    with TestClient(SERVER, env={"SQLITE_DATABASE": str(database)}) as client:
        yield client


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_can_be_written(own: TestClient, database: Path, sql: str) -> None:
    before = database.read_bytes()
    assert own.call_tool("query_database", {"sql": sql}).is_error
    assert database.read_bytes() == before


@pytest.mark.parametrize("sql", ["ATTACH '{other}' AS other", "VACUUM INTO '{other}'"])
def test_no_other_file_is_touched(own: TestClient, tmp_path: Path, sql: str) -> None:
    other = tmp_path / "other.db"
    assert own.call_tool("query_database", {"sql": sql.format(other=other)}).is_error
    assert not other.exists()


def test_a_second_statement_is_refused(own: TestClient) -> None:
    refused = own.call_tool("query_database", {"sql": "SELECT 1; DELETE FROM book"})
    assert refused.is_error
    assert "one statement" in refused.text


def test_a_query_without_end_is_stopped(own: TestClient) -> None:
    refused = own.call_tool("query_database", {"sql": ENDLESS}, timeout=30)
    assert refused.is_error
    assert refused.text == "SQLite: interrupted after 2.0 s"


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
def test_a_query_that_the_client_gives_up_on_harms_nothing(revision: str) -> None:
    with TestClient(SERVER, revision=revision) as client:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                client.call_tool("query_database", {"sql": ENDLESS}, timeout=0.1)
            assert data_of(client.call_tool("query_database", {"sql": "SELECT 1"}))["rows"] == [[1]]


def test_a_missing_database_ends_the_server_with_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = {"SQLITE_DATABASE": str(tmp_path / "missing.db")}
    with pytest.raises(ConnectionClosed), TestClient(SERVER, env=env):
        pass
    assert capfd.readouterr().err.splitlines() == [
        f"mcpkit: SQLITE_DATABASE: there is no file {tmp_path / 'missing.db'}"
    ]
