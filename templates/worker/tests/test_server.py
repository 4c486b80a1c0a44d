"""Tests with clients that know tasks, and with clients that wait for the answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcpkit.testing import REVISIONS, TestClient

from __PACKAGE__.server import app

MAILING = {"group": "members", "subject": "News", "text": "All is well."}


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The outbox."""
    folder = tmp_path / "outbox"
    monkeypatch.setenv("OUTBOX", str(folder))
    return folder


def saying(agrees: bool) -> Any:
    """A user who agrees or declines."""

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert params["message"] == "Send 'News' to 5 people?"
        return {"action": "accept", "content": {"value": agrees}}

    return answer


@pytest.mark.parametrize("revision", [each for each in REVISIONS if each >= "2025-06-18"])
def test_everybody_gets_a_message(revision: str, outbox: Path) -> None:
    with TestClient(app, revision=revision, elicitation=saying(True)) as client:
        assert client.call_tool("send_mailing", MAILING).text == "5 messages were sent."
    assert len(list(outbox.iterdir())) == 5


def test_nobody_gets_one_unless_the_user_agrees(outbox: Path) -> None:
    with TestClient(app, elicitation=saying(False)) as client:
        assert client.call_tool("send_mailing", MAILING).text == "Nothing was sent."
    assert not outbox.exists()


def test_a_task_says_how_far_it_is(outbox: Path) -> None:
    with TestClient(app, elicitation=saying(True)) as client:
        task = client.start("send_mailing", MAILING)
        told = [each.message for each in task if each.message]
        assert task.result().text == "5 messages were sent."
    assert told[-1] == "messages sent (5 of 5)"
    assert len(list(outbox.iterdir())) == 5


def test_addresses_are_checked() -> None:
    with TestClient(app) as client:
        found = client.call_tool("check_addresses", {"group": "friends"})
        assert found.data == ["bob at example.com"]


def test_a_group_that_is_not_there_is_said() -> None:
    with TestClient(app) as client:
        refused = client.call_tool("check_addresses", {"group": "strangers"})
    assert refused.is_error
    assert refused.text == "Unknown group 'strangers'; the groups are members, friends."
