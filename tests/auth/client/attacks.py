"""Attacks of servers, issuers and others on a client, each with the error in which it ends."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.auth.client.world import READ, RESOURCE, SERVER, Reply, Seen, World

Prepare = Callable[[World, World], object]
"""Makes a world try it; the other one is the attacker's."""


class Attack(NamedTuple):
    """One of them."""

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


def back(world: World, **changes: str | None) -> None:
    world.back = lambda fields: {**fields, **changes}


def told(world: World, **members: Any) -> None:
    world.told = lambda answer: {**answer, **members}


def route(world: World, path: str, status: int, body: Any = b"", **headers: Any) -> None:
    world.routes[path] = lambda _: Reply(
        status, body, {name.replace("_", "-"): each for name, each in headers.items()}
    )


ESCAPES: Final = {"error": "\x1b[31mevil", "error_description": "\x1b]0;title\x07\r\n\u202e"}
OTHER: Final = "from another issuer"
prepare: Prepare

for name, says, prepare in (
    ("mix-up: another issuer answers", OTHER, lambda world, evil: back(world, iss=evil.origin)),
    (  # RFC 9207, 2.4: names in answers are compared as they are
        "mix-up: an issuer answers whose name has a slash more",
        OTHER,
        lambda world, evil: back(world, iss=f"{world.origin}/"),
    ),
    (
        "mix-up: the redirect does not name its issuer, as it was announced",
        "RFC 9207",
        lambda world, evil: back(world, iss=None),
    ),
    (
        "an error of another issuer",
        OTHER,
        lambda world, evil: back(world, code=None, error="access_denied", iss=evil.origin),
    ),
    ("neither code nor error", "no code", lambda world, evil: back(world, code=None)),
    (
        "an error with escape sequences",
        r"^the login has failed: \]0;title \(\[31mevil\)$",
        lambda world, evil: back(world, code=None, **ESCAPES),
    ),
):
    attack(name, says, prepare, logins=1)


def named(member: str, value: Callable[[World, World], Any]) -> Prepare:
    return lambda world, evil: world.resource.update({member: value(world, evil)})


for title, value in {
    "another server": lambda world, evil: evil.url,
    "another path": lambda world, evil: f"{world.origin}/other",
    "a path that begins alike": lambda world, evil: f"{world.origin}/mc",
    "a path below": lambda world, evil: f"{world.url}/below",
    "another port": lambda world, evil: "http://127.0.0.1:1/mcp",
    "another scheme": lambda world, evil: world.url.replace("http:", "https:"),
    "a host with a user": lambda world, evil: world.url.replace("//", "//evil@"),
    "a query": lambda world, evil: f"{world.url}?tenant=evil",
    "a fragment": lambda world, evil: f"{world.url}#evil",
    "not a URL": lambda world, evil: "http://[",
    "nothing": lambda world, evil: None,
    "a list": lambda world, evil: [world.url],
}.items():
    attack(f"the server says that it is {title}", "says that it is", named("resource", value))

for title, (value, says) in {
    "nobody": (lambda world, evil: [], "names no issuer"),
    "what is no list": (lambda world, evil: evil.origin, "names no issuer"),
    "numbers": (lambda world, evil: [1], "names no issuer"),
    "a file": (lambda world, evil: ["file:///etc/passwd"], "is not a URL"),
    "a host without encryption": (lambda world, evil: ["http://evil.example.com"], "use https"),
    "a host with a user": (lambda world, evil: ["https://me@evil.example.com"], "is not a URL"),
    "what is not a URL": (lambda world, evil: ["http://["], "is not a URL"),
    "a query": (lambda world, evil: [f"{world.origin}?x=1"], "query or fragment"),
    "a host that is no name": (lambda world, evil: ["https://a..b"], "cannot connect|not answer"),
}.items():
    attack(f"the server names as its issuer {title}", says, named("authorization_servers", value))


