"""What pages of other origins may ask and read, if the server's author lets them (``cors``)."""

from __future__ import annotations

import pytest

from tests.messages import initialize
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import Exchange, Site

ALLOWED = "https://app.example.com"
ASKED = "content-type,mcp-session-id,mcp-protocol-version,mcp-method,last-event-id,authorization"


@pytest.fixture
def site(serve: Serve) -> Site:
    return serve(cors=True, sse=True, allowed_origins=[ALLOWED, "https://dev.example.com:*"])


def preflight(site: Site, origin: str, method: str = "POST", path: str | None = None) -> Exchange:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": ASKED,
    }
    return site.send("OPTIONS", headers, path=path)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_preflight_of_an_allowed_origin_allows_the_headers_clients_send(
    site: Site, method: str
) -> None:
    answer = preflight(site, ALLOWED, method)
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == ALLOWED
    assert method in (answer.header("access-control-allow-methods") or "")
    allowed = (answer.header("access-control-allow-headers") or "").lower()
    assert set(ASKED.split(",")) <= {each.strip() for each in allowed.split(",")}


@pytest.mark.parametrize(
    "origin",
    [ALLOWED, "https://dev.example.com:5173", "http://localhost:5173", "http://127.0.0.1:6274"],
)
def test_an_allowed_page_reads_answers_and_the_session_id(site: Site, origin: str) -> None:
    answer = site.post(initialize(), {"Origin": origin})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == origin
    exposed = (answer.header("access-control-expose-headers") or "").lower()
    assert "mcp-session-id" in exposed
    assert "www-authenticate" in exposed
    assert answer.header("mcp-session-id")


@pytest.mark.parametrize("origin", ["https://evil.com", "https://dev.example.com.evil.com:1"])
def test_a_foreign_page_is_refused_and_may_not_read_even_that(site: Site, origin: str) -> None:
    answer = site.post(initialize(), {"Origin": origin})
    assert answer.status == 403
    assert answer.header("access-control-allow-origin") is None


@pytest.mark.parametrize("setting", ["https://APP.example.com", "https://app.example.com:443"])
def test_an_origin_is_allowed_however_the_setting_spells_it(serve: Serve, setting: str) -> None:
    site = serve(cors=True, allowed_origins=[setting])
    answer = site.post(initialize(), {"Origin": ALLOWED})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == ALLOWED


def test_every_origin_may_be_allowed(serve: Serve) -> None:
    site = serve(cors=True, allowed_origins=["*"])
    assert preflight(site, "https://any.example").status == 200
    answer = site.post(initialize(), {"Origin": "https://any.example"})
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == "*"


def test_without_the_option_no_preflight_is_answered(serve: Serve) -> None:
    answer = preflight(serve(allowed_origins=[ALLOWED]), ALLOWED)
    assert answer.status == 405
    assert answer.header("access-control-allow-origin") is None
