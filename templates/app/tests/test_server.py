"""Tests of the tools, and of what hosts with and without views are told."""

import pytest
from mcpkit import TextResourceContents
from mcpkit.testing import REVISIONS, TestClient

from __PACKAGE__.server import app

VIEWS = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_text_says_what_the_chart_shows(revision: str) -> None:
    with TestClient(app, revision=revision) as client:
        text = client.call_tool("show_sales", {"year": 2025}).text
    assert text.startswith("Sales of 2025: 6282 in total. By month: Jan 402, Feb 377, ")


def test_the_chart_gets_data() -> None:
    with TestClient(app) as client:
        found = client.call_tool("load_year", {"year": 2024}).structured_content
    assert found["year"] == 2024
    assert len(found["months"]) == len(found["sold"]) == 12


def test_the_tool_of_the_chart_is_hidden_from_hosts_without_views() -> None:
    with TestClient(app) as client:
        assert [each.name for each in client.list_tools()] == ["show_sales"]
    with TestClient(app, extensions=VIEWS) as client:
        assert [each.name for each in client.list_tools()] == ["show_sales", "load_year"]
        [page] = [each.uri for each in client.list_resources() if each.uri.startswith("ui://")]
        [contents] = client.read_resource(page)
        assert isinstance(contents, TextResourceContents)
        assert "ui/initialize" in contents.text


def test_a_year_without_sales_is_named() -> None:
    with TestClient(app) as client:
        refused = client.call_tool("show_sales", {"year": 1999})
    assert refused.is_error
    assert refused.text == "Unknown year 1999; the years are 2024 to 2026."
