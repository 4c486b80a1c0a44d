"""Principals: how the caller of a request is found, and what belongs to it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import anyio
import pytest
from starlette.exceptions import HTTPException

from mcpkit import Context, HttpRequest, MCPKit, Principal, SyncContext
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit.errors import AccessDenied
from mcpkit.testing import TestClient
from tests.messages import LEGACY, MODERN, announced, called, initialize, request
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, Host, OldTalk, Site

KEYS = {
    "k-ann": Principal("ann", frozenset({"read", "write"}), claims={"team": "a"}),
    "k-ann-2": Principal("ann", frozenset({"read"})),
    "k-bob": Principal("bob"),
    "k-old": Principal("old", expires_at=1),
}
ANN, ANN_AGAIN, BOB = ({"X-Key": key} for key in ("k-ann", "k-ann-2", "k-bob"))


def by_key(http: HttpRequest) -> Principal | None:
    return KEYS.get(http.headers.get("x-key", ""))


def make_app() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("known")

    def facts(principal: Principal | None) -> dict[str, Any]:
        if principal is None:
            return {}
        return {
            "id": principal.id,
            "scopes": sorted(principal.scopes),
            "expires_at": principal.expires_at,
            "claims": dict(principal.claims),
        }

    @app.tool
    async def who(ctx: Context) -> dict[str, Any]:
        if ctx.http is not None:
            assert ctx.http.principal is ctx.principal
        return facts(ctx.principal)

    @app.tool
    def who_in_thread(ctx: SyncContext) -> dict[str, Any]:
        return facts(ctx.principal)

    return app


def who(site: Site, headers: dict[str, str], tool: str = "who") -> Any:
    answer = site.ask("tools/call", headers, **called(tool, {}))
    return answer.result["structuredContent"]


# --- what handlers see ----------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["who", "who_in_thread"])
def test_a_handler_sees_the_principal(host: Host, tool: str) -> None:
    """Which does not exist without HTTP."""
    site = host.serve(make_app(), principal=by_key)
    seen = {"id": "ann", "scopes": ["read", "write"], "expires_at": None, "claims": {"team": "a"}}
    assert who(site, ANN, tool) == seen
    assert who(site, {}, tool) == {}
    with TestClient(make_app()) as client:
        assert client.call_tool(tool).structured_content == {}


def failing(http: HttpRequest) -> None:
    raise RuntimeError("the password is swordfish")


@pytest.mark.parametrize(
    "find", [lambda http: 7, lambda http: b"swordfish", lambda http: ["swordfish"], failing]
)
def test_what_is_no_principal_is_a_fault_and_says_nothing(host: Host, find: Any) -> None:
    """SEC-13."""
    answer = host.serve(make_app(), principal=find).ask("tools/call", **called("who", {}))
    assert answer.status == 500
    assert b"swordfish" not in answer.body


def test_a_principal_does_not_change_and_does_not_show_claims() -> None:
    """SEC-13."""
    one = Principal("ann", claims={"token": "s3cret"})
    with pytest.raises(FrozenInstanceError):
        one.id = "bob"  # type: ignore[misc]
    assert "s3cret" not in repr(one)
    assert str(one) == "ann"
    assert {one: 1}[Principal("ann", claims={"token": "s3cret"})] == 1


# --- what may refuse ------------------------------------------------------------------------------


def refusing(http: HttpRequest) -> Principal | None:
    if "x-user" not in http.headers:
        raise AccessDenied("Log in first", status=401, challenge='Bearer realm="books"')
    if http.headers["x-user"] != "ann":
        raise AccessDenied("Only Ann may")
    return Principal("ann")


async def refusing_later(http: HttpRequest) -> Principal | None:
    await anyio.sleep(0)
    return refusing(http)


def as_frameworks_do(http: HttpRequest) -> Principal | None:
    try:
        return refusing(http)
    except AccessDenied as error:
        headers = {"WWW-Authenticate": error.challenge} if error.challenge else None
        raise HTTPException(error.status, str(error), headers) from None


@pytest.mark.parametrize(
    "find", [refusing, refusing_later, lambda http: refusing_later(http), as_frameworks_do]
)
def test_it_may_refuse(host: Host, find: Any) -> None:
    """With a challenge that says how to log in (RFC 9110, 11.6.1)."""
    site = host.serve(make_app(), principal=find)  # a lambda turns out to return an awaitable
    assert who(site, {"X-User": "ann"})["id"] == "ann"
    answer = site.ask("tools/call", {"X-User": "bob"}, **called("who", {}))
    assert (answer.status, answer.error) == (403, "Only Ann may")
    assert answer.header("www-authenticate") is None
    for _ in range(2):
        answer = site.ask("tools/call", **called("who", {}))
        assert (answer.status, answer.error) == (401, "Log in first")
        assert answer.header("www-authenticate") == 'Bearer realm="books"'
    assert site.send("GET", {}, b"").status == 401
    assert site.send("DELETE", {}, b"").status == 401


def test_a_refusal_is_401_or_403() -> None:
    with pytest.raises(ValueError, match="401 or 403, not 404"):
        AccessDenied(status=404)  # type: ignore[arg-type]


# --- what belongs to them -------------------------------------------------------------------------


@pytest.mark.parametrize("in_use", [False, True], ids=["unused", "in use"])
def test_a_session_belongs_to_the_principals_id_alone(serve: Serve, in_use: bool) -> None:
    """SEC-5, SEC-6, SEC-7: a token that is renewed may say something else."""
    site = serve(principal=by_key)
    talk = site.begin(headers=ANN)
    if in_use:
        assert talk.get(headers=ANN).status == 200
    for verb in ("GET", "DELETE"):
        assert site.send(verb, {**talk.headers, **BOB, "Accept": EVENTS}).status == 404
    assert talk.post(request(1, "ping"), ANN_AGAIN).status == 200
    assert talk.post(request(2, "ping"), BOB).status == 404
    assert talk.post(request(3, "ping")).status == 404


def test_an_address_of_http_sse_belongs_to_an_id(serve: Serve) -> None:
    """SSE-6, SEC-6."""
    old = OldTalk(serve(principal=by_key, sse=True), ANN)
    assert old.post(initialize("2024-11-05"), BOB).status == 404
    assert old.post(initialize("2024-11-05"), ANN_AGAIN).status == 202
    assert old.next()["result"]["protocolVersion"] == "2024-11-05"


def test_a_state_belongs_to_an_id(serve: Serve) -> None:
    """MRTR-5, MRTR-6, MRTR-7, SEC-8."""
    site = serve(principal=by_key)
    call = {**called("users", {}), "_meta": {CAPABILITIES_KEY: {"elicitation": {}}}}
    asked = site.ask("tools/call", ANN, **call).result
    answer = {"action": "accept", "content": {"value": "yes"}}
    call["requestState"] = asked["requestState"]
    call["inputResponses"] = dict.fromkeys(asked["inputRequests"], answer)
    assert site.ask("tools/call", BOB, **call).code == -32602
    assert site.ask("tools/call", ANN_AGAIN, **call).result["resultType"] == "input_required"


# --- the end of an authentication -----------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY[-1], MODERN])
def test_an_expired_principal_is_refused_with_401(serve: Serve, era: str) -> None:
    """SEC-5."""
    site = serve(principal=by_key)
    message = initialize(era) if era in LEGACY else announced(1, "tools/call", **called("who", {}))
    answer = site.post(message, {"X-Key": "k-old"})
    assert answer.refusal == (401, -32600)
    assert answer.header("www-authenticate") == 'Bearer error="invalid_token"'
    assert "expired" in answer.error
