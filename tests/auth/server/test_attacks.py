"""What attackers try on a server that issues tokens; honest clients are served afterwards.

What is wrong in one parameter only is in `test_refusals.py`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import jwt
import pytest

from mcpkit.auth import MemoryAuthStore
from tests.auth.browser import Browser, Page
from tests.auth.forgeries import part
from tests.auth.server.conftest import BACK, Site, serving
from tests.auth.test_attacks import Attack, register

EVIL: Final = "https://evil.example.com/back"
ATTACKS: Final[list[Attack]] = []
"""The answer of each: its status, and its error in JSON."""

attack = partial(register, ATTACKS)


def victim() -> Browser:
    return Browser({"name": "ada"}, "allow")


def evil_client(site: Site, **metadata: Any) -> str:
    id: str = site.register(client_name="evil", redirect_uris=[BACK, EVIL], **metadata)["client_id"]
    return id


def refresh_token(site: Site) -> str:
    return str(site.tokens(victim())["refresh_token"])


@attack("a code that is replayed", 400, "invalid_grant")
def _(site: Site) -> Page:
    asked = site.log_in(victim())
    tokens = site.redeem(asked).json
    page = site.redeem(asked)
    assert site.call(tokens["access_token"]).status == 401, "either of them may be the thief"
    assert site.refresh(tokens["refresh_token"]).status == 400
    return page


@attack("a refresh token that is used again", 400, "invalid_grant")
def _(site: Site) -> Page:
    tokens = site.tokens(victim())
    second = site.refresh(tokens["refresh_token"]).json
    third = site.refresh(second["refresh_token"]).json
    page = site.refresh(tokens["refresh_token"])
    assert site.refresh(third["refresh_token"]).status == 400, "either of them may be the thief"
    assert site.call(third["access_token"]).status == 401
    return page


attack("a code as a token", 401, None)(lambda site: site.call(site.log_in(victim()).answer["code"]))
attack("a password of the user's, brought by a program", 400, "unsupported_grant_type")(
    lambda site: site.refresh("", grant_type="password", username="ada", password="ada")
)
attack("a refresh token of another client", 400, "invalid_grant")(
    lambda site: site.refresh(refresh_token(site), client_id=evil_client(site))
)
attack("a refresh token, for another server", 400, "invalid_target")(
    lambda site: site.refresh(refresh_token(site), resource=EVIL)
)


@attack("a code and a refresh token of another server with the same store", 400, "invalid_grant")
def _(site: Site) -> Page:
    """AUTH-13."""
    store = MemoryAuthStore(site.clock)
    with serving(store, site.clock) as here, serving(store, site.clock) as there:
        there.client_id = here.client_id
        asked = there.log_in(victim())
        page = here.redeem(asked, resource=None)
        assert (page.status, page.json["error"]) == (400, "invalid_grant")
        tokens = there.tokens(victim())
        page = here.refresh(tokens["refresh_token"])
        assert there.refresh(tokens["refresh_token"]).status == 200
        return page


attack("a refresh token as a token", 401, None)(lambda site: site.call(refresh_token(site)))
attack("a token as a refresh token", 400, "invalid_grant")(
    lambda site: site.refresh(site.tokens(victim())["access_token"])
)
attack("a request for tokens in the address", 405, None)(
    lambda site: site.send("/token?grant_type=authorization_code&code=a_x", method="GET")
)
attack("a request for tokens as JSON", 400, "invalid_request")(
    lambda site: site.send("/token", b"{}", {"Content-Type": "application/json"})
)


@attack("somewhere else to be sent to, as a second parameter", 400, None)
def _(site: Site) -> Page:
    for more in ({"redirect_uri": EVIL}, {"client_id": evil_client(site), "redirect_uri": EVIL}):
        first = Browser().open(f"{site.authorize_url()}&{urlencode(more)}")
        assert first.location is None
    return Browser().open(f"{site.origin}/authorize?{urlencode({'redirect_uri': EVIL})}")


@attack("consent that was given to another client", 200, None)
def _(site: Site) -> Page:
    """AUTH-15."""
    browser = victim()
    site.log_in(browser)
    given = site.authorize_url(client_id=evil_client(site), redirect_uri=EVIL, prompt="none")
    page = browser.fill_in(browser.open(given))
    return browser.open(page.location or "")


@contextmanager
def inside() -> Iterator[int]:
    """A port of this machine to which no connection may be made."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener.getsockname()[1]
        with pytest.raises(BlockingIOError):
            listener.accept()


@attack("a client whose document is inside", 400, None)
def _(site: Site) -> Page:
    with inside() as port:
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
    return page


@attack("a client whose other addresses are inside", 201, None)
def _(site: Site) -> Page:
    with inside() as port:
        names = ("jwks_uri", "logo_uri", "client_uri", "policy_uri", "sector_identifier_uri")
        wish: dict[str, Any] = dict.fromkeys(names, f"https://127.0.0.1:{port}/evil")
        wish |= {"redirect_uris": [BACK], "token_endpoint_auth_method": "none"}
        page = site.send("/register", json.dumps(wish).encode())
        site.tokens(victim(), client_id=page.json["client_id"])
    return page


@attack("another host, to be named in the metadata of logins", 200, None)
def _(site: Site) -> Page:
    headers = {"X-Forwarded-Host": "evil.example.com", "Forwarded": "host=evil.example.com"}
    page = site.send("/.well-known/oauth-authorization-server", None, headers)
    assert "evil" not in page.text
    return page


@attack("a token that is forged", 401, None)
def _(site: Site) -> Page:
    token = site.tokens(victim())["access_token"]
    head, _, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    more = {**claims, "scope": "notes:read notes:write", "sub": "root"}
    assert site.call(f"{head}.{part(more)}.{signature}", "write_notes").status == 401
    kid = jwt.get_unverified_header(token)["kid"]
    for unsigned in ({"alg": "none", "kid": kid}, {"alg": "none", "typ": "at+jwt"}):
        assert site.call(f"{part(unsigned)}.{part(claims)}.").status == 401
    key = site.send("/.well-known/jwks.json").json["keys"][0]
    secret = sha256(json.dumps(key).encode()).digest()
    return site.call(jwt.encode(claims, secret, "HS256", headers={"kid": kid}))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as found:
        yield found


def error_said(page: Page) -> Any:
    """The error for the client, in JSON."""
    is_error = page.headers.get_content_type() == "application/json" and page.status >= 400
    found = page.json.get("error") if is_error else None
    return found if isinstance(found, str) else None


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_attacks_on_logins(site: Site, attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """AUTH-8, AUTH-15, AUTH-16, SEC-13, SEC-16, SEC-18, and RFC 9700."""
    caplog.set_level("DEBUG")
    honest = site.tokens(victim())
    page = attack.send(site)
    assert (page.status, error_said(page)) == attack.answer
    assert page.location is None
    assert site.said(honest["access_token"]) == "ada False [notes:read]"
    assert site.said(site.tokens(victim())["access_token"]) == "ada False [notes:read]"
    for secret in honest["access_token"], honest["refresh_token"]:
        assert secret not in caplog.text
