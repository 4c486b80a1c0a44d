"""An authorization server beside an endpoint that is a part of another application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from mcpkit import MCPKit
from mcpkit.auth import AuthorizationServer
from tests.auth.server.conftest import SECRET, Clock, NameLogin, Site, make_app
from tests.uvicorns import listen, running


def attached(app: MCPKit[Any], options: Any) -> Any:
    from fastapi import FastAPI

    host = FastAPI()
    app.attach(host, "/notes/mcp", **options)
    return host


def routed(app: MCPKit[Any], options: Any) -> Any:
    return Starlette(routes=[app.route("/notes/mcp", **options)])


def mounted(app: MCPKit[Any], options: Any) -> Any:
    metadata = app.metadata_route("/notes/mcp", **options)
    return Starlette(routes=[metadata, Mount("/notes", app.asgi(**options))])


def mounted_deeper(app: MCPKit[Any], options: Any) -> Any:
    inner = Mount("/notes", app.asgi(path="/", **options))
    return Starlette(routes=[app.metadata_route("/notes", path="/", **options), inner])


PLACES: Final[dict[str, tuple[Callable[[MCPKit[Any], Any], Any], str, str]]] = {
    "attached": (attached, "", "/notes/mcp"),
    "a route": (routed, "", "/notes/mcp"),
    "mounted": (mounted, "/notes", "/mcp"),
    "mounted, and the endpoint is the mount": (mounted_deeper, "/notes", ""),
}


@contextmanager
def placed(place: str, *, named: bool) -> Iterator[Site]:
    make, mount, endpoint = PLACES[place]
    clock = Clock()
    server = AuthorizationServer(NameLogin(), secret=SECRET, clock=clock, cache_time=0)
    listener = listen()
    base = f"http://127.0.0.1:{listener.getsockname()[1]}{mount}"
    options = {"public_url": f"{base}{endpoint}"} if named else {}
    with running(make(make_app(server), options), listener):
        yield Site(base, clock, server, endpoint=endpoint)


@pytest.mark.parametrize("named", [True, False], ids=["public_url", "as asked"])
@pytest.mark.parametrize("place", PLACES)
def test_clients_find_it_and_log_in(place: str, named: bool) -> None:
    """AUTH-2, AUTH-3, AUTH-4: from the challenge, and from well-known addresses alone."""
    with placed(place, named=named) as site:
        said = site.call("none").headers["www-authenticate"]
        url = said.split('resource_metadata="')[1].rstrip('"')
        parts = urlsplit(site.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        plain = Site(origin, site.clock, site.server)
        inserted = f"/.well-known/oauth-protected-resource{parts.path}"
        found = [plain.send(url.removeprefix(origin)).json, plain.send(inserted).json]
        assert [each["resource"] for each in found] == [site.url] * 2
        assert [each["authorization_servers"] for each in found] == [[site.origin]] * 2
        path = urlsplit(site.origin).path
        for address in (
            f"/.well-known/oauth-authorization-server{path}",
            f"{path}/.well-known/openid-configuration",
        ):
            metadata = plain.send(address)
            assert metadata.status == 200, address
            assert metadata.json["issuer"] == site.origin
            assert metadata.json["token_endpoint"] == f"{site.origin}/token"
        site.client_id = site.register()["client_id"]
        assert site.said(site.tokens()["access_token"]) == "ada False [notes:read]"


def test_other_metadata_of_the_host_are_its_own() -> None:
    with placed("mounted", named=True) as site:
        host = Site(site.origin.removesuffix("/notes"), site.clock, site.server)
        for path in ("", "/other", "/notes/mcp/x"):
            for kind in ("oauth-authorization-server", "oauth-protected-resource"):
                assert host.send(f"/.well-known/{kind}{path}").status == 404
        assert site.send("/.well-known/jwks.json").json["keys"]


def test_a_route_of_the_host_is_not_covered() -> None:
    """Many applications have a ``/token`` of their own."""

    async def token(request: Any) -> PlainTextResponse:
        return PlainTextResponse("the host's")

    host = Starlette(routes=[Route("/token", token, methods=["POST"])])
    app = make_app(AuthorizationServer(NameLogin(), secret=SECRET))
    with pytest.raises(ValueError, match="has a route at /token, where the app's"):
        app.attach(host, "/notes/mcp")
    assert len(host.routes) == 1
