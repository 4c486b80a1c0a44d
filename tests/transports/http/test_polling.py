"""Streams that the server closes before their end, in 2025-11-25 only (HTTPL-5…7)."""

from __future__ import annotations

import pytest

from tests.messages import LAST_HANDSHAKE, LEGACY, MODERN
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, JSON, Site

POLLING = LAST_HANDSHAKE
OTHERS = [version for version in LEGACY if version != POLLING]


def test_a_stream_begins_with_an_id_to_come_back_with(site: Site) -> None:
    """HTTPL-6, HTTPL-7."""
    first, *_ = site.begin(POLLING).call("tell", texts=["one"]).events()
    assert set(first.fields) == {"id", "retry", "data"}
    assert (first.fields["data"], first.fields["retry"]) == ("", "1000")


def test_a_handler_closes_the_stream_and_the_answer_is_fetched(site: Site) -> None:
    """HTTPL-5, HTTPL-13, HTTPL-20: more than once, and before or after it is there."""
    talk = site.begin(POLLING)
    call = talk.call("leave", 7, name="fetched")
    assert (call.status, call.kind) == (200, EVENTS)
    [only] = call.events()
    assert only.fields["data"] == ""
    site.stage.release("fetched")
    for _ in range(2):
        fetched = talk.get(only.id)
        assert fetched.kind == EVENTS
        [answer] = fetched.messages()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "fetched went on")


def test_a_long_wait_can_be_resumed(serve: Serve) -> None:
    """HTTPL-6: as the first event comes before there is anything to say."""
    site = serve(stream_after=0.1)
    talk = site.begin(POLLING)
    call = talk.call("hold", name="resumed")
    last = call.event().id
    call.drop()
    site.stage.release("resumed")
    assert talk.get(last).text == "resumed went on"


@pytest.mark.parametrize("version", [*OTHERS, MODERN])
def test_other_clients_keep_their_stream(site: Site, version: str) -> None:
    """HTTPL-5, HTTPM-13: they would wait for an answer that does not come."""
    name = f"kept {version}"
    call = site.speaking(version).call("leave", name=name)
    site.stage.expect("begun", name)
    site.stage.release(name)
    assert (call.kind, call.text) == (JSON, f"{name} went on")
