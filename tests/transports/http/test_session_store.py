"""What is known of sessions that are not in use: their ends for good, their state for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from mcpkit import Limits, Principal
from mcpkit._server.channel import NO_STATE, SessionState
from mcpkit.http import HttpRequest
from mcpkit.transports.http import sessions
from mcpkit.transports.http.http_error import HttpError
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import owner_of
from mcpkit.transports.http.sessions import LocalStore
from tests.kit import eventually
from tests.transports.http.conftest import Serve, by_header
from tests.transports.http.wire import JSON, Talk

STORE: Final = "mcpkit.transports.http.sessions"
QUIET: Final = SessionState("error", frozenset({"wire://a"}))


# --- ends -----------------------------------------------------------------------------------------


def test_an_ended_session_stays_ended_and_one_that_cannot_end_continues(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPL-17, SEC-17: the bound is on sessions ended at once, not on those remembered."""
    monkeypatch.setattr(f"{STORE}.MAX_ENDS_EACH", 3)
    site = serve()
    *ended, talk = [site.begin() for _ in range(4)]
    stream = talk.get()
    assert [each.delete().status for each in ended] == [204] * 3
    refused = talk.delete()
    assert refused.refusal == (429, -32600)
    assert int(refused.header("retry-after") or 0) >= 1
    assert "was not ended" in refused.error
    site.call("touch", uri="wire://a")
    assert talk.request("resources/subscribe", uri="wire://a").status == 200
    site.call("touch", uri="wire://a")
    assert stream.message()["method"] == "notifications/resources/updated"
    assert [each.request("ping").status for each in ended] == [404] * 3


def test_all_principals_together_do_not_fill_the_memory(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-17."""
    monkeypatch.setattr(f"{STORE}.MAX_ENDS", 2)
    site = serve(principal=by_header)
    answers = []
    for user in ("ann", "bob", "eve"):
        who = {"X-User": user}
        talk = site.begin(headers=who)
        answers.append(site.send("DELETE", {**talk.headers, **who}))
    assert [each.status for each in answers] == [204, 204, 503]
    assert int(answers[-1].header("retry-after") or 0) >= 1


def client(host: str | None, principal: str | None = None) -> HttpRequest:
    scope: dict[str, Any] = {"headers": [], "client": None if host is None else (host, 1)}
    return HttpRequest(scope, None if principal is None else Principal(principal))


SAME: Final = {
    "network": (client("2001:db8:1:2::1"), client("2001:db8:1:2:8000::9")),
    "mapped address": (client("::ffff:192.0.2.1"), client("192.0.2.1")),
    "principal": (client("192.0.2.1", "ann"), client("192.0.2.2", "ann")),
    "unknown": (client(None), client(None)),
}
APART: Final = {
    "networks": (client("2001:db8:1:2::1"), client("2001:db8:1:3::1")),
    "addresses": (client("192.0.2.1"), client("192.0.2.2")),
    "principals": (client("192.0.2.1", "ann"), client("192.0.2.1", "bob")),
    "a name like an address": (client("192.0.2.1", "192.0.2.1"), client("192.0.2.1")),
    "a socket": (client("/run/a.sock"), client("192.0.2.1")),
}


@pytest.mark.parametrize("case", [*SAME, *APART])
def test_owners_are_principals_else_networks(case: str) -> None:
    one, other = (SAME | APART)[case]
    assert (owner_of(one) == owner_of(other)) is (case in SAME)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time as a test has it."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(f"{STORE}.time.time", lambda: clock.now)
    return clock


@pytest.fixture
def store() -> LocalStore:
    return LocalStore(HttpSettings(limits=Limits(max_sessions=3)))


def test_an_end_is_remembered_for_as_long_as_the_id_is_valid_and_then_makes_room(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPL-17, HTTPL-24."""
    monkeypatch.setattr(f"{STORE}.MAX_ENDS_EACH", 2)
    store = LocalStore(HttpSettings())
    store.end("late", 1500, "ann")
    store.end("soon", 1100, "ann")
    store.end("soon", 1100, "ann")
    clock.now = 1100
    store.drop_expired()
    assert store.ends.keys() == {"late", "soon"}
    with pytest.raises(HttpError) as caught:
        store.end("more", 1900, "ann")
    assert caught.value.status == 429
    clock.now = 1101
    store.drop_expired()
    assert store.ends.keys() == {"late"}
    store.end("more", 1900, "ann")
    assert store.ends.keys() == {"late", "more"}


# --- state that is put away -----------------------------------------------------------------------


def test_state_is_kept_for_a_limited_time_and_no_longer_than_its_session(
    store: LocalStore, clock: SimpleNamespace
) -> None:
    for key, until in (("a", 1100), ("b", 1200), ("ended", 1200)):
        store.put(key, QUIET, until)
    store.end("ended", 1200, "ann")
    clock.now = 1101
    assert store.take("a") is NO_STATE
    assert store.take("ended") is NO_STATE
    store.put("a", QUIET, 1100)
    store.drop_expired()
    assert len(store._states) == 1
    assert store.take("b") == QUIET


def test_the_state_that_was_put_away_first_makes_room(
    store: LocalStore, clock: SimpleNamespace
) -> None:
    """SEC-17."""
    for key in "abcd":
        store.put(key, QUIET, 1100)
    assert [bool(store.take(key)) for key in "abcd"] == [False, True, True, True]


def is_quiet(talk: Talk) -> bool:
    """Whether its log level is still the one that was set."""
    return talk.call("tell", texts=["one"]).kind == JSON


def test_an_evicted_session_keeps_its_log_level_and_subscriptions(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN §7: state is bounded."""
    monkeypatch.setattr(sessions, "_FINE", 0)  # sessions are in the exact order of their last use
    site = serve(max_sessions=2, max_each=10**6)
    talk = site.begin()
    assert talk.request("logging/setLevel", level="error").status == 200
    assert talk.request("resources/subscribe", uri="wire://a").status == 200
    for other in [site.begin() for _ in range(2)]:
        assert other.request("logging/setLevel", level="error").status == 200
    assert site.state.legacy.table.find(talk.token) is None
    assert is_quiet(talk)
    stream = talk.get()
    assert stream.status == 200
    site.call("touch", uri="wire://b")
    site.call("touch", uri="wire://a")
    assert stream.message()["params"] == {"uri": "wire://a"}
    live = site.state.legacy.table.find(talk.token)
    assert live is not None
    used = live.used
    assert talk.request("ping").result == {}
    assert eventually(lambda: live.used > used)


def test_the_state_of_a_session_that_is_not_used_is_dropped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_SWEEP", 0.05)
    site = serve(session_idle=0.5)
    talk = site.begin()
    assert talk.request("logging/setLevel", level="error").status == 200
    assert is_quiet(talk)
    held = site.state.legacy.table
    assert eventually(lambda: not held._known)
    assert not is_quiet(talk)


def test_a_session_that_begins_while_all_others_are_in_use_is_served(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that makes room for it is not the new one itself."""
    monkeypatch.setattr(f"{STORE}.MAX_IDLE", 1)
    site = serve()
    waiting = site.begin().call("hold", name="first")
    site.stage.expect("begun", "first")
    assert site.begin().call("add", a=1, b=2).text == "3"
    site.stage.release("first")
    assert waiting.status == 200