def challenged(url: str) -> Prepare:
    """Name a URL for the metadata."""

    def prepare(world: World, evil: World) -> None:
        world.challenge = f'Bearer resource_metadata="{url.replace("ORIGIN", world.origin)}"'

    return prepare


PLAIN: Final = "http://evil.example.com/metadata"
attack("the metadata are elsewhere without encryption", "use https", challenged(PLAIN))
attack("the metadata are in a file", "is not a URL", challenged("file:///etc/passwd"))
attack("the metadata are not there", "where there are none", challenged("ORIGIN/nowhere"))
attack(
    "the metadata lead elsewhere",
    "where there are none",
    lambda world, evil: route(world, f"{RESOURCE}/mcp", 302, location=f"{evil.origin}/x"),
)
attack(
    "the metadata do not come",
    "did not answer",
    lambda world, evil: world.routes.update({f"{RESOURCE}/mcp": world.never}),
)


def documents(path: str, *reply: Any, **headers: Any) -> Prepare:
    return lambda world, evil: route(world, path, *reply, **headers)


BOMB: Final = gzip.compress(b'{"a":"' + b"a" * 50_000_000 + b'"}')
NONE: Final = "no metadata|where there are none"
for title, says, body, headers in (
    ("huge", "more than", {"a": "a" * 300_000}, {}),
    ("packed", "compressed", BOMB, {"content_encoding": "gzip"}),
    ("deep", NONE, b'{"a":' * 50_000, {}),
    ("no JSON", NONE, b"<html>", {}),
    ("no object", NONE, b"[1]", {}),
    ("NaN", NONE, b'{"issuer": NaN}', {}),
):
    for whose, path in ("server", f"{RESOURCE}/mcp"), ("issuer", SERVER):
        prepare = documents(path, 200, body, **headers)
        attack(f"the metadata of the {whose} are {title}", says, prepare)


def of_issuer(name: str, value: Any) -> Prepare:
    return lambda world, evil: world.metadata.update(
        {name: value(world, evil) if callable(value) else value}
    )


for title, value in {
    "another": lambda world, evil: evil.origin,
    "one with a path": lambda world, evil: f"{world.origin}/tenant",
    "one in capitals": lambda world, evil: world.origin.upper(),
    "none": lambda world, evil: None,
    "a number": lambda world, evil: 1,
}.items():
    attack(f"the metadata of the issuer are of {title}", "are those of", of_issuer("issuer", value))

for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
    for title, url in {
        "without encryption": "http://evil.example.com/x",
        "without encryption, and looks local": "http://localhost.evil.example.com/x",
        "of a script": "javascript:alert(1)",
        "of a file": "file:///bin/sh",
        "of data": "data:text/html,x",
        "of another program": "zoom://join",
        "of a network share": "//evil.example.com/x",
        "with a command": "https://evil.example.com/`id`",
        "with a pipe": "https://evil.example.com/|id",
        "with a quotation mark": 'https://evil.example.com/"&id&"',
        "with a blank": "https://evil.example.com/ --option",
        "with a line break": "https://evil.example.com/\nid",
        "that is an option": "--option",
        "with escape sequences": "https://evil.example.com/\x1b[2J",
        "with a user": "https://mcp@evil.example.com/",
    }.items():
        attack(
            f"the {endpoint} has an address {title}",
            "is not a URL|is not encrypted|no token endpoint|does not let clients register",
            of_issuer(endpoint, url),
            logins=int(endpoint == "token_endpoint"),
        )

for known in (None, ["plain"], [], "S256", 256):
    prepare = of_issuer("code_challenge_methods_supported", known)
    attack(f"the issuer supports the PKCE methods {known!r}", "PKCE with S256", prepare)


def old_without_pkce(world: World, evil: World) -> None:
    del world.routes[f"{RESOURCE}/mcp"]
    world.challenge = "Bearer"
    world.metadata["code_challenge_methods_supported"] = ["plain"]


