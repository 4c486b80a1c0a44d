"""Tests of the server through a client, on every protocol revision."""

import json

import pytest
from mcpkit import ProtocolError
from mcpkit.testing import TestClient

EMMA = {"id": 1, "title": "Emma", "author": "Jane Austen", "year": 1815}


def test_a_book_is_added(client: TestClient) -> None:
    given = {"title": "Emma", "author": "Jane Austen", "year": 1815}
    assert json.loads(client.call_tool("add_book", given).text) == EMMA


def test_a_book_is_added_once(shelf: TestClient) -> None:
    again = shelf.call_tool("add_book", {"title": "Emma", "author": "Jane Austen", "year": 1815})
    assert again.is_error
    assert again.text == "The library already has Emma by Jane Austen."


def test_books_are_found_the_newest_first(shelf: TestClient) -> None:
    found = json.loads(shelf.call_tool("find_books", {"text": "austen"}).text)
    assert [each["title"] for each in found] == ["Persuasion", "Emma"]


@pytest.mark.parametrize("text", ["%", "_", "' OR 1=1 --"])
def test_what_is_looked_for_is_text_and_nothing_else(shelf: TestClient, text: str) -> None:
    assert json.loads(shelf.call_tool("find_books", {"text": text}).text) == []


def test_a_query_with_parameters(shelf: TestClient) -> None:
    sql = "SELECT title FROM book WHERE year < :year ORDER BY title"
    answer = shelf.call_tool("query_library", {"sql": sql, "parameters": {"year": "1850"}})
    assert json.loads(answer.text) == {
        "columns": ["title"],
        "rows": [["Emma"], ["Persuasion"]],
        "more": False,
    }


def test_a_query_has_at_most_so_many_rows(shelf: TestClient) -> None:
    sql = "SELECT id FROM book ORDER BY id"
    answer = shelf.call_tool("query_library", {"sql": sql, "limit": 2})
    assert json.loads(answer.text) == {"columns": ["id"], "rows": [[1], [2]], "more": True}


@pytest.mark.parametrize("limit", [0, 201])
def test_nobody_gets_more_rows_than_are_allowed(shelf: TestClient, limit: int) -> None:
    assert shelf.call_tool("query_library", {"sql": "SELECT 1", "limit": limit}).is_error


def test_a_query_that_is_refused_says_why(shelf: TestClient) -> None:
    answer = shelf.call_tool("query_library", {"sql": "DELETE FROM book"})
    assert answer.is_error
    assert answer.text.startswith("The query cannot be run:")


def test_the_schema_is_a_resource(client: TestClient) -> None:
    (contents,) = client.read_resource("library://schema")
    assert "CREATE TABLE book" in getattr(contents, "text", "")


def test_the_books_of_an_author_are_a_resource(shelf: TestClient) -> None:
    (contents,) = shelf.read_resource("library://authors/Jane%20Austen")
    found = json.loads(getattr(contents, "text", ""))
    assert [each["title"] for each in found] == ["Emma", "Persuasion"]


def test_there_is_no_resource_for_an_unknown_author(client: TestClient) -> None:
    with pytest.raises(ProtocolError, match="The library has no book by Unknown"):
        client.read_resource("library://authors/Unknown")


def test_authors_are_completed(shelf: TestClient) -> None:
    found = shelf.complete("author", "ja", template="library://authors/{author}")
    assert list(found.values) == ["Jane Austen"]
