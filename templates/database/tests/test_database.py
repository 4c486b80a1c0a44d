"""The database, without a server."""

import sqlite3

import pytest

from __PACKAGE__ import database as module
from __PACKAGE__.books import add, find
from __PACKAGE__.database import Database, QueryError

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def test_migrating_again_changes_nothing(database: Database) -> None:
    with database.writing() as connection:
        add(connection, "Emma", "Jane Austen", 1815)
    database.migrate()
    with database.reading() as connection:
        assert [each.title for each in find(connection, "", 10)] == ["Emma"]


def test_a_block_that_raises_is_undone(database: Database) -> None:
    def fail() -> None:
        with database.writing() as connection:
            add(connection, "Emma", "Jane Austen", 1815)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.reading() as connection:
        assert find(connection, "", 10) == []


def test_a_reader_cannot_write(database: Database) -> None:
    with database.reading() as connection, pytest.raises(sqlite3.OperationalError):
        add(connection, "Emma", "Jane Austen", 1815)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO book (title, author, year) VALUES ('x', 'y', 1)",
        "DELETE FROM book",
        "DROP TABLE book",
        "CREATE TEMP TABLE t (x)",
        "PRAGMA user_version = 0",
        "ATTACH DATABASE ':memory:' AS other",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM book",
        "SELECT :missing",
        "nonsense",
    ],
)
def test_a_query_can_only_select(database: Database, sql: str) -> None:
    with pytest.raises(QueryError):
        database.query(sql, {}, 10)


def test_a_query_has_an_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUERY_SECONDS", 0.05)
    with pytest.raises(QueryError, match="interrupted"):
        database.query(ENDLESS, {}, 10)


def test_bytes_are_told_by_their_number(database: Database) -> None:
    assert database.query("SELECT x'0102' AS b", {}, 1).rows == [["<2 bytes>"]]
