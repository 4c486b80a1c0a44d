"""What clients get of tools with views (EXTENSIONS §3)."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import mcpkit
from mcpkit import Apps, Context, Html, MCPKit, SyncContext, ToolResult
from mcpkit._protocol.revisions import BY_VERSION
from mcpkit.errors import RegistrationError
from mcpkit.testing import REVISIONS, AsyncTestClient

UI = "io.modelcontextprotocol/ui"
TYPE = "text/html;profile=mcp-app"
SHOWS: dict[str, Any] = {UI: {"mimeTypes": ["image/png", TYPE]}}
"""What a client that shows views declares."""

MODERN = REVISIONS[-1]
PAGE = "<!doctype html>\n<title>Chart</title>"
CSP: Any = {"connectDomains": ["https://api.example.com"]}

every_revision = pytest.mark.parametrize("revision", REVISIONS)


def chart(year: int, ctx: SyncContext) -> ToolResult:
    """Show the sales of a year, as figures and as a chart."""
    data = {"year": year, "views": ctx.client.supports(Apps)}
    return ToolResult(f"Sales of {year}: 12.", structured_content=data, meta={"a/b": 1})


def app_with(**options: Any) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit("sales")
    app.add_tool(chart, ui=Html(PAGE), **options)
    return app


async def contents(client: AsyncTestClient, uri: str) -> dict[str, Any]:
    [found] = (await client.request("resources/read", {"uri": uri}))["contents"]
    assert found["uri"] == uri
    return {**found}


@every_revision
async def test_text_is_for_the_model_and_data_for_the_view(revision: str) -> None:
    """APP-2, APP-12, APP-13.

    claude-code#95149, claude-ai-mcp#1060: views are not declared, or declared and never read.
    """
    declared: list[tuple[Any, bool]] = [
        (SHOWS, True),
        (None, False),
        ({UI: {}}, False),
        ({UI: {"mimeTypes": ["text/html", f"{TYPE}-v2"]}}, False),
        ({UI: {"mimeTypes": TYPE}}, False),
        ({UI: True}, False),
    ]
    for extensions, views in declared:
        async with AsyncTestClient(app_with(), revision=revision, extensions=extensions) as client:
            result = await client.call_tool("chart", {"year": 2026})
        assert result.text == "Sales of 2026: 12."
        if BY_VERSION[revision].structured_output != "none":
            assert result.structured_content == {"year": 2026, "views": views}
        assert (result.meta or {}).get("a/b") == 1


def pages(app: MCPKit[Any]) -> list[str]:
    return [*app.server.registry.resources]


def test_another_page_has_another_uri_and_the_same_page_one(tmp_path: Path) -> None:
    """APP-15: hosts cache pages by their URIs."""
    path = tmp_path / "two words.html"
    path.write_text(PAGE)
    app: MCPKit[Any] = MCPKit("sales")
    html = Html(path)
    app.add_tool(chart, ui=html)
    app.add_tool(chart, name="again", ui=html)
    app.add_tool(chart, name="other", ui=Html(path, prefers_border=False))
    path.write_text(PAGE + "!")
    app.add_tool(chart, name="later", ui=Html(path))
    assert len(set(pages(app))) == 3
    assert all(each.startswith("ui://two%20words/") for each in pages(app))
    [first, *_] = app.server.registry.resources.values()
    digest = sha256(PAGE.encode() + b'{"prefersBorder":true}').hexdigest()
    assert first.uri == f"ui://two%20words/{digest[:16]}.html"


async def test_a_page_may_have_a_uri_that_stays() -> None:
    app: MCPKit[Any] = MCPKit("sales")
    app.ui("ui://chart", Html(PAGE, csp=CSP))
    app.add_tool(chart, ui="ui://chart")
    async with AsyncTestClient(app) as client:
        found = await contents(client, "ui://chart")
    assert (found["text"], found["_meta"]["ui"]["csp"]) == (PAGE, CSP)
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: the URI of a view"):
        app.ui("chart.html", Html(PAGE))


async def test_a_function_makes_a_page() -> None:
    app: MCPKit[Any] = MCPKit("clock")

    @app.ui("ui://clock/page.html", csp=CSP, title="Clock", cache_ttl=60, meta={"a/b": 1})
    def page(ctx: Context) -> str:
        return f"<title>{ctx.revision}</title>"

    app.add_tool(chart, ui="ui://clock/page.html")
    async with AsyncTestClient(app, revision=MODERN) as client:
        [listed] = (await client.request("resources/list"))["resources"]
        assert (listed["title"], listed["_meta"].keys()) == ("Clock", {"ui", "a/b"})
        found = await client.request("resources/read", {"uri": "ui://clock/page.html"})
    assert (found["ttlMs"], found["contents"][0]["text"]) == (60_000, f"<title>{MODERN}</title>")
    assert found["contents"][0]["_meta"] == {"ui": {"csp": CSP, "prefersBorder": True}}


async def test_the_domain_depends_on_the_host() -> None:
    """APP-11: each host has its own, so no shared cache may have it."""

    def domain(ctx: Context) -> str | None:
        info = ctx.client.info
        return "abc.claudemcpcontent.com" if info and info.name == "claude-ai" else None

    app: MCPKit[Any] = MCPKit("sales", cache_scope="public")
    app.add_tool(chart, ui=Html(PAGE, domain=domain))
    [uri] = pages(app)
    for name, expected in (("claude-ai", {"domain": "abc.claudemcpcontent.com"}), ("other", {})):
        async with AsyncTestClient(app, revision=MODERN, name=name) as client:
            [listed] = (await client.request("resources/list"))["resources"]
            found = await client.request("resources/read", {"uri": uri})
        assert listed["_meta"] == {"ui": {"prefersBorder": True}}
        assert found["contents"][0]["_meta"] == {"ui": {"prefersBorder": True, **expected}}
        assert found["cacheScope"] == "private"


# --- who uses a tool ------------------------------------------------------------------------------


def page_after(after: int = 0) -> str:
    """Return the next page of the chart."""
    return f"{after + 1}"


@every_revision
@pytest.mark.parametrize("extensions", [None, SHOWS], ids=["text", "views"])
@pytest.mark.parametrize("page_size", [None, 1])
async def test_tools_of_views_are_hidden_from_clients_without_views(
    revision: str, extensions: Any, page_size: int | None
) -> None:
    """APP-6, APP-7, APP-23: and anyone can call them, as nothing marks the calls of views."""
    app: MCPKit[Any] = MCPKit("sales", page_size=page_size, cache_scope="public")
    app.add_tool(page_after, visibility="app")
    app.add_tool(chart, ui=Html(PAGE), visibility="model")
    app.add_tool(page_after, name="plain")
    async with AsyncTestClient(app, revision=revision, extensions=extensions) as client:
        tools = await client.list_tools()
        first = await client.request("tools/list")
        assert (await client.call_tool("page_after", {"after": 2})).text == "3"
    names = ["chart", "plain"] if extensions is None else ["page_after", "chart", "plain"]
    assert [each.name for each in tools] == names
    assert first.get("cacheScope") == ("private" if revision == MODERN else None)
    if "_meta" in BY_VERSION[revision].tool_members and extensions:
        assert tools[0].raw["_meta"] == {"ui": {"visibility": ["app"]}}
        assert tools[1].raw["_meta"]["ui"]["visibility"] == ["model"]


async def test_the_list_is_public_again_without_tools_of_views() -> None:
    app = MCPKit("sales", cache_scope="public")
    app.add_tool(chart)
    app.add_tool(page_after, visibility="app")
    async with AsyncTestClient(app, revision=MODERN) as client:
        assert (await client.request("tools/list"))["cacheScope"] == "private"
        app.remove_tool("page_after")
        assert (await client.request("tools/list"))["cacheScope"] == "public"


# --- composition ----------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "shop"])
async def test_an_included_app_has_its_views(prefix: str | None) -> None:
    part = app_with()
    app: MCPKit[Any] = MCPKit("all")
    app.include(part, prefix=prefix)

    @part.ui("ui://clock")
    def clock() -> str:
        return "<p>12:00"

    part.add_tool(page_after, ui="ui://clock")
    async with AsyncTestClient(app) as client:
        assert client.extension(UI) == {}
        tools = await client.list_tools()
        assert [each.name for each in tools] == [
            f"{prefix}_{each}" if prefix else each for each in ("chart", "page_after")
        ]
        texts = [
            (await contents(client, each.raw["_meta"]["ui"]["resourceUri"]))["text"]
            for each in tools
        ]
    assert texts == [PAGE, "<p>12:00"]


class Marked:
    @mcpkit.tool(ui=Html(PAGE), meta={"ui/resourceUri": "ui://mine"})
    def chart(self) -> str:
        """Show a chart."""
        return "12"


async def test_a_marked_function_has_its_view() -> None:
    """HOST-21: and ``meta=`` decides."""
    app = MCPKit("sales")
    app.include(Marked(), prefix="shop")
    async with AsyncTestClient(app) as client:
        [tool] = await client.list_tools()
        meta = tool.raw["_meta"]
        assert (tool.name, meta["ui/resourceUri"]) == ("shop_chart", "ui://mine")
        assert (await contents(client, meta["ui"]["resourceUri"]))["text"] == PAGE


# --- refused --------------------------------------------------------------------------------------


async def test_a_view_that_does_not_exist_stops_the_start() -> None:
    """APP-4."""
    app = MCPKit("sales")
    app.add_tool(chart, ui="ui://chart")
    with pytest.raises(RegistrationError, match=r"'chart' has ui='ui://chart'.*@app\.ui\("):
        async with AsyncTestClient(app):
            pass
    app.add_resource(lambda: "", "ui://chart", name="page", mime_type="text/html")
    with pytest.raises(RegistrationError, match="which is not a view"):
        async with AsyncTestClient(app):
            pass


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"ui": "chart.html"}, r"ui='chart\.html'; write .*Html\('chart\.html'\)"),
        ({"ui": Path("chart.html")}, r'ui= is Html\("page\.html"\)'),
        ({"visibility": "user"}, r'visibility= is "model" or "app", not \'user\''),
        ({"ui": Html("none.html")}, r"none\.html.* cannot be read"),
    ],
    ids=["a file", "a path", "an audience", "no file"],
)
def test_a_tool_with_a_wrong_view_is_refused(options: Any, fault: str) -> None:
    app = MCPKit("sales")
    with pytest.raises(RegistrationError, match=rf"test_served\.py:\d+.*{fault}"):
        app.add_tool(chart, **options)
    assert not app.server.registry.entries()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"cps": {}}, "no option 'cps'; did you mean 'csp'"),
        ({"csp": {"connect_domains": []}}, "no member 'connect_domains'; did you mean 'connectD"),
        ({"csp": {"connectDomains": "https://a.com"}}, "is a list of origins"),
        ({"csp": {"connectDomains": ["a.com"]}}, "is a list of origins"),
        ({"csp": {"connectDomains": ["https://a.com/x"]}}, "is a list of origins"),
        ({"permissions": ["clipboard"]}, "permissions is a list of camera, "),
        ({"permissions": "camera"}, "permissions is a list of camera, "),
        ({"csp": ["https://a.com"]}, "csp is a dict of lists of origins"),
    ],
    ids=str,
)
def test_wrong_options_of_a_page_are_refused(options: Any, fault: str) -> None:
    """APP-9, APP-10."""
    with pytest.raises(RegistrationError, match=rf"test_served\.py:\d+: Html\(…\).*{fault}"):
        Html(PAGE, **options)


@pytest.mark.parametrize(
    "page", [PAGE, Path("chart.html"), chart, 5], ids=["text", "path", "function", "number"]
)
def test_what_is_not_a_page_is_refused_on_both_roads(page: Any) -> None:
    app: Any = MCPKit("sales")
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: ui\(…\) takes Html\("):
        app.ui("ui://chart", page)
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*ui=.*Html\("):
        app.add_tool(chart, ui=page)
    assert not app.server.registry.entries()


def test_options_of_a_page_are_not_lost() -> None:
    app: Any = MCPKit("sales")
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: .*pass them to Html\("):
        app.ui("ui://chart", Html(PAGE), csp=CSP)
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: Html\(…\) takes a file"):
        Html(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("uri", ["chart.html", "https://example.com/", "ui://chart/{year}"])
def test_a_view_has_a_uri_of_its_own(uri: str) -> None:
    """APP-3."""
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+"):

        @MCPKit("sales").ui(uri)
        def page(year: str = "") -> str:
            return PAGE

    app: Any = MCPKit("sales")
    with pytest.raises(RegistrationError, match=r"test_served\.py:\d+: ui\(…\) needs a URI"):
        app.ui(lambda: PAGE)
