"""Users of an upstream provider: their names here, what the server keeps of them, and refusals."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import anyio
import jwt
import pytest

from mcpkit.auth import (
    AuthorizationServer,
    Provider,
    SqliteAuthStore,
    UpstreamLogin,
    UpstreamTokens,
    User,
    Users,
)
from mcpkit.auth.server.grants import Grants
from mcpkit.auth.server.keys import KeyStore
from tests.auth.browser import Browser, Page, fields_of
from tests.auth.issuer import Key, issuing
from tests.auth.server.conftest import BACK, SECRET, Asked, Clock, Site, cheap_hash, serving
from tests.auth.server.provider import CLIENT, CLIENT_SECRET, IdentityProvider
from tests.kit import until


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with issuing(IdentityProvider) as found:
        yield found


def login(provider: IdentityProvider, kind: str = "openid", **options: Any) -> UpstreamLogin:
    place = provider.url if kind == "openid" else provider.plain()
    options.setdefault("allow", ["ada"] if kind == "plain" else lambda user: True)
    options.setdefault("client_secret", CLIENT_SECRET)
    return UpstreamLogin(place, client_id=CLIENT, **options)


def site_of(
    provider: IdentityProvider, kind: str = "openid", **options: Any
) -> AbstractContextManager[Site]:
    clock = Clock()
    return serving(clock=clock, login=login(provider, kind, clock=clock, **options))


def last_page(site: Site) -> Page:
    """What a browser sees in the end: the page of consent, or one with a problem."""
    page = site.browser.open(site.authorize_url())
    while page.location is not None:
        assert not page.location.startswith(BACK)
        page = site.browser.open(page.location)
    return page


def problem_of(site: Site) -> str:
    page = last_page(site)
    assert page.status == 502
    return page.text


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post", "none"])
def test_the_server_authenticates_at_the_provider(provider: IdentityProvider, way: str) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": [way]}
    secret = None if way == "none" else CLIENT_SECRET
    with site_of(provider, client_secret=secret) as site:
        site.tokens()
    [asked] = provider.at("/token")
    if way == "client_secret_basic":
        assert b64decode(asked.token) == b"mcp-server:the%20secret%20%2F%20of%20the%20server"
        assert "client_secret" not in asked.form
    else:
        assert "authorization" not in asked.headers
        assert (asked.form["client_id"], asked.form.get("client_secret")) == (CLIENT, secret)


def test_facts_that_are_not_in_the_token_are_asked_for(provider: IdentityProvider) -> None:
    with site_of(provider, allow=["@example.com"]) as site:
        site.tokens()
        assert len(provider.at("/userinfo")) == 1
        provider.id_claims = {"name": "Ada", "email": "a@example.com", "email_verified": True}
        site.tokens()
    assert len(provider.at("/userinfo")) == 1
    assert len(provider.at("/.well-known/openid-configuration")) == 1


@pytest.mark.parametrize("scopes", [(), ("offline_access", "files")])
def test_the_redirect_to_the_provider(provider: IdentityProvider, scopes: tuple[str, ...]) -> None:
    more = {"parameters": {"hint": "x"}, "offline": {"access_type": "offline"}}
    place = Provider("P", issuer=provider.url, **more)  # type: ignore[arg-type]
    found = UpstreamLogin(place, client_id=CLIENT, scopes=scopes, allow=lambda user: True)
    with serving(login=found) as site:
        sent = fields_of(site.browser.open(site.authorize_url()).location or "")
    assert [len(sent.pop(name)) for name in ("state", "nonce", "code_challenge")] == [43] * 3
    assert sent == {
        "client_id": CLIENT,
        "code_challenge_method": "S256",
        "hint": "x",
        "redirect_uri": f"{site.origin}/authorize/login",
        "response_type": "code",
        "scope": " ".join(("openid profile email", *scopes)),
        "tenant": "a",  # of the address itself
        **({"access_type": "offline", "prompt": "consent"} if scopes else {}),
    }


WRITERS: Final = {"ada@example.com": ["notes:write"]}


async def waits(user: User) -> bool:
    return user.upstream is not None and user.upstream.access_token == "upstream-access-1"


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        (["ada@example.com"], "notes:read notes:write"),
        (["ID"], "notes:read notes:write"),
        (["@example.com"], "notes:read notes:write"),
        ({"ada@example.com": None}, "notes:read notes:write"),
        (WRITERS, "notes:write"),
        ({"@example.com": ["notes:read"], **WRITERS}, "notes:write"),
        (lambda user: user.claims["name"] == "Ada", "notes:read notes:write"),
        (lambda user: User("ada", scopes=frozenset({"notes:read"})), "notes:read"),
        (waits, "notes:read notes:write"),
        (["bob@example.com"], None),
        (["ada"], None),
        (["@ample.com"], None),
        ([], None),
        (lambda user: False, None),
        (lambda user: user.claims.get("admin"), None),
        (["ADA@Example.com"], "notes:read notes:write"),
        (["ada@ex\u00e4mple.com"], None),
    ],
)
def test_allowed_users_log_in(provider: IdentityProvider, allow: Any, expected: str | None) -> None:
    if allow == ["ID"]:
        allow = [f"{provider.url.partition('//')[2]}:248289"]
    with site_of(provider, allow=allow) as site:
        if expected is None:
            answer = site.log_in().answer
            said = (answer["error"], answer["error_description"])
            assert said == ("access_denied", "This account may not log in here")
            assert "code" not in answer
        else:
            assert site.tokens(scope="notes:read notes:write")["scope"] == expected


def test_only_verified_addresses_are_names(provider: IdentityProvider) -> None:
    with site_of(provider, allow=["ada@example.com", "boss@example.com", "@example.com"]) as site:
        for verified in (False, None, "true"):
            provider.user["email_verified"] = verified
            assert site.log_in().answer["error"] == "access_denied"
        # One address is verified, and not another one, which the ID token has.
        provider.user["email_verified"] = True
        provider.id_claims = {"email": "boss@example.com"}
        assert site.log_in().answer["error"] == "access_denied"


def test_accounts_are_known_by_their_number(provider: IdentityProvider) -> None:
    """Any user can take a free name, such as the number of an allowed one; SEC-17."""
    number = f"{provider.url.partition('//')[2]}:583231"
    with site_of(provider, "plain", allow=[number, "ada"]) as site:
        assert "code" in site.log_in().answer
        for account in (
            {"id": 666, "login": "583231"},
            {"id": None, "login": "Ada"},
            {"id": True},
            {"id": ""},
            {"id": 1, "more": "x" * 50_000},
        ):
            provider.account.update(account)
            assert site.log_in().answer["error"] == "access_denied", account


def test_the_domain_of_an_organization(provider: IdentityProvider) -> None:
    """Users who have left keep an account with the address."""
    place = Provider("P", issuer=provider.url, domain="hd")
    found = UpstreamLogin(place, client_id=CLIENT, allow=["@example.com"])
    with serving(login=found) as site:
        assert site.log_in().answer["error"] == "access_denied"
        provider.user["hd"] = "example.com"
        assert "code" in site.log_in().answer


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"provider": "github"}, "anyone can have an account with GitHub"),
        ({"provider": "google"}, "anyone can have an account with Google"),
        ({"provider": "https://accounts.google.com"}, "an account with Google"),
        ({"provider": "https://gitlab.com"}, "an account with gitlab.com"),
        ({"provider": "entra", "tenant": "9188040d-6c67-4c5b-b112-36a304b66dad"}, "with Microsoft"),
        ({"provider": "github", "allow": ["@acme"]}, "GitHub has no domains of users"),
        ({"provider": "gihub"}, "there is no provider 'gihub': use github, google, entra"),
        ({"provider": "http://example.com"}, "not encrypted; use https"),
        ({"provider": "entra"}, "Microsoft needs tenant="),
        ({"provider": "entra", "tenant": "common"}, "Microsoft needs tenant="),
        ({"provider": "github", "allow": "ada"}, r"a list of names: \['ada'\]"),
        ({"provider": "github", "allow": ["@"]}, "'@' is not a name"),
        ({"provider": "github", "allow": ["a"], "tenant": "x"}, "tenant= is not an option of"),
        ({"provider": "github", "allow": ["a"], "client_id": ""}, "register this server with"),
        ({"provider": "github", "allow": ["a"], "scopes": ["a b"]}, "'a b' is not a scope"),
        *(
            ({"provider": each, "allow": ["a"], "client_secret": secret}, "client_secret= is miss")
            for each in ("github", "google", "https://accounts.google.com")
            for secret in (None, "")
        ),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        UpstreamLogin(**{"client_id": CLIENT, "client_secret": CLIENT_SECRET, **options})


def test_logins_that_make_no_sense_together_are_refused() -> None:
    google = UpstreamLogin("google", client_id=CLIENT, client_secret="x", allow=["a"])
    with pytest.raises(ValueError, match="two logins with the same provider"):
        AuthorizationServer([google, google])
    with pytest.raises(ValueError, match="needs at least one Login"):
        AuthorizationServer([])


def test_the_tenant_of_entra_is_a_part_of_its_issuer() -> None:
    tenant = "8F3E0E2C-1234-4567-89AB-0123456789AB"
    entra = UpstreamLogin("entra", client_id=CLIENT, tenant=tenant)
    assert entra._issuer == f"https://login.microsoftonline.com/{tenant.lower()}/v2.0"


FORGED: Final[dict[str, Callable[[IdentityProvider], object]]] = {
    "for another client": lambda p: p.id_claims.update(aud="another user"),
    "of another login": lambda p: p.id_claims.update(nonce="another"),
    "of no login": lambda p: p.id_claims.update(nonce=None),
    "for another party": lambda p: p.id_claims.update(aud=[CLIENT, "b"], azp="b"),
    "without a subject": lambda p: p.id_claims.update(sub=None),
    "with a strange key": lambda p: setattr(p, "id_key", Key("two")),
    "that is missing": lambda p: p.token_changes.update(id_token=None),
    "and facts of another user": lambda p: p.user.update(sub="1") or p.id_claims.update(sub="2"),
    "and no access token": lambda p: p.token_changes.update(access_token=None),
    "and a token that breaks lines": lambda p: p.token_changes.update(access_token="a\r\nX: b"),
}
METADATA: Final[tuple[dict[str, str | None], ...]] = (
    {"issuer": "https://login.example.org"},
    {"token_endpoint": "http://login.example.com/token"},
    {"authorization_endpoint": "javascript:alert(1)"},
    {"authorization_endpoint": None},
    {"jwks_uri": None},
    {"userinfo_endpoint": "file:///etc/passwd"},
)


@pytest.mark.parametrize("forged", [*FORGED, *METADATA], ids=str)
def test_bad_id_tokens_and_metadata(provider: IdentityProvider, forged: Any) -> None:
    """AUTH-3, SEC-16, OpenID Connect Core 3.1.3.7, Discovery 4.3: the user may try again."""
    if isinstance(forged, str):
        FORGED[forged](provider)
    else:
        provider.metadata = forged
    with site_of(provider) as site:
        text = problem_of(site)
        assert ("has not confirmed" if isinstance(forged, str) else "does not answer") in text


REFUSED: Final = {"code": None, "error": "access_denied", "error_description": "<b>no</b>"}


@pytest.mark.parametrize("back", [{"iss": "https://evil.example.com"}, {"iss": None}, REFUSED])
def test_mix_up_and_refusals(provider: IdentityProvider, back: dict[str, str | None]) -> None:
    """RFC 9207: mix-up."""
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    provider.back = {"iss": provider.url, **back}
    with site_of(provider) as site:
        answer = site.log_in().answer
        assert answer["error"] == "access_denied"
        assert "<b>" not in answer["error_description"]
        assert len(provider.at("/token")) == 0
        provider.back = {"iss": provider.url}
        assert "code" in site.log_in().answer


def return_of(site: Site, browser: Browser) -> str:
    """Where the provider sends a browser back."""
    return browser.open(browser.open(site.authorize_url()).location or "").location or ""


@pytest.mark.parametrize("kind", ["openid", "plain"])
def test_a_code_of_another_login_gives_nothing(provider: IdentityProvider, kind: str) -> None:
    """PKCE: a code that another user was sent, brought along in one's own login."""
    with site_of(provider, kind) as site:
        provider.back = {"code": fields_of(return_of(site, Browser()))["code"]}
        problem_of(site)


