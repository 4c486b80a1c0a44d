"""What an authorization server refuses, and how (RFC 9700; PROTOCOL §10, §11)."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock
from urllib.parse import urlencode

import anyio
import pytest

from mcpkit import MCPKit
from mcpkit._utils.fetch import s256
from mcpkit.auth import AuthorizationServer, LoginAttempt, LoginRefused, SqliteAuthStore, User
from mcpkit.auth import Page as LoginPage
from mcpkit.auth.server import clients as clients_module
from mcpkit.auth.server import messages as requests_module
from mcpkit.auth.server import server as server_module
from tests.auth.browser import Browser, fields_of
from tests.auth.server.conftest import BACK, SECRET, NameLogin, Site, basic, serving

ELSEWHERE = "https://evil.example/back"


@pytest.mark.parametrize(
    "uri",
    [
        ELSEWHERE,
        f"{BACK}/more",
        f"{BACK}?more=1",
        f"{BACK}#fragment",
        BACK.replace("127.0.0.1", "127.0.0.1.evil.example"),
        BACK.replace("127.0.0.1", "user@127.0.0.1"),
        BACK.replace("http:", "https:"),
        BACK.replace("127.0.0.1", "localhost"),
        BACK.replace("/back", "/%62ack"),
        "",
        "javascript:alert(1)",
        f"{BACK}@evil.example.com",
        "\\\\evil",
        *(f"{BACK.replace(':9/', ':1/')}{end}" for end in "#?"),  # with a code in a fragment
    ],
)
def test_redirect_uris_are_compared_exactly(site: Site, uri: str) -> None:
    """SEC-16: otherwise they see a page, and go nowhere."""
    page = Browser().open(site.authorize_url(redirect_uri=uri or " "))
    assert (page.status, page.location) == (400, None)
    assert "went wrong" in page.text


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        *(
            ({"resource": each}, "invalid_target")
            for each in ("https://other.example/mcp", "http://[x", "https://[::1", "//[", "\x00")
        ),
    ],
)
def test_a_bad_request_is_sent_back(site: Site, changed: dict[str, str | None], code: str) -> None:
    """PKCE cannot be left out or weakened; mix-up is seen by `iss` (RFC 9207)."""
    page = Browser().open(site.authorize_url(client_id="given", **changed))
    assert page.status == 303
    answer = fields_of(page.location or "")
    named = [answer[name] for name in ("error", "state", "iss")]
    assert named == [code, "of-the-client", site.origin]
    # A client that has registered itself cannot redirect users by a link (RFC 9700, 4.11.2).
    page = Browser().open(site.authorize_url(**changed))
    assert (page.status, page.location) == (400, None)
    link = unescape(page.text.partition('href="')[2].partition('"')[0])
    assert fields_of(link) == answer
    assert "Tell the program, at http://127.0.0.1:9<" in page.text


def test_a_parameter_twice_is_refused(site: Site) -> None:
    """RFC 6749, 3.1 and 3.2."""
    page = Browser().open(f"{site.authorize_url(client_id='given')}&scope=notes:write")
    assert fields_of(page.location or "")["error"] == "invalid_request"
    asked = site.log_in()
    fields = [("grant_type", "authorization_code"), ("code", asked.answer["code"])]
    twice = [*fields, ("client_id", site.client_id), ("client_id", site.client_id)]
    page = site.send("/token", urlencode(twice).encode())
    assert (page.status, page.json["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("bad", ["a\r\nSet-Cookie: x=1", "a\nb", "é", "a b"])
def test_nothing_of_a_request_becomes_a_header(site: Site, bad: str) -> None:
    """SEC-18."""
    page = Browser().open(site.authorize_url(client_id="given", state=bad, response_type="token"))
    assert fields_of(page.location or "")["state"] == bad
    assert page.headers.get("set-cookie") is None
    for client in (bad, "unknown"):
        page = Browser().open(site.authorize_url(client_id=client))
        assert (page.status, page.location) == (400, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": None},
        {"code_verifier": "x" * 43},
        {"code_verifier": "CHALLENGE"},
        {"client_id": "given"},
        {"code_verifier": "short"},
        {"redirect_uri": BACK.replace(":9/", ":10/")},
        {"code": "a_of-another-user"},
    ],
)
def test_a_code_needs_all_that_it_is_bound_to(site: Site, changed: dict[str, Any]) -> None:
    asked = site.log_in()
    if changed.get("code_verifier") == "CHALLENGE":
        changed = {"code_verifier": s256(asked.verifier)}
    page = site.redeem(asked, **changed)
    assert (page.status, page.json["error"]) == (400, "invalid_grant")
    assert site.redeem(asked).status == 200, "the attempt has spoilt it"


def test_everything_expires(site: Site) -> None:
    """A code, a lost response, a login page, and a login that is not used."""
    asked, tokens = site.log_in(), site.tokens()
    renewed = site.refresh(tokens["refresh_token"]).json
    site.clock.now += 21
    assert site.refresh(tokens["refresh_token"]).status == 400
    assert site.refresh(renewed["refresh_token"]).status == 400
    site.clock.now += 40
    assert site.redeem(asked).json["error"] == "invalid_grant"
    browser, tokens = Browser({"name": "ada"}, "allow"), site.tokens()
    page = browser.open(site.authorize_url())
    site.clock.now += 601
    assert browser.fill_in(page).status == 400
    site.clock.now += 30 * 24 * 3600
    assert site.refresh(tokens["refresh_token"]).status == 400
    site.client_id = site.register(client_name="An editor")["client_id"]


def test_a_forged_refresh_token_ends_nothing(site: Site) -> None:
    tokens = site.tokens()
    grant, number, _ = tokens["refresh_token"].split(".")
    for text in (f"{grant}.{number}.{'A' * 43}", f"{grant}.5.{'A' * 43}", "r_x.0.y", ""):
        assert site.refresh(text).status == 400
    assert site.refresh(tokens["refresh_token"]).status == 200


def logged_in(site: Site, browser: Browser, **changed: str) -> str:
    """Log in, and return the address of the page of consent."""
    return browser.fill_in(browser.open(site.authorize_url(**changed))).location or ""


def test_consent_is_given_once_on_its_page_in_its_browser(site: Site) -> None:
    """AUTH-15, CSRF: no page of another stage, another browser or another site will do, nor GET."""
    browser, url = Browser({"name": "ada"}), f"{site.origin}/authorize/consent"
    early = {"state": browser.open(site.authorize_url()).forms[0].fields["state"]}
    assert browser.open(f"{url}?{urlencode(early)}").status == 400
    assert browser.open(url, {**early, "answer": "allow"}).status == 400
    form = {"state": fields_of(logged_in(site, browser))["state"], "answer": "allow"}
    for status, page in (
        (200, browser.open(f"{url}?{urlencode(form)}")),
        (400, Browser().open(f"{url}?{urlencode(form)}")),
        (400, Browser().open(url, form)),
        (403, browser.open(url, form, {"Origin": "https://evil.example"})),
    ):
        assert (page.status, page.location) == (status, None)
    assert "code" in fields_of(browser.open(url, form).location or "")
    assert browser.open(url, form).status == 400


def test_pages_run_nothing_and_stand_in_no_frame(site: Site) -> None:
    """Clickjacking; and the cookie is for this server alone."""
    cookie = Browser().open(site.authorize_url()).headers["set-cookie"]
    assert all(each in cookie for each in ("HttpOnly", "SameSite=lax", "Path=/"))
    browser = Browser({"name": "ada"})
    for page in (
        browser.open(site.authorize_url()),
        browser.open(logged_in(site, browser)),
        browser.open(site.authorize_url(client_id="unknown")),
    ):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers.get("access-control-allow-origin") is None
        assert "<script" not in page.text


def test_the_name_of_a_client_is_text(site: Site) -> None:
    name = "</title><script>alert(1)</script>\"'\u202egnp"
    other = site.register(client_name=name, client_uri=name, logo_uri=name)["client_id"]
    browser = Browser({"name": "ada"})
    changed = {"client_id": other, "state": name, "scope": f"notes:read {name}"}
    text = browser.open(logged_in(site, browser, **changed)).text
    assert "&lt;script&gt;" in text
    assert "\u202e" not in text
    assert all("<script" not in each.text for each in browser.seen)


BAD_URIS: Final = [
    *([], "https://a.example", [f"https://a.example/{n}" for n in range(11)], ["/back"]),
    *(["http://a.example/back"], ["javascript:alert(1)"], ["https://a.example/#x"]),
    *(["https://*.example/"], ["https://u@a.example/"], ["https://a.example/\r\nX: y"]),
    # Browsers find a host where others see none.
    *(["https:///evil.example/cb"], ["https:evil.example/cb"], ["https://:443/x"]),
    *(["https://a;b/x"], ["web+evil://localhost/cb"], ["https://a.example/" + "a" * 2000]),
    *(["ms-msdt:x"], ["search-ms:x"], ["shell:x"], ["jar:x"], ["smb:x"], ["ssh:x"]),
    ["chrome-extension:x"],
]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        *(({"redirect_uris": each}, "invalid_redirect_uri") for each in BAD_URIS),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["implicit"]}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
    ],
)
def test_a_bad_registration_is_refused(site: Site, metadata: dict[str, object], code: str) -> None:
    """SEC-17: also one that is not JSON, or too long."""
    body = json.dumps({"redirect_uris": [BACK], **metadata}).encode()
    page = site.send("/register", body)
    assert (page.status, page.json["error"]) == (400, code)
    for body in (b"", b"[]", b"{", b"[" * 50_000):
        page = site.send("/register", body)
        assert (page.status, page.json["error"]) == (400, "invalid_client_metadata")
    assert site.send("/register", b" " * 70_000).status == 413


def test_registrations_are_limited_by_caller() -> None:
    """SEC-10, SEC-17: callers are told apart by their network."""
    with serving() as site:
        body = json.dumps({"redirect_uris": [BACK]}).encode()
        found = [site.send("/register", body).status for _ in range(25)]
        assert found == [201] * 19 + [429] * 6
        site.clock.now += 3600
        unused = site.register()["client_id"]
        site.tokens()
        # A client that has never got a token is deleted.
        site.clock.now += 7 * 24 * 3600 + 1
        assert Browser().open(site.authorize_url(client_id=unused)).status == 400
        assert Browser().open(site.authorize_url()).status == 200


def test_bad_credentials_of_a_client_are_refused(site: Site) -> None:
    malformed = [{"Authorization": each} for each in ("Basic !", "Bearer x")]
    for headers in (*malformed, basic("unknown", "x"), basic("machine", "wrong")):
        page = site.form("/token", headers, grant_type="client_credentials")
        assert (page.status, page.json["error"]) == (401, "invalid_client"), headers
        assert page.headers["www-authenticate"] == "Basic"


def test_one_address_begins_and_answers_so_many_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17: or passwords could be tried, and hashed, without end."""
    monkeypatch.setattr(server_module, "MAX_LOGINS", 50)
    monkeypatch.setattr(server_module, "MAX_ANSWERS_EACH", 3)
    with serving() as site:
        browser = Browser({"name": ""})
        page, *others = [browser.open(site.authorize_url()) for _ in range(6)]
        assert [each.status for each in others] == [200] * 4 + [429]
        assert "Too many logins" in others[-1].text
        # What belongs to no login is not counted.
        for _ in range(4):
            assert Browser().open(f"{site.origin}/authorize/login?state=x").status == 400
        answers = [browser.fill_in(page) for _ in range(4)]
        assert [each.status for each in answers] == [200, 200, 200, 429]
        site.clock.now += 601
        assert Browser().open(site.authorize_url()).status == 200


