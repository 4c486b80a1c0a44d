"""Other people's clients use a server, on every revision and transport that they speak."""

from __future__ import annotations

import json
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


class ContextBackend(NamedTuple):
    """A client, how it is told to connect (a revision, or ``auto``), and over what."""

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
        """Whether it is told the revision, and need not ask who the server is."""
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
    *(ContextBackend(client, mode, "stdio") for client, modes in MODES.items() for mode in modes),
    *(ContextBackend(client, mode, "http") for client, modes in MODES.items() for mode in modes),
    *(ContextBackend(client, mode, "sse") for client, modes in OLD.items() for mode in modes),
]

pytestmark = [
    pytest.mark.peers,
    pytest.mark.parametrize("peer", PEERS, ids="-".join),
]


@contextmanager
def reachable(transport: str) -> Iterator[list[str]]:
    """What a client is told of a new server: a command, or a URL."""
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

    def __init__(self, client: str) -> None:
        self._popen = subprocess.Popen(
            command_of(client),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def report(self, mode: str, *server: str) -> dict[str, Any]:
        """What it saw, when it tried everything once."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        guard = threading.Timer(50, self._popen.kill)
        guard.start()
        try:
            self._popen.stdin.write(json.dumps([mode, *server]) + "\n")
            self._popen.stdin.flush()
            line = self._popen.stdout.readline()
        finally:
            guard.cancel()
        if not line:
            raise ChildProcessError(self.end())
        report: dict[str, Any] = json.loads(line)
        return report

    def end(self) -> str:
        """End it; what it has complained about."""
        self._popen.kill()
        complaints: str = self._popen.communicate(timeout=50)[1]
        return complaints


def report_all(client: str, reports: dict[ContextBackend, Future[dict[str, Any]]]) -> None:
    """Have a client try every server; it is started again if it does not survive one."""
    driver: Driver | None = None
    for peer, report in reports.items():
        if peer.client != client or not report.set_running_or_notify_cancel():
            continue
        try:
            driver = driver or Driver(client)
            with reachable(peer.transport) as server:
                report.set_result(driver.report(peer.mode, *server))
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
) -> Iterator[dict[ContextBackend, Future[dict[str, Any]]]]:
    """The reports of all clients that tests ask for; the clients are beside each other."""
    require(*FOLDERS)
    copy_scripts()
    reports: dict[ContextBackend, Future[dict[str, Any]]] = {}
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
def report(
    peer: ContextBackend, reports: dict[ContextBackend, Future[dict[str, Any]]]
) -> dict[str, Any]:
    return reports[peer].result()


def answer(text: str, structured: Any = None, *, is_error: bool = False) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": text}],
        "structured": structured,
        "is_error": is_error,
    }


def as_structured(peer: ContextBackend, value: Any) -> Any:
    """What a revision makes of a structured result that is not an object (TOOL-11)."""
    return {"result": value} if peer.revision >= "2025-06-18" else None


# --- the connection -------------------------------------------------------------------------------


def test_revision_is_the_one_the_client_asks_for(
    peer: ContextBackend, report: dict[str, Any]
) -> None:
    assert report["revision"] == peer.revision


def test_server_introduces_itself(peer: ContextBackend, report: dict[str, Any]) -> None:
    assert report["server"] == (None if peer.unasked else ["peers", "1.2.3"])
    assert report["instructions"] == (None if peer.unasked else "Try everything.")


def test_capabilities_are_those_of_the_revision(
    peer: ContextBackend, report: dict[str, Any]
) -> None:
    expected = ["completions", "logging", "prompts", "resources", "tools"]
    if peer.revision == "2024-11-05":
        expected.remove("completions")
    if peer.unasked:
        expected = []
    assert report["capabilities"] == expected


# --- tools ----------------------------------------------------------------------------------------


def test_tools_are_listed_with_descriptions(report: dict[str, Any]) -> None:
    assert report["tools"] == {
        "add": "Add two numbers.",
        "shout": "Say it louder.",
        "locate": "Find a city.",
        "everywhere": "Find every city.",
        "picture": "Draw something very small.",
        "refuse": "Never do it.",
        "explode": "Fail in a way nobody expected.",
        "count": "Count, tell how far it is, and wait for `go_on`.",
        "go_on": "Let `count` end.",
        "hang_up": "Close the connection, and answer when the client has come back.",
        "write": "Write the note of today.",
        "learn": "Offer one more tool.",
        "decide": "Ask the user two things, one after the other.",
        "think": "Ask the model.",
        "look": "Ask for the roots.",
    }


def test_sync_tool_answers(peer: ContextBackend, report: dict[str, Any]) -> None:
    assert report["sync"] == answer("42", as_structured(peer, 42))


def test_async_tool_answers(peer: ContextBackend, report: dict[str, Any]) -> None:
    assert report["async"] == answer("HEY", None)


def test_model_is_structured_content(peer: ContextBackend, report: dict[str, Any]) -> None:
    place = {"city": "Lisbon", "latitude": 38.7}
    structured = place if peer.revision >= "2025-06-18" else None
    assert report["structured"] == answer('{"city":"Lisbon","latitude":38.7}', structured)


def test_list_is_structured_content(peer: ContextBackend, report: dict[str, Any]) -> None:
    places = [{"city": "Lisbon", "latitude": 38.7}, {"city": "Oslo", "latitude": 59.9}]
    assert report["wrapped"]["structured"] == as_structured(peer, places)


def test_image_arrives(report: dict[str, Any]) -> None:
    block = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert report["picture"]["content"] == [block]


def test_tool_error_is_shown(report: dict[str, Any]) -> None:
    assert report["refused"] == answer("not today", is_error=True)


def test_unexpected_exception_is_hidden(report: dict[str, Any]) -> None:
    [block] = report["exploded"]["content"]
    assert report["exploded"]["is_error"]
    assert re.fullmatch(r"The tool failed \(reference \w+\)\.", block["text"])


def test_bad_arguments_are_all_named(report: dict[str, Any]) -> None:
    text = 'a: expected an integer, got "two"\nb: required, but missing'
    assert report["bad_arguments"] == answer(text, is_error=True)


def test_unknown_tool_is_a_protocol_error(report: dict[str, Any]) -> None:
    assert report["unknown_tool"] == {"error": -32602}


def test_tool_added_while_connected_is_announced_and_works(report: dict[str, Any]) -> None:
    assert report["grown"] == answer("new")


# --- resources ------------------------------------------------------------------------------------


def test_resources_are_listed(report: dict[str, Any]) -> None:
    assert report["resources"] == ["notes://today", "notes://pixel"]


def test_templates_are_listed(report: dict[str, Any]) -> None:
    assert report["templates"] == ["notes://{day}/text"]


def test_text_is_read(report: dict[str, Any]) -> None:
    contents = {"uri": "notes://today", "mimeType": "text/plain", "text": "buy milk"}
    assert report["text"] == [contents]


def test_bytes_are_read(report: dict[str, Any]) -> None:
    [contents] = report["blob"]
    assert contents["blob"] == "iVBORw0KGgo="


def test_template_is_read(report: dict[str, Any]) -> None:
    [contents] = report["templated"]
    assert contents["text"] == "sell milk"


def test_unknown_resource_is_a_protocol_error(peer: ContextBackend, report: dict[str, Any]) -> None:
    # TypeScript 2 shows the new code for the old one.
    new_code = peer.modern or peer.client == "typescript_2"
    assert report["unknown_resource"] == {"error": -32602 if new_code else -32002}


def test_watched_resource_is_announced_when_it_changes(report: dict[str, Any]) -> None:
    assert report["updated"] == "notes://today"


# --- prompts and completion -----------------------------------------------------------------------


def test_prompts_are_listed_with_arguments(report: dict[str, Any]) -> None:
    assert report["prompts"] == {"travel": ["country", "city", "days"]}


def test_prompt_is_filled_in(report: dict[str, Any]) -> None:
    content = {"type": "text", "text": "Plan 2 days in Oslo, Norway."}
    assert report["prompt"] == [{"role": "user", "content": content}]


def test_prompt_without_a_required_argument_is_a_protocol_error(report: dict[str, Any]) -> None:
    assert report["incomplete_prompt"] == {"error": -32602}


def test_literal_completes_by_itself(report: dict[str, Any]) -> None:
    assert report["complete_literal"] == ["Norway"]


def test_completion_knows_the_other_arguments(peer: ContextBackend, report: dict[str, Any]) -> None:
    known = peer.revision >= "2025-06-18"
    assert report["complete_context"] == (["Oslo", "Odda"] if known else ["Oslo", "Odda", "Lisbon"])


def test_template_variable_completes(report: dict[str, Any]) -> None:
    assert report["complete_template"] == ["tomorrow"]


# --- asking the client ----------------------------------------------------------------------------


def test_user_is_asked_one_thing_after_the_other(
    peer: ContextBackend, report: dict[str, Any]
) -> None:
    if peer.revision >= "2025-06-18":
        assert report["decided"] == answer("red in Lisbon")
    else:
        text = f"revision {peer.revision} has no elicitation"
        assert report["decided"] == answer(text, is_error=True)


def test_model_is_asked(report: dict[str, Any]) -> None:
    assert report["thought"] == answer("hot leaf water")


def test_roots_are_asked_for(report: dict[str, Any]) -> None:
    assert report["looked"] == answer("file:///tea")


# --- while a tool runs ----------------------------------------------------------------------------


def test_call_ends_when_another_lets_it(report: dict[str, Any]) -> None:
    assert report["counted"] == answer("counted")


def test_call_whose_connection_was_closed_is_answered(report: dict[str, Any]) -> None:
    """On 2025-11-25 over HTTP clients come back by themselves (HTTPL-5, HTTPL-7)."""
    assert report["resumed"] == answer("still here")


def test_progress_arrives(peer: ContextBackend, report: dict[str, Any]) -> None:
    first, second = ("number 1", "number 2") if peer.revision >= "2025-03-26" else (None, None)
    assert report["progress"] == [[1, 2, first], [2, 2, second]]


def test_log_message_of_the_wanted_level_arrives(report: dict[str, Any]) -> None:
    assert report["logged"] == [["info", "counter", "counting"]]
