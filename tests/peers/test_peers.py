"""Other people's clients use a server, on every revision and transport that they speak."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.peers.installed import INSTALLED, NODE, ROOT, copy_scripts, node, require
from tests.transports.http.plain import RUN, serving
from tests.warm import python

HERE = Path(__file__).parent
SERVER = HERE / "server.py"
FOLDERS = [INSTALLED / "python-1", INSTALLED / "python-2", NODE]

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST = "2026-07-28"


class Peer(NamedTuple):
    """A client, how it connects (a revision, or ``auto``), and over what."""

    client: str
    mode: str
    transport: str

    @property
    def revision(self) -> str:
        return LATEST if self.mode == "auto" else self.mode

    @property
    def modern(self) -> bool:
        return self.revision == LATEST

    @property
    def unasked(self) -> bool:
        """Whether it is given the revision, and need not ask who the server is."""
        return (self.client, self.mode) == ("official_python_2", LATEST)


MODES = {
    "official_python_1": HANDSHAKES,
    "official_python_2": (*HANDSHAKES, LATEST, "auto"),
    "typescript_1": HANDSHAKES,
    "typescript_2": (*HANDSHAKES, LATEST, "auto"),
}
OLD = {"official_python_1": ("2024-11-05", "2025-11-25"), "typescript_1": ("2024-11-05",)}
"""Who speaks HTTP+SSE as well; any revision may be negotiated over it (SSE-8)."""

PEERS = [
    *(Peer(client, mode, "stdio") for client, modes in MODES.items() for mode in modes),
    *(Peer(client, mode, "http") for client, modes in MODES.items() for mode in modes),
    *(Peer(client, mode, "sse") for client, modes in OLD.items() for mode in modes),
]

pytestmark = [
    pytest.mark.peers,
    pytest.mark.parametrize("peer", PEERS, ids="-".join),
]


@contextmanager
def reachable(transport: str) -> Iterator[list[str]]:
    """How a client reaches a new server: a command, or a URL."""
    if transport == "stdio":
        yield [python(), *RUN[1:], str(SERVER)]
        return
    with serving(str(SERVER), "--transport", transport, cwd=ROOT) as server:
        yield [server.url if transport == "http" else server.url.replace("/mcp", "/sse")]


def command_of(client: str) -> list[str]:
    if client.startswith("typescript"):
        return node(NODE / f"{client}.mjs")
    folder = client.replace("official_python_", "python-")
    return [str(INSTALLED / folder / "bin" / "python"), str(HERE / f"{client}.py")]


class Driver:
    """A client, which takes long to start, and so tries one server after the other."""

    def __init__(self, client: str, **variables: str) -> None:
        self._popen = subprocess.Popen(
            command_of(client),
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tell(self, *arguments: str) -> Any:
        """Give it a line of arguments: a revision or ``auto``, and a server; return its report."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        guard = threading.Timer(50, self._popen.kill)
        guard.start()
        try:
            self._popen.stdin.write(json.dumps(arguments) + "\n")
            self._popen.stdin.flush()
            line = self._popen.stdout.readline()
        finally:
            guard.cancel()
        if not line:
            raise ChildProcessError(self.end())
        return json.loads(line)

    def end(self) -> str:
        """End it; what it has complained about."""
        self._popen.kill()
        complaints: str = self._popen.communicate(timeout=50)[1]
        return complaints


def report_all(client: str, reports: dict[Peer, Future[dict[str, Any]]]) -> None:
    """Have a client try every server; it is started again if it does not survive one."""
    driver: Driver | None = None
    for peer, report in reports.items():
        if peer.client != client or not report.set_running_or_notify_cancel():
            continue
        try:
            driver = driver or Driver(client)
            with reachable(peer.transport) as server:
                report.set_result(driver.tell(peer.mode, *server))
        except BaseException as error:
            report.set_exception(error)
            if driver is not None:
                driver.end()
            driver = None
    if driver is not None:
        driver.end()


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest,
) -> Iterator[dict[Peer, Future[dict[str, Any]]]]:
    """The reports of all clients that tests ask for; the clients are beside each other."""
    require(*FOLDERS)
    copy_scripts()
    reports: dict[Peer, Future[dict[str, Any]]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path:
            peer: Any = item.callspec.params["peer"]
            reports.setdefault(peer, Future())
    with ThreadPoolExecutor(len(MODES)) as pool:
        all_tried = [pool.submit(report_all, client, reports) for client in MODES]
        yield reports
        for report in reports.values():
            report.cancel()
    for each in all_tried:
        each.result()


@pytest.fixture
def report(peer: Peer, reports: dict[Peer, Future[dict[str, Any]]]) -> dict[str, Any]:
    return reports[peer].result()


def answer(text: str, structured: Any = None, *, is_error: bool = False) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "structured": structured,
        "is_error": is_error,
    }


