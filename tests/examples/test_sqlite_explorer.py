"""examples/sqlite_explorer.py: reads a database, and cannot change it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcpkit.errors import ConnectionClosed, ProtocolError
from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import call, example, json_of, refused

SERVER = example("sqlite_explorer.py")
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT max(n) FROM t"


def test_tables_are_described(client: TestClient) -> None:
    assert json_of(client.read_resource("sqlite://tables")) == ["author", "book", "sold_out"]
    assert json_of(client.read_resource("sqlite://tables/author")) == [
        {"name": "id", "type": "INTEGER", "required": False, "primary_key": True},
        {"name": "name", "type": "TEXT", "required": True, "primary_key": False},
    ]
    with pytest.raises(ProtocolError, match="not found"):
        client.read_resource("sqlite://tables/nothing")
    suggested = client.complete("table", "b", template="sqlite://tables/{table}")
    assert list(suggested.values) == ["book"]


def test_a_query_gives_columns_and_rows(client: TestClient) -> None:
    sql = "SELECT title, cents FROM book WHERE cents < ? ORDER BY id"
    assert call(client, "query_database", sql=sql, parameters=[1200]) == {
        "columns": ["title", "cents"],
        "rows": [["Persuasion", 1100], ["Frankenstein", 990]],
        "more": False,
    }
    found = call(client, "query_database", sql="SELECT id FROM book", limit=2)
    assert (found["rows"], found["more"]) == ([[1], [2]], True)
    found = call(client, "query_database", sql="SELECT x'00ff', 9e999, NULL")
    assert found["rows"] == [["<2 bytes>", "inf", None]]


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
        connection.executescript("CREATE TABLE author (id, name); ALTER TABLE book ADD COLUMN id;")
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


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT titel FROM book", "SQLite: no such column: titel"),
        ("SELECT 1; DELETE FROM book", "one statement"),
        (ENDLESS, "SQLite: interrupted after 2.0 s"),
    ],
)
def test_a_query_that_fails_is_explained(own: TestClient, sql: str, said: str) -> None:
    assert said in refused(own, "query_database", sql=sql)


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
def test_a_query_that_the_client_gives_up_on_harms_nothing(revision: str) -> None:
    with TestClient(SERVER, revision=revision) as client:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                client.call_tool("query_database", {"sql": ENDLESS}, timeout=0.1)
            assert call(client, "query_database", sql="SELECT 1")["rows"] == [[1]]


def test_a_missing_database_ends_the_server_with_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = {"SQLITE_DATABASE": str(tmp_path / "missing.db")}
    with pytest.raises(ConnectionClosed), TestClient(SERVER, env=env):
        pass
    assert capfd.readouterr().err.splitlines() == [
        f"mcpkit: SQLITE_DATABASE: there is no file {tmp_path / 'missing.db'}"
    ]
