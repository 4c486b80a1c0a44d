"""examples/ported/sqlite_server.py: reading only reads, and losing data is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.ported.serving import OVER, Host, arguments_of, hosted

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"


def names(host: Host) -> list[str]:
    rows = host.call("read_query", query="SELECT name FROM tea ORDER BY name")
    return [row["name"] for row in rows]


@pytest.fixture(scope="module", params=OVER)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    flags = ("--db-path", str(tmp_path_factory.mktemp("database") / "new" / "shop.db"))
    with hosted("sqlite_server.py", request.param, *flags) as host:
        yield host


@pytest.fixture
def host(shared: Host) -> Iterator[Host]:
    shared.answer = "accept"
    shared.call(
        "create_table", query="CREATE TABLE tea (name TEXT PRIMARY KEY, cents INT NOT NULL)"
    )
    shared.call("write_query", query="INSERT INTO tea VALUES ('Assam', 450), ('Sencha', 600)")
    shared.asked.clear()
    yield shared
    shared.answer = "accept"
    shared.call("write_query", query="DROP TABLE tea")


def test_everything_has_its_old_name_and_arguments(host: Host) -> None:
    assert arguments_of(host.client) == {
        "read_query": ["query"],
        "write_query": ["query"],
        "create_table": ["query"],
        "list_tables": [],
        "describe_table": ["table_name"],
        "append_insight": ["insight"],
    }
    assert [str(each.uri) for each in host.client.list_resources()] == ["memo://insights"]
    (prompt,) = host.client.list_prompts()
    assert (prompt.name, [each.name for each in prompt.arguments]) == ("mcp-demo", ["topic"])


def test_rows_are_read_and_inserted_without_a_question(host: Host) -> None:
    query = "INSERT INTO tea VALUES ('Mate', 300)"
    assert host.call("write_query", query=query) == {"affected_rows": 1}
    assert names(host) == ["Assam", "Mate", "Sencha"]
    query = "SELECT * FROM tea WHERE cents > 500"
    assert host.call("read_query", query=query) == [{"name": "Sencha", "cents": 600}]
    assert host.asked == []


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM tea",
        "WITH x AS (SELECT 1) DELETE FROM tea",
        "/* harmless */ DROP TABLE tea",
        "UPDATE tea SET cents = 0",
        "INSERT INTO tea VALUES ('Assam', 1) ON CONFLICT (name) DO UPDATE SET cents = 1",
    ],
)
def test_nothing_is_lost_if_the_user_declines(host: Host, query: str) -> None:
    host.answer = "decline"
    assert "does not want" in host.refused("write_query", query=query)
    assert host.asked == [f"Run this in shop.db?\n\n{query}"]
    assert host.call("read_query", query="SELECT sum(cents) AS sum FROM tea") == [{"sum": 1050}]


def test_rows_are_deleted_if_the_user_agrees(host: Host) -> None:
    query = "DELETE FROM tea WHERE name = 'Assam'"
    assert host.call("write_query", query=query) == {"affected_rows": 1}
    assert len(host.asked) == 1
    assert names(host) == ["Sencha"]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("DELETE FROM tea", "not authorized"),
        ("WITH x AS (SELECT 1) DELETE FROM tea", "not authorized"),
        ("PRAGMA writable_schema = 1", "not authorized"),
        ("ATTACH '/tmp/other.db' AS other", "not authorized"),
        ("SELECT load_extension('evil')", "not authorized"),
        ("SELECT 1; DROP TABLE tea", "one statement at a time"),
        ("SELECT * FROM coffee", "no such table: coffee"),
        (ENDLESS, "more than 1000 rows: add a LIMIT"),
    ],
)
def test_reading_only_reads(host: Host, query: str, problem: str) -> None:
    assert problem in host.refused("read_query", query=query)
    assert names(host) == ["Assam", "Sencha"]


@pytest.mark.parametrize("query", ["ATTACH '{file}' AS other", "VACUUM INTO '{file}'"])
def test_writing_stays_in_the_database(host: Host, tmp_path: Path, query: str) -> None:
    file = tmp_path / "other.db"
    host.refused("write_query", query=query.format(file=file))
    assert not file.exists()


def test_each_tool_works(host: Host) -> None:
    assert "use read_query" in host.refused("write_query", query="SELECT 1")
    for query in ("DROP TABLE tea", "INSERT INTO tea VALUES ('x', 1)"):
        assert "not a CREATE TABLE" in host.refused("create_table", query=query)
    assert names(host) == ["Assam", "Sencha"]


def test_tables_are_described(host: Host) -> None:
    host.call("create_table", query="CREATE TABLE cheap AS SELECT * FROM tea WHERE cents < 500")
    assert host.call("list_tables") == ["cheap", "tea"]
    host.call("write_query", query="DROP TABLE cheap")
    found = host.call("describe_table", table_name="tea")
    assert [(each["name"], each["type"], each["notnull"], each["pk"]) for each in found] == [
        ("name", "TEXT", False, 1),
        ("cents", "INT", True, 0),
    ]
    assert "no table named tea; DROP" in host.refused(
        "describe_table", table_name="tea; DROP TABLE tea"
    )


def test_insights_are_in_the_memo_and_the_prompt_is_about_a_topic(host: Host) -> None:
    host.call("append_insight", insight="Sencha is dear.")
    (memo,) = host.client.read_resource("memo://insights")
    assert memo.text == "Insights\n\n- Sencha is dear."
    (message,) = host.client.get_prompt("mcp-demo", {"topic": "a bakery"}).messages
    assert "The topic: a bakery." in message.text
