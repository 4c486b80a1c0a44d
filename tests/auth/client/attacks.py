"""Attacks of servers, issuers and others on a client, each with the error in which it ends."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.auth.client.world import READ, RESOURCE, SERVER, World
from tests.auth.issuer import Reply, Seen

Prepare = Callable[[World, World], object]
"""Makes a world try it; the other one is the attacker's."""


class Attack(NamedTuple):
    name: str
    says: str
    prepare: Prepare
    logins: int = 0
    asks: int = 0

    def __str__(self) -> str:
        return self.name


ATTACKS: Final[list[Attack]] = []


def attack(*given: Any, **options: Any) -> None:
    ATTACKS.append(Attack(*given, **options))


def filled(value: Any, world: World, evil: World) -> Any:
    """Replace WORLD and EVIL in texts by the origins of the two, and HOST by that of the first."""
    text = json.dumps(value).replace("WORLD", "http://HOST").replace("EVIL", evil.origin)
    return json.loads(text.replace("HOST", world.origin.removeprefix("http://")))


def back(**changes: Any) -> Prepare:
    """Change what the browser comes back with."""
    return lambda world, evil: setattr(
        world, "back", lambda fields: {**fields, **filled(changes, world, evil)}
    )


def token(**changes: Any) -> Prepare:
    """Change what is said of a token."""
    return lambda world, evil: setattr(world, "told", lambda answer: {**answer, **changes})


def server(**changes: Any) -> Prepare:
    """Change the metadata of the server."""
    return lambda world, evil: world.resource.update(filled(changes, world, evil))


def issuer(**changes: Any) -> Prepare:
    """Change the metadata of its issuer."""
    return lambda world, evil: world.metadata.update(filled(changes, world, evil))


def answers(path: str, status: int, body: Any = b"", **headers: str) -> Prepare:
    """Answer requests for a path."""

    def prepare(world: World, evil: World) -> None:
        named = {name.replace("_", "-"): each for name, each in headers.items()}
        world.routes[path] = lambda _: Reply(status, body, filled(named, world, evil))

    return prepare


def challenged(challenge: str) -> Prepare:
    return lambda world, evil: setattr(world, "challenge", filled(challenge, world, evil))


ESCAPES: Final = {"error": "\x1b[31mevil", "error_description": "\x1b]0;title\x07\r\n\u202e"}
SHOWN: Final = r"^the login has failed: \]0;title \(\[31mevil\)$"
OTHER: Final = "from another issuer"
for name, says, prepare in (
    ("mix-up: another issuer answers", OTHER, back(iss="EVIL")),
    # RFC 9207, 2.4: names in answers are compared as they are
    ("mix-up: an issuer answers whose name has a slash more", OTHER, back(iss="WORLD/")),
    ("mix-up: no issuer is named, against the announcement", "RFC 9207", back(iss=None)),
    ("an error of another issuer", OTHER, back(code=None, error="access_denied", iss="EVIL")),
    ("neither code nor error", "no code", back(code=None)),
    ("an error with escape sequences", SHOWN, back(code=None, **ESCAPES)),
):
    attack(name, says, prepare, logins=1)

for title, value in {
    "another server": "EVIL/mcp",
    "another path": "WORLD/other",
    "a path that begins alike": "WORLD/mc",
    "a path below": "WORLD/mcp/below",
    "another port": "http://127.0.0.1:1/mcp",
    "another scheme": "https://HOST/mcp",
    "a host with a user": "http://evil@HOST/mcp",
    "a query": "WORLD/mcp?tenant=evil",
    "a fragment": "WORLD/mcp#evil",
    "not a URL": "http://[",
    "nothing": None,
    "a list": ["WORLD/mcp"],
}.items():
    attack(f"the server says that it is {title}", "says that it is", server(resource=value))

for title, (issuers, says) in {
    "none": ([], "names no issuer"),
    "not a list": ("EVIL", "names no issuer"),
    "a number": ([1], "names no issuer"),
    "a file": (["file:///etc/passwd"], "is not a URL"),
    "a host without encryption": (["http://evil.example.com"], "use https"),
    "a host with a user": (["https://me@evil.example.com"], "is not a URL"),
    "not a URL": (["http://["], "is not a URL"),
    "a query": (["WORLD?x=1"], "query or fragment"),
    "an impossible host": (["https://a..b"], "cannot connect|not answer"),
}.items():
    attack(f"the issuer of the server is {title}", says, server(authorization_servers=issuers))

NONE: Final = "no metadata|where there are none"
for name, says, url in (
    ("elsewhere without encryption", "use https", "http://evil.example.com/metadata"),
    ("in a file", "is not a URL", "file:///etc/passwd"),
    ("not there", NONE, "WORLD/nowhere"),
):
    attack(f"the metadata are {name}", says, challenged(f'Bearer resource_metadata="{url}"'))

attack("the metadata lead elsewhere", NONE, answers(f"{RESOURCE}/mcp", 302, location="EVIL/x"))
attack(
    "the metadata do not come",
    "did not answer",
    lambda world, evil: world.routes.update({f"{RESOURCE}/mcp": world.never}),
)

BOMB: Final = gzip.compress(b'{"a":"' + b"a" * 50_000_000 + b'"}')
for title, says, body, headers in (
    ("huge", "more than", {"a": "a" * 300_000}, {}),
    ("packed", "compressed", BOMB, {"content_encoding": "gzip"}),
    ("deep", NONE, b'{"a":' * 50_000, {}),
    ("not JSON", NONE, b"<html>", {}),
    ("not an object", NONE, b"[1]", {}),
    ("NaN", NONE, b'{"issuer": NaN}', {}),
):
    for whose, path in ("server", f"{RESOURCE}/mcp"), ("issuer", SERVER):
        prepare = answers(path, 200, body, **headers)
        attack(f"the metadata of the {whose} are {title}", says, prepare)

