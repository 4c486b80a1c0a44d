"""The ASGI application of an app: the paths of its endpoint, CORS, and mounting."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from mcpkit import _wings
from mcpkit._server.server import Server
from mcpkit._utils.logs import log
from mcpkit.http import Asgi, Receive, Scope, Send
from mcpkit.transports.http.endpoint import Endpoint
from mcpkit.transports.http.headers import strip_values
from mcpkit.transports.http.http_error import JSON, HttpError, respond, send_error
from mcpkit.transports.http.lifespan import Lifespans
from mcpkit.transports.http.options import HttpOptions, HttpSettings, make_settings
from mcpkit.transports.http.requests import Shortcut
from mcpkit.transports.http.security import normalized_origin

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from mcpkit.transports.http.authorization import Authorization

_EXPOSED: Final = ["Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After"]
_LOOPBACK: Final = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_PREFLIGHT_AGE: Final = 600


def route_path(scope: Scope) -> str:
    """Return the path of a request below the prefix that the app is mounted at, or a proxy has."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if not root:
        return path
    root = root.rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path


def _normalized_path(path: str) -> bytes:
    """Return a path as a URL has it, with no more escapes than necessary (RFC 3986, 3.3)."""
    return quote(path, safe="/:@!$&'()*+,;=").encode()


