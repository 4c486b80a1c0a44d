"""What attackers try, and how each is answered; honest clients are served afterwards."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from mcpkit.auth import Keys, hash_key
from tests.auth import attacks_on_logins, attacks_on_resources
from tests.auth.attacks_on_logins import victim
from tests.auth.attacks_on_resources import META, Attack, Ground
from tests.auth.browser import Page, fields_of
from tests.auth.issuer import Issuer, issuing
from tests.auth.server.conftest import Site, serving
from tests.transports.http.wire import Exchange, hosting


@pytest.fixture(scope="module")
def shared_ground() -> Iterator[Ground]:
    with issuing(Issuer) as issuer, hosting() as host:
        yield Ground(host, issuer)


@pytest.fixture
def ground(shared_ground: Ground) -> Iterator[Ground]:
    yield shared_ground
    shared_ground.site.host.close_all()


def error_of(answer: Exchange) -> str | None:
    """The error of the challenge."""
    found = re.search(r'error="(\w+)"', answer.header("www-authenticate") or "")
    return None if found is None else found[1]


def code_of(answer: Exchange) -> int | None:
    body: Any = answer.json if answer.kind == "application/json" and answer.body else {}
    code: int | None = body.get("error", {}).get("code") if isinstance(body, dict) else None
    return code


@pytest.mark.parametrize("attack", attacks_on_resources.ATTACKS.values(), ids=str)
def test_attacks(ground: Ground, attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """AUTH-1, AUTH-6, AUTH-8, AUTH-9, AUTH-10, AUTH-12, AUTH-16, AUTH-17.

    SEC-1, SEC-5…9, SEC-13, SEC-16, SEC-18.
    """
    caplog.set_level("DEBUG")
    assert ground.is_served(ground.ann)
    answer = attack.send(ground)
    assert (answer.status, error_of(answer), code_of(answer)) == attack.answer
    challenge = answer.header("www-authenticate") or ""
    if answer.status == 401:
        assert f'resource_metadata="https://notes.example.com{META}/mcp"' in challenge
    assert "evil" not in challenge
    assert ground.issuer.times("/evil") == 0, "nothing is fetched from where a token says"
    token = ground.ann["Authorization"].removeprefix("Bearer ")
    assert token not in caplog.text
    assert token not in str(ground.issuer.asked), "it is not passed on"
    assert ground.is_served(ground.ann)


def test_the_time_of_an_answer_tells_nothing_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-16: hashes are compared, whole ones, in constant time, and all of them each time."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    known = ["the-first-of-some-keys", "the-second-of-some-keys", "the-third-of-some-keys"]
    keys = Keys({hash_key(each): each for each in known})
    for sent in (*known, known[0][:-1], "nothing-like-them"):
        compared.clear()
        found = anyio.run(keys.verify, sent, None)
        assert (None if found is None else found.id) == (sent if sent in known else None)
        digest = hashlib.sha256(sent.encode()).digest()
        assert [(len(one), other) for one, other in compared] == [(32, digest)] * len(known)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as found:
        yield found


def error_said(page: Page) -> str | None:
    """The error for the client: in JSON, or in the redirect."""
    if page.location is not None:
        return fields_of(page.location).get("error")
    if page.headers.get_content_type() == "application/json" and page.status >= 400:
        found = page.json.get("error")
        return found if isinstance(found, str) else None
    return None


@pytest.mark.parametrize("attack", attacks_on_logins.ATTACKS.values(), ids=str)
def test_attacks_on_logins(site: Site, attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    """AUTH-8, AUTH-15, AUTH-16, SEC-13, SEC-16, SEC-18, and RFC 9700."""
    caplog.set_level("DEBUG")
    honest = site.tokens(victim())
    page = attack.send(site)
    assert (page.status, error_said(page)) == attack.answer
    assert "evil.example.com" not in (page.location or "")
    assert site.said(honest["access_token"]) == "ada False [notes:read]"
    assert site.said(site.tokens(victim())["access_token"]) == "ada False [notes:read]"
    for secret in honest["access_token"], honest["refresh_token"]:
        assert secret not in caplog.text
