"""The walk of a client through an app's own authorization server (OAuth 2.1; PROTOCOL §10)."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from mcpkit.auth import MemoryAuthStore
from tests.auth.browser import Browser
from tests.auth.server.conftest import BACK, MACHINE_SECRET, Site, basic, serving


def test_a_challenge_leads_to_a_token(site: Site) -> None:
    """AUTH-1, AUTH-2, AUTH-3, AUTH-4, AUTH-8: metadata of the resource, and of its issuer."""
    page = site.call("none")
    assert page.status == 401
    url = f"{site.origin}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{url}"' in page.headers["www-authenticate"]
    resource = site.send("/.well-known/oauth-protected-resource/mcp").json
    assert resource["resource"] == site.url
    assert resource["authorization_servers"] == [site.origin]
    assert resource["scopes_supported"] == ["notes:read", "notes:write"]
    metadata = site.send("/.well-known/oauth-authorization-server").json
    assert metadata["issuer"] == site.origin
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    assert metadata["registration_endpoint"] == f"{site.origin}/register"
    assert site.send("/.well-known/openid-configuration").json == metadata
    asked = site.log_in()
    assert (asked.answer["state"], asked.answer["iss"]) == ("of-the-client", site.origin)
    tokens = site.redeem(asked).json
    found = [tokens[name] for name in ("token_type", "expires_in", "scope")]
    assert found == ["Bearer", 3600, "notes:read"]
    assert site.said(tokens["access_token"]) == "ada False [notes:read]"


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-authorization-server", "/token", "/register", "/revoke"]
)
def test_pages_of_any_origin_may_use_endpoints_without_cookies(site: Site, path: str) -> None:
    """AUTH-14."""
    headers = {"Origin": "https://inspector.example", "Access-Control-Request-Method": "POST"}
    page = site.send(path, method="OPTIONS", headers=headers)
    assert page.status == 204
    assert page.headers["access-control-allow-origin"] == "*"


def test_a_missing_scope_is_asked_for_in_a_second_login(site: Site) -> None:
    """AUTH-6: step-up, also of a client that has registered with the first scope."""
    client = site.register(scope="notes:read")["client_id"]
    token = site.tokens(client_id=client)["access_token"]
    page = site.call(token, "write_notes")
    assert page.status == 403
    assert 'error="insufficient_scope"' in page.headers["www-authenticate"]
    assert 'scope="notes:write"' in page.headers["www-authenticate"]
    more = site.tokens(client_id=client, scope="notes:read notes:write")
    assert site.call(more["access_token"], "write_notes").status == 200


def test_a_refresh_token_is_used_once(site: Site) -> None:
    first = site.tokens()
    site.clock.now += 3600 + 1
    assert site.call(first["access_token"]).status == 200, "its client counts from when it got it"
    site.clock.now += 1
    assert site.call(first["access_token"]).status == 401
    second = site.refresh(first["refresh_token"]).json
    third = site.refresh(second["refresh_token"]).json
    assert len({each["refresh_token"] for each in (first, second, third)}) == 3
    for each in (second, third):
        assert site.said(each["access_token"]) == "ada False [notes:read]"


def test_scopes_are_narrowed_and_never_widened(site: Site) -> None:
    """A refresh may ask for fewer; `User.scopes` are the most that a user may give.

    AUTH-11: offline_access is between clients and their issuers.
    """
    tokens = site.tokens(scope="notes:read notes:write")
    less = site.refresh(tokens["refresh_token"], scope="notes:read").json
    assert less["scope"] == "notes:read"
    more = site.refresh(less["refresh_token"], scope="notes:read admin")
    assert (more.status, more.json["error"]) == (400, "invalid_scope")
    reader = Browser({"name": "reader"}, "allow")
    assert site.tokens(reader, scope="notes:read notes:write")["scope"] == "notes:read"
    assert site.tokens(scope="notes:read offline_access other")["scope"] == "notes:read"
    assert site.log_in(client_id="given", scope="other").answer["error"] == "invalid_scope"
    assert site.tokens(scope=None)["scope"] == ""


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_clients_may_have_a_secret(site: Site, method: str) -> None:
    client = site.register(token_endpoint_auth_method=method)
    id, secret = client["client_id"], client["client_secret"]
    asked = site.log_in(client_id=id)
    assert site.redeem(asked, basic(id, "wrong")).status == 401
    assert site.redeem(asked).status == 401
    if method == "client_secret_basic":
        page = site.redeem(asked, basic(id, secret))
    else:
        page = site.redeem(asked, client_secret=secret)
    assert page.status == 200


def test_a_machine_gets_tokens_for_itself(site: Site) -> None:
    fields = {"grant_type": "client_credentials", "scope": "notes:read", "resource": site.url}
    page = site.form("/token", basic("machine", MACHINE_SECRET), **fields)
    assert site.said(page.json["access_token"]) == "client:machine False [notes:read]"
    assert "refresh_token" not in page.json
    sent = basic("machine", MACHINE_SECRET)
    assert site.form("/token", sent, **fields, client_id="machine").status == 200
    for more in {"client_id": "given"}, {"client_secret": MACHINE_SECRET}:
        page = site.form("/token", sent, **fields, **more)
        assert (page.status, page.json["error"]) == (400, "invalid_request")
    page = site.form("/token", None, **fields, client_id=site.client_id)
    assert (page.status, page.json["error"]) == (400, "unauthorized_client")


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_token_that_is_revoked_ends_all_that_it_stands_for(site: Site, kind: str) -> None:
    """RFC 7009."""
    tokens = site.tokens()
    other = site.register()["client_id"]
    assert site.form("/revoke", None, token=tokens[kind], client_id=other).status == 200
    assert site.call(tokens["access_token"]).status == 200
    assert site.form("/revoke", None, token=tokens[kind], client_id=site.client_id).status == 200
    assert site.call(tokens["access_token"]).status == 401
    assert site.refresh(tokens["refresh_token"]).status == 400
    assert site.form("/revoke", None, token="none", client_id=site.client_id).status == 200


@pytest.mark.parametrize(
    ("name", "button", "said"),
    [
        ("ada", "deny", "The user has not allowed it"),
        ("mallory", "allow", "This user may not log in"),
    ],
)
def test_a_refused_login_is_sent_back(site: Site, name: str, button: str, said: str) -> None:
    """RFC 9700, 4.11: a link leads to a registered client only if the user wants that."""
    browser = Browser({"name": name}, button)
    answer = site.log_in(browser).answer
    assert (answer["error"], answer["error_description"]) == ("access_denied", said)
    assert answer["iss"] == site.origin
    assert "code" not in answer
    page = browser.seen[-1]
    if name == "mallory":
        assert (page.status, page.location) == (400, None)
        assert said in page.text


def test_a_resource_need_not_be_named_and_a_loopback_port_is_free(site: Site) -> None:
    """2025-03-26 has no resource; RFC 8252, 7.3."""
    asked = site.log_in(resource=None, redirect_uri=BACK.replace(":9/", ":40123/"))
    tokens = site.redeem(asked, resource=None).json
    assert site.said(tokens["access_token"]) == "ada False [notes:read]"


def test_keys_rotate_and_tokens_of_the_old_one_go_on() -> None:
    with serving() as site:
        old = site.tokens()
        site.clock.now += 30 * 24 * 3600 - 1800
        current = site.refresh(old["refresh_token"]).json
        (before,) = site.send("/.well-known/jwks.json").json["keys"]
        site.clock.now += 1801
        new = site.refresh(current["refresh_token"]).json
        both = site.send("/.well-known/jwks.json").json["keys"]
        assert (both[0], len(both)) == (before, 2)
        assert all("d" not in each for each in both)
        assert site.call(current["access_token"]).status == 200
        assert site.call(new["access_token"]).status == 200
        site.clock.now += 30 * 24 * 3600
        site.refresh(new["refresh_token"])
        assert before not in site.send("/.well-known/jwks.json").json["keys"]


def test_the_page_of_consent_says_who_wants_what(site: Site) -> None:
    """AUTH-15; and a login that was answered wrongly can be answered again."""
    browser = Browser()
    page = browser.fill_in(browser.open(site.authorize_url(scope="notes:read notes:write")))
    assert "Write a name" in page.text
    browser.answers["name"] = "ada"
    page = browser.fill_in(page)
    assert (page.location or "").startswith(f"{site.origin}/authorize/consent?state=")
    text = browser.open(page.location or "").text
    for each in ("An editor", "Notes", "Ada", "Read your notes", "Change your notes"):
        assert each in text
    assert "A program on this device" in text


def test_the_store_is_closed_when_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    aclose = AsyncMock()
    monkeypatch.setattr(MemoryAuthStore, "aclose", aclose)
    with serving():
        aclose.assert_not_awaited()
    aclose.assert_awaited_once()
