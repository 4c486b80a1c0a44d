"""What attackers try on a server that takes tokens; honest clients are served afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from mcpkit import Context, MCPKit
from mcpkit.auth import JWT
from tests.auth.forgeries import FORGED, WRONG, forged, wrong
from tests.auth.issuer import RESOURCE, Issuer, Key, issuing
from tests.messages import LEGACY, announced, called, initialize, request
from tests.transports.http.wire import TASKS, Exchange, Host, hosting

READ, WRITE = "notes:read", "notes:write"


class Ground:
    """A server, its users, and an attacker whose token permits little."""

    def __init__(self, host: Host, issuer: Issuer) -> None:
        self.issuer = issuer
        rsa = Key("rsa", "RS256")
        issuer.keys = [issuer.key.public, rsa.public]
        verifier = JWT(issuer=issuer.url, jwks_url=issuer.jwks_url, leeway=0)
        # The audience of tokens is its canonical form (AUTH-13).
        public_url = RESOURCE.upper().replace("/MCP", "/mcp/")
        self.site = host.serve(make_app(verifier), public_url=public_url, sse=True)
        self.token = issuer.token()
        self.ann = bearer(self.token)
        self.eve = bearer(issuer.token(sub="eve", scope=READ, client_id="evil"))

    def is_served(self, headers: dict[str, str]) -> bool:
        """Whether Ann is answered as she should be."""
        answer = self.site.ask("tools/call", headers, **called("who", {}))
        return answer.status == 200 and answer.text == f"{self.issuer.url}|ann"

    def with_token(self, token: str, tool: str = "who") -> Exchange:
        return self.site.ask("tools/call", bearer(token), **called(tool, {}))


class Attack(NamedTuple):
    """One way to get what one may not have, and its answer: the status, and then its errors."""

    name: str
    send: Callable[[Any], Any]
    answer: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


def register(table: list[Attack], name: str, *answer: Any) -> Callable[[Any], None]:
    """Write down a function as an attack, with the answer that it must get."""
    return lambda send: table.append(Attack(name, send, answer))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def make_app(auth: Any) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("notes", auth=auth, page_size=2)

    @app.tool
    async def who(ctx: Context) -> str:
        return str(ctx.principal)

    @app.tool(scopes=[WRITE])
    async def write() -> str:
        return "written"

    @app.tool(task="optional")
    async def work(of: str) -> str:
        return f"the work of {of}"

    return app


ATTACKS: Final[list[Attack]] = []
"""The answer of each: its status, the error of its challenge, and that of JSON-RPC."""

attack = partial(register, ATTACKS)
NOT_VALID: Final = (401, "invalid_token", -32600)
UNKNOWN: Final = (401, None, -32600)
NO_SCOPE: Final = (403, "insufficient_scope", -32600)
META: Final = "/.well-known/oauth-protected-resource"
WHO: Final = announced(1, "tools/call", **called("who", {}))

for way in WRONG:
    attack(f"a token that is wrong: {way}", *NOT_VALID)(
        lambda ground, way=way: ground.with_token(wrong(ground.issuer, way))
    )
for way in FORGED:
    attack(f"a token that is forged: {way}", *NOT_VALID)(
        lambda ground, way=way: ground.with_token(forged(ground.issuer)[way])
    )


attack("a token in a form", *UNKNOWN)(
    lambda ground: ground.site.post(
        f"access_token={ground.token}".encode(),
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
)
attack("a token in _meta", *UNKNOWN)(
    lambda ground: ground.site.ask(
        "tools/call", **called("who", {}), _meta={"access_token": "any", "a": 1}
    )
)
attack("a token in a cookie", *UNKNOWN)(
    lambda ground: ground.site.modern(
        WHO, {"Cookie": f"access_token={ground.token}; Authorization={ground.token}"}
    )
)
attack("a session id as a token", *NOT_VALID)(
    lambda ground: ground.with_token(ground.site.begin(headers=ground.ann).token)
)


def misled(ground: Ground, say: Callable[[str], Any]) -> Exchange:
    """The answer of a server whose issuer says something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ground.issuer, "answer", lambda seen: say(seen.path))
        auth = JWT(issuer=ground.issuer.url)
        site = ground.site.host.serve(make_app(auth), public_url=RESOURCE)
        answer = site.ask("tools/call", ground.ann, **called("who", {}))
        answer.finish()
    return answer


INSIDE: Final = (
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:10.0.0.1]/keys",
    "file:///etc/passwd",
    "https://user:password@login.example.com/keys",
    "https://login.example.com/keys\r\nX: evil",
    "gopher://127.0.0.1/evil",
)


@attack("metadata that leads to where keys are not", 503, None, -32603)
def _(ground: Ground) -> Exchange:
    for url in INSIDE:
        metadata = {"issuer": ground.issuer.url, "jwks_uri": url}
        answer = misled(ground, {"/.well-known/oauth-authorization-server": metadata}.get)
        assert answer.status == 503, url
    return answer


@attack("metadata of another issuer", 503, None, -32603)
def _(ground: Ground) -> Exchange:
    theirs = {"issuer": "https://evil.example.com", "jwks_uri": f"{ground.issuer.url}/evil"}
    return misled(ground, lambda path: theirs)


@attack("keys without an end", 503, None, -32603)
def _(ground: Ground) -> Exchange:
    many = {"keys": [*ground.issuer.keys, {"kty": "oct", "k": "a" * 2_000_000}]}
    metadata = {"issuer": ground.issuer.url, "jwks_uri": ground.issuer.jwks_url}
    return misled(ground, lambda path: many if path == "/keys" else metadata)


