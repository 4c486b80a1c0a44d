"""An app in applications of frameworks that are not Starlette's, and in front of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from litestar import Litestar, asgi, get
from quart import Quart
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import MCPKit
from tests.messages import initialize
from tests.mounting.serving import make_app, served
from tests.mounting.test_paths import everything_works_at
from tests.transports.http.wire import Stage

Build = Callable[[MCPKit[Any]], Any]


def with_home(routes: list[Any]) -> Litestar:
    @get("/", sync_to_thread=False)
    def home() -> str:
        return "home"

    return Litestar([home, *routes])


def litestar(app: MCPKit[Any]) -> Any:
    return with_home([asgi("/x", copy_scope=True)(app.asgi(path="/x"))])


def litestar_mount(app: MCPKit[Any]) -> Any:
    """Litestar takes the prefix away and does not say so; what is left is the root."""
    return with_home([asgi("/x", is_mount=True, copy_scope=True)(app.asgi(path="/"))])


def make_quart() -> Quart:
    host = Quart("host")

    @host.get("/")
    async def home() -> str:
        return "home"

    return host


def quart(app: MCPKit[Any]) -> Any:
    """What Quart calls middleware."""
    host = make_quart()
    host.asgi_app = by_path(app.asgi(path="/x"), host.asgi_app)  # type: ignore[method-assign]
    return host


def quart_behind_starlette(app: MCPKit[Any]) -> Any:
    behind: Any = make_quart()
    return Starlette(routes=[app.route("/x"), Mount("/", behind)])


def make_django() -> Any:
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    if not settings.configured:
        settings.configure(ROOT_URLCONF="tests.mounting.django_urls", ALLOWED_HOSTS=["127.0.0.1"])
    return get_asgi_application()


def django(app: MCPKit[Any]) -> Any:
    """As in a project's ``asgi.py``."""
    return by_path(app.asgi(path="/x"), make_django(), lifespan=True)


def django_behind_starlette(app: MCPKit[Any]) -> Any:
    host = Starlette(routes=[Mount("/", make_django())])
    app.attach(host, "/x")
    return host


def by_path(endpoint: Any, host: Any, *, lifespan: bool = False) -> Any:
    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        below = scope.get("path", "").removeprefix(scope.get("root_path", "")).rstrip("/")
        for_endpoint = lifespan if scope["type"] == "lifespan" else below == "/x"
        await (endpoint if for_endpoint else host)(scope, receive, send)

    return dispatch


HOSTS = [litestar, litestar_mount, quart, quart_behind_starlette, django, django_behind_starlette]


@pytest.mark.parametrize(("lifespan", "root_path"), [("on", ""), ("off", ""), ("on", "/api")])
@pytest.mark.parametrize("build", HOSTS)
def test_an_app_answers_with_and_without_a_slash_and_the_host_elsewhere(
    build: Build, lifespan: str, root_path: str
) -> None:
    """CANC-5: also behind a proxy that takes a prefix away, and for a client that leaves."""
    stage = Stage()
    application = build(make_app(stage=stage))
    with served(application, lifespan=lifespan, root_path=root_path) as address:
        everything_works_at(address.site("/x"))
        everything_works_at(address.site("/x/"))
        call = address.site("/x").call("wait", name="call")
        stage.expect("begun", "call")
        call.drop()
        stage.expect("been cancelled", "call")
        if not root_path:  # which is not for the host to know
            answer = address.site("/").get({"Accept": "*/*"})
            assert (answer.status, answer.body) == (200, b"home")
            assert address.site("/y").post(initialize()).status in (404, 405)


def test_the_old_endpoints_are_beside_the_new_one_in_litestar() -> None:
    """SSE-2."""
    places = ["/ai/mcp", "/ai/sse", "/ai/messages"]
    endpoint = make_app().asgi(path="/ai/mcp", sse=True)
    with served(Litestar([asgi(places, copy_scope=True)(endpoint)]), root_path="/api") as address:
        everything_works_at(address.site("/ai/mcp"))
        event = address.site("/ai/sse").get().event()
        assert event.fields["data"].startswith("/api/ai/messages?")
