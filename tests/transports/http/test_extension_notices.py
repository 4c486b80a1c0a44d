"""Notifications of extensions over HTTP: they count as requests do, and are answered with 202."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, Extension
from tests.kit import eventually
from tests.messages import BATCHES, LEGACY, MODERN, announced, notification, request
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import JSON, Exchange, Site, Talk

MOVED = "notifications/geo/moved"
every_revision = pytest.mark.parametrize("revision", [*LEGACY, MODERN])


@pytest.fixture
def moving(serve: Serve) -> Site:
    """An app whose extension takes notifications, with room for two requests."""
    site = serve(max_requests=2, max_each=10**6)
    geo = Extension("com.example/geo", mandatory=False)

    @geo.notification(MOVED)
    async def moved(ctx: Context, name: str = "", say: bool = False, ask: bool = False) -> None:
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


def test_its_headers_must_agree_with_it(moving: Site) -> None:
    """EXT-16, HTTPM-2."""
    refused = sender(moving, MODERN)(MOVED, {"Mcp-Method": "tools/call"})
    assert refused.refusal == (400, -32020)
    assert not moving.stage.has("moved", "")


def test_without_meta_it_is_one_of_a_client_without_capabilities(moving: Site) -> None:
    """META-1 demands the members of requests only."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": MOVED}
    assert moving.post(notification(MOVED), headers).status == 202
    assert moving.stage.has("moved", "")


def test_a_batch_has_the_responses_of_its_requests(moving: Site) -> None:
    """MSG-12."""
    talk: Talk = moving.begin(BATCHES)
    answer = talk.post([notification(MOVED), request(1, "ping"), notification(MOVED)])
    assert (answer.status, answer.kind) == (200, JSON)
    assert [each["id"] for each in answer.json] == [1]
    assert talk.post([notification(MOVED), notification(MOVED)]).status == 202