def test_an_answer_is_taken_once_from_the_browser_that_began(provider: IdentityProvider) -> None:
    """AUTH-11: a user is sent the end of another one's login."""
    with site_of(provider) as site:
        mine = Browser()
        back = return_of(site, mine)
        assert Browser().open(back).status == 400
        assert len(provider.at("/token")) == 0
        assert mine.open(back).location is not None
        assert mine.open(back).status == 400
        assert len(provider.at("/token")) == 1


@pytest.mark.parametrize("kind", ["openid", "plain"])
def test_the_user_may_try_again(provider: IdentityProvider, kind: str) -> None:
    provider.refuses = 500
    with site_of(provider, kind) as site:
        link = problem_of(site).partition('href="')[2].partition('"')[0]
        provider.refuses = 0
        assert site.browser.walk(unescape(link), BACK).startswith(f"{BACK}?code=")


@pytest.mark.parametrize("kind", ["openid", "plain"])
def test_a_handler_may_use_them(provider: IdentityProvider, kind: str) -> None:
    """AUTH-9: after the user's consent; the client has another token than the provider's."""
    with site_of(provider, kind) as site:
        text = last_page(site).text
        assert "You are <strong>Ada</strong>" in text
        assert "Allow An editor to access Notes?" in text
        token = site.tokens()["access_token"]
        assert site.said(token, "upstream") == provider.access_token
        claims = jwt.decode(token, options={"verify_signature": False})
        assert provider.access_token not in str(claims)
        assert site.call(provider.access_token).status == 401
        bearers = [each.token for path in ("/userinfo", "/account") for each in provider.at(path)]
        assert all(each.startswith("upstream-access-") for each in bearers)