attack("a session of another user, without a token", *UNKNOWN)(
    lambda ground: ground.site.begin(headers=ground.ann).post(request(1, "ping"))
)
DECLINE: Final = {"inputResponses": {"a": {"action": "decline"}}}
for method, params in ("tasks/get", {}), ("tasks/cancel", {}), ("tasks/update", DECLINE):

    @attack(f"a task of another user: {method}", 200, None, -32602)
    def _(ground: Ground, method: str = method, params: Any = params) -> Exchange:
        call = called("work", {"of": "ann"})
        id = ground.site.ask("tools/call", ground.ann, **call, _meta=TASKS).result["taskId"]
        headers = {**ground.eve, "Mcp-Name": id}
        return ground.site.ask(method, headers, taskId=id, _meta=TASKS, **params)


CLAIMED: Final = {"X-Scope": "notes:write", "X-User": "ann", "X-Forwarded-User": "ann"}
attack("a scope that is claimed beside the token", *NO_SCOPE)(
    lambda ground: ground.site.ask(
        "tools/call",
        {**ground.eve, **CLAIMED},
        **called("write", {}),
        _meta={"scope": "notes:write", "io.modelcontextprotocol/clientInfo": {"name": "ann"}},
    )
)
OTHERWISE: Final = "NOTES:WRITE notes:write* notes:wri * notes:write,notes:read"
attack("a scope in other letters", *NO_SCOPE)(
    lambda ground: ground.with_token(ground.issuer.token(sub="eve", scope=OTHERWISE), "write")
)


@attack("the rest of a list that one may not see", 200, None, None)
def _(ground: Ground) -> Exchange:
    cursor = ground.site.ask("tools/list", ground.ann).result["nextCursor"]
    answer = ground.site.ask("tools/list", ground.eve, cursor=cursor)
    names = [each["name"] for each in answer.result["tools"]]
    assert "write" not in names
    return answer


@attack("a forbidden call in a batch", 200, None, None)
def _(ground: Ground) -> Exchange:
    talk = ground.site.begin("2025-03-26", headers=ground.eve)
    calls = [called(tool, {}) for tool in ("who", "write")]
    batch = [request(id, "tools/call", call) for id, call in enumerate(calls, 1)]
    answer = talk.post(batch, ground.eve)
    assert {each["id"]: "error" in each for each in answer.json} == {1: False, 2: True}
    return answer


@attack("another way to write the path", 404, None, -32600)
def _(ground: Ground) -> Exchange:
    base = ground.site.path
    for path in (*(base + end for end in ("/", "//", "/../mcp", "%2f", ";a")), base.upper()):
        answer = ground.site.post(initialize(), path=path)
        assert answer.status in (401, 404), path
    return ground.site.post(initialize(), path=f"{base}/x")


@attack("the endpoint of older clients", *UNKNOWN)
def _(ground: Ground) -> Exchange:
    base = ground.site.path.removesuffix("/mcp")
    assert ground.site.post(initialize("2024-11-05"), path=f"{base}/messages").status == 401
    return ground.site.get(path=f"{base}/sse")


PROXY: Final = {
    "X-Forwarded-Host": "evil.example.com",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Prefix": "/evil.example.com",
    "X-Original-URL": "https://evil.example.com/",
    "Forwarded": "host=evil.example.com;proto=https",
}
attack("headers of a proxy that is not there, to be named in the challenge", *UNKNOWN)(
    lambda ground: ground.site.modern(WHO, PROXY)
)


@attack("another host, to be named in the metadata", 200, None, None)
def _(ground: Ground) -> Exchange:
    headers = {"Host": "evil.example.com", "X-Forwarded-Host": "evil.example.com"}
    answer = ground.site.send("GET", headers, path=f"{META}{ground.site.path}")
    assert b"evil" not in answer.body
    return answer


@attack("a version without authorization", *UNKNOWN)
def _(ground: Ground) -> Exchange:
    for version in LEGACY:
        assert ground.site.post(initialize(version)).status == 401, version
    headers = {"MCP-Protocol-Version": "2024-11-05", "Mcp-Method": "tools/call"}
    return ground.site.post(request(1, "tools/call", called("who", {})), headers)


@pytest.fixture(scope="module")
def shared_ground() -> Iterator[Ground]:
    with issuing(Issuer) as issuer, hosting() as host:
        yield Ground(host, issuer)


@pytest.fixture
def ground(shared_ground: Ground) -> Iterator[Ground]:
    yield shared_ground
    shared_ground.site.host.close_all()


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attacks(ground: Ground, attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """AUTH-1, AUTH-6, AUTH-8, AUTH-9, AUTH-10, AUTH-12, AUTH-16, AUTH-17.

    SEC-1, SEC-5…9, SEC-13, SEC-16, SEC-18.
    """
    caplog.set_level("DEBUG")
    assert ground.is_served(ground.ann)
    answer = attack.send(ground)
    challenge = answer.header("www-authenticate") or ""
    error = re.search(r'error="(\w+)"', challenge)
    code = answer.code if re.match(rb'{.*"error"', answer.body) else None
    assert (answer.status, error and error[1], code) == attack.answer
    if answer.status == 401:
        assert f'resource_metadata="https://notes.example.com{META}/mcp"' in challenge
    assert "evil" not in challenge
    assert ground.issuer.at("/evil") == [], "nothing is fetched from where a token says"
    assert ground.token not in caplog.text
    assert ground.token not in str(ground.issuer.seen), "it is not passed on"
    assert ground.is_served(ground.ann)
