"""The server card, a draft: what anyone learns of a server before connecting (EXTENSIONS §4.1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Icon, MCPKit
from mcpkit.testing import REVISIONS
from tests.mounting.serving import attached, served
from tests.schemas import DATA
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import Exchange, Site

SCHEMA = json.loads((DATA / "schemas" / "server-card-v1.json").read_text(encoding="utf-8"))
TYPE = "application/mcp-server-card+json"
NAME = "com.example/weather"
REPOSITORY = {"url": "https://github.com/example/weather", "source": "github"}

CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
    "access-control-allow-headers": "Content-Type, If-None-Match",
    "access-control-expose-headers": "ETag",
}


def make_app(card: Any = True, name: str = NAME, **options: Any) -> MCPKit[Any]:
    http: Any = {"card": card, **options.pop("http", {})}
    given = {"version": "1.2.0", "description": "Tells the weather.", **options}
    return MCPKit(name, http=http, **given)


def card_of(answer: Exchange) -> dict[str, Any]:
    assert (answer.status, answer.header("content-type")) == (200, TYPE)
    found: dict[str, Any] = json.loads(answer.body)
    jsonschema.Draft202012Validator({"$ref": "#/$defs/ServerCard", **SCHEMA}).validate(found)
    return found


def get(site: Site, path: str = "/server-card", **headers: str) -> Exchange:
    accept = {"Accept": TYPE, **{name.replace("_", "-"): each for name, each in headers.items()}}
    return site.send("GET", accept, path=site.path + path)


@pytest.fixture
def site() -> Iterator[Site]:
    with served(make_app(http={"auth": lambda token: None})) as address:
        yield address.site("/mcp")


# --- the document ---------------------------------------------------------------------------------


def test_it_says_what_the_app_is_and_how_to_connect_to_it() -> None:
    """CARD-1…7, DISC-1: the versions are those of ``server/discover``."""
    icon = Icon("https://example.com/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")
    app = make_app(
        {"repository": REPOSITORY},
        title="Weather",
        website_url="https://example.com/",
        icons=[icon],
        http={"public_url": "https://Example.com/mcp/"},
    )
    with served(app) as address:
        assert card_of(get(address.site("/mcp"))) == {
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": NAME,
            "version": "1.2.0",
            "title": "Weather",
            "description": "Tells the weather.",
            "websiteUrl": "https://example.com/",
            "icons": [
                {
                    "src": "https://example.com/i.png",
                    "mimeType": "image/png",
                    "sizes": ["48x48"],
                    "theme": "dark",
                }
            ],
            "repository": REPOSITORY,
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": "https://example.com/mcp",
                    "supportedProtocolVersions": [*REVISIONS],
                }
            ],
        }


def test_an_endpoint_may_have_another_name_and_description_than_its_app() -> None:
    """CARD-3."""
    app = make_app({"name": NAME, "description": "Of Europe."}, name="weather")
    with served(app) as address:
        card = card_of(get(address.site("/mcp")))
        assert (card["name"], card["description"]) == (NAME, "Of Europe.")
        assert "remotes" not in card  # the URL is not known


def test_it_is_off_by_default(serve: Serve) -> None:
    assert get(serve()).status == 404


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "weather"}, r"'weather' is not a name like com.example/weather"),
        ({"name": "com.example/a/b"}, "not a name like"),
        ({"name": "a" * 199 + "/b"}, "the name needs 3 to 200 characters"),
        ({"description": None}, r"the description needs 1 to 100 .* pass MCPKit\(description=…\)"),
        ({"description": "x" * 101}, "the description needs 1 to 100"),
        ({"title": "x" * 101}, "the title needs 1 to 100"),
        ({"version": "x" * 256}, "the version needs 1 to 255"),
        *[({"version": each}, "a range of versions") for each in ("^1.2", ">=1", "1.x", "1 - 2")],
        ({"card": {"repository": {"url": "https://example.com"}}}, "a repository has"),
        ({"http": {"public_url": "http://10.0.0.7/mcp"}}, "is not encrypted; use https"),
        ({"card": {"remotes": []}}, "pass True, or a dict with some of description, name, repos"),
        ({"card": "weather"}, "pass True, or a dict with some of"),
    ],
)
def test_what_cannot_be_published_stops_the_start(options: dict[str, Any], message: str) -> None:
    """CARD-3, CARD-10."""
    with pytest.raises((ValueError, TypeError), match=message):
        make_app(**options).asgi()


# --- over HTTP ------------------------------------------------------------------------------------


def test_everyone_may_read_it(site: Site) -> None:
    """CARD-8, CARD-10: pages of every origin, without a token and under every name."""
    answer = get(site, Origin="https://elsewhere.example", Host="weather.example")
    assert card_of(answer)["name"] == NAME
    assert {name: answer.header(name) for name in CORS} == CORS
    assert answer.header("cache-control") == "public, max-age=3600"
    assert site.post({}, {"Origin": "https://elsewhere.example"}).status in (401, 403)


def test_a_preflight_is_answered(site: Site) -> None:
    """CARD-8."""
    answer = site.send(
        "OPTIONS",
        {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"},
        path=site.path + "/server-card",
    )
    assert (answer.status, answer.body) == (204, b"")
    assert {name: answer.header(name) for name in CORS} == CORS


def test_a_client_that_has_it_is_told_so(site: Site) -> None:
    """CARD-9."""
    tag = get(site).header("etag")
    assert tag is not None
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = get(site, If_None_Match=known)
        assert (answer.status, answer.body) == (304, b"")
        assert (answer.header("etag"), answer.header("content-length")) == (tag, None)
        assert {name: answer.header(name) for name in CORS} == CORS
    assert card_of(get(site, If_None_Match='"other"'))


def test_head_has_no_body_and_other_methods_are_refused(site: Site) -> None:
    path = site.path + "/server-card"
    answer = site.send("HEAD", path=path)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("content-length") == str(len(get(site).body))
    answer = site.send("POST", path=path)
    assert (answer.status, answer.header("allow")) == (405, "GET")


def test_it_is_below_the_endpoint_wherever_that_is() -> None:
    """CARD-1."""
    places = {
        "/mcp": make_app(),
        "/v1/mcp": make_app(http={"path": "/v1/mcp"}),
        "": make_app(http={"path": "/"}),
        "/x": Starlette(routes=[Mount("/x", make_app())]),
        "/x/mcp": Starlette(routes=[Mount("/x", make_app())]),
        "/y": Starlette(routes=[make_app().route("/y")]),
        "/z": attached(make_app(), Starlette(), "/z"),
    }
    for path, application in places.items():
        with served(application) as address:
            site = address.site(path or "/")
            answer = site.send("GET", path=f"{path}/server-card")
            assert card_of(answer)["name"] == NAME, path
            assert site.send("GET", path=f"{path}/%73erver-card").status == 404
