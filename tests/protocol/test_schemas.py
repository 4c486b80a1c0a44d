"""The helper that holds messages against the official schemas: it must be able to fail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.messages import BATCHES, LEGACY, VERSIONS, Message, notification, request
from tests.schemas import DATA, check, check_value, definitions

MODERN = "2026-07-28"
EXAMPLES = sorted((DATA / "examples" / MODERN).glob("*/*.json"))


def result(members: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": members}


def error(code: object, **data: object) -> dict[str, Any]:
    body = {"code": code, "message": "no"} | ({"data": data} if data else {})
    return {"jsonrpc": "2.0", "id": 1, "error": body}


# --- what it accepts ------------------------------------------------------------------------------


def test_every_official_example_has_the_type_of_its_folder() -> None:
    assert len(EXAMPLES) > 100
    for path in EXAMPLES:
        check_value(json.loads(path.read_text(encoding="utf-8")), MODERN, path.parent.name)


def test_messages_of_the_handshake_are_accepted() -> None:
    for version in LEGACY:
        check(result({}), version, "ping")
        check(request(1, "roots/list"), version)
    check(json.dumps([result({}), error(-32600)]).encode(), BATCHES, "ping")
    # The published schemas say integer where the specification says number.
    for version in ("2025-06-18", "2025-11-25", MODERN):
        check_value({"action": "accept", "content": {"degrees": 95.5}}, version, "ElicitResult")
    now = "2025-11-25T10:00:00Z"
    task = {"taskId": "t", "status": "working", "createdAt": now, "lastUpdatedAt": now, "ttl": None}
    check(result({"task": task}), "2025-11-25", "tools/call")


# --- what it rejects ------------------------------------------------------------------------------

TOOL = {"name": "t", "inputSchema": {"type": "object"}}

BROKEN_TEXT = {
    "no JSON": b"{",
    "NaN": b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}',
    "not UTF-8": b'{"jsonrpc":"2.0","id":"\xff","result":{}}',
    "a name twice": b'{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}',
    "two messages": b'{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":1,"result":{}}',
    "a number": b"1",
    "an empty batch": b"[]",
}


def passing(
    messages: Mapping[str, tuple[str | None, bytes | Message]], versions: Sequence[str] = VERSIONS
) -> list[tuple[str, str]]:
    """Which of these messages the helper lets pass, and in which revision."""
    found: list[tuple[str, str]] = []
    for version in versions:
        for name, (method, message) in messages.items():
            try:
                check(message, version, method)
            except AssertionError:
                continue
            found.append((version, name))
    return found


COMPLETE = result({"resultType": "complete"})
BROKEN: dict[str, dict[str, Any]] = {
    "neither result nor error nor method": {"jsonrpc": "2.0", "id": 1},
    "jsonrpc 1.0": COMPLETE | {"jsonrpc": "1.0"},
    "a null id": COMPLETE | {"id": None},
    "a float id": COMPLETE | {"id": 1.0},
    "result and error": error(-32600) | COMPLETE,
    "result and method": COMPLETE | {"method": "ping"},
    "a list as the result": COMPLETE | {"result": []},
    "a fractional error code": error(-32600.5),
    "an unknown notification": notification("notifications/invented"),
    "a client's notification": notification("notifications/initialized"),
    "a client's request": request(1, "tools/list"),
    "progress without a token": notification("notifications/progress", progress=1),
}


def stamped(members: dict[str, Any]) -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} | members


BROKEN_RESULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "no list of tools": ("tools/list", {}),
    "an unknown kind of content": ("tools/call", {"content": [{"type": "video"}]}),
    "content that is not base64": (
        "tools/call",
        {"content": [{"type": "image", "data": "?!", "mimeType": "image/png"}]},
    ),
    "a resource whose URI is none": ("resources/list", {"resources": [{"name": "r", "uri": "r"}]}),
    "contents that are neither": ("resources/read", {"contents": [{"uri": "a:b"}]}),
    "a method that does not exist": ("tools/invented", {}),
}


def test_broken_messages_are_rejected() -> None:
    messages: dict[str, tuple[str | None, bytes | Message]] = {
        **{name: (None, text) for name, text in BROKEN_TEXT.items()},
        **{name: (None, message) for name, message in BROKEN.items()},
    }
    for name, (method, members) in BROKEN_RESULTS.items():
        messages[name] = method, result(stamped(members))
    assert passing(messages) == []
    for version in VERSIONS:  # the stamp of these tests is not a fault
        check(result(stamped({"tools": [TOOL]})), version, "tools/list")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_exists_in_some_revisions_is_rejected_in_others(version: str) -> None:
    """MSG-8, CONT-1."""
    assert len(definitions(version)) > 70
    audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    some: dict[str, tuple[str | None, bytes | Message]] = {
        "a batch": (None, json.dumps([COMPLETE]).encode()),
        "an error without an id": (None, {"jsonrpc": "2.0", "error": error(-32700)["error"]}),
        "audio": ("tools/call", result(stamped({"content": [audio]}))),
    }
    expected = {"a batch": version == BATCHES, "audio": version != "2024-11-05"}
    expected["an error without an id"] = version in ("2025-11-25", MODERN)
    found = {name for _, name in passing(some, [version])}
    assert found == {name for name, passes in expected.items() if passes}


def test_a_broken_part_of_a_batch_is_rejected() -> None:
    parts: list[object] = [{"jsonrpc": "2.0"}, 1, [], [result({})]]
    batches: dict[str, tuple[str | None, bytes | Message]] = {
        str(part): (None, json.dumps([result({}), part]).encode()) for part in parts
    }
    assert passing(batches, [BATCHES]) == []


BROKEN_MODERN: dict[str, tuple[str | None, dict[str, Any]]] = {
    "a result without a resultType (MSG-14)": (None, result({})),
    "an unknown resultType (MSG-15)": ("tools/call", result({"resultType": "x", "content": []})),
    "a list without cache hints": ("tools/list", result({"resultType": "complete", "tools": []})),
    "a fractional ttlMs": ("tools/list", result(stamped({"tools": [], "ttlMs": 1.0}))),
    "input for a list": (
        "tools/list",
        result({"resultType": "input_required", "requestState": "s"}),
    ),
    "input without a question": ("tools/call", result({"resultType": "input_required"})),
    "an unknown question": (
        "tools/call",
        result({"resultType": "input_required", "inputRequests": {"a": {"method": "ping"}}}),
    ),
    "a request to the client (MSG-13)": (None, request(1, "roots/list")),
    "an answer to ping": ("ping", result({"resultType": "complete"})),
    "a code that is reserved (ERR-1)": (None, error(-32050)),
    "the code of older revisions": (None, error(-32002, uri="a:b")),
    "-32022 without its data": (None, error(-32022)),
    "-32021 with a list of names": (None, error(-32021, requiredCapabilities=["sampling"])),
    "listen results without their stream": (
        "subscriptions/listen",
        result({"resultType": "complete"}),
    ),
}


def test_a_message_that_breaks_the_newest_rules_is_rejected() -> None:
    assert passing(BROKEN_MODERN, [MODERN]) == []


def test_the_message_says_where_and_shows_what() -> None:
    with pytest.raises(AssertionError, match=r"(?s)tools\[0\].*inputSchema.*\"name\": \"t\""):
        check(result({"tools": [{"name": "t"}]}), "2025-06-18", "tools/list")
    with pytest.raises(AssertionError, match="defines no Invented"):
        check_value({}, MODERN, "Invented")
