"""Notifications of extensions over HTTP: they count as requests do, and are answered with 202."""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import Any

import pytest

from mcpkit import Context, Extension
from tests.kit import eventually
from tests.messages import (
    BATCHES,
    LAST_HANDSHAKE,
    LEGACY,
    MODERN,
    announced,
    meta,
    notification,
    request,
)
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import JSON, Exchange, Site, Talk

MOVED = "notifications/geo/moved"
every_revision = pytest.mark.parametrize("revision", [*LEGACY, MODERN])


@pytest.fixture
def moving(serve: Serve) -> Site:
    """An app whose extension takes notifications, with room for two requests."""
    return _moving(serve(max_requests=2, max_each=10**6))


def _moving(site: Site) -> Site:
    geo = Extension("com.example/geo", mandatory=False)

    @geo.notification(MOVED)
    async def moved(
        ctx: Context, name: str = "", say: bool = False, ask: bool = False, leave: bool = False
    ) -> None:
        if leave:
            ctx.close_stream()
        if say:
            ctx.info("moving")
        if ask:
            await ctx.elicit("Where to?", str)
        if name:
            await site.stage.wait(name)
        site.stage.signal("moved", name)

    site.app.extend(geo)
    return site


def sender(site: Site, revision: str) -> Any:
    """Sends the notification in a revision."""
    if revision != MODERN:
        return site.begin(revision).notify

    def notify(method: str, _headers: Any = None, **params: Any) -> Exchange:
        message = announced(None, method, **params)
        del message["id"]
        return site.modern(message, _headers)

    return notify


@every_revision
def test_the_response_comes_when_the_handler_has_returned(moving: Site, revision: str) -> None:
    """HTTPM-3, HTTPL-4: 202 without a body, though the handler says something."""
    answer = sender(moving, revision)(MOVED, name="a", say=True)
    moving.stage.expect("begun", "a")
    moving.stage.release("a")
    assert (answer.status, answer.body) == (202, b"")
    assert moving.stage.has("moved", "a")


@every_revision
def test_it_counts_as_a_request(moving: Site, revision: str) -> None:
    """SEC-17."""
    notify = sender(moving, revision)
    held = [notify(MOVED, name=each) for each in ("a", "b")]
    for each in ("a", "b"):
        moving.stage.expect("begun", each)
    assert notify(MOVED).status == 503
    for each in ("a", "b"):
        moving.stage.release(each)
    assert [each.status for each in held] == [202, 202]
    assert eventually(lambda: notify(MOVED).status == 202)


@every_revision
@pytest.mark.parametrize("params", [{"name": 5}, {"ask": True}])
def test_a_failure_is_only_logged(
    moving: Site, revision: str, params: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot ask either."""
    answer = sender(moving, revision)(MOVED, **params)
    assert (answer.status, answer.body) == (202, b"")
    assert eventually(lambda: f"{MOVED} failed" in caplog.text)


@pytest.mark.parametrize("message", [notification(MOVED), notification(MOVED, _meta=meta())])
@pytest.mark.parametrize("method", ["tools/call", None])
def test_its_headers_must_agree_with_it(moving: Site, message: Any, method: str | None) -> None:
    """EXT-16, HTTPM-2, also without the members that requests need."""
    assert moving.modern(message, {"Mcp-Method": method}).refusal == (400, -32020)
    assert not moving.stage.has("moved", "")


def test_without_meta_it_is_one_of_a_client_without_capabilities(moving: Site) -> None:
    """META-1 demands the members of requests only."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": MOVED}
    assert moving.post(notification(MOVED), headers).status == 202
    assert moving.stage.has("moved", "")


@pytest.mark.parametrize(
    "batch", [*permutations([notification(MOVED, name="a"), request(1, "ping")])]
)
def test_the_response_to_a_batch_comes_when_all_have_ended(moving: Site, batch: Any) -> None:
    """MSG-12. Until then its notifications count, and can time out."""
    talk: Talk = moving.begin(BATCHES)
    answer = talk.post(list(batch))
    moving.stage.expect("begun", "a")
    assert moving.state.requests.used == 2
    moving.stage.release("a")
    assert (answer.status, answer.kind) == (200, JSON)
    assert moving.stage.has("moved", "a")
    assert [each["id"] for each in answer.json] == [1]
    assert eventually(lambda: moving.state.requests.used == 0)


def test_each_notification_of_a_batch_needs_room(moving: Site) -> None:
    """SEC-17."""
    talk: Talk = moving.begin(BATCHES)
    assert talk.post([notification(MOVED), notification(MOVED)]).status == 202
    assert talk.post([notification(MOVED), notification(MOVED), notification(MOVED)]).status == 503


@pytest.mark.parametrize("batch", [*permutations([notification(MOVED, name="a"), 5])])
def test_an_invalid_part_is_reported_in_any_place(moving: Site, batch: Any) -> None:
    """MSG-8."""
    answer = moving.begin(BATCHES).post(list(batch))
    moving.stage.expect("begun", "a")
    moving.stage.release("a")
    assert answer.refusal == (400, -32600)


def test_a_notification_of_a_batch_times_out(serve: Serve) -> None:
    """SEC-17, also if the requests beside it are answered."""
    site = _moving(serve(request_timeout=0.3))
    answer = site.begin(BATCHES).post([request(1, "ping"), notification(MOVED, name="a")])
    site.stage.expect("been cancelled", "a")
    assert [each["id"] for each in answer.json] == [1]


def test_its_response_is_never_a_stream(moving: Site) -> None:
    """HTTPL-4: there is nothing that its client could come back for."""
    answer = moving.begin(LAST_HANDSHAKE).notify(MOVED, leave=True)
    assert (answer.status, answer.body) == (202, b"")


@every_revision
def test_its_meta_is_that_of_requests(moving: Site, revision: str) -> None:
    """It may be null, but a token is one (PROG-1)."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": MOVED}
    post = (
        partial(moving.post, headers=headers) if revision == MODERN else moving.begin(revision).post
    )
    assert post(notification(MOVED, _meta=None)).status == 202
    assert post(notification(MOVED, _meta={"progressToken": {}})).refusal == (400, -32602)
    assert post(notification("notifications/other", _meta=5)).status == 202


@pytest.mark.parametrize("method", [[], {}])
def test_a_method_that_is_no_text_is_refused(moving: Site, method: Any) -> None:
    """MSG-1."""
    talk = moving.begin(LAST_HANDSHAKE)
    for message in (request(1, method), notification(method)):
        assert talk.post(message).refusal == (400, -32600)