class Application:
    """The ASGI application of an app.

    Args:
        server, lifespans: Of the app; all its applications share them.
        options: The options of the endpoint.
        routes: Routes beside the endpoint; they may grow until the first request for one.
        loopback: True if the server listens on loopback addresses only; None if that is not known.
        prefix: The path that a host has put it at: the endpoint is exactly there, and not at
            its ``path``.
    """

    def __init__(
        self,
        server: Server,
        lifespans: Lifespans,
        options: HttpOptions,
        routes: Sequence[Any] = (),
        *,
        loopback: bool | None = None,
        prefix: str | None = None,
    ) -> None:
        settings = make_settings(options, server.settings.limits)
        self.lifespans = lifespans
        lifespans.drain_delay = max(lifespans.drain_delay, settings.drain_delay)
        if settings.watch_loop:
            lifespans.watch = partial(_wings.blocked.LoopWatcher, on_alive=lifespans.on_alive)
        self.settings = settings
        base = (settings.path if prefix is None else prefix).rstrip("/")
        login: Mapping[str, Asgi] = {}
        self._authorization: Authorization | None = None
        if settings.auth is not None:
            authorization: Authorization = _wings.authorization.Authorization(
                settings, base, server, loopback=loopback
            )
            self._authorization = authorization
            lifespans.on_end.append(authorization.aclose)
            login = authorization.server_paths
        self.login_paths: Collection[str] = login.keys()
        """The paths of an authorization server beside the endpoint."""
        beside = base.rpartition("/")[0] if prefix is None else base
        self._endpoint = Endpoint(
            lifespans,
            settings,
            loopback=loopback,
            authorization=self._authorization,
            messages=f"{beside}/messages",
        )
        self._routes = routes
        self._base = base
        answer = self._answer = _with_cors(self._endpoint, settings)
        self._paths: dict[str, Asgi] = {base: answer, f"{base}/": answer}
        self._unguarded = [answer]
        """What checks ``Host`` itself, or is for everyone."""
        if settings.sse:
            for part in ("sse", "messages"):
                old = cast("Asgi", partial(self._endpoint, part=part))
                self._paths[f"{beside}/{part}"] = _with_cors(old, settings)
                self._unguarded.append(self._paths[f"{beside}/{part}"])
        health = "/health" if settings.health is True else settings.health
        if health:
            self._paths[(prefix or "").rstrip("/") + health] = _healthy
        ready = "/ready" if settings.ready is True else settings.ready
        if ready:
            stores: dict[str, Any] = {}
            if self._authorization is not None and self._authorization.embedded is not None:
                stores["logins"] = self._authorization.embedded.check_store
            checks = _wings.readiness.Readiness(lifespans, stores)
            self._paths[(prefix or "").rstrip("/") + ready] = checks
        metrics = "/metrics" if settings.metrics is True else settings.metrics
        if metrics:
            counted = _wings.metrics.metrics_of(server.observers)
            page = _wings.metrics_page.MetricsPage(counted, settings.metrics_token)
            self._paths[(prefix or "").rstrip("/") + metrics] = page
        self._paths.update(login)
        # Mount("/x", app): the endpoint is there, and not only at /x/mcp.
        self._mounted: dict[str, Asgi] = {}
        if prefix is None:
            self._mounted.update(dict.fromkeys(("", "/"), self._paths[base]))
        if settings.card:
            card: Asgi = _wings.card.ServerCard(server.info, settings)
            self._paths[f"{base}/server-card"] = card
            self._unguarded.append(card)
            if prefix is None:
                self._mounted["/server-card"] = card

    @property
    def shortcuts(self) -> Mapping[bytes, Shortcut]:
        """The functions with which mcpkit's server starts requests where they arrive, by URL."""
        if self._paths[self._base] is not self._answer:
            return {}
        return {_normalized_path(self._base or "/"): self._endpoint.start}

    def find(self, scope: Scope, path: str) -> Asgi | None:
        """Return the ASGI application at a path of `route_path`, custom routes aside."""
        found = self._paths.get(path)
        if found is None and self._authorization is not None:
            found = self._authorization.metadata_at(path, scope.get("root_path", ""))
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan events of the process."""
        kind = scope["type"]
        if kind == "http":
            # A copy: uvicorn adds trailers to its own list, which are not headers.
            headers = scope["headers"] = [*scope["headers"]]
            strip_values(headers)
            path = route_path(scope)
            raw: bytes = scope.get("raw_path") or b""
            # A path with escapes that it does not need may get around the rules of a proxy. How the
            # prefix is written is the host's matter.
            plain = b"%" not in raw or raw.upper().endswith(_normalized_path(path).upper())
            found = self.find(scope, path) if plain else None
            if found is None and plain and scope.get("root_path"):
                found = self._mounted.get(path)
            is_open = found in self._unguarded or path.startswith("/.well-known/")
            if not is_open and (why := self._endpoint.refuse_host(scope)) is not None:
                await send_error(send, HttpError(403, why))
            elif found is not None:
                await found(scope, receive, send)
            elif self._routes:
                await self._router(scope, receive, send)
            else:
                said = path if plain else scope["raw_path"].decode("latin-1")
                where = scope.get("root_path", "") + self._base
                await send_error(
                    send, HttpError(404, f"There is nothing at {said}; the endpoint is {where}")
                )
        elif kind == "lifespan":
            await self._serve_lifespan(receive, send)
        elif self._routes and self._endpoint.refuse_host(scope) is None:
            await self._router(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    @cached_property
    def _router(self) -> Asgi:
        from starlette.routing import Router

        return Router(self._routes)

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        """Serve between the two lifespan events of the ASGI specification."""
        await receive()
        started = False
        try:
            async with self.lifespans.hold() as lifespan:
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
                lifespan.drain()
        except Exception as error:
            log.exception("the app's lifespan failed")
            kind = "shutdown" if started else "startup"
            await send({"type": f"lifespan.{kind}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})


async def _healthy(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that the process serves."""
    if scope["method"] not in ("GET", "HEAD"):
        await send_error(send, HttpError(405, "Only GET is answered here", [(b"allow", b"GET")]))
        return
    await respond(send, 200, [JSON], b'{"status":"ok"}', head=scope["method"] == "HEAD")


def _with_cors(answer: Asgi, settings: HttpSettings) -> Asgi:
    """Let pages of the allowed origins read responses and their headers, such as the session id."""
    if not settings.cors:
        return answer
    from starlette.middleware.cors import CORSMiddleware

    origins = [
        each if each == "*" else normalized_origin(each) for each in settings.allowed_origins
    ]
    exact = [each for each in origins if not each.endswith(":*")]
    patterns = [
        re.escape(each.removesuffix(":*")) + r"(:\d+)?" for each in origins if each.endswith(":*")
    ]
    middleware: Any = CORSMiddleware(
        answer,
        allow_origins=exact,
        allow_origin_regex="|".join([_LOOPBACK, *patterns]),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
        max_age=_PREFLIGHT_AGE,
    )
    return cast("Asgi", middleware)


def make_route(application: Application, path: str) -> BaseRoute:
    """Return a Starlette route that answers at exactly ``path`` and ``path/``, without redirects.

    The application has been made with this path as its prefix.
    """

    def find(scope: Scope) -> Asgi | None:
        return application if application.find(scope, route_path(scope)) else None

    route: Any = _route(find, path)
    route.app = application
    return cast("BaseRoute", route)