for owner in ("EVIL", "WORLD/tenant", "HTTP://HOST", None, 1):
    attack(f"the metadata of the issuer are of {owner}", "are those of", issuer(issuer=owner))

REFUSED: Final = "is not a URL|is not encrypted|no token endpoint|does not let clients register"
for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
    for url in (
        "http://evil.example.com/x",
        "http://localhost.evil.example.com/x",
        "javascript:alert(1)",
        "file:///bin/sh",
        "data:text/html,x",
        "zoom://join",
        "//evil.example.com/x",
        "https://evil.example.com/`id`",
        "https://evil.example.com/|id",
        'https://evil.example.com/"&id&"',
        "https://evil.example.com/ --option",
        "https://evil.example.com/\nid",
        "--option",
        "https://evil.example.com/\x1b[2J",
        "https://mcp@evil.example.com/",
    ):
        prepare, logins = issuer(**{endpoint: url}), int(endpoint == "token_endpoint")
        attack(f"the {endpoint} is {url!r}", REFUSED, prepare, logins=logins)

for known in (None, ["plain"], [], "S256", 256):
    prepare = issuer(code_challenge_methods_supported=known)
    attack(f"the issuer supports the PKCE methods {known!r}", "PKCE with S256", prepare)


def old_without_pkce(world: World, evil: World) -> None:
    del world.routes[f"{RESOURCE}/mcp"]
    world.challenge = "Bearer"
    world.metadata["code_challenge_methods_supported"] = ["plain"]


attack("an old server takes no PKCE with S256", "PKCE with S256", old_without_pkce)

ERROR: Final = {"error": "x", "error_description": "\x1b[2J\r\nSet-Cookie: a"}
for title, prepare in {
    "an error with escape sequences": answers("/register", 400, ERROR),
    "no id": answers("/register", 201, {"client_secret": "s"}),
    "an empty id": answers("/register", 201, {"client_id": ""}),
    "an id that is a list": answers("/register", 201, {"client_id": ["a"]}),
    "a redirect": answers("/register", 307, location="http://127.0.0.1:1/"),
    "no JSON": answers("/register", 201, b"client"),
}.items():
    attack(f"registering brings {title}", "does not register", prepare)


def echo(world: World, evil: World) -> None:
    def repeat(seen: Seen) -> Reply:
        error = f"wrong: {seen.form['code']} {seen.form['code_verifier']} \x1b[2J"
        return Reply(400, {"error": "invalid_grant", "error_description": error})

    world.routes["/token"] = repeat


NO_TOKENS: Final = ("a\r\nX-Evil: 1", "a b", "tökén", "", 5, ["a"], {"a": "b"}, None, "a\0b")
PROOFS: Final = f'DPoP resource_metadata="WORLD{RESOURCE}/mcp", algs="ES256"'
for name, says, prepare in (
    *(
        (f"the token is {each!a}", "without a token", token(access_token=each))
        for each in NO_TOKENS
    ),
    *(
        (f"the type of the token is {kind!r}", "of the type", token(token_type=kind))
        for kind in ("mac", ["Bearer"], None, "DPoP")
    ),
    ("a proof is wanted, and the token has none", "bind tokens to a key", challenged(PROOFS)),
    ("a token is elsewhere", "gives no token: 307", answers("/token", 307, location="EVIL/token")),
    ("an error repeats the code and the verifier", "invalid_grant", echo),
    ("an error is long", "no token: a+$", answers("/token", 400, {"error": "a" * 100_000})),
):
    attack(name, says, prepare, logins=1, asks=1)


def refusing(answer: Callable[[World], Reply]) -> Prepare:
    """Answer every request that has a token."""

    def prepare(world: World, evil: World) -> None:
        world.routes["/mcp"] = lambda seen: answer(world) if seen.token else world.refuse()

    return prepare


def not_renewed(world: World, evil: World) -> None:
    token(refresh_token=None)(world, evil)
    never_enough(world, evil)


def redirected(world: World, evil: World) -> None:
    refusing(lambda world: Reply(307, b"", {"Location": evil.url}))(world, evil)


MISSING: Final = "insufficient_scope"
never_enough: Final = refusing(lambda world: world.refuse(error="invalid_token"))
ever_more: Final = refusing(lambda world: world.refuse(403, MISSING, world.name("more")))
the_same: Final = refusing(lambda world: world.refuse(403, MISSING, READ))
unnamed: Final = refusing(
    lambda _: Reply(403, b"", {"WWW-Authenticate": f'Bearer error="{MISSING}"'})
)
for name, says, prepare, count in (
    ("no token is ever enough", "still rejects the token", not_renewed, 3),
    ("there is always one scope more", "still rejects the token", ever_more, 3),
    ("a scope is missing that was there", "answered 403", the_same, 1),
    ("a scope is missing, and the server does not say which", "answered 403", unnamed, 1),
    ("the server sends the token elsewhere", "which is not followed", redirected, 1),
):
    attack(name, says, prepare, logins=count, asks=count)

attack("no renewed token is ever enough", "answered 401", never_enough, logins=2, asks=4)
attack("the server refuses, and says no more", "answered 403", answers("/mcp", 403, b"no"))