def test_one_address_has_so_many_documents_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17: or a server could be made to ask others again and again."""
    asked: list[str] = []

    async def fetch(url: str, largest: int, caller: str) -> dict[str, object]:
        asked.append(url)
        return {"client_id": url, "redirect_uris": [BACK], "client_name": "Documented"}

    monkeypatch.setattr(clients_module, "fetch_public", fetch)
    monkeypatch.setattr(clients_module, "MAX_FETCHES", 3)
    with serving() as site:
        # What is known is not fetched again, and costs nothing.
        for url, status in ("1", 200), ("2", 200), ("3", 200), ("4", 429), ("1", 200):
            page = Browser().open(site.authorize_url(client_id=f"https://client.example.com/{url}"))
            assert page.status == status
        page = site.form("/token", None, client_id="https://client.example.com/4")
        assert (page.status, page.json["error"]) == (429, "temporarily_unavailable")
    assert len(asked) == 3


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17."""
    monkeypatch.setattr(requests_module, "_BODY_S", 0.1)
    with serving() as site:
        host, _, port = site.origin.partition("//")[2].partition(":")
        with socket.create_connection((host, int(port)), 20) as connection:
            head = f"POST /token HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 9\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_bodies_that_arrive_are_counted_by_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17: one caller has few at once, and others have theirs."""
    monkeypatch.setattr(server_module, "MAX_BODIES", 8)
    with serving() as site:
        host, _, port = site.origin.partition("//")[2].partition(":")
        head = f"POST /token HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: "

        def begin(address: str, length: int) -> socket.socket:
            connection = socket.create_connection((host, int(port)), 20, (address, 0))
            connection.sendall(f"{head}{length}\r\n\r\nx".encode())
            return connection

        with begin("127.0.0.1", 9) as first:
            for address, length, status in (
                ("127.0.0.1", 9, 429),
                ("127.0.0.2", 70_000, 413),
                ("127.0.0.2", 1, 400),
            ):
                with begin(address, length) as other:
                    assert other.recv(100).startswith(b"HTTP/1.1 %d " % status)
            first.sendall(b"x" * 8)
            assert first.recv(100).startswith(b"HTTP/1.1 400 ")
        with begin("127.0.0.1", 1) as other:
            assert other.recv(100).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 201),
        ("http://localhost:6274", 201),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost.evil.example", 403),
    ],
)
def test_pages_of_other_origins_do_not_use_a_server_of_this_machine(
    site: Site, origin: str | None, status: int
) -> None:
    """HTTPL-3: neither its requests for programs nor, without a window, its pages for people."""
    headers = {} if origin is None else {"Origin": origin}
    body = json.dumps({"redirect_uris": [BACK]}).encode()
    assert site.send("/register", body, headers).status == status
    assert site.send("/.well-known/oauth-authorization-server", headers=headers).status == 200
    for kind, expected in (("document", 200), ("image", 403), ("empty", 403)):
        page = Browser().open(site.authorize_url(), headers={"Sec-Fetch-Dest": kind})
        assert page.status == expected


