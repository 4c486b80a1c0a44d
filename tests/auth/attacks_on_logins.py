"""Attacks on a server that issues tokens of its own.

What is wrong in one parameter only is in `tests/auth/server/test_refusals.py`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import jwt

from tests.auth.browser import Browser, Page, fields_of
from tests.auth.forgeries import part
from tests.auth.server.conftest import BACK, Site

EVIL: Final = "https://evil.example.com/back"

Send = Callable[[Site], Page]


class Attack(NamedTuple):
    """One way to get what somebody else may have.

    Args:
        name: What is tried.
        send: Tries it, and returns the answer.
        status: Of the answer.
        error: Its error: of JSON, or in the address that a browser is sent to.
    """

    name: str
    send: Send
    status: int
    error: str | None

    def __str__(self) -> str:
        return self.name


ATTACKS: Final[dict[str, Attack]] = {}
"""All of them, by name."""


def attack(name: str, status: int, error: str | None = None) -> Callable[[Send], Send]:
    """Write down a function as an attack, with the answer that it must get."""

    def decorate(send: Send) -> Send:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, send, status, error)
        return send

    return decorate


def victim() -> Browser:
    return Browser({"name": "ada"}, "allow")


def evil_client(site: Site, **metadata: Any) -> str:
    id: str = site.register(client_name="evil", redirect_uris=[BACK, EVIL], **metadata)["client_id"]
    return id


# --- codes ----------------------------------------------------------------------------------------


@attack("a code that is replayed", 400, "invalid_grant")
def _(site: Site) -> Page:
    asked = site.log_in(victim())
    tokens = site.redeem(asked).json
    page = site.redeem(asked)
    assert site.call(tokens["access_token"]).status == 401, "nobody knows who was first"
    return page


@attack("a code that was stolen, without the verifier", 400, "invalid_grant")
def _(site: Site) -> Page:
    return site.redeem(site.log_in(victim()), code_verifier=None)


@attack("a code that was stolen, with the challenge for a verifier", 400, "invalid_grant")
def _(site: Site) -> Page:
    given, _ = site.parameters()
    challenge = given["code_challenge"]
    back = victim().walk(f"{site.origin}/authorize?{urlencode(given)}", BACK)
    form = {
        "grant_type": "authorization_code",
        "code": fields_of(back)["code"],
        "client_id": site.client_id,
        "redirect_uri": BACK,
        "code_verifier": challenge,
    }
    return site.form("/token", None, **form)


@attack("a code that was stolen, brought by another client", 400, "invalid_grant")
def _(site: Site) -> Page:
    return site.redeem(site.log_in(victim()), client_id=evil_client(site))


@attack("a login without PKCE", 400)
def _(site: Site) -> Page:
    return Browser().open(site.authorize_url(code_challenge=None, code_challenge_method=None))


@attack("a login with PKCE that was downgraded", 400)
def _(site: Site) -> Page:
    return Browser().open(site.authorize_url(code_challenge_method="plain"))


@attack("a code as a token", 401, None)
def _(site: Site) -> Page:
    return site.call(site.log_in(victim()).answer["code"])


@attack("a token in the address, instead of a code", 400)
def _(site: Site) -> Page:
    for kind in ("token", "id_token", "code token", "none"):
        page = Browser().open(site.authorize_url(response_type=kind))
        assert "access_token" not in (page.location or ""), kind
    return page


@attack("a password of the user's, brought by a program", 400, "unsupported_grant_type")
def _(site: Site) -> Page:
    form = {"grant_type": "password", "username": "ada", "password": "ada"}
    return site.form("/token", None, client_id=site.client_id, **form)


# --- browsers -------------------------------------------------------------------------------------


@attack("an answer from somebody else's server", 303, None)
def _(site: Site) -> Page:
    browser = victim()
    site.log_in(browser)
    page = browser.seen[-1]
    assert fields_of(page.location or "")["iss"] == site.origin, "a client sees the mix-up by that"
    assert json.loads(site.send("/.well-known/oauth-authorization-server").body)[
        "authorization_response_iss_parameter_supported"
    ]
    return page


@attack("a link that leads through a server that one trusts", 400)
def _(site: Site) -> Page:
    page = Browser().open(
        site.authorize_url(client_id=evil_client(site), redirect_uri=EVIL, response_type="x")
    )
    assert page.location is None
    return page


@attack("somewhere else to be sent to", 400, None)
def _(site: Site) -> Page:
    for uri in (EVIL, f"{BACK}@evil.example.com", f"{BACK}.evil", "//evil.example.com", "\\\\evil"):
        page = Browser().open(site.authorize_url(redirect_uri=uri))
        assert (page.status, page.location) == (400, None), uri
    return page


@attack("somewhere else to be sent to, with an error", 400, None)
def _(site: Site) -> Page:
    page = Browser().open(site.authorize_url(redirect_uri=EVIL, response_type="token"))
    assert page.location is None
    return page


@attack("somewhere else to be sent to, as a second parameter", 400, None)
def _(site: Site) -> Page:
    for more in ({"redirect_uri": EVIL}, {"client_id": evil_client(site), "redirect_uri": EVIL}):
        first = Browser().open(f"{site.authorize_url()}&{urlencode(more)}")
        assert first.location is None
    return Browser().open(f"{site.origin}/authorize?{urlencode({'redirect_uri': EVIL})}")


@attack("consent that was not given", 400, None)
def _(site: Site) -> Page:
    browser = victim()
    state = browser.open(site.authorize_url()).forms[0].fields["state"]
    form = {"state": state, "answer": "allow"}
    page = browser.open(f"{site.origin}/authorize/consent", form)
    assert page.location is None
    return page


@attack("consent that was given to another client", 200, None)
def _(site: Site) -> Page:
    browser = victim()
    site.log_in(browser)
    given = site.authorize_url(client_id=evil_client(site), redirect_uri=EVIL, prompt="none")
    page = browser.fill_in(browser.open(given))
    return browser.open(page.location or "")


@attack("a page of another site that sends the form", 403, None)
def _(site: Site) -> Page:
    browser = victim()
    page = browser.fill_in(browser.open(site.authorize_url()))
    form = {"state": fields_of(page.location or "")["state"], "answer": "allow"}
    theirs = {"Origin": "https://evil.example.com"}
    page = browser.open(f"{site.origin}/authorize/consent", form, theirs)
    assert page.location is None
    return page


@attack("a login that somebody else has begun", 400, None)
def _(site: Site) -> Page:
    evil = Browser({"name": "eve"})
    url = evil.fill_in(evil.open(site.authorize_url())).location or ""
    page = victim().open(url)
    assert page.location is None
    return page


@attack("a frame around the page of consent", 200, None)
def _(site: Site) -> Page:
    browser = victim()
    page = browser.open(browser.fill_in(browser.open(site.authorize_url())).location or "")
    assert page.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    return page


@attack("a script in all that a client says of itself", 200, None)
def _(site: Site) -> Page:
    script = "</title></main><script>alert(1)</script>"
    metadata = {"client_uri": script, "logo_uri": script, "tos_uri": script}
    client = site.register(client_name=script, **metadata)["client_id"]
    browser = victim()
    url = site.authorize_url(client_id=client, state=script, scope=f"notes:read {script}")
    page = browser.open(browser.fill_in(browser.open(url)).location or "")
    assert all("<script" not in each.text for each in browser.seen)
    return page


@attack("a page of another site that reads the form", 200, None)
def _(site: Site) -> Page:
    page = Browser().open(site.authorize_url(), headers={"Origin": "https://evil.example.com"})
    assert page.headers.get("access-control-allow-origin") is None
    return page


# --- what the server might be made to fetch -------------------------------------------------------


@contextmanager
def inside() -> Iterator[tuple[int, Callable[[], bool]]]:
    """A port of this machine, and whether nobody has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        def is_left_alone() -> bool:
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                return True
            return False

        yield listener.getsockname()[1], is_left_alone