def test_they_are_renewed_until_the_login_at_the_provider_ends(provider: IdentityProvider) -> None:
    provider.lasts = 600
    with site_of(provider) as site:
        tokens = site.tokens()
        token = tokens["access_token"]
        for number in (1, 2, 3):
            assert site.said(token, "upstream") == f"upstream-access-{number}"
            site.clock.now += 590
        for status in (429, 503):  # which end nothing
            provider.refuses = status
            assert site.said(token, "upstream").startswith("ProviderUnavailable: ")
        provider.refuses = 0
        provider.token_changes = {"refresh_token": None}
        token = site.tokens()["access_token"]  # which cannot be renewed
        site.clock.now += 590
        assert site.said(token, "upstream").startswith("LoginRefused: ")
        provider.refuses = 400
        token = tokens["access_token"] = site.refresh(tokens["refresh_token"]).json["access_token"]
        assert site.said(token, "upstream").startswith("LoginRefused: ")
        assert site.call(token).status == 401
        assert site.refresh(tokens["refresh_token"]).status == 400


async def test_two_processes_renew_them_once(provider: IdentityProvider, tmp_path: Path) -> None:
    """Refresh tokens that are used twice may end all; one whose caller leaves is stored, too."""
    clock = Clock()
    provider.lasts = 600
    several = [grants_of(login(provider, clock=clock), tmp_path / "a.db", clock) for _ in range(2)]
    provider.number = 1
    tokens = UpstreamTokens(provider.access_token, provider.refresh_token, clock.now + 600)
    sealed = several[0]._keys.seal(json.dumps({**asdict(tokens), "scopes": []}).encode())
    assert await several[0]._store.add("upstream", "g", sealed, clock.now + 1e6)
    clock.now += 590
    found: set[str] = set()

    async def renew(grants: Grants) -> None:
        found.add((await grants.upstream_tokens("g")).access_token)

    provider.delay = 0.1
    async with anyio.create_task_group() as group:
        group.start_soon(renew, several[0])
        await until(lambda: provider.at("/token"))
        group.cancel_scope.cancel()
    for _ in range(2):
        async with anyio.create_task_group() as group:
            for each in several * 3:
                group.start_soon(renew, each)
        clock.now += 590
    assert found == {"upstream-access-2", "upstream-access-3"}
    for each in several:
        await each._store.aclose()