@pytest.mark.parametrize(
    "cookie", ['prefs={"a": "b c"}', "a[b]=1", "x y=1", 'x="a', "plain", "é=ü", ";;=;"]
)
def test_cookies_of_others_are_ignored(site: Site, cookie: str) -> None:
    """On one host they come along, whatever stands in them."""
    browser = Browser()
    form = browser.open(site.authorize_url()).forms[0]
    [own] = browser.cookies
    sent = {"Cookie": f"{cookie}; {own.name}={own.value}"}
    page = Browser().open(form.action, {**form.fields, "name": "ada"}, sent)
    assert page.status == 303


def test_a_scheme_of_its_own_is_not_taken_for_this_device(site: Site) -> None:
    back = "com.evil://localhost/cb"
    client = site.register(redirect_uris=[back])["client_id"]
    browser = Browser({"name": "ada"})
    page = browser.open(logged_in(site, browser, client_id=client, redirect_uri=back))
    assert "com.evil:" in page.text
    assert "A program on this device" not in page.text


def test_a_fault_is_an_answer_and_not_a_broken_connection() -> None:
    with serving(login=Mock(side_effect=RuntimeError("s3cret"))) as site:
        page = Browser().open(site.authorize_url())
        assert page.status == 500
        assert "Something has gone wrong" in page.text
        assert "s3cret" not in page.text