@attack("a client whose document is inside", 400, None)
def _(site: Site) -> Page:
    with inside() as (port, is_left_alone):
        for id in (
            f"https://127.0.0.1:{port}/client",
            f"https://localhost:{port}/client",
            f"https://[::1]:{port}/client",
            f"https://[::ffff:127.0.0.1]:{port}/client",
            f"https://2130706433:{port}/client",
            f"https://0.0.0.0:{port}/client",
            f"http://127.0.0.1:{port}/client",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/client",
            "https://user@localhost/client",
            "file:///etc/passwd",
        ):
            page = Browser().open(site.authorize_url(client_id=id))
            assert (page.status, page.location) == (400, None), id
        assert is_left_alone()
    return page


@attack("a client whose other addresses are inside", 201, None)
def _(site: Site) -> Page:
    with inside() as (port, is_left_alone):
        url = f"https://127.0.0.1:{port}/evil"
        names = ("jwks_uri", "logo_uri", "client_uri", "policy_uri", "sector_identifier_uri")
        wish = {"redirect_uris": [BACK], **dict.fromkeys(names, url)}
        wish["token_endpoint_auth_method"] = "none"
        page = site.send("/register", json.dumps(wish).encode())
        browser = victim()
        site.tokens(browser, client_id=page.json["client_id"])
        assert is_left_alone()
    return page