def _route(find: Callable[[Scope], Asgi | None], path: str | None = None) -> BaseRoute:
    """Return a Starlette route to the application that a function finds for a scope."""
    from starlette.datastructures import URLPath
    from starlette.routing import BaseRoute, Match, NoMatchFound

    class Route(BaseRoute):
        """The endpoint of an app and the paths that belong to it, or its metadata."""

        def __init__(self) -> None:
            self.path = path
            self.name = "mcp"
            self.methods = {"GET", "POST", "DELETE"}

        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            """Return a full match if a request is for this route."""
            found = find(scope) if scope["type"] == "http" else None
            return (Match.NONE, {}) if found is None else (Match.FULL, {"endpoint": found})

        def url_path_for(self, name: str, /, **path_params: Any) -> Any:
            """Return the path of the endpoint, for ``request.url_for("mcp")``."""
            if name != self.name or path_params or path is None:
                raise NoMatchFound(name, path_params)
            return URLPath(path=path, protocol="http")

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Answer a request that matches."""
            await scope["endpoint"](scope, receive, send)

    return Route()


def make_metadata_route(server: Server, options: HttpOptions, path: str) -> BaseRoute:
    """Return a Starlette route with all metadata of an endpoint that is mounted elsewhere.

    They are those of the resource, and those of an authorization server beside it (RFC 8414, 3.1).
    The path is that of the endpoint, from the root of the host.

    Raises:
        ValueError: There is no ``auth``, or no authorization server that the metadata could name.
    """
    settings = make_settings(options, server.settings.limits)
    if settings.auth is None:
        raise ValueError("metadata_route(…) is for apps with auth=")
    whole, own = path.rstrip("/"), settings.path.rstrip("/")
    if not whole.endswith(own):
        own = ""  # the endpoint is where the app is mounted
    mount = whole[: len(whole) - len(own)]
    authorization: Authorization = _wings.authorization.Authorization(settings, own, server)
    well_known: str = _wings.authorization.WELL_KNOWN
    if not authorization.has_metadata:
        raise ValueError(f"{authorization.resource_server!r} names no authorization server")

    async def below(application: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
        # As if the application were mounted there.
        root = scope.get("root_path", "") + mount
        await application({**scope, "root_path": root}, receive, send)

    def find(scope: Scope) -> Asgi | None:
        path = route_path(scope)
        if path.startswith(well_known) and path != well_known + whole:
            return None  # it may be that of another app
        found = authorization.metadata_at(path, mount)
        return None if found is None else partial(below, found)

    return _route(find)


def attach(application: Application, host: Any, path: str) -> None:
    """Add a route to a Starlette or FastAPI application, in front of all that is there.

    The host's lifespan then serves the app as well, so that it is ready before the first request.

    Raises:
        TypeError: The host has no routes to add to, or dependencies that would not run.
        ValueError: The host has a route where the app's authorization server answers.
    """
    router: Any = getattr(host, "router", None)
    if router is None or not hasattr(router, "routes"):
        raise TypeError(
            f"{type(host).__name__} has no router to attach to; "
            f"add app.route({path!r}) to its routes, or mount the app itself"
        )
    checks = application.settings.principal or application.settings.auth
    if getattr(router, "dependencies", None) and checks is None:
        raise TypeError(
            f"the dependencies of this {type(host).__name__} run for its own path operations only, "
            f"and not for an attached app: pass principal=..., a function that checks what they "
            f"check, or let a path operation hand the request on to app.asgi()"
        )
    paths = {getattr(each, "path", None) for each in router.routes}
    taken = [each for each in application.login_paths if each in paths]
    if taken:
        raise ValueError(
            f"this {type(host).__name__} has a route at {', '.join(sorted(taken))}, where the "
            f"app's authorization server answers: mount the app, which has its own paths then"
        )
    router.routes.insert(0, make_route(application, path))
    inner: Any = getattr(router, "lifespan_context", None)
    if inner is None:
        return

    @asynccontextmanager
    async def both(of: Any) -> AsyncGenerator[Any, None]:
        async with application.lifespans.hold() as lifespan, inner(of) as state:
            yield state
            lifespan.drain()

    router.lifespan_context = both