def test_answers_at_once_are_counted_each() -> None:
    """A login that allows three tries in a visit allows no more."""
    tried: list[str] = []

    def pin(visit: LoginAttempt) -> LoginPage:
        if not visit.fields:
            field = f'<input type="hidden" name="state" value="{visit.state}">'
            return LoginPage(f'<form action="{visit.action}">{field}')
        tries = visit.memory["tries"] = visit.memory.get("tries", 0) + 1
        if tries > 3:
            raise LoginRefused("Too many tries")
        tried.append(visit.fields["pin"])
        return LoginPage("no")

    with serving(login=pin) as site:
        browser = Browser()
        form = browser.open(site.authorize_url()).forms[0]

        def guess(pin: int) -> int:
            return browser.open(form.action, {**form.fields, "pin": str(pin)}).status

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(guess, range(40))) <= {200, 303, 400, 409}
    assert 1 <= len(tried) <= 3


def test_a_removed_user_gets_no_tokens(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their clients have refresh tokens, which could be used forever."""
    ada = site.tokens(scope="notes:read notes:write")
    eve = site.tokens(Browser({"name": "eve"}, "allow"))
    monkeypatch.setitem(NameLogin.now, "eve", None)
    monkeypatch.setitem(NameLogin.now, "ada", User("ada", scopes=frozenset({"notes:read"})))
    assert site.refresh(eve["refresh_token"]).status == 400
    renewed = site.refresh(ada["refresh_token"])
    assert (renewed.status, renewed.json["scope"]) == (200, "notes:read")


def test_all_logins_of_a_user_can_be_ended(site: Site) -> None:
    ada, bob = site.tokens(), site.tokens(Browser({"name": "bob"}, "allow"))
    anyio.run(site.server.end_logins, "ada")
    assert site.call(ada["access_token"]).status == 401
    assert site.refresh(ada["refresh_token"]).status == 400
    assert site.call(bob["access_token"]).status == 200
    site.clock.now += 1
    assert site.call(site.tokens()["access_token"]).status == 200
    anyio.run(site.server.end_logins, "ada")
    anyio.run(site.server.end_logins, "ada")


def test_another_secret_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    file = tmp_path / "auth.db"
    with serving(SqliteAuthStore(file)) as site:
        site.send("/.well-known/jwks.json")
    with pytest.raises(ValueError, match=r"auth\.db> was sealed with another secret: set MCPKIT_S"):
        AuthorizationServer(NameLogin(), file, secret="another secret, long enough")
    both = AuthorizationServer(NameLogin(), file, secret=["another secret, long enough", SECRET])
    assert "NameLogin" in repr(both)


def test_options_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^secret= has a secret of fewer than 16 bytes"):
        AuthorizationServer(NameLogin(), secret=[SECRET, "short"])
    scopes: Any = ["notes:read"]
    with pytest.raises(TypeError, match="scopes= is a dict such as"):
        AuthorizationServer(NameLogin(), scopes=scopes)
    two = [AuthorizationServer(NameLogin()), AuthorizationServer(NameLogin())]
    with pytest.raises(ValueError, match="two authorization servers"):
        MCPKit("two", auth=two).asgi()
    monkeypatch.setenv("MCPKIT_SECRET", "short")
    with pytest.raises(ValueError, match=r"^MCPKIT_SECRET has a secret of fewer than 16 bytes"):
        AuthorizationServer(NameLogin())
