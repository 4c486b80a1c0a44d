"""The options of an HTTP endpoint, and the settings that are made of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from mcpkit import _wings
from mcpkit._utils.names import suggest
from mcpkit.http import HttpRequest
from mcpkit.limits import Limits, check_number
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit.auth.verifiers import Auth

FindPrincipal = Callable[
    [HttpRequest], "str | Principal | Awaitable[str | Principal | None] | None"
]
"""A function, async or not, that returns the principal of a request, or its id as text.

None stands for an anonymous caller. It may raise `mcpkit.errors.AccessDenied`, or an exception of a
web framework that has a ``status_code`` of 401 or 403.
"""


class CardOptions(TypedDict, total=False):
    """The members of the server card that are not those of the app."""

    name: str
    description: str
    repository: Mapping[str, str]


class HttpOptions(TypedDict, total=False):
    """The options of an endpoint, as keywords; see `HttpSettings`."""

    path: str
    sse: bool
    health: str | bool
    ready: str | bool
    metrics: str | bool
    metrics_token: str | None
    card: bool | CardOptions
    cors: bool
    allowed_origins: Sequence[str]
    allowed_hosts: Sequence[str]
    principal: FindPrincipal | None
    auth: Auth | None
    public_url: str | None
    limits: Limits
    stream_after: float
    keep_alive: float
    retry: float
    drain_delay: float
    watch_loop: bool
    streaming: bool


class HttpSettings(NamedTuple):
    """The settings of an endpoint, with their defaults. Times are in seconds.

    Args:
        path: The path at which the app answers when it is served alone.
        sse: True adds the two endpoints of 2024-11-05 (``/sse``, ``/messages``).
        health: A path that answers 200 to GET, below that which the app is attached or mounted at;
            True is ``/health``, False none.
        ready: A path that answers 200 to GET if requests can be served, else 503: the app's
            lifespan has been entered, stores can be reached, the checks of `MCPKit.ready` pass, and
            the process has not been told to stop; True is ``/ready``, False none.
        metrics: A path that answers GET with `mcpkit.metrics`, in the text format of Prometheus;
            True is ``/metrics``, False none.
        metrics_token: The bearer token of those who may read `metrics`; None: anyone who reaches
            the server may.
        card: Experimental: True answers GET at ``/server-card`` below the endpoint with a draft
            server card, of the app and the `public_url`; a dict has other members: ``name``, such
            as ``com.example/weather``, ``description`` and ``repository``.
        cors: True answers browsers' preflights for `allowed_origins`.
        allowed_origins: The web origins whose pages may call, such as ``https://app.example.com``;
            a port may be ``*``, and ``"*"`` alone allows every origin. Others are refused with 403;
            loopback origins are allowed where the server listens on loopback only.
        allowed_hosts: The names in ``Host`` that are answered on a loopback address, beside
            loopback names; ``"*"`` allows every name.
        principal: A function that returns the caller: a `Principal`, the id of one, or None; it may
            be async, and refuses by raising `mcpkit.errors.AccessDenied`. By default the user whom
            the host's authentication has put into ``scope["user"]``. One whose authentication has
            expired is refused with 401.
        auth: The verifier of bearer tokens: `mcpkit.auth.JWT`, ``Introspection``, ``Keys``, a
            function, or several of them. A request without a valid token is refused with 401. Not
            together with `principal`.
        public_url: The URL of the endpoint as clients know it, such as
            ``https://example.com/mcp``. By default it is taken from each request.
        limits: Sizes, counts and times that no client may exceed; those of the app by default.
        stream_after: The time after which a request that is still running is answered with a
            stream.
        keep_alive: The time after which a silent stream carries a comment, so that proxies keep it.
        retry: The time after which a client should reconnect to a stream that was closed.
        drain_delay: The time of normal service after SIGTERM, while `ready` fails already: longer
            than a load balancer takes to notice. Ctrl-C skips it.
        watch_loop: True logs the stack of code that blocks the event loop for 5 seconds; a worker
            of ``--workers`` that is blocked for 60 seconds is replaced.
        streaming: False for a host that passes a response on only when it is complete: streams that
            have no end, and questions on handshake revisions, are refused. Mangum on AWS Lambda is
            recognized without it.
    """

    path: str = "/mcp"
    sse: bool = False
    health: str | bool = False
    ready: str | bool = False
    metrics: str | bool = False
    metrics_token: str | None = None
    card: bool | CardOptions = False
    cors: bool = False
    allowed_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    principal: FindPrincipal | None = None
    auth: Auth | None = None
    public_url: str | None = None
    limits: Limits = Limits()
    stream_after: float = 5
    keep_alive: float = 15
    retry: float = 1
    drain_delay: float = 0
    watch_loop: bool = False
    streaming: bool = True


def make_settings(options: HttpOptions, limits: Limits | None = None) -> HttpSettings:
    """Return the settings of an endpoint.

    Args:
        options: As its author gave them.
        limits: Those of the app, if the options have none.

    Raises:
        TypeError: There is no such option.
        ValueError: An option has an invalid value; the message names it.
    """
    given = cast("dict[str, Any]", dict(options))
    for name in sorted(given.keys() - HttpOptions.__optional_keys__):
        advice = suggest("HttpOptions", name, HttpOptions.__optional_keys__)
        raise TypeError(f"HttpOptions has no option {name!r}; {advice}")
    given["limits"] = given.get("limits") or limits or Limits()
    settings = HttpSettings(**given)
    for name in ("allowed_origins", "allowed_hosts"):
        value = getattr(settings, name)
        if isinstance(value, str):
            raise ValueError(f"{name} must be a list, such as [{value!r}]")
    if settings.auth is not None and settings.principal is not None:
        raise ValueError(
            "auth= and principal= both determine the caller of a request; omit one of them"
        )
    if settings.sse and not settings.streaming:
        raise ValueError("sse=True needs streaming: remove sse=True or streaming=False")
    path = settings.path
    if not path.startswith("/") or not path.isprintable() or not set("?#%{} ").isdisjoint(path):
        raise ValueError(f"path must be like /mcp, without query or escapes, not {path!r}")
    check_number("keep_alive", settings.keep_alive, "more than 0")
    for name in ("stream_after", "retry", "drain_delay"):
        check_number(name, getattr(settings, name), "at least 0")
    return settings


def with_auth(options: HttpOptions, auth: Auth) -> HttpOptions:
    """Return the options with the ``auth`` of the app.

    Raises:
        ValueError: The options have an ``auth`` or ``principal`` of their own.
    """
    if options.get("auth") is not None:
        raise ValueError("auth= is given twice: to the app, and among its options of http=")
    if options.get("principal") is not None:
        raise ValueError("auth= and principal= both identify the caller; omit one of them")
    return {**options, "auth": _wings.auth.resource_server(auth)}