def grants_of(found: UpstreamLogin, path: Path, clock: Clock) -> Grants:
    store = SqliteAuthStore(path, clock=clock)
    keys = KeyStore(store, [SECRET], 1e6, 3600, clock)
    return Grants(store, keys, found, 3600, 1e6, clock)


def test_stored_tokens_are_encrypted(provider: IdentityProvider, tmp_path: Path) -> None:
    """SEC-13: also while the user is still before the page that asks for consent."""
    clock = Clock()
    store = SqliteAuthStore(tmp_path / "auth.db", clock=clock)
    with serving(store, clock, login=login(provider, clock=clock)) as site:
        assert last_page(site).status == 200
        token = site.tokens()["access_token"]
        assert site.said(token, "upstream") == provider.access_token
        kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
        assert b"upstream" in kept, "the kind of what is kept, beside a random key"
        assert b"upstream-access" not in kept
        assert b"upstream-refresh" not in kept


@pytest.fixture
def other() -> Iterator[IdentityProvider]:
    with issuing(IdentityProvider) as found:
        found.number = 100
        yield found


@pytest.fixture
def several(provider: IdentityProvider, other: IdentityProvider) -> Iterator[Site]:
    clock = Clock()
    provider.lasts = other.lasts = 600
    users = Users({"bob": cheap_hash("the password of bob")}, clock=clock)
    providers = [login(provider, clock=clock), login(other, "plain", clock=clock)]
    with serving(clock=clock, login=[users, *providers]) as found:
        yield found