attack("an old server takes no PKCE with S256", "PKCE with S256", old_without_pkce)

ERROR: Final = {"error": "x", "error_description": "\x1b[2J\r\nSet-Cookie: a"}
for title, prepare in {
    "an error with escape sequences": documents("/register", 400, ERROR),
    "no id": documents("/register", 201, {"client_secret": "s"}),
    "an empty id": documents("/register", 201, {"client_id": ""}),
    "an id that is a list": documents("/register", 201, {"client_id": ["a"]}),
    "the way elsewhere": documents("/register", 307, location="http://127.0.0.1:1/"),
    "what is no JSON": documents("/register", 201, b"client"),
}.items():
    attack(f"registering brings {title}", "does not register", prepare)


def said(**members: Any) -> Prepare:
    return lambda world, evil: told(world, **members)


def echo(world: World, evil: World) -> None:
    def token(seen: Seen) -> Reply:
        said = f"wrong: {seen.form['code']} {seen.form['code_verifier']} \x1b[2J"
        return Reply(400, {"error": "invalid_grant", "error_description": said})

    world.routes["/token"] = token


def downgraded(world: World, evil: World) -> None:
    world.challenge = f'DPoP resource_metadata="{world.origin}{RESOURCE}/mcp", algs="ES256"'


NO_TOKENS: Final = ("a\r\nX-Evil: 1", "a b", "tökén", "", 5, ["a"], {"a": "b"}, None, "a\0b")
for name, says, prepare in (
    *(
        (f"the token is {token!a}", "without a token", said(access_token=token))
        for token in NO_TOKENS
    ),
    *(
        (f"the type of the token is {kind!r}", "of the type", said(token_type=kind))
        for kind in ("mac", ["Bearer"], None, "DPoP")
    ),
    ("a proof is wanted, and the token has none", "bind tokens to a key", downgraded),
    (
        "asking for a token leads elsewhere",
        "gives no token: 307",
        lambda world, evil: route(world, "/token", 307, location=f"{evil.origin}/token"),
    ),
    ("an error repeats the code and the verifier", "invalid_grant", echo),
    ("an error is long", "no token: a+$", documents("/token", 400, {"error": "a" * 100_000})),
):
    attack(name, says, prepare, logins=1, asks=1)


def refusing(answer: Callable[[World, World], Reply]) -> Prepare:
    """Answer every request that has a token."""

    def prepare(world: World, evil: World) -> None:
        world.routes["/mcp"] = lambda seen: answer(world, evil) if seen.token else world.refuse()

    return prepare


never_enough: Final = refusing(lambda world, evil: world.refuse(error="invalid_token"))


def not_renewed(world: World, evil: World) -> None:
    told(world, refresh_token=None)
    never_enough(world, evil)


NO_SCOPE: Final = {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}
for name, says, prepare, count in (
    ("no token is ever enough", "still rejects the token", not_renewed, 3),
    (
        "there is always one scope more",
        "still rejects the token",
        refusing(lambda world, evil: world.refuse(403, "insufficient_scope", world.name("more"))),
        3,
    ),
    (
        "a scope is missing that was there",
        "answered 403",
        refusing(lambda world, evil: world.refuse(403, "insufficient_scope", READ)),
        1,
    ),
    (
        "a scope is missing, and the server does not say which",
        "answered 403",
        refusing(lambda world, evil: Reply(403, b"", NO_SCOPE)),
        1,
    ),
    (
        "the server sends the token elsewhere",
        "which is not followed",
        refusing(lambda world, evil: Reply(307, b"", {"Location": evil.url})),
        1,
    ),
):
    attack(name, says, prepare, logins=count, asks=count)

attack("no renewed token is ever enough", "answered 401", never_enough, logins=2, asks=4)
attack("the server refuses, and says no more", "answered 403", documents("/mcp", 403, b"no"))
