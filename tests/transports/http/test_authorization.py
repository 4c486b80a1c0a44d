"""The endpoint as a resource server: tokens, challenges, metadata, and what belongs to whom."""

from __future__ import annotations

import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcpkit import MCPKit, Principal
from mcpkit.auth import (
    AuthorizationServer,
    Keys,
    MemoryAuthStore,
    ResourceServer,
    User,
    Verifier,
    VerifierUnavailable,
    hash_key,
)
from tests.messages import LEGACY, MODERN, announced, called, initialize, notification, request
from tests.transports.http.conftest import Serve

META = "/.well-known/oauth-protected-resource"
HOUR = time.time() + 3600
TOKENS = {
    "ann-token": Principal("ann", frozenset({"read"}), HOUR),
    "ann-again": Principal("ann", frozenset({"read", "write"}), HOUR),
    "bob-token": Principal("bob"),
    "old-token": Principal("ann", expires_at=1),
}


class Known(Verifier):
    """Knows some tokens, and counts how often it is asked."""

    authorization_servers = ("https://login.example.com",)

    def __init__(self) -> None:
        self.asked = 0
        self.tokens = dict(TOKENS)

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        self.asked += 1
        if token == "away":
            raise VerifierUnavailable("The issuer is away")
        return self.tokens.get(token)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


ANN, ANN_AGAIN, BOB = map(bearer, ("ann-token", "ann-again", "bob-token"))


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY[-1], MODERN])
@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({}, 401, None),
        ({"Authorization": "Basic YTpi"}, 401, None),
        ({"Authorization": "Bearerann-token"}, 401, None),
        ({"Authorization": ""}, 401, None),
        ({"Authorization": "Bearer unknown"}, 401, "invalid_token"),
        ({"Authorization": "Bearer old-token"}, 401, "invalid_token"),
        ({"Authorization": "Bearer"}, 400, "invalid_request"),
        ({"Authorization": "Bearer "}, 400, "invalid_request"),
        ({"Authorization": "Bearer a b"}, 400, "invalid_request"),
        ({"Authorization": "Bearer ann-token,"}, 400, "invalid_request"),
        ({"Authorization": 'Bearer "ann-token"'}, 400, "invalid_request"),
        ({"Authorization": "Bearer ann-token\t"}, 200, None),
        ({"Authorization": b"Bearer ann-token\xe4"}, 400, "invalid_request"),
        ({"Authorization": f"Bearer {'a' * 20_000}"}, 400, "invalid_request"),
        ({"Authorization": ["Bearer ann-token", "Bearer bob-token"]}, 400, "invalid_request"),
        ({"Authorization": "Bearer ann-token"}, 200, None),
        ({"Authorization": "bearer  ann-token"}, 200, None),
    ],
    ids=lambda value: str(value)[:50],
)
def test_only_a_valid_token_is_accepted(
    serve: Serve, era: str, headers: Any, status: int, error: str | None
) -> None:
    """AUTH-1, AUTH-3, AUTH-12, SEC-4."""
    site = serve(auth=Known())
    message = initialize(era) if era in LEGACY else announced(1, "tools/list")
    send = site.post if era in LEGACY else site.modern
    answer = send(message, headers)
    assert answer.status == status
    if status == 200:
        return
    assert answer.code == -32600
    said = answer.challenge
    assert said.startswith("Bearer ")
    assert ("error=" in said) is (error is not None)
    if error:
        assert f'error="{error}"' in said
    assert f'resource_metadata="http://127.0.0.1:{site.host.port}{META}{site.path}"' in said