def links_of(page: Page) -> dict[str, str]:
    """The addresses to choose from, by what is written on them."""
    parts = [each.partition('">') for each in page.text.split('<a class="button" href="')[1:]]
    return {rest.partition("<")[0]: unescape(url) for url, _, rest in parts}


def test_users_choose_how_they_log_in(several: Site, provider: IdentityProvider) -> None:
    """And may choose another way before they have finished."""
    browser = Browser({"name": "bob", "password": "the password of bob"}, "allow")
    links = links_of(browser.open(several.authorize_url()))
    host = provider.url.partition("//")[2]
    assert list(links) == ["Log in with a password", f"Log in with {host}", "Log in with Plain"]
    assert browser.open(links["Log in with a password"]).forms
    assert browser.walk(links["Log in with Plain"], BACK).startswith(f"{BACK}?code=")
    links = links_of(browser.open(several.authorize_url()))
    wrong = links["Log in with a password"].replace("chosen=0", "chosen=7")
    assert list(links_of(browser.open(wrong))) == list(links)
    assert browser.walk(links["Log in with a password"], BACK).startswith(f"{BACK}?code=")
    assert browser.open(f"{several.origin}/authorize/login/elsewhere").status == 404


@pytest.mark.parametrize(("number", "first"), [(1, 1), (2, 101)])
def test_tokens_are_renewed_where_they_came_from(several: Site, number: int, first: int) -> None:
    given, verifier = several.parameters()
    page = several.browser.open(f"{several.origin}/authorize?{urlencode(given)}")
    back = several.browser.walk(list(links_of(page).values())[number], BACK)
    asked = Asked(fields_of(back), verifier, given["client_id"], BACK)
    token = several.redeem(asked).json["access_token"]
    for each in (first, first + 1):
        assert several.said(token, "upstream") == f"upstream-access-{each}"
        several.clock.now += 590


def test_an_answer_comes_to_the_place_of_its_provider(
    several: Site, provider: IdentityProvider, other: IdentityProvider
) -> None:
    """Mix-up: a provider passes on what another one has answered (RFC 9700, 4.4.2)."""
    browser = several.browser
    links = list(links_of(browser.open(several.authorize_url())).values())
    hosts = [each.url.partition("//")[2] for each in (provider, other)]
    for link, host in zip(links[1:], hosts, strict=True):
        sent = fields_of(browser.open(link).location or "")
        assert sent["redirect_uri"] == f"{several.origin}/authorize/login/{host}"
    # The last that was chosen is the other one; the first answers, at its own place.
    state = fields_of(browser.open(links[2]).location or "")["state"]
    answer = urlencode({"code": "of the first", "state": state})
    for place in (f"/{hosts[0]}", ""):
        page = browser.open(f"{several.origin}/authorize/login{place}?{answer}")
        assert list(links_of(page).values()) == links
    assert provider.at("/token") == other.at("/token") == []
