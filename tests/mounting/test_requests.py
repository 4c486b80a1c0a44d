"""What a handler sees of the host: its request, its middleware, its authentication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from fastapi import Header as HeaderParameter
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Mount

from mcpkit import Context, Limits, MCPKit
from tests.messages import called, request
from tests.mounting.serving import make_app, served, variable
from tests.transports.http.wire import EVENTS, JSON, Site, Stage

HANDLERS = ["look", "look_in_thread"]
Next = Callable[[Request], Awaitable[Response]]


def seen(site: Site, handler: str = "look", **headers: str) -> Any:
    """What a handler sees, in a session and without one; the two must agree."""
    talk = site.begin(headers=headers)
    call = called(handler, {})
    stateful = talk.post(request(1, "tools/call", call), headers).result["structuredContent"]
    modern = site.ask("tools/call", headers, **call).result["structuredContent"]
    for each in (stateful, modern):
        each["client"] = each["client"][0]
    assert stateful == modern
    return modern


def within(app: MCPKit[Any], *middleware: Any) -> Any:
    return Starlette(routes=[app.route("/x"), Mount("/m", app)], middleware=middleware)


# --- middleware -----------------------------------------------------------------------------------


class Pure:
    """Middleware without a class of Starlette's."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            variable.set("from middleware")
            scope.setdefault("state", {})["tenant"] = "acme"
        await self._app(scope, receive, send)


class Based(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Next) -> Response:
        variable.set("from middleware")
        request.state.tenant = "acme"
        return await call_next(request)


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("middleware", [Pure, Based])
def test_handlers_see_state_and_context_variables_of_middleware(
    middleware: Any, handler: str
) -> None:
    with served(within(make_app(), Middleware(middleware))) as address:
        found = seen(address.site("/x"), handler)
    assert found["state"] == {"tenant": "acme"}
    assert found["variable"] == "from middleware"


def test_what_one_request_has_set_is_not_seen_by_the_next() -> None:
    class ForSome(Pure):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            some = (b"x-agent", b"some") in scope.get("headers", ())
            await (super().__call__ if some else self._app)(scope, receive, send)

    with served(within(make_app(), Middleware(ForSome))) as address:
        site = address.site("/x")
        assert seen(site, **{"X-Agent": "some"})["variable"] == "from middleware"
        assert seen(site)["variable"] == "unset"
        assert seen(site)["state"] == {}


@pytest.mark.parametrize("middleware", [Pure, Based])
def test_streams_cancellations_and_timeouts_pass_through_middleware(middleware: Any) -> None:
    """CANC-5, SEC-17."""
    stage = Stage()
    app = make_app(stage=stage, limits=Limits(body_timeout=0.1))
    with served(within(app, Middleware(middleware))) as address:
        site = address.site("/x")
        assert site.call("tell").text == "told"
        stream = site.begin().get()
        assert (stream.status, stream.kind) == (200, EVENTS)
        call = site.call("wait", name="call")
        stage.expect("begun", "call")
        call.drop()
        stage.expect("been cancelled", "call")
        unfinished = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", "Content-Length": "100"}
        assert site.send("POST", unfinished).refusal == (408, -32600)


# --- authentication -------------------------------------------------------------------------------


class Named(AuthenticationBackend):
    """Believes a header."""

    async def authenticate(self, conn: HTTPConnection) -> Any:
        name = conn.headers.get("X-User")
        return None if name is None else (AuthCredentials(), SimpleUser(name))


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("path", ["/x", "/m/"])
def test_handlers_see_the_request_and_whom_the_host_has_found(path: str, handler: str) -> None:
    host = within(make_app(), Middleware(AuthenticationMiddleware, backend=Named()))
    with served(host) as address:
        found = seen(address.site(path), handler, **{"X-Agent": "tests", "X-User": "ada"})
    assert (found["path"], found["client"]) == (path, "127.0.0.1")
    assert (found["agent"], found["principal"]) == ("tests", "ada")


# --- dependencies of FastAPI ----------------------------------------------------------------------


class Answer(Response):
    """Lets an ASGI application answer a request that a FastAPI route has taken."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)


def test_handlers_see_the_state_of_dependencies_and_of_the_application() -> None:
    async def tenant(request: Request, x_tenant: Annotated[str, HeaderParameter()]) -> None:
        request.state.tenant = x_tenant

    app = make_app()

    @app.tool
    async def motto(ctx: Context) -> str:
        assert ctx.http is not None
        found: str = ctx.http.scope["app"].state.motto
        return found

    endpoint = app.asgi(path="/x")
    api = FastAPI()
    api.state.motto = "onwards"

    @api.api_route("/x", methods=["GET", "POST", "DELETE"], dependencies=[Depends(tenant)])
    async def mcp() -> Response:
        return Answer(endpoint)

    headers = {"X-Tenant": "acme"}
    with served(api) as address:
        site = address.site("/x")
        for handler in HANDLERS:
            assert seen(site, handler, **headers)["state"] == {"tenant": "acme"}
        assert site.ask("tools/call", headers, **called("motto", {})).text == "onwards"
