"""Views in memory, on stdio and over HTTP, on every revision, for hosts with and without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpkit._protocol.revisions import BY_VERSION
from mcpkit.testing import REVISIONS, TestClient
from tests.cli.commands import mcpkit
from tests.extensions.apps.server import app
from tests.web import reached_by

SERVER = Path(__file__).with_name("server.py")
UI = "io.modelcontextprotocol/ui"
TYPE = "text/html;profile=mcp-app"


OPTIONS = {
    "csp": {"connectDomains": ["https://api.example.com"]},
    "permissions": {"camera": {}},
    "domain": "a.example.com",
    "prefersBorder": False,
}


@pytest.fixture(scope="module", params=["memory", "stdio", "http"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    with reached_by(request.param, app, SERVER) as found:
        yield found


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("views", [True, False], ids=["views", "text"])
def test_a_host_lists_reads_calls_and_pings(target: Any, revision: str, views: bool) -> None:
    """EXT-6, APP-1…10, APP-12, APP-13, APP-14, APP-23; HOST-21.

    ext-apps#671: hosts ping on 2026-07-28 as well, or they do not show the view.
    claude-ai-mcp#71: hosts may read the flat key only.
    """
    extensions = {UI: {"mimeTypes": [TYPE]}} if views else None
    known = BY_VERSION[revision]
    with TestClient(target, revision=revision, extensions=extensions) as client:
        assert client.extension(UI) == {}
        tools = {each.name: each.raw for each in client.list_tools()}
        [page] = client.list_resources()
        [contents] = client.read_resource(page.uri)
        result = client.call_tool("show_sales", {"year": 2026})
        hidden = client.call_tool("more_sales")
        assert client.request("ping").get("resultType") == (None if known.handshake else "complete")
    assert [*tools] == (["show_sales", "more_sales"] if views else ["show_sales"])
    has_meta = "_meta" in known.tool_members
    assert page.uri.startswith("ui://show_sales/")
    named = {"ui": {"resourceUri": page.uri}, "ui/resourceUri": page.uri}
    assert tools["show_sales"].get("_meta") == (named if has_meta else None)
    assert page.raw.get("_meta") == ({"ui": OPTIONS} if has_meta else None)
    assert getattr(contents, "meta", None) == page.raw.get("_meta")
    assert (result.meta or {}).get("a/b") == 1
    assert (page.mime_type, contents.mime_type) == (TYPE, TYPE)
    assert getattr(contents, "text", "") == "<!doctype html>\n<title>Sales</title>"
    assert (result.text, hidden.text) == ("12 in 2026.", "13")
    if known.structured_output != "none":
        assert result.structured_content == {"sold": 12}


def test_the_command_line_shows_and_calls_tools_of_views() -> None:
    """APP-7: they are hidden from it, as from any client without views."""
    page = mcpkit("inspect", str(SERVER)).output
    assert re.search(r"Tools +2, together .*\n\n  show_sales +about .*\n", page)
    assert "\n  more_sales  for views\n" in page
    assert mcpkit("call", str(SERVER), "more_sales").output == "13\n"
    assert "there is no tool 'mroe_sales'" in mcpkit("call", str(SERVER), "mroe_sales").refusal
