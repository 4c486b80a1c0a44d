"""The walk of a client through an app's own authorization server (OAuth 2.1; PROTOCOL §10)."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from mcpkit.auth import MemoryAuthStore
from tests.auth.browser import Browser
from tests.auth.server.conftest import BACK, MACHINE_SECRET, Site, basic, serving


def test_a_user_logs_in_and_the_client_calls_a_tool(site: Site) -> None:
    """AUTH-1, AUTH-8."""
    asked = site.log_in()
    assert asked.answer["state"] == "of-the-client"
    assert asked.answer["iss"] == site.origin
    tokens = site.redeem(asked).json
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "notes:read"
    assert site.said(tokens["access_token"]) == "ada False [notes:read]"


def test_the_way_leads_from_a_challenge(site: Site) -> None:
    """AUTH-2, AUTH-3, AUTH-4: 401, metadata of the resource, metadata of its issuer."""
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


@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-authorization-server", "/token", "/register", "/revoke"]
)
def test_pages_of_any_origin_may_use_what_looks_at_no_cookie(site: Site, path: str) -> None:
    """AUTH-14."""
    headers = {"Origin": "https://inspector.example", "Access-Control-Request-Method": "POST"}
    page = site.send(path, method="OPTIONS", headers=headers)
    assert page.status == 204
    assert page.headers["access-control-allow-origin"] == "*"


def test_a_missing_scope_is_asked_for_in_a_second_login(site: Site) -> None:
    """AUTH-6: step-up."""
    token = site.tokens()["access_token"]
    page = site.call(token, "write_notes")
    assert page.status == 403
    assert 'error="insufficient_scope"' in page.headers["www-authenticate"]
    assert 'scope="notes:write"' in page.headers["www-authenticate"]
    more = site.tokens(scope="notes:read notes:write")
    assert site.call(more["access_token"], "write_notes").status == 200


def test_a_refresh_token_is_used_once(site: Site) -> None:
    first = site.tokens()
    site.clock.now += 3600 + 1
    assert site.call(first["access_token"]).status == 200, "its client counts from when it got it"
    site.clock.now += 1
    assert site.call(first["access_token"]).status == 401
    second = site.refresh(first["refresh_token"]).json
    assert second["refresh_token"] != first["refresh_token"]
    assert site.said(second["access_token"]) == "ada False [notes:read]"
    third = site.refresh(second["refresh_token"]).json
    assert site.said(third["access_token"]) == "ada False [notes:read]"


def test_an_answer_that_was_lost_can_be_asked_for_once_more(site: Site) -> None:
    """Within seconds, and it gives the same refresh token again."""
    first = site.tokens()
    lost = site.refresh(first["refresh_token"]).json
    again = site.refresh(first["refresh_token"])
    assert again.status == 200
    assert again.json["refresh_token"] == lost["refresh_token"]
    assert site.refresh(lost["refresh_token"]).status == 200


def test_a_refresh_may_ask_for_less_and_not_for_more(site: Site) -> None:
    tokens = site.tokens(scope="notes:read notes:write")
    less = site.refresh(tokens["refresh_token"], scope="notes:read").json
    assert less["scope"] == "notes:read"
    more = site.refresh(less["refresh_token"], scope="notes:read admin")
    assert (more.status, more.json["error"]) == (400, "invalid_scope")


def test_a_user_gives_no_more_than_they_have(site: Site) -> None:
    """`User.scopes` is the most that they may give."""
    tokens = site.tokens(Browser({"name": "reader"}, "allow"), scope="notes:read notes:write")
    assert tokens["scope"] == "notes:read"


def test_scopes_that_are_not_known_are_left_out(site: Site) -> None:
    """AUTH-11: offline_access is between clients and their issuers."""
    assert site.tokens(scope="notes:read offline_access other")["scope"] == "notes:read"
    asked = site.log_in(client_id="given", scope="other")
    assert asked.answer["error"] == "invalid_scope"
    assert site.tokens(scope=None)["scope"] == ""


def test_clients_of_2025_03_26_name_no_resource(site: Site) -> None:
    """Their tokens are for this server all the same."""
    tokens = site.redeem(site.log_in(resource=None), resource=None).json
    assert site.said(tokens["access_token"]) == "ada False [notes:read]"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_clients_may_have_a_secret(site: Site, method: str) -> None:
    client = site.register(token_endpoint_auth_method=method)
    asked = site.log_in(client_id=client["client_id"])
    fields = {
        "grant_type": "authorization_code",
        "code": asked.answer["code"],
        "redirect_uri": BACK,
        "code_verifier": asked.verifier,
    }
    wrong = basic(client["client_id"], "wrong")
    assert site.form("/token", wrong, **fields).status == 401
    assert site.form("/token", None, **fields, client_id=client["client_id"]).status == 401
    if method == "client_secret_basic":
        page = site.form("/token", basic(client["client_id"], client["client_secret"]), **fields)
    else:
        own = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
        page = site.form("/token", None, **fields, **own)
    assert page.status == 200


def test_a_machine_gets_tokens_for_itself(site: Site) -> None:
    fields = {"grant_type": "client_credentials", "scope": "notes:read", "resource": site.url}
    page = site.form("/token", basic("machine", MACHINE_SECRET), **fields)
    assert site.said(page.json["access_token"]) == "client:machine False [notes:read]"
    assert "refresh_token" not in page.json
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


def test_whoever_does_not_allow_it_gives_nothing(site: Site) -> None:
    asked = site.log_in(Browser({"name": "ada"}, "deny"))
    assert asked.answer["error"] == "access_denied"
    assert asked.answer["iss"] == site.origin
    assert "code" not in asked.answer


def test_whoever_may_not_come_in_is_sent_back(site: Site) -> None:
    asked = site.log_in(Browser({"name": "nobody"}, "allow"))
    assert asked.answer["error"] == "access_denied"
    assert asked.answer["error_description"] == "Nobody may come in"


def test_the_port_of_a_loopback_redirect_is_free(site: Site) -> None:
    """RFC 8252, 7.3."""
    back = BACK.replace(":9/", ":40123/")
    asked = site.log_in(redirect_uri=back)
    assert site.redeem(asked).status == 200


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


def test_a_page_may_be_left_and_come_back_to(site: Site) -> None:
    """A login that was answered wrongly can be answered again."""
    browser = Browser()
    url = f"{site.origin}/authorize?{urlencode(site.parameters()[0])}"
    page = browser.fill_in(browser.open(url))
    assert "Write a name" in page.text
    browser.answers["name"] = "ada"
    page = browser.fill_in(page)
    assert page.status == 303
    assert page.location is not None
    assert page.location.startswith(f"{site.origin}/authorize/consent?state=")


def test_the_page_of_consent_says_who_wants_what(site: Site) -> None:
    """AUTH-15."""
    browser = Browser({"name": "ada"})
    page = browser.fill_in(browser.open(site.authorize_url(scope="notes:read notes:write")))
    assert page.location is not None
    text = browser.open(page.location).text
    for each in ("An editor", "Notes", "Ada", "Read your notes", "Change your notes"):
        assert each in text
    assert "A program on this device" in text


def test_a_client_that_has_registered_for_a_scope_may_ask_for_more(site: Site) -> None:
    """AUTH-6: clients register with the scope of the first challenge, and step up later."""
    client = site.register(scope="notes:read")["client_id"]
    assert site.tokens(client_id=client)["scope"] == "notes:read"
    more = site.tokens(client_id=client, scope="notes:read notes:write")
    assert set(more["scope"].split()) == {"notes:read", "notes:write"}


class Noting(MemoryAuthStore):
    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def test_the_store_is_closed_when_the_server_ends() -> None:
    store = Noting()
    with serving(store):
        assert store.closed == 0
    assert store.closed == 1