CALLED = [
    *("add", "decide", "everywhere", "explode", "locate", "look", "picture"),
    *("refuse", "shout", "think"),
]
"""The tools that a client has called when it asks for their spans."""


def expected(peer: Peer) -> dict[str, Any]:
    """What a client reports, by revision."""
    revision = peer.revision
    place, oslo = {"city": "Lisbon", "latitude": 38.7}, {"city": "Oslo", "latitude": 59.9}
    capabilities = ["completions", "extensions", "logging", "prompts", "resources", "tools"]
    if revision == "2024-11-05":
        capabilities.remove("completions")

    def structured(value: Any) -> Any:
        """TOOL-11: before 2025-06-18 there is no structured content."""
        return value if revision >= "2025-06-18" else None

    if revision >= "2025-06-18":
        decided = answer("red in Lisbon")
    else:
        decided = answer(f"revision {revision} has no elicitation", is_error=True)
    messages = ("number 1", "number 2") if revision >= "2025-03-26" else (None, None)
    # TypeScript 2 shows the new code for the old one.
    new_code = peer.modern or peer.client == "typescript_2"
    travel = {"type": "text", "text": "Plan 2 days in Oslo, Norway."}
    return {
        "revision": revision,
        "server": None if peer.unasked else ["peers", "1.2.3"],
        "instructions": None if peer.unasked else "Try everything.",
        "capabilities": [] if peer.unasked else capabilities,
        "tools": {
            "add": "Add two numbers.",
            "shout": "Say it louder.",
            "locate": "Find a city.",
            "everywhere": "Find every city.",
            "picture": "Draw something very small.",
            "refuse": "Never do it.",
            "explode": "Fail unexpectedly.",
            "count": "Count, tell how far it is, and wait for `go_on`.",
            "go_on": "Let `count` end.",
            "hang_up": "Close the connection, and answer when the client has come back.",
            "write": "Write the note of today.",
            "learn": "Offer one more tool.",
            "decide": "Ask the user two things, one after the other.",
            "think": "Ask the model.",
            "look": "Ask for the roots.",
            "traced": "Tell which tools have been called, by the spans of their calls.",
        },
        "sync": answer("42", structured({"result": 42})),
        "async": answer("HEY"),
        "structured": answer('{"city":"Lisbon","latitude":38.7}', structured(place)),
        "wrapped": {"structured": structured({"result": [place, oslo]})},
        "picture": {
            "content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]
        },
        "refused": answer("not today", is_error=True),
        "exploded": {"is_error": True},
        "bad_arguments": answer(
            'a: expected an integer, got "two"\nb: required, but missing', is_error=True
        ),
        "unknown_tool": {"error": -32602},
        "grown": answer("new"),
        "resources": ["notes://today", "notes://pixel"],
        "templates": ["notes://{day}/text"],
        "text": [{"uri": "notes://today", "mimeType": "text/plain", "text": "buy milk"}],
        "blob": [{"blob": "iVBORw0KGgo="}],
        "templated": [{"text": "sell milk"}],
        "unknown_resource": {"error": -32602 if new_code else -32002},
        "updated": "notes://today",
        "prompts": {"travel": ["country", "city", "days"]},
        "prompt": [{"role": "user", "content": travel}],
        "incomplete_prompt": {"error": -32602},
        "complete_literal": ["Norway"],
        "complete_context": ["Oslo", "Odda"] + ["Lisbon"] * (revision < "2025-06-18"),
        "complete_template": ["tomorrow"],
        "defined": {"term": "jitter", "text": "how much a delay varies"},
        "undefined": {"error": -32602},
        "decided": decided,
        "thought": answer("hot leaf water"),
        "looked": answer("file:///tea"),
        "traced": answer(", ".join(f"tools/call {name}" for name in CALLED)),  # OTEL-1
        "counted": answer("counted"),
        "resumed": answer("still here"),
        "progress": [[1, 2, messages[0]], [2, 2, messages[1]]],
        "logged": [["info", "counter", "counting"]],
    }


def part_of(found: Any, wanted: Any) -> Any:
    """Leave out the members that are not expected, such as those of a newer client."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {name: part_of(found.get(name), each) for name, each in wanted.items()}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [part_of(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def test_a_client_sees_everything(peer: Peer, report: dict[str, Any]) -> None:
    """HTTPL-5, HTTPL-7: on 2025-11-25 a closed connection is resumed."""
    wanted = expected(peer)
    assert part_of(report, wanted) == wanted
    assert report["tools"].keys() == wanted["tools"].keys()
    [block] = report["exploded"]["content"]
    assert re.fullmatch(r"The tool failed \(reference \w+\)\.", block["text"])