# --- tokens ---------------------------------------------------------------------------------------


@attack("a refresh token that is used again", 400, "invalid_grant")
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    second = site.refresh(tokens["refresh_token"]).json
    third = site.refresh(second["refresh_token"]).json
    page = site.refresh(tokens["refresh_token"])
    assert site.refresh(third["refresh_token"]).status == 400, "nobody knows whose it is"
    return page


@attack("a refresh token of another client", 400, "invalid_grant")
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    return site.refresh(tokens["refresh_token"], client_id=evil_client(site))


@attack("a refresh token, for more than the user has allowed", 400, "invalid_scope")
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    return site.refresh(tokens["refresh_token"], scope="notes:read notes:write")


@attack("a refresh token, for another server", 400, "invalid_target")
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    return site.refresh(tokens["refresh_token"], resource="https://evil.example.com/mcp")


@attack("a refresh token as a token", 401, None)
def _(site: Site) -> Page:
    return site.call(site.tokens(victim())["refresh_token"])


@attack("a token as a refresh token", 400, "invalid_grant")
def _(site: Site) -> Page:
    return site.refresh(site.tokens(victim())["access_token"])


@attack("the end of a token of another client", 200, None)
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    for each in tokens["access_token"], tokens["refresh_token"]:
        page = site.form("/revoke", None, token=each, client_id=evil_client(site))
    assert site.call(tokens["access_token"]).status == 200
    return page


@attack("a token with other claims", 401, None)
def _(site: Site) -> Page:
    head, body, signature = site.tokens(victim())["access_token"].split(".")
    claims = jwt.decode(f"{head}.{body}.{signature}", options={"verify_signature": False})
    more = {**claims, "scope": "notes:read notes:write", "sub": "root"}
    return site.call(f"{head}.{part(more)}.{signature}", "write_notes")


@attack("a token signed with the public key", 401, None)
def _(site: Site) -> Page:
    token = site.tokens(victim())["access_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(token)["kid"]
    key = site.send("/.well-known/jwks.json").json["keys"][0]
    secret = sha256(json.dumps(key).encode()).digest()
    for head in ({"alg": "none", "kid": kid}, {"alg": "none", "typ": "at+jwt"}):
        assert site.call(f"{part(head)}.{part(claims)}.").status == 401
    return site.call(jwt.encode(claims, secret, "HS256", headers={"kid": kid}))


@attack("a token for a program alone, without a secret", 400, "unauthorized_client")
def _(site: Site) -> Page:
    return site.form("/token", None, grant_type="client_credentials", client_id=site.client_id)


@attack("a token for a program alone, in its name", 401, "invalid_client")
def _(site: Site) -> Page:
    form = {"grant_type": "client_credentials", "client_id": "machine", "client_secret": "guess"}
    return site.form("/token", None, **form)


@attack("a request for tokens in the address", 405, None)
def _(site: Site) -> Page:
    asked = site.log_in(victim())
    query = urlencode({"grant_type": "authorization_code", "code": asked.answer["code"]})
    return site.send(f"/token?{query}", method="GET")


@attack("another host, to be named in the metadata of logins", 200, None)
def _(site: Site) -> Page:
    headers = {"X-Forwarded-Host": "evil.example.com", "Forwarded": "host=evil.example.com"}
    page = site.send("/.well-known/oauth-authorization-server", None, headers)
    assert "evil" not in page.text
    return page
