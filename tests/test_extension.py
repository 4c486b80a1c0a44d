"""What an extension may be, and to whom its requests answer (EXTENSIONS §1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mcpkit import CallNext, Context, Depends, Elicit, Env, Extension, MCPKit, ToolResult
from mcpkit.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingClientCapability,
    MissingEnvironment,
)
from mcpkit.errors import RegistrationError as Refused
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient

GEO = "com.example/geo"
HANDSHAKE, MODERN = REVISIONS[-2], REVISIONS[-1]


def with_method(name: str = "geo/where", **options: Any) -> Extension:
    geo = Extension(GEO, **options)

    @geo.request(name)
    async def where(place: str = "here") -> dict[str, str]:
        return {"place": place}

    return geo


def app_with(*extensions: Extension, **options: Any) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit("extended", **options)
    for each in extensions:
        app.extend(each)
    return app


# --- registration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("identifier", ["com.example/geo", "a/b", "x-1.y/a.b_c-d", "Com.Ex/9"])
def test_an_identifier_has_a_prefix_and_a_name(identifier: str) -> None:
    """EXT-1."""
    app_with(Extension(identifier))


def nothing() -> None: ...


async def async_settings(ctx: Context) -> dict[str, Any]:
    return {}


MALFORMED = [
    *("", "geo", "/geo", "com.example/", "com..example/geo", "1com/geo", "com-/geo", "com/-geo"),
    *("com/geo-", "com/a/b", "com.example/ge o", "com.example/geo\n", "cöm/geo"),
]
NOT_JSON: list[Any] = [{"a": {1, 2}}, {"a": float("nan")}, {"a": "\ud800"}, [1], "text", 5]


@pytest.mark.parametrize(
    ("identifier", "options", "reason"),
    [
        *((each, {}, "is not an identifier") for each in MALFORMED),
        ("io.modelcontextprotocol/geo", {}, "is for official extensions"),
        *((GEO, {"settings": each}, f"{GEO}: the settings are not JSON") for each in NOT_JSON),
        (GEO, {"settings": async_settings}, "settings= is a plain function of the context"),
        (GEO, {"settings": nothing}, "settings= is a plain function of the context"),
        (GEO, {"requires": ["sample"]}, "clients have no capability 'sample'"),
        (GEO, {"requires": "sampling"}, "clients have no capability"),
        (GEO, {"requires": ["sampling."]}, "clients have no capability"),
    ],
)
def test_a_malformed_extension_is_refused(identifier: str, options: Any, reason: str) -> None:
    """EXT-1, EXT-2, EXT-3."""
    with pytest.raises(Refused, match=rf"test_extension\.py:\d+: .*{reason}"):
        Extension(identifier, **options)


def ask(sure: Annotated[bool, Elicit("Sure?")]) -> None: ...


def plain_hook(ctx: Context, call_next: CallNext) -> Any: ...


async def hook(ctx: Context, call_next: CallNext) -> Any: ...


OF_THE_PROTOCOL = "is a method of the protocol already"
WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda geo: geo.request("tools/call")(nothing), f"tools/call {OF_THE_PROTOCOL}"),
    (
        lambda geo: geo.request("elicitation/create")(nothing),
        f"elicitation/create {OF_THE_PROTOCOL}",
    ),
    (lambda geo: geo.request("geo/mine")(nothing), f"geo/mine is a method of {GEO} already"),
    (
        lambda geo: geo.request("geo/a", revisions=["2030-01-01"])(nothing),
        "there is no revision 2030-01-01; known: 2024-11-05, ",
    ),
    (lambda geo: geo.request("notifications/a")(nothing), "'notifications/a' is not a method"),
    (lambda geo: geo.request("geo/a", cache_ttl=-1)(nothing), "cache_ttl= is seconds, not -1"),
    (lambda geo: geo.request(nothing), r'request\("geo/locate"\)'),
    (lambda geo: geo.request("geo/a")(ask), "declares an input request"),
    (lambda geo: geo.notification("geo/a")(nothing), "'geo/a' is not a method"),
    (lambda geo: geo.notification("notifications/")(nothing), "'notifications/' is not a method"),
    (lambda geo: geo.notification("notifications/cancelled")(nothing), OF_THE_PROTOCOL),
    (lambda geo: geo.notification(5), r'notification\("notifications/geo/moved"\)'),
    (lambda geo: geo.around(), "needs methods"),
    (lambda geo: geo.around("geo/a")(hook), "there is no method 'geo/a'"),
    (lambda geo: geo.around("tools/call")(plain_hook), "is not async"),
    (lambda geo: geo.entry_meta()(nothing), 'needs some of "tools"'),
    (lambda geo: geo.entry_meta("tool")(nothing), 'needs some of "tools"'),
    (lambda geo: geo.entry_meta("tools")(nothing), "is not a plain function of an entry"),
    (lambda geo: (app_with(geo), geo.request("geo/a")(nothing)), r"call app\.extend\(…\) after"),
]


@pytest.mark.parametrize(("add", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_a_conflict_is_refused_where_it_is_added(add: Callable[[Any], object], reason: str) -> None:
    """EXT-15; with file and line."""
    geo = Extension(GEO)
    geo.request("geo/mine")(nothing)
    with pytest.raises(Refused, match=rf"test_extension\.py:\d+.*{reason}"):
        add(geo)


def test_extensions_do_not_share_identifiers_or_methods() -> None:
    """EXT-15."""
    app = app_with(with_method())
    with pytest.raises(Refused, match=r"test_extension\.py:\d+: .*the app has this extension"):
        app.extend(Extension(GEO))
    other = Extension("com.example/other")
    other.request("geo/where")(lambda: None)
    with pytest.raises(Refused, match=r"geo/where is a method of com\.example/geo already"):
        app.extend(other)
    app.extend(Extension("com.example/third"))
    with TestClient(app) as client:
        assert client.server_capabilities["extensions"] == {GEO: {}, "com.example/third": {}}


def test_an_included_app_has_no_extensions() -> None:
    """Their hooks and requests would be those of the whole app."""
    with pytest.raises(Refused, match="it has extensions; give that to the app that is served"):
        app_with().include(app_with(with_method()))


def test_the_environment_of_requests_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    geo = Extension(GEO)

    @geo.request("geo/key")
    def key(key: Annotated[str, Env("GEO_KEY")]) -> dict[str, str]:
        return {"key": key}

    app = app_with(geo)
    with pytest.raises(MissingEnvironment, match="GEO_KEY"):
        app.check_environment()
    monkeypatch.setenv("GEO_KEY", "x")
    app.check_environment()


# --- clients --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("revision", "code"), [(HANDSHAKE, -32602), (MODERN, -32021)])
async def test_a_mandatory_extension_must_be_declared(revision: str, code: int) -> None:
    """EXT-9, EXT-10, EXT-11."""
    app = app_with(with_method(mandatory=True, requires=["sampling", "elicitation.url"]))
    able: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
    missing: dict[str, Any] = {"extensions": {GEO: {}}, "sampling": {}, "elicitation": {"url": {}}}
    async with AsyncTestClient(app, revision=revision) as client:
        with pytest.raises((MissingClientCapability, InvalidParams)) as raised:
            await client.request("geo/where")
    assert raised.value.code == code
    assert raised.value.data == {"requiredCapabilities": missing}
    declared: dict[str, Any] = {GEO: {}}
    async with AsyncTestClient(
        app, revision=revision, capabilities=able, extensions=declared
    ) as client:
        assert (await client.request("geo/where", {"place": "there"}))["place"] == "there"


async def test_a_server_without_the_extension_has_no_such_method() -> None:
    """EXT-7, EXT-12."""
    async with AsyncTestClient(app_with()) as client:
        assert "extensions" not in client.server_capabilities
        with pytest.raises(MethodNotFound):
            await client.request("geo/where")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_settings_may_depend_on_the_caller(revision: str) -> None:
    """EXT-19."""

    def settings(ctx: Context) -> dict[str, Any]:
        principal = ctx.principal
        return {"for": None if principal is None else principal.id}

    app = app_with(Extension(GEO, settings=settings), cache_ttl=60, cache_scope="public")
    async with AsyncTestClient(app, revision=revision, principal="ann") as client:
        assert client.extension(GEO) == {"for": "ann"}
        if revision == MODERN:
            found = await client.request("server/discover")
            assert (found["cacheScope"], found["ttlMs"]) == ("private", 60_000)


async def test_settings_that_are_not_json_fail_the_request() -> None:
    app = app_with(Extension(GEO, settings=lambda ctx: {"bad": object()}))
    with pytest.raises(InternalError, match="failed to answer"):
        async with AsyncTestClient(app, revision=MODERN):
            pass


async def test_a_request_may_need_scopes() -> None:
    """Like an entry; its results are private."""
    geo = Extension(GEO)

    @geo.request("geo/admin", scopes=["geo:write"], cache_ttl=5)
    async def admin() -> None: ...

    app = app_with(geo, scope_hierarchy={"all": ["geo:write"]}, cache_scope="public")
    for scopes in (["geo:write"], ["all"]):
        async with AsyncTestClient(app, principal="ann", scopes=scopes, revision=MODERN) as client:
            assert (await client.request("geo/admin"))["cacheScope"] == "private"
    async with AsyncTestClient(app, principal="ann", scopes=["geo:read"]) as client:
        with pytest.raises(InvalidRequest, match="geo/admin needs the scopes geo:write"):
            await client.request("geo/admin")


# --- what runs around -----------------------------------------------------------------------------


async def test_middleware_hooks_and_dependencies_apply() -> None:
    """Hooks are inside the app's middleware, the first one outermost, and may replace a result."""
    seen: list[str] = []
    geo = Extension(GEO)

    def unit() -> str:
        return "km"

    @geo.request("geo/far")
    async def far(unit: Annotated[str, Depends(unit)]) -> dict[str, str]:
        return {"unit": unit}

    for name in ("first", "second"):

        @geo.around("tools/call", "tools/list")
        async def around(ctx: Context, call_next: CallNext, name: str = name) -> Any:
            seen.append(f"{name} {ctx.method}")
            found = await call_next()
            return ToolResult("replaced") if ctx.method == "tools/call" else found

    app = app_with(geo)

    @app.middleware
    async def middleware(ctx: Context, call_next: CallNext) -> Any:
        seen.append(f"app {ctx.method}")
        return await call_next()

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with AsyncTestClient(app) as client:
        seen.clear()
        assert (await client.request("geo/far"))["unit"] == "km"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "replaced"
        assert seen == ["app geo/far", "app tools/call", "first tools/call", "second tools/call"]


async def test_a_notification_may_have_any_members() -> None:
    """Also after a question, when another request carries them."""
    geo = Extension(GEO)
    app = app_with(geo)

    @app.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("On?", bool)
        geo.notify(ctx, "notifications/geo/said", {"level": 3, "progressToken": "mine"})
        return str(answer.data)

    heard: list[Any] = []
    async with AsyncTestClient(
        app,
        revision=MODERN,
        elicitation=lambda params: {"action": "accept", "content": {"value": True}},
        on_notification=lambda *each: heard.append(each),
    ) as client:
        assert (await client.call_tool("ask")).text == "True"
    assert heard == [("notifications/geo/said", {"level": 3, "progressToken": "mine"})]
