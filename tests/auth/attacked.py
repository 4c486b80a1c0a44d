"""What is attacked, and how an attack is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mcpkit import Context, MCPKit
from mcpkit.auth import JWT, Keys, hash_key
from tests.auth.issuer import RESOURCE, Issuer, Key
from tests.messages import called
from tests.transports.http.wire import Exchange, Host, Stage

READ, WRITE = "notes:read", "notes:write"
KEY: Final = "the-key-of-a-program"


class Ground:
    """A server, its users, and somebody who has a token that is good for little."""

    def __init__(self, host: Host, issuer: Issuer) -> None:
        self.issuer = issuer
        self.stage = Stage()
        rsa = Key("rsa", "RS256")
        issuer.keys = [issuer.key.public, rsa.public]
        verifier = JWT(issuer=issuer.url, jwks_url=issuer.jwks_url, leeway=0)
        app = make_app(self.stage, [verifier, Keys({hash_key(KEY): "program"})])
        self.site = host.serve(app, self.stage, public_url=RESOURCE, sse=True)
        self.ann = bearer(issuer.token())
        self.eve = bearer(issuer.token(sub="eve", scope=READ, client_id="evil"))

    def is_served(self, headers: dict[str, str]) -> bool:
        """Whether somebody is answered as they should be."""
        answer = self.site.ask("tools/call", headers, **called("who", {}))
        return answer.status == 200 and answer.text == f"{self.issuer.url}|ann"

    def with_token(self, token: str) -> Exchange:
        return self.site.ask("tools/call", bearer(token), **called("who", {}))

    def call(self, headers: dict[str, str], tool: str, **arguments: Any) -> Exchange:
        return self.site.ask("tools/call", headers, **called(tool, arguments))


class Attack(NamedTuple):
    """One way to get what one may not have, and its answer: the status, and then its errors."""

    name: str
    send: Callable[[Any], Any]
    answer: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


def register(table: dict[str, Attack], name: str, *answer: Any) -> Callable[[Any], Any]:
    """Write down a function as an attack, with the answer that it must get."""

    def decorate(send: Any) -> Any:
        assert name not in table, name
        table[name] = Attack(name, send, answer)
        return send

    return decorate


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def make_app(stage: Stage, auth: Any) -> MCPKit[None]:
    """A server of notes, with something of everything that belongs to somebody."""
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

    @app.tool
    async def leave(name: str, ctx: Context) -> str:
        """Close the stream, and wait until the test lets it go on."""
        ctx.close_stream()
        await stage.wait(name)
        return "gone on"

    @app.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("What?", str, key="what")
        return str(answer.accepted)

    return app