@pytest.mark.parametrize("verb", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_every_verb_needs_a_token(serve: Serve, verb: str) -> None:
    """AUTH-1, SEC-5."""
    assert serve(auth=Known()).send(verb, {}).status == 401


@pytest.mark.parametrize("query", ["access_token=ann-token", "a=b&access_token=ann-token"])
@pytest.mark.parametrize("headers", [{}, ANN], ids=["alone", "beside a header"])
def test_a_token_in_the_query_is_refused(serve: Serve, query: str, headers: Any) -> None:
    """AUTH-10."""
    site = serve(auth=Known())
    answer = site.post(initialize(LEGACY[-1]), headers, path=f"{site.path}?{query}")
    assert (answer.status, "invalid_request" in answer.challenge) == (400, True)
    assert b"ann-token" not in answer.body


def test_a_good_token_is_verified_once_and_a_bad_one_is_not_remembered(serve: Serve) -> None:
    """AUTH-1, SEC-17: a few are remembered, and none for longer than it is valid."""
    known = Known()
    site = serve(auth=known)

    def status(token: str) -> int:
        return site.ask("tools/list", bearer(token)).status

    asked = {"ann-token": 1, "bob-token": 2, "bad": 5}
    for token, count in asked.items():
        assert {status(token) for _ in range(3)} == {401 if token == "bad" else 200}
        assert known.asked == count
    known.tokens["bad"] = Principal("new")
    assert status("bad") == 200
    known.tokens["short"] = Principal("ann", expires_at=time.time() + 0.3)
    assert status("short") == 200
    time.sleep(0.31)
    assert status("short") == 401
    known.asked = 0
    site = serve(auth=ResourceServer(known, cache_size=1))
    assert [status(token) for token in ("ann-token", "bob-token", "ann-token")] == [200] * 3
    assert known.asked == 3


def test_several_verifiers_are_asked_in_turn(serve: Serve) -> None:
    """One that is away makes no token bad."""
    site = serve(auth=[Keys({hash_key("k" * 20): "me"}), Known()])
    for token, status in (("k" * 20, 200), ("ann-token", 200), ("unknown", 401)):
        assert site.ask("tools/list", bearer(token)).status == status
    answer = site.ask("tools/list", bearer("away"))
    assert (answer.status, answer.header("retry-after")) == (503, "5")
    assert answer.header("www-authenticate") is None


def test_tokens_and_failures_of_a_verifier_are_not_shown(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-13, AUTH-16."""

    def broken(token: str) -> None:
        raise RuntimeError("the password is swordfish")

    answer = serve(auth=broken).ask("tools/list", bearer("ann-token"))
    assert answer.status == 500
    assert b"swordfish" not in answer.body
    assert "ann-token" not in caplog.text
    caplog.set_level("DEBUG")
    site = serve(auth=Known())
    for token in ("ann-token", "unknown-token", "old-token", "mal formed-token"):
        site.ask("tools/list", bearer(token)).finish()
        assert token not in caplog.text


# --- scopes of all requests -----------------------------------------------------------------------


def test_scopes_that_all_need_are_in_every_challenge(serve: Serve) -> None:
    """AUTH-5, AUTH-6."""
    site = serve(auth=ResourceServer(Known(), required_scopes=["read", "write"]))
    for headers, status in (({}, 401), (ANN, 403)):
        answer = site.ask("tools/list", headers)
        assert answer.status == status
        assert 'scope="read write"' in answer.challenge
        assert ("insufficient_scope" in answer.challenge) is (status == 403)
    assert site.ask("tools/list", ANN_AGAIN).status == 200


# --- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ['a"b', "a, Bearer x=1", "a\\", "a b", "[::1", "a/b", "a@b", "", "a:b", b"\xe4"],
    ids=repr,
)
def test_a_malformed_host_is_not_in_the_challenge(serve: Serve, name: Any) -> None:
    """SEC-18."""
    site = serve(auth=Known(), allowed_hosts=["*"])
    answer = site.ask("tools/list", {"Host": name})
    if answer.status == 401:
        assert answer.challenge == "Bearer"
    else:
        assert answer.status == 400


# --- metadata -------------------------------------------------------------------------------------


def test_the_metadata_is_public(serve: Serve) -> None:
    """AUTH-2, AUTH-4, AUTH-14."""
    auth = ResourceServer(
        Known(), required_scopes=["read"], documentation="https://docs.example.com"
    )
    site = serve(auth=auth)
    answer = site.send("GET", {"Origin": "https://page.example.com"}, path=f"{META}{site.path}")
    assert answer.json == {
        "resource": f"http://127.0.0.1:{site.host.port}{site.path}",
        "authorization_servers": ["https://login.example.com"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["read"],
        "resource_name": site.app.server.info.name,
        "resource_documentation": "https://docs.example.com",
    }
    assert answer.header("access-control-allow-origin") == "*"
    assert answer.header("cache-control") == "no-store"
    preflight = site.send(
        "OPTIONS", {"Access-Control-Request-Method": "GET"}, path=f"{META}{site.path}"
    )
    assert (preflight.status, preflight.header("access-control-allow-methods")) == (204, "GET")
    assert preflight.header("access-control-allow-headers") == "*"
    head = site.send("HEAD", path=f"{META}{site.path}")
    assert (head.status, head.body) == (200, b"")
    assert site.send("POST", path=f"{META}{site.path}", body=b"").status == 405


@pytest.mark.parametrize("slash", ["", "/"])
def test_behind_a_proxy_it_names_the_public_url(serve: Serve, slash: str) -> None:
    """AUTH-2, AUTH-13."""
    site = serve(auth=Known(), public_url=f"https://Notes.example.com/api{slash}")
    answer = site.send("GET", path=f"{META}{site.path}")
    assert answer.json["resource"] == "https://notes.example.com/api"
    assert answer.header("cache-control") == "public, max-age=3600"
    said = site.ask("tools/list").challenge
    assert said == f'Bearer resource_metadata="https://notes.example.com{META}/api"'


def test_pages_may_read_the_challenge(serve: Serve) -> None:
    """AUTH-14."""
    origin = "https://app.example.com"
    site = serve(auth=Known(), cors=True, allowed_origins=[origin])
    answer = site.ask("tools/list", {"Origin": origin})
    assert answer.status == 401
    assert "WWW-Authenticate" in (answer.header("access-control-expose-headers") or "")


# --- what belongs to whom -------------------------------------------------------------------------


def test_a_stream_belongs_to_the_principal(serve: Serve) -> None:
    """AUTH-17, SEC-7."""
    site = serve(auth=Known())
    talk = site.begin(headers=ANN)
    call = called("leave", {"name": "owned"})
    first = talk.post(request(1, "tools/call", call), ANN).event()
    assert talk.get(first.id, BOB).status == 404
    assert talk.get(first.id).status == 401
    again = talk.get(first.id, ANN_AGAIN)
    assert again.status == 200
    site.stage.release("owned")
    assert again.messages()[-1]["id"] == 1


# --- the end of a token ---------------------------------------------------------------------------


def test_streams_end_with_the_token(serve: Serve) -> None:
    """AUTH-17: of changes, of a session, and of HTTP+SSE."""
    known, short = Known(), bearer("short")
    site = serve(auth=known, sse=True)
    known.tokens["short"] = Principal("ann", expires_at=time.time() + 0.5)
    talk = site.begin(headers=short)
    changes = site.ask("subscriptions/listen", short, notifications={"toolsListChanged": True})
    assert changes.message()["method"] == "notifications/subscriptions/acknowledged"
    streams = [talk.get(headers=short), site.get(short, path=site.beside("sse"))]
    assert [each.status for each in streams] == [200, 200]
    for each in streams:
        each.finish()
    assert [each["id"] for each in changes.messages()] == [1]
    assert talk.get(headers=short).status == 401
    assert talk.get(headers=ANN).status == 200
    assert talk.post(notification("notifications/initialized"), ANN).status == 202


# --- hosts ----------------------------------------------------------------------------------------


def test_the_metadata_are_found_by_the_challenge_and_where_clients_try_first() -> None:
    """AUTH-3, AUTH-4: as for an app with an authorization server of its own, wherever it is."""
    asgi = MCPKit("notes", auth=Known()).asgi(path="/notes/mcp")
    with TestClient(asgi, base_url="https://h.example.com") as client:
        answer = client.post("/notes/mcp", json=initialize(LEGACY[-1]))
        url = answer.headers["www-authenticate"].split('resource_metadata="')[1].rstrip('"')
        for each in (url, f"https://h.example.com{META}/notes/mcp", f"https://h.example.com{META}"):
            assert client.get(each).json()["resource"] == "https://h.example.com/notes/mcp"
        assert client.get(f"{META}/other").status_code == 404


def test_a_proxy_may_pass_on_the_paths_that_clients_know() -> None:
    """AUTH-4: of the resource, and of the issuer (RFC 8414, 3.1)."""
    server = AuthorizationServer(lambda visit: User("ada"), MemoryAuthStore())
    asgi = MCPKit("notes", auth=server).asgi(public_url="https://notes.example.com/api/mcp")
    path = "/.well-known/oauth-authorization-server"
    with TestClient(asgi) as client:
        found = client.get(f"{META}/api/mcp").json()
        assert found["resource"] == "https://notes.example.com/api/mcp"
        assert client.get(f"{path}/api").json()["issuer"] == "https://notes.example.com/api"
        for other in (f"{META}/api", f"{path}/other"):
            assert client.get(other).status_code == 404


def test_a_route_of_metadata_needs_an_authorization_server() -> None:
    with pytest.raises(ValueError, match="names no authorization server"):
        MCPKit("notes", auth=Keys({})).metadata_route("/notes/mcp")
    with pytest.raises(ValueError, match="apps with auth="):
        MCPKit("notes").metadata_route("/notes/mcp")
