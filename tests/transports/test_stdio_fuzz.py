"""Thousands of malformed lines: nothing crashes, hangs, or loses the connection (STDIO-6)."""

from __future__ import annotations

import copy
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.messages import MODERN, request
from tests.transports.processes import LEGACY, TIMEOUT, Process, modern, served

pytestmark = pytest.mark.timeout(120)

BATCH = 200
"""Lines that are sent before the server has to answer a valid request again."""

PARAMS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "tools/call": {
        "name": "typed",
        "arguments": {"number": 1, "ratio": 0.5, "flag": True, "names": ["a"], "table": {"a": 1}},
    },
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "served://fixed"},
    "prompts/list": {"cursor": "x"},
    "prompts/get": {"name": "ask", "arguments": {"question": "?", "tone": "rude"}},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "ask"},
        "argument": {"name": "tone", "value": "k"},
        "context": {"arguments": {"question": "?"}},
    },
}
LEGACY_PARAMS: dict[str, dict[str, Any]] = {
    **PARAMS,
    "ping": {},
    "initialize": {
        "protocolVersion": LEGACY,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "x", "version": "1"},
    },
    "logging/setLevel": {"level": "info"},
    "resources/subscribe": {"uri": "served://fixed"},
    "resources/unsubscribe": {"uri": "served://fixed"},
}
MODERN_PARAMS: dict[str, dict[str, Any]] = {
    **PARAMS,
    "server/discover": {},
    "subscriptions/listen": {
        "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["served://fixed"]}
    },
}
NOTICES = [
    {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}
    for name, params in {
        "initialized": {},
        "cancelled": {"requestId": 1, "reason": "why"},
        "progress": {"progressToken": 1, "progress": 1},
        "roots/list_changed": {},
        "unknown": {},
    }.items()
]
ANSWERS: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no", "data": {}}},
]
WRONG: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 10**30, "", "x"),
    *([], [None], {}, {"": {}}, {"_meta": 1}),
)
BY_HAND = [
    b"null",
    b"1",
    b'"text"',
    b"{}",
    b"[]",
    b"[{}]",
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e3,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"' + b"i" * 5000 + b'","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":-0,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":[]}',
    b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
    b'{"jsonrpc":"2.0","id":"\\udfff","method":"ping"}',
    b'{"jsonrpc":"2.0","id":"\xed\xa0\x80","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}',
    b"[" * 100_000,
    b"[" * 5000 + b"]" * 5000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * 150 + b"1" + b"}" * 151,
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"\xff\xfe{\x00}\x00",
    b"\x1b[0m",
    b"'single'",
    b"{'jsonrpc': '2.0'}",
    b"// comment",
    b"{},",
    b"{}{}",
    b"Content-Length: 10\r",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a JSON value."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def replaced(message: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    """A message with another value at a place; ``...`` stands for none."""
    broken = copy.deepcopy(message)
    holder: Any = broken
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return json.dumps(broken).encode()


def malformed(valid: list[dict[str, Any]], chance: random.Random) -> list[bytes]:
    """Lines of every kind, always the same."""
    lines = list(BY_HAND)
    for message in (*valid, *NOTICES, *ANSWERS):
        lines += (
            replaced(message, path, wrong) for path in places(message) for wrong in (*WRONG, ...)
        )
        text = json.dumps(message).encode()
        lines += [text[:at] for at in range(1, len(text), 5)]
        for _ in range(40):
            at = chance.randrange(len(text))
            lines.append(text[:at] + chance.randbytes(1) + text[at + 1 :])
    lines += [chance.randbytes(chance.randrange(1, 80)) for _ in range(8000)]
    wanted = [line.replace(b"\n", b" ") for line in lines]
    chance.shuffle(wanted)
    return wanted


@dataclass
class Talk:
    """One server, and a request that it must answer."""

    server: Process
    request: Callable[[str], dict[str, Any]]
    _ids: Iterator[int] = field(default_factory=itertools.count)

    def still_answers(self, *lines: bytes) -> None:
        """Send lines, and then a valid request, which must be answered."""
        id = f"still there? {next(self._ids)}"
        data = [line.replace(b"\n", b" ") for line in lines]
        sent = threading.Thread(target=self.server.send, args=(*data, self.request(id)))
        sent.start()
        message: Any = None
        while not isinstance(message, dict) or message.get("id") != id:
            line = self.server.line()
            assert line is not None, f"the server has ended: {self.server.stderr[-2000:]}"
            message = json.loads(line)  # every line is JSON
        assert "result" in message
        sent.join(TIMEOUT)
        assert not sent.is_alive()


def requests_of(era: str) -> list[dict[str, Any]]:
    if era == MODERN:
        return [modern(1, name, **params) for name, params in MODERN_PARAMS.items()]
    return [request(1, name, **params) for name, params in LEGACY_PARAMS.items()]


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def era(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def talk(era: str) -> Iterator[Talk]:
    with served() as server:
        if era == MODERN:
            yield Talk(server, lambda id: modern(id, "server/discover"))
        else:
            server.shake_hands(era)
            yield Talk(server, lambda id: request(id, "ping"))


def test_ten_thousand_malformed_lines(talk: Talk, era: str) -> None:
    """Those made by hand alone as well."""
    lines = malformed(requests_of(era), random.Random(8))
    assert len(lines) >= 10_000
    for start in range(0, len(lines), BATCH):
        talk.still_answers(*lines[start : start + BATCH])
    for line in BY_HAND:
        talk.still_answers(line)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_any_member(talk: Talk, era: str, data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(requests_of(era)))
    path = data.draw(st.sampled_from(list(places(message))))
    talk.still_answers(replaced(message, path, data.draw(json_values)))


def test_at_the_end_nothing_is_left_running(talk: Talk) -> None:
    """The last test: everything that malformed lines started has ended or can be ended."""
    talk.server.close_stdin()
    assert talk.server.exit_code(within=3) == 0
