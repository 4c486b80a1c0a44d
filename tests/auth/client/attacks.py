"""What servers, issuers and whoever stands between try on a client, each with how it ends."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.auth.client.world import READ, RESOURCE, SERVER, Reply, Seen, World

Prepare = Callable[[World, World], None]


class Attack(NamedTuple):
    """One of them.

    Args:
        name: What is tried.
        prepare: Makes a world try it; the other one is the attacker's.
        says: The error, as a regular expression.
        logins: How often the user is sent somewhere.
        asks: How often a token is asked for.
        timeout: Seconds that the user has.
    """

    name: str
    prepare: Prepare
    says: str
    logins: int
    asks: int
    timeout: float

    def __str__(self) -> str:
        return self.name


ATTACKS: Final[dict[str, Attack]] = {}


def attack(
    name: str, says: str, *, logins: int = 0, asks: int = 0, timeout: float = 20
) -> Callable[[Prepare], Prepare]:
    """Register what is tried."""

    def register(prepare: Prepare) -> Prepare:
        assert name not in ATTACKS
        ATTACKS[name] = Attack(name, prepare, says, logins, asks, timeout)
        return prepare

    return register


# --- what the browser comes back with -------------------------------------------------------------


@attack("mix-up: another issuer answers", "from another issuer", logins=1)
def mix_up(world: World, evil: World) -> None:
    world.back = lambda fields: {**fields, "iss": evil.origin}


@attack("mix-up: an issuer that looks alike answers", "from another issuer", logins=1)
def looks_alike(world: World, evil: World) -> None:
    world.back = lambda fields: {**fields, "iss": f"{world.origin}/tenant"}


@attack("mix-up: an issuer answers whose name has a slash more", "from another issuer", logins=1)
def slash_more(world: World, evil: World) -> None:
    """RFC 9207, 2.4: names in answers are compared as they are."""
    world.back = lambda fields: {**fields, "iss": f"{world.origin}/"}


@attack("mix-up: nobody says who answers, though it was announced", "RFC 9207", logins=1)
def unnamed(world: World, evil: World) -> None:
    world.back = lambda fields: {name: fields[name] for name in ("code", "state")}


@attack("an error of another issuer", "from another issuer", logins=1)
def error_of_another(world: World, evil: World) -> None:
    world.back = lambda fields: {
        "error": "access_denied",
        "state": fields["state"],
        "iss": evil.origin,
    }


@attack("the state of somebody else", "no login within", logins=1, timeout=0.2)
def wrong_state(world: World, evil: World) -> None:
    world.back = lambda fields: {**fields, "state": "s" * len(fields["state"])}


@attack("no state", "no login within", logins=1, timeout=0.2)
def no_state(world: World, evil: World) -> None:
    world.back = lambda fields: {"code": fields["code"], "iss": fields["iss"]}


@attack("an error without state", "no login within", logins=1, timeout=0.2)
def error_without_state(world: World, evil: World) -> None:
    world.back = lambda fields: {"error": "access_denied", "iss": fields["iss"]}


def twice(name: str) -> Prepare:
    """Parameters of which one is there twice."""

    def prepare(world: World, evil: World) -> None:
        def back(fields: dict[str, str]) -> str:
            pairs = [*fields.items(), (name, "other")]
            return "&".join(f"{key}={value}" for key, value in pairs)

        world.back = back

    return prepare


for each in ("code", "state", "iss"):
    attack(f"{each} is there twice", "no login within", logins=1, timeout=0.2)(twice(each))


@attack("neither code nor error", "no code", logins=1)
def no_code(world: World, evil: World) -> None:
    world.back = lambda fields: {"state": fields["state"], "iss": fields["iss"]}


@attack(
    "an error with escape sequences", r"^the login has failed: \]0;title \(\[31mevil\)$", logins=1
)
def error_with_escapes(world: World, evil: World) -> None:
    world.back = lambda fields: {
        "error": "\x1b[31mevil",
        "error_description": "\x1b]0;title\x07\r\n\u202e",
        "state": fields["state"],
        "iss": fields["iss"],
    }


# --- metadata of the server -----------------------------------------------------------------------


def named(value: Callable[[World, World], Any]) -> Prepare:
    def prepare(world: World, evil: World) -> None:
        world.resource["resource"] = value(world, evil)

    return prepare


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
    attack(f"the server says that it is {title}", "says that it is")(named(value))


def issuers(value: Callable[[World, World], Any]) -> Prepare:
    def prepare(world: World, evil: World) -> None:
        world.resource["authorization_servers"] = value(world, evil)

    return prepare


for title, (value, says) in {
    "nobody": (lambda world, evil: [], "names no issuer"),
    "what is no list": (lambda world, evil: evil.origin, "names no issuer"),
    "numbers": (lambda world, evil: [1], "names no issuer"),
    "a file": (lambda world, evil: ["file:///etc/passwd"], "is not a URL"),
    "a host without encryption": (lambda world, evil: ["http://evil.example.com"], "use https"),
    "a host with a user": (lambda world, evil: ["https://me@evil.example.com"], "is not a URL"),
    "what is not a URL": (lambda world, evil: ["http://["], "is not a URL"),
    "a query": (lambda world, evil: [f"{world.origin}?x=1"], "query or fragment"),
    "a host that is no name": (
        lambda world, evil: ["https://a..b"],
        "cannot connect to|did not answer",
    ),
}.items():
    attack(f"the server names as its issuer {title}", says)(issuers(value))


@attack("the metadata are elsewhere without encryption", "use https")
def metadata_elsewhere(world: World, evil: World) -> None:
    world.challenge = 'Bearer resource_metadata="http://evil.example.com/metadata"'


@attack("the metadata are in a file", "is not a URL")
def metadata_in_a_file(world: World, evil: World) -> None:
    world.challenge = 'Bearer resource_metadata="file:///etc/passwd"'


@attack("the metadata that were named are not there", "where there are none")
def metadata_missing(world: World, evil: World) -> None:
    world.challenge = f'Bearer resource_metadata="{world.origin}/nowhere"'


@attack("the metadata lead elsewhere", "where there are none")
def metadata_redirected(world: World, evil: World) -> None:
    leading = Reply(302, b"", {"Location": f"{evil.origin}{RESOURCE}/mcp"})
    world.routes[f"{RESOURCE}/mcp"] = lambda _: leading


def documents(path: str, reply: Reply) -> Prepare:
    def prepare(world: World, evil: World) -> None:
        world.routes[path] = lambda _: reply

    return prepare


BOMB: Final = gzip.compress(b'{"a":"' + b"a" * 50_000_000 + b'"}')
for title, (reply, says) in {
    "huge": (Reply(200, {"a": "a" * 300_000}), "more than"),
    "packed": (Reply(200, BOMB, {"Content-Encoding": "gzip"}), "compressed"),
    "deep": (Reply(200, b'{"a":' * 50_000), "no metadata|where there are none"),
    "no JSON": (Reply(200, b"<html>"), "no metadata|where there are none"),
    "no object": (Reply(200, b"[1]"), "no metadata|where there are none"),
    "NaN": (Reply(200, b'{"issuer": NaN}'), "no metadata|where there are none"),
}.items():
    attack(f"the metadata of the server are {title}", says)(documents(f"{RESOURCE}/mcp", reply))
    attack(f"the metadata of the issuer are {title}", says)(documents(SERVER, reply))


@attack("the metadata do not come", "did not answer")
def slow(world: World, evil: World) -> None:
    world.routes[f"{RESOURCE}/mcp"] = world.never


# --- metadata of the issuer -----------------------------------------------------------------------


def same(value: Any) -> Callable[[World, World], Any]:
    """The same, whichever world it is."""
    return lambda world, evil: value


def of_issuer(name: str, value: Callable[[World, World], Any]) -> Prepare:
    def prepare(world: World, evil: World) -> None:
        world.metadata[name] = value(world, evil)

    return prepare


for title, value in {
    "another": lambda world, evil: evil.origin,
    "one with a path": lambda world, evil: f"{world.origin}/tenant",
    "one in capitals": lambda world, evil: world.origin.upper(),
    "none": lambda world, evil: None,
    "a number": lambda world, evil: 1,
}.items():
    attack(f"the metadata of the issuer are of {title}", "are those of")(of_issuer("issuer", value))

for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
    is_late = endpoint == "token_endpoint"
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
            logins=int(is_late),
        )(of_issuer(endpoint, same(url)))

for title, known in {
    "nothing": None,
    "plain": ["plain"],
    "none": [],
    "a text": "S256",
    "a number": 256,
}.items():
    attack(f"the issuer knows {title} of PKCE", "PKCE with S256")(
        of_issuer("code_challenge_methods_supported", same(known))
    )


@attack("an old server takes no PKCE with S256", "PKCE with S256")
def old_without_pkce(world: World, evil: World) -> None:
    del world.routes[f"{RESOURCE}/mcp"]
    world.challenge = "Bearer"
    world.metadata["code_challenge_methods_supported"] = ["plain"]


# --- registration ---------------------------------------------------------------------------------

for title, reply in {
    "an error with escape sequences": Reply(
        400, {"error": "x", "error_description": "\x1b[2J\r\nSet-Cookie: a"}
    ),
    "no id": Reply(201, {"client_secret": "s"}),
    "an empty id": Reply(201, {"client_id": ""}),
    "an id that is a list": Reply(201, {"client_id": ["a"]}),
    "the way elsewhere": Reply(307, b"", {"Location": "http://127.0.0.1:1/"}),
    "what is no JSON": Reply(201, b"client"),
}.items():
    attack(f"registering brings {title}", "does not register")(documents("/register", reply))

# --- tokens ---------------------------------------------------------------------------------------


def said(**members: Any) -> Prepare:
    def prepare(world: World, evil: World) -> None:
        world.told = lambda answer: {**answer, **members}

    return prepare


for title, token in {
    "a line break": "a\r\nX-Evil: 1",
    "a blank": "a b",
    "letters that no header has": "tökén",
    "nothing in it": "",
    "a number": 5,
    "a list": ["a"],
    "an object": {"a": "b"},
    "nothing": None,
    "a null byte": "a\0b",
}.items():
    attack(f"the token is, or has, {title}", "without a token", logins=1, asks=1)(
        said(access_token=token)
    )

for title, kind in {"another kind": "mac", "a list": ["Bearer"], "nothing": None}.items():
    attack(f"the kind of the token is {title}", "of the type", logins=1, asks=1)(
        said(token_type=kind)
    )


@attack("the token is bound to a key that nobody has", "of the type", logins=1, asks=1)
def bound(world: World, evil: World) -> None:
    world.told = lambda answer: {**answer, "token_type": "DPoP"}


@attack("a proof is wanted, and the token has none", "bind tokens to a key", logins=1, asks=1)
def downgraded(world: World, evil: World) -> None:
    world.challenge = f'DPoP resource_metadata="{world.origin}{RESOURCE}/mcp", algs="ES256"'


@attack("asking for a token leads elsewhere", "gives no token: 307", logins=1, asks=1)
def token_elsewhere(world: World, evil: World) -> None:
    world.routes["/token"] = lambda _: Reply(307, b"", {"Location": f"{evil.origin}/token"})


@attack("an error repeats the code and the verifier", "invalid_grant", logins=1, asks=1)
def echo(world: World, evil: World) -> None:
    def token(seen: Seen) -> Reply:
        said = f"wrong: {seen.form['code']} {seen.form['code_verifier']} \x1b[2J"
        return Reply(400, {"error": "invalid_grant", "error_description": said})

    world.routes["/token"] = token


@attack("an error is long", "gives no token: a+$", logins=1, asks=1)
def long_error(world: World, evil: World) -> None:
    world.routes["/token"] = lambda _: Reply(400, {"error": "a" * 100_000})


# --- endless rounds -------------------------------------------------------------------------------


@attack("no token is ever enough", "still rejects the token", logins=3, asks=3)
def never_enough(world: World, evil: World) -> None:
    def tell(answer: dict[str, Any]) -> dict[str, Any]:
        return {name: each for name, each in answer.items() if name != "refresh_token"}

    world.told = tell
    world.routes["/mcp"] = lambda seen: world.refuse(error="invalid_token")


@attack("no renewed token is ever enough", "answered 401", logins=2, asks=4)
def never_enough_renewed(world: World, evil: World) -> None:
    world.routes["/mcp"] = lambda seen: world.refuse(error="invalid_token")


@attack("there is always one scope more", "still rejects the token", logins=3, asks=3)
def one_more(world: World, evil: World) -> None:
    numbers = itertools.count()

    def serve(seen: Seen) -> Reply:
        if not seen.token:
            return world.refuse()
        return world.refuse(403, "insufficient_scope", f"more-{next(numbers)}")

    world.routes["/mcp"] = serve


@attack("a scope is missing that was there", "answered 403", logins=1, asks=1)
def same_scope(world: World, evil: World) -> None:
    def serve(seen: Seen) -> Reply:
        return world.refuse(403, "insufficient_scope", READ) if seen.token else world.refuse()

    world.routes["/mcp"] = serve


@attack("a scope is missing, and nobody says which", "answered 403", logins=1, asks=1)
def no_scope(world: World, evil: World) -> None:
    def serve(seen: Seen) -> Reply:
        if not seen.token:
            return world.refuse()
        return Reply(403, b"", {"WWW-Authenticate": 'Bearer error="insufficient_scope"'})

    world.routes["/mcp"] = serve


@attack("the server refuses, and says no more", "answered 403")
def forbidden(world: World, evil: World) -> None:
    world.routes["/mcp"] = lambda seen: Reply(403, b"no")


@attack("the server repeats the token that it refuses", "answered 403", logins=1, asks=1)
def repeats(world: World, evil: World) -> None:
    def serve(seen: Seen) -> Reply:
        if not seen.token:
            return world.refuse()
        return Reply(403, f"{seen.token} is not enough".encode())

    world.routes["/mcp"] = serve


@attack("the server sends the token elsewhere", "which is not followed", logins=1, asks=1)
def redirected(world: World, evil: World) -> None:
    def serve(seen: Seen) -> Reply:
        return Reply(307, b"", {"Location": evil.url}) if seen.token else world.refuse()

    world.routes["/mcp"] = serve
