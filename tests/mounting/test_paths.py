"""Where an app answers in a Starlette or FastAPI application, and that it never redirects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router

from mcpkit import Limits, MCPKit
from tests.messages import initialize
from tests.mounting.serving import attached, make_app, served
from tests.transports.http.wire import EVENTS, Site

Build = Callable[..., Any]


def routed(app: MCPKit[Any], **options: Any) -> Any:
    return Starlette(routes=[app.route("/x", **options)])


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


ROUTE, MOUNT = ("", "/"), ("/", "/mcp", "/mcp/")
PLACES: dict[str, tuple[Build, str, tuple[str, ...]]] = {
    "alone": (lambda app: app, "", ("/mcp",)),
    "routed": (routed, "/x", ROUTE),
    "routed in FastAPI": (lambda app: FastAPI(routes=[app.route("/x")]), "/x", ROUTE),
    "attached": (
        lambda app: attached(app, Starlette(routes=[Mount("/", _hello)]), "/x"),
        "/x",
        ROUTE,
    ),
    "attached to FastAPI": (lambda app: attached(app, FastAPI(), "/x"), "/x", ROUTE),
    "mounted": (lambda app: Starlette(routes=[Mount("/x", app)]), "/x", MOUNT),
    "nested": (
        lambda app: Starlette(routes=[Mount("/a", routes=[Mount("/b", app)])]),
        "/a/b",
        MOUNT,
    ),
}
"""Ways to serve an app, with the prefix and the ends of the paths where it answers."""


def everything_works_at(site: Site) -> None:
    """All three methods, JSON and streams, with a session and without; redirects would be 307."""
    assert site.call("who").text == "mounted"
    assert site.call("tell").text == "told"
    talk = site.begin()
    assert talk.call("who").text == "mounted"
    stream = talk.get()
    assert (stream.status, stream.kind) == (200, EVENTS)
    assert talk.delete().status == 204
    assert talk.call("who").status == 404


# --- route and attach -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/xy", "/x/y", "//x", "/mcp"])
def test_a_route_answers_nowhere_else(path: str) -> None:
    with served(routed(make_app())) as address:
        assert address.site(path).post(initialize()).status == 404


@pytest.mark.parametrize("wrap", [Router, Starlette])
def test_a_route_may_be_at_the_root_or_in_a_mounted_router(wrap: Any) -> None:
    app = make_app()
    inner = Mount("/in", wrap(routes=[app.route("/x")]))
    with served(Starlette(routes=[inner, app.route("/")])) as address:
        for path in ("/in/x", "/in/x/", "/"):
            everything_works_at(address.site(path))


def test_other_routes_of_the_host_go_on_as_before() -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(request.url_for("mcp")))

    host = FastAPI(routes=[Route("/hello", hello)])
    make_app().attach(host, "/x")
    with served(host) as address:
        answer = address.site("/hello").get()
        assert answer.body == f"http://127.0.0.1:{address.port}/x".encode()
        for path in ("/docs", "/openapi.json"):
            assert address.site(path).get({"Accept": "*/*"}).status == 200, path
    with served(PLACES["attached"][0](make_app())) as address:
        assert address.site("/y").get().body == b"hello", "of a route that takes everything"
        assert address.site("/x").call("who").text == "mounted"


def test_dependencies_that_would_not_run_are_not_passed_over() -> None:
    def check() -> None: ...

    host = FastAPI(dependencies=[Depends(check)])
    app: MCPKit[Any] = MCPKit("guarded")
    with pytest.raises(TypeError, match=r"dependencies of this FastAPI .* pass principal="):
        app.attach(host, "/mcp")
    assert not any(getattr(each, "name", None) == "mcp" for each in host.routes)
    app.attach(host, "/mcp", principal=lambda http: "ann")


def test_what_has_no_routes_cannot_be_attached_to() -> None:
    with pytest.raises(TypeError, match="has no router to attach to"):
        make_app().attach(object(), "/x")


# --- proxies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("root_path", ["", "/api", "/x", "/mcp"])
@pytest.mark.parametrize("place", PLACES)
def test_an_app_answers_where_it_is_also_behind_a_proxy(place: str, root_path: str) -> None:
    """SSE-2: which takes a prefix away; the endpoint event names the path that clients see."""
    build, prefix, ends = PLACES[place]
    with served(build(make_app(http={"sse": True})), root_path=root_path) as address:
        for end in ends:
            everything_works_at(address.site(prefix + end))
        stream = address.site(f"{prefix}/sse").get()
        messages, _, query = stream.event().fields["data"].partition("?")
        assert messages == f"{root_path}{prefix}/messages"
        site = address.site(f"{prefix}/messages?{query}")
        assert site.post(initialize("2024-11-05")).status == 202
        assert stream.message()["result"]["protocolVersion"] == "2024-11-05"


# --- several --------------------------------------------------------------------------------------


def test_apps_and_endpoints_of_one_app_live_side_by_side() -> None:
    """Each endpoint has options of its own."""
    one, two = make_app("one"), make_app("two")
    small = one.route("/small", limits=Limits(max_body=200))
    with served(FastAPI(routes=[one.route("/one"), small, Mount("/two", two)])) as address:
        assert address.site("/one").call("who").text == "one"
        assert address.site("/two/").call("who").text == "two"
        assert address.site("/small").call("who", padding="x" * 300).status == 413


# --- beside the endpoint --------------------------------------------------------------------------


def test_an_app_alone_has_routes_of_its_own() -> None:
    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"hello {request.path_params['name']}")

    app = make_app()
    app.routes.append(Route("/hello/{name}", hello))
    with served(app) as address:
        assert address.site("/hello/you").get().body == b"hello you"
        everything_works_at(address.site("/mcp"))


def test_health_is_below_the_prefix_wherever_the_app_is() -> None:
    places = {
        "": make_app(http={"health": True}),
        "/x": Starlette(routes=[Mount("/x", make_app(http={"health": True}))]),
        "/y": Starlette(routes=[make_app(http={"health": True}).route("/y")]),
    }
    for prefix, application in places.items():
        with served(application) as address:
            answer = address.site(f"{prefix}/health").get()
            assert (answer.status, answer.json) == (200, {"status": "ok"}), prefix
