"""The ASGI application of an app: its endpoint, its other paths, and lifespan events."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mcpkit._server.server import log
from mcpkit.http import HttpSettings, Scope
from mcpkit.transports.http.authorization import WELL_KNOWN, Authorization
from mcpkit.transports.http.endpoint import Endpoint
from mcpkit.transports.http.http_error import HttpError, send_error
from mcpkit.transports.http.lifespan import Lifespan, Lifespans
from mcpkit.transports.http.security import spelled
from mcpkit.transports.http.streams import Receive, Send
from mcpkit.transports.http.uvicorn import Shortcut, strip_values

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from mcpkit._server.server import Server

__all__ = ["Application", "attach", "make_metadata_route", "make_route", "route_path"]

Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

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
    """Return a path as a URL has it, with no more escapes than are needed (RFC 3986, 3.3)."""
    return quote(path, safe="/:@!$&'()*+,;=").encode()


def _is_spelled_plainly(raw: bytes, path: str) -> bool:
    """Return False if a path has escapes without need, which may pass by the rules of a proxy.

    Args:
        raw: The path as it was sent.
        path: The path below the prefix, decoded. How the prefix is spelled is the host's matter.
    """
    return raw.upper().endswith(_normalized_path(path).upper())


class Application:
    """The ASGI application of an app.

    Args:
        lifespans: The lifespans of the app.
        settings: The settings of the endpoint.
        routes: Routes beside the endpoint; they may grow until the first request for one.
        loopback: True if the server listens on loopback addresses only; None if that is not known.
        prefix: The path that a host has put it at: the endpoint is exactly there, and not at
            ``settings.path``.
        server: The app's name and entries, for the metadata of a protected resource.
    """

    def __init__(
        self,
        lifespans: Lifespans,
        settings: HttpSettings,
        routes: Sequence[Any] = (),
        *,
        loopback: bool | None = None,
        prefix: str | None = None,
        server: Server | None = None,
    ) -> None:
        self.lifespans = lifespans
        self.settings = settings
        base = (settings.path if prefix is None else prefix).rstrip("/")
        self._authorization: Authorization | None = None
        if settings.auth is not None:
            self._authorization = Authorization(settings, base, server, loopback=loopback)
            lifespans.on_end.append(self._authorization.aclose)
        self._endpoint = Endpoint(
            lifespans, settings, loopback=loopback, authorization=self._authorization
        )
        self._routes = routes
        self._router: Asgi | None = None
        self._base = base
        answer = self._answer = _with_cors(self._endpoint, settings)
        self._places: dict[str, Asgi] = {base: answer, f"{base}/": answer}
        if settings.sse:
            from mcpkit.transports.http.sse import SseEndpoints

            beside = base.rpartition("/")[0] if prefix is None else base
            old = SseEndpoints(self._endpoint, f"{beside}/messages")
            self._places[f"{beside}/sse"] = _with_cors(old.get, settings)
            self._places[f"{beside}/messages"] = _with_cors(old.post, settings)
        health = "/health" if settings.health is True else settings.health
        if health:
            self._places[(prefix or "").rstrip("/") + health] = _healthy
        if self._authorization is not None:
            for each in self._authorization.metadata_paths:
                self._places[each] = self._authorization.serve_metadata
            self._places.update(self._authorization.server_paths)
        self._mounted = None if prefix is not None else self._places[base]

    @property
    def login_paths(self) -> frozenset[str]:
        """The paths of an authorization server beside the endpoint."""
        return frozenset(() if self._authorization is None else self._authorization.server_paths)

    @property
    def shortcuts(self) -> Mapping[bytes, Shortcut]:
        """The functions with which our own server begins requests where they arrive, by URL."""
        if self._places[self._base] is not self._answer:
            return {}
        return {_normalized_path(self._base or "/"): self._endpoint.begin}

    def place_of(self, scope: Scope, path: str) -> Asgi | None:
        """Return what answers at a path, beside the custom routes.

        Args:
            scope: Of the request.
            path: Below the prefix that the app is mounted at.
        """
        place = self._places.get(path)
        known = self._authorization
        if place is None and known is not None and path.startswith(WELL_KNOWN):
            # A proxy may pass on the URL that follows from the one that clients know.
            root = scope.get("root_path", "")
            return known.serve_metadata if known.is_metadata_path(path, root) else None
        if place is None and known is not None:
            return known.server_at(path, scope.get("root_path", ""))
        return place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan events of the process."""
        kind = scope["type"]
        if kind == "http":
            # A copy: uvicorn adds trailers to its own list, which are no headers.
            headers = scope["headers"] = [*scope["headers"]]
            strip_values(headers)
            path = route_path(scope)
            raw: bytes = scope.get("raw_path") or b""
            plain = b"%" not in raw or _is_spelled_plainly(raw, path)
            place = self.place_of(scope, path) if plain else None
            if place is None and path in ("", "/") and scope.get("root_path"):
                place = self._mounted  # Mount("/x", app): there, and not only at /x/mcp
            if place is not None:
                await place(scope, receive, send)
            elif self._routes:
                await self._route(scope, receive, send)
            else:
                said = path if plain else scope["raw_path"].decode("latin-1")
                where = scope.get("root_path", "") + self._base
                await send_error(
                    send, HttpError(404, f"There is nothing at {said}; the endpoint is {where}")
                )
        elif kind == "lifespan":
            await self._live(receive, send)
        elif self._routes:
            await self._route(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._router is None:
            from starlette.routing import Router

            self._router = Router(self._routes)
        assert self._router is not None
        await self._router(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Serve between the two lifespan events of the ASGI specification."""
        await receive()
        begun = False
        try:
            async with self.lifespans.hold() as lifespan:
                begun = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
                lifespan.drain()
        except Exception as error:
            log.exception("the app's lifespan failed")
            kind = "shutdown" if begun else "startup"
            await send({"type": f"lifespan.{kind}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})


async def _healthy(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that the process serves."""
    if scope["method"] not in ("GET", "HEAD"):
        await send_error(
            send, HttpError(405, "Only GET is answered here", headers=((b"allow", b"GET"),))
        )
        return
    body = b'{"status":"ok"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] == "GET" else b""})


def _with_cors(answer: Asgi, settings: HttpSettings) -> Asgi:
    """Let pages of the allowed origins read answers and their headers, such as the session id."""
    if not settings.cors:
        return answer
    from starlette.middleware.cors import CORSMiddleware

    origins = [each if each == "*" else spelled(each) for each in settings.allowed_origins]
    exact = [each for each in origins if not each.endswith(":*")]
    patterns = [
        re.escape(each.removesuffix(":*")) + r"(:\d+)?" for each in origins if each.endswith(":*")
    ]
    made: Any = CORSMiddleware(
        answer,
        allow_origins=exact,
        allow_origin_regex="|".join([_LOOPBACK, *patterns]),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
        max_age=_PREFLIGHT_AGE,
    )
    serve: Asgi = made
    return serve


def make_route(application: Application, path: str) -> BaseRoute:
    """Return a Starlette route that answers at exactly ``path`` and ``path/``, without redirects.

    Args:
        application: The application, made with ``path`` as its prefix.
        path: The path as a host's router sees it.
    """
    from starlette.routing import BaseRoute, Match, NoMatchFound

    class Exactly(BaseRoute):
        """The endpoint of an app, and the paths that belong to it."""

        def __init__(self) -> None:
            self.path = path
            self.name = "mcp"
            self.app = application
            self.methods = {"GET", "POST", "DELETE"}

        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            """Return a full match if a request is for this route."""
            if scope["type"] == "http" and application.place_of(scope, route_path(scope)):
                return Match.FULL, {"endpoint": application}
            return Match.NONE, {}

        def url_path_for(self, name: str, /, **path_params: Any) -> Any:
            """Return the path of the endpoint, for ``request.url_for("mcp")``."""
            from starlette.datastructures import URLPath

            if name != self.name or path_params:
                raise NoMatchFound(name, path_params)
            return URLPath(path=path, protocol="http")

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Answer a request."""
            await application(scope, receive, send)

    return Exactly()


def make_metadata_route(settings: HttpSettings, server: Server, path: str) -> BaseRoute:
    """Return a Starlette route with all metadata of an endpoint that is mounted elsewhere.

    They are those of the resource, and those of an authorization server beside it (RFC 8414, 3.1).

    Args:
        settings: Of the endpoint; its ``auth`` is given.
        server: The app's name and entries.
        path: Of the endpoint, from the root of the host.

    Raises:
        ValueError: There is no authorization server that the metadata could name.
    """
    from starlette.routing import BaseRoute, Match

    whole, own = path.rstrip("/"), settings.path.rstrip("/")
    if not whole.endswith(own):
        own = ""  # the endpoint is where the app is mounted
    mount = whole[: len(whole) - len(own)]
    authorization = Authorization(settings, own, server)
    if not authorization.has_metadata:
        raise ValueError(f"{authorization.resource_server!r} names no authorization server")

    def place_of(asked: str) -> Asgi | None:
        if asked == WELL_KNOWN + whole:
            return authorization.serve_metadata
        return authorization.server_at(asked, mount)

    class Metadata(BaseRoute):
        """The metadata, at the addresses that follow from that of the endpoint."""

        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            """Return a full match if a request is for this route."""
            is_here = scope["type"] == "http" and place_of(route_path(scope)) is not None
            return (Match.FULL if is_here else Match.NONE), {}

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            """Answer a request, as the app does where it is mounted."""
            place = place_of(route_path(scope))
            assert place is not None
            root = scope.get("root_path", "") + mount
            await place({**scope, "root_path": root}, receive, send)

    return Metadata()


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
    taken = application.login_paths & {getattr(each, "path", None) for each in router.routes}
    if taken:
        raise ValueError(
            f"this {type(host).__name__} has a route at {', '.join(sorted(taken))}, where the "
            f"app's authorization server answers: mount the app, which has its own paths then"
        )
    router.routes.insert(0, make_route(application, path))
    inner: Callable[[Any], AbstractAsyncContextManager[Any]] | None
    inner = getattr(router, "lifespan_context", None)
    if inner is None:
        return

    @asynccontextmanager
    async def both(of: Any) -> AsyncGenerator[Any, None]:
        lifespan: Lifespan
        async with application.lifespans.hold() as lifespan, inner(of) as state:
            yield state
            lifespan.drain()

    router.lifespan_context = both
