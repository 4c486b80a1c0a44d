"""The client, against servers that behave in every way a server may, or may not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import Client, Context, MCPKit
from mcpkit._utils.targets import command_of
from mcpkit.client.results import Progress
from mcpkit.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ParseError,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from mcpkit.types import Implementation
from tests.kit import PATIENCE, Gate, Recorder, until
from tests.messages import LAST_HANDSHAKE, LEGACY, MODERN

ROOT = Path(__file__).resolve().parents[1]

PRELUDE = """
import json, os, signal, sys, time

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def result(message, **members):
    send(id=message["id"], result=members)

def error(message, code, **members):
    send(id=message["id"], error={"code": code, "message": "no", **members})

def welcome(message, version):
    info = {"name": "fake", "version": "1"}
    result(message, protocolVersion=version, capabilities={}, serverInfo=info)

def discovered(message):
    result(message, resultType="complete", supportedVersions=["2026-07-28"], capabilities={},
           ttlMs=0, cacheScope="private")

seen = []

def report(message):
    "What has arrived so far, as the result of a tool."
    content = [{"type": "text", "text": json.dumps(seen)}]
    result(message, content=content, resultType="complete")

def methods():
    for line in sys.stdin:
        message = json.loads(line)
        seen.append(message)
        yield message.get("method"), message
"""

Fake = Callable[[str], list[str]]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """Writes a server whose loop has the given body; its command."""

    def write(body: str) -> list[str]:
        script = tmp_path / "fake.py"
        lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
        script.write_text(f"{PRELUDE}\nfor method, message in methods():\n{lines}\n")
        return [sys.executable, str(script)]

    return write


def shaking(version: str) -> str:
    """The beginning of a server that has this version in a handshake."""
    return f'\nif method == "initialize":\n    welcome(message, "{version}")\n'


HANDSHAKES = shaking(LAST_HANDSHAKE)
DISCOVERS = """
if method == "server/discover":
    discovered(message)
"""


def when(method: str, *statements: str, first: str = DISCOVERS) -> str:
    """The body of a server that can be reached, and does this when a method is called."""
    return f'{first}\nif method == "{method}":\n' + "\n".join(f"    {each}" for each in statements)


# --- which revision (ERA-10) ----------------------------------------------------------------------


def discovering(*statements: str) -> str:
    """A server that does this when it is discovered, and knows the handshake as well."""
    return when("server/discover", *statements, first=HANDSHAKES)


ONCE = """
if len(seen) == 1:
    error(message, -32022, data={"supported": ["2026-07-28"], "requested": "x"})
else:
    discovered(message)
"""
SLOW = when(
    "initialize",
    "error(message, -32600)",
    first="""
if method == "server/discover" and len(seen) > 1:
    discovered(message)
""",
)
NEGOTIATED = {
    "an answer": (DISCOVERS, MODERN),
    "an error with a shared version": (discovering(*ONCE.strip().splitlines()), MODERN),
    "an error with older versions": (
        discovering('error(message, -32022, data={"supported": ["2025-11-25"], "requested": "x"})'),
        LAST_HANDSHAKE,
    ),
    "nonsense": (discovering('send(id=message["id"], result="hello")'), LAST_HANDSHAKE),
    "silence": (HANDSHAKES, LAST_HANDSHAKE),
    "an answer that comes late": (SLOW, MODERN),
    **{
        f"error {code}": (discovering(f"error(message, {code})"), LAST_HANDSHAKE)
        for code in (-32601, -32602, -32600, -32000, -32603, 1)
    },
}


@pytest.mark.parametrize(("body", "revision"), NEGOTIATED.values(), ids=list(NEGOTIATED))
async def test_the_first_response_decides_about_the_handshake(
    fake: Fake, body: str, revision: str
) -> None:
    """ERA-10: the fallback is not keyed to one code."""
    probe_timeout = {HANDSHAKES: 0.1, SLOW: 0.5}.get(body, 5)
    async with Client(fake(body), probe_timeout=probe_timeout) as client:
        assert client.revision == revision


@pytest.mark.parametrize("version", LEGACY)
async def test_the_server_decides_the_version_of_a_handshake(fake: Fake, version: str) -> None:
    """LIFE-3."""
    body = when("tools/call", "report(message)", first=shaking(version))
    async with Client(fake(body), revision=LAST_HANDSHAKE) as client:
        assert client.revision == version
        assert client.server_info == Implementation("fake", "1")
        seen = json.loads((await client.call_tool("report")).text)
    assert [each["method"] for each in seen[:2]] == ["initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    ("body", "revision", "error"),
    [
        (shaking("2031-01-01"), LAST_HANDSHAKE, UnsupportedProtocolVersion),
        (
            "error(message, -32601) if method == 'server/discover' else error(message, -32600)",
            MODERN,
            MethodNotFound,
        ),
    ],
    ids=["unknown", "insisted"],
)
async def test_a_revision_that_cannot_be_agreed_on_is_an_error(
    fake: Fake, body: str, revision: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await Client(fake(body), revision=revision).__aenter__()


@pytest.mark.parametrize(
    ("body", "revision", "speaks"),
    [
        (discovering("error(message, -32601)"), MODERN, LAST_HANDSHAKE),
        (discovering("error(message, -32600)"), MODERN, LAST_HANDSHAKE),
        (
            when(
                "server/discover",
                'error(message, -32022, data={"supported": ["2025-06-18", "2031-01-01"]})',
                first="",
            ),
            MODERN,
            "2025-06-18, 2031-01-01",
        ),
        (when("initialize", "error(message, -32601)"), LAST_HANDSHAKE, MODERN),
        (
            when("initialize", f'error(message, -32022, data={{"supported": ["{MODERN}"]}})'),
            LAST_HANDSHAKE,
            MODERN,
        ),
    ],
    ids=["unknown", "before a handshake", "listed", "no handshake", "listed, no handshake"],
)
async def test_the_error_of_a_wanted_revision_names_those_that_the_server_speaks(
    fake: Fake, body: str, revision: str, speaks: str
) -> None:
    says = f"^Unsupported protocol version: {revision}; supported: {speaks}$"
    with pytest.raises(UnsupportedProtocolVersion, match=says):
        await Client(fake(body), revision=revision).__aenter__()


# --- servers that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said", "exit_code"),
    [
        ("sys.exit(3)", r"^The server ended with exit code 3$", 3),
        ("os.close(1)\nsys.stdin.read()", r"^The server closed its output$", None),
        (
            'print(\'{"jsonrpc": "2.0", "id": 1, "result"\', end=\'\')\nsys.exit()',
            r"^The server ended",
            0,
        ),
    ],
    ids=["ends", "says no more", "half a line"],
)
async def test_a_server_that_goes_away_at_once(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, body: str, said: str, exit_code: int | None
) -> None:
    monkeypatch.setattr("mcpkit.client.stdio._EXIT_CODE_S", 0.1 if exit_code is None else 5)
    with pytest.raises(ConnectionClosed, match=said) as caught:
        await Client(fake(body)).__aenter__()
    assert caught.value.exit_code == exit_code


async def test_a_server_that_ends_during_a_request(fake: Fake) -> None:
    async with Client(fake(when("tools/call", "sys.exit(1)"))) as client:
        for name in ("any", "again"):
            with pytest.raises(ConnectionClosed, match="exit code 1"):
                await client.call_tool(name)


MALFORMED: list[dict[str, Any]] = [
    {"id": 99, "result": {}},
    {"id": 99, "error": "no"},
    {"error": {"code": -32700, "message": "no id"}},
    {"error": ["no"]},
    {"method": "notifications/message", "params": [1]},
    {"method": "notifications/message", "params": {"_meta": "x"}},
    {"method": "notifications/progress", "params": {"progressToken": [1], "progress": 1}},
]


async def test_garbage_is_survived(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    body = f"""
print("hello, I am a server")
print("\\n  \\n[]")
print('{{"jsonrpc": "2.0"}}', flush=True)
sys.stdout.buffer.write(b"\\xff\\xfe\\n7\\nnull\\n")
sys.stdout.buffer.flush()
for malformed in {MALFORMED!r}:
    send(**malformed)
{DISCOVERS}
"""
    async with Client(fake(body)) as client:
        assert client.revision == MODERN
    assert "an invalid message" in caplog.text


async def test_a_response_that_is_nearly_json_ends_its_request(fake: Fake) -> None:
    half = '{"jsonrpc": "2.0", "id": %d, "result": {"text": "\\\\ud83d"}}'
    body = when("tools/call", f"print('{half}' % message['id'], flush=True)")
    async with Client(fake(body), timeout=PATIENCE) as client:
        with pytest.raises(ParseError, match="hex escape"):
            await client.call_tool("any")


@pytest.mark.parametrize("end", ["", "\\n"], ids=["without an end", "with an end"])
async def test_a_line_that_is_too_long_ends_the_connection(
    fake: Fake, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.client.stdio.MAX_LINE", 1000)
    body = when("tools/call", f'sys.stdout.write("x" * 1001 + "{end}")', "sys.stdout.flush()")
    async with Client(fake(body)) as client:
        with anyio.fail_after(PATIENCE):
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match="a line of more than 1000 bytes"):
                    await client.call_tool("any", timeout=PATIENCE)


ENDLESS = {
    "pages": ("MAX_PAGES", "[]", "str(count)", "too much for tools/list", 6),
    "entries": ("MAX_ENTRIES", "[tool, tool]", "str(count)", "too much for tools/list", 3),
    "bytes": ("MAX_LIST_BYTES", "[tool]", "str(count)", "too much for tools/list", 1),
    "a circle": (None, "[]", "str(count % 3)", "repeats the cursor '1'", 4),
    "no text": (None, "[]", "[count]", "repeats the cursor \\[1", 1),
}


@pytest.mark.parametrize(
    ("bound", "page", "cursor", "words", "requests"), ENDLESS.values(), ids=list(ENDLESS)
)
async def test_a_list_without_an_end(
    fake: Fake,
    bound: str | None,
    page: str,
    cursor: str,
    words: str,
    requests: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if bound is not None:
        monkeypatch.setattr(f"mcpkit.client.client.{bound}", 5)
    body = f"""
{DISCOVERS}
if method == "tools/list":
    count = sum(each["method"] == method for each in seen)
    tool = {{"name": "t", "inputSchema": {{}}}}
    result(message, resultType="complete", tools={page}, nextCursor={cursor})
if method == "tools/call":
    report(message)
"""
    async with Client(fake(body)) as client:
        with pytest.raises(ValueError, match=words):
            await client.list_tools()
        seen = json.loads((await client.call_tool("report")).text)
    assert sum(each["method"] == "tools/list" for each in seen) == requests


WRONG_PROGRESS: list[dict[str, Any]] = [
    {"progress": "1"},
    {"progress": None},
    {"progress": True},
    {"progress": [1]},
    {"progress": 10**400},
    {"progress": 1, "total": {}},
    {"progress": 1, "message": 5},
]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        *(("progress", each) for each in WRONG_PROGRESS),
        ("message", {"level": []}),
        ("message", {"logger": 5}),
    ],
    ids=lambda wrong: str(wrong)[:30],
)
async def test_malformed_notifications_are_logged_once(
    fake: Fake, kind: str, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    body = when(
        "tools/call",
        'token = message["params"]["_meta"]["progressToken"]',
        'right = {"progressToken": token, "progress": 2, "level": "info", "data": 1}',
        f"for params in *[{{**right, **{wrong!r}}}] * 100, right:",
        f"    send(method='notifications/{kind}', params=params)",
        "result(message, content=[])",
    )
    notified = Recorder()
    async with Client(fake(body), on_log=notified) as client:
        await client.call_tool("any", on_progress=notified)
    assert notified.calls == [Progress(2, None, None) if kind == "progress" else ("info", 1, None)]
    (record,) = caplog.records
    what = "progress" if kind == "progress" else "log messages"
    assert record.getMessage().startswith(f"the server sends malformed {what}: ")
    assert not record.exc_info


FLOOD = """
    for number in range(100):
        send(id=1000 + number, method="roots/list")
"""
LARGE = """
    for number in range(30):
        one = {"jsonrpc": "2.0", "id": 1000 + number, "method": "roots/list",
               "params": {"_meta": {"x": "x" * 1500}}}
        print(json.dumps(one if number < 3 else [one, {**one, "id": 2000 + number}]), flush=True)
"""


@pytest.mark.parametrize(
    ("name", "limit", "sent", "answered"),
    [("MAX_REQUESTS", 2, FLOOD, 2), ("MAX_REQUEST_BYTES", 10_000, LARGE, 6)],
)
async def test_requests_of_the_server_are_limited_in_number_and_bytes(
    fake: Fake,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: int,
    sent: str,
    answered: int,
) -> None:
    """Also those of a batch, and not those that have been answered."""
    monkeypatch.setattr(f"mcpkit.client.connection.{name}", limit)
    body = f"""
{shaking("2025-03-26")}
if method == "tools/call":
{sent}
    result(message, content=[])
"""
    asked = 0

    async def think(params: Any) -> Any:
        nonlocal asked
        asked += 1
        await anyio.sleep(PATIENCE)

    async with Client(fake(body), revision="2025-03-26", roots=think) as client:
        await client.call_tool("any")
        await anyio.wait_all_tasks_blocked()
        assert asked == answered
    (record,) = caplog.records
    assert "the server sends too many requests" in record.getMessage()


async def test_bytes_of_questions_that_were_answered_do_not_count(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.client.connection.MAX_REQUEST_BYTES", 500)
    body = f"""
{HANDSHAKES}
if method == "tools/call":
    waiting, left = message, 5
if method == "tools/call" or method is None and left:
    left -= 1
    send(id=str(left), method="ping", params={{"_meta": {{"x": "x" * 300}}}})
elif method is None:
    result(waiting, content=[])
"""
    async with Client(fake(body), revision="2025-11-25", timeout=PATIENCE) as client:
        await client.call_tool("any")


@pytest.mark.parametrize("id", ["x" * 1025, "é" * 1025, 10**2500], ids=["text", "é", "number"])
async def test_a_long_id_is_refused(fake: Fake, id: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is asked so is neither kept nor answered."""
    body = f"""
{HANDSHAKES}
if method == "ping":
    send(id={id!r}, method="ping")
    send(id="x" * 1024, method="ping")
    send(id=message["id"], result={{}})
if method == "tools/call":
    report(message)
"""
    async with Client(fake(body), revision="2025-11-25") as client:
        await client.ping()
        await anyio.wait_all_tasks_blocked()
        seen = json.loads((await client.call_tool("any")).text)
    assert [each["id"] for each in seen if "result" in each] == ["x" * 1024]
    assert 'The member "id" must be a string of at most 1024 characters' in caplog.text


async def test_invalid_messages_of_a_batch_are_logged_once(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    """MSG-9: the rest of it is read."""
    body = when(
        "ping",
        'log = {"method": "notifications/message", "params": {"level": "info", "data": "beside"}}',
        'answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}',
        'print(json.dumps([0] * 50 + [{"jsonrpc": "2.0", **log}, answer]), flush=True)',
        first=shaking("2025-03-26"),
    )
    logged = Recorder()
    async with Client(fake(body), revision="2025-03-26", on_log=logged) as client:
        await client.ping()
    assert logged.calls == [("info", "beside", None)]
    (record,) = caplog.records
    assert "an invalid message" in record.getMessage()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("version", "count", "said"),
    [
        ("2025-03-26", 101, "A batch of 101 messages; it may have 100"),
        ("2025-03-26", 1_000_000, "A batch of 1000000 messages; it may have 100"),
        ("2025-11-25", 1, "An array, but this revision has no batches"),
    ],
)
async def test_an_invalid_batch_is_logged_once(
    fake: Fake, version: str, count: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """MSG-9."""
    body = f"""
{shaking(version)}
if method == "ping":
    one = {{"jsonrpc": "2.0", "id": message["id"], "error": {{"code": 1, "message": "no"}}}}
    print(json.dumps([one] + [0] * {count - 1}))
    result(message)
"""
    async with Client(fake(body), revision=version) as client:
        await client.ping()
    (record,) = caplog.records
    assert record.getMessage().endswith(said)


async def test_a_message_has_so_many_values(
    fake: Fake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list is two bytes on the wire, and fifty in memory."""
    monkeypatch.setattr("mcpkit._protocol.client_connection.MAX_VALUES", 1000)
    body = f"""
{HANDSHAKES}
if method == "ping":
    result(message, x=[[]] * 1000)
    result(message, x="[[]," * 1000)
"""
    async with Client(fake(body), revision="2025-11-25") as client:
        assert (await client.request("ping")) == {"x": "[[]," * 1000}
    (record,) = caplog.records
    assert record.getMessage().endswith("A message may have 1000 values")


async def test_no_fault_is_logged_without_an_end(
    fake: Fake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"""
{HANDSHAKES}
if method == "ping":
    for _ in range(300):
        print("no message")
        send(id=1, method="roots/list")
        send(method="notifications/message", params={{"level": "info", "data": 1}})
    result(message)
"""
    async with Client(fake(body), revision=LAST_HANDSHAKE, roots=fail, on_log=fail) as client:
        await client.ping()
        await anyio.wait_all_tasks_blocked()
    faults = Counter(str(record.msg)[:20] for record in caplog.records)
    assert faults == {
        "the server sent an i": 100,
        "the handler for %s f": 100,
        "a message of the ser": 100,
    }
    last = [each for each in caplog.records if "further ones are not logged" in each.getMessage()]
    assert len(last) == 3
    assert "RuntimeError: no model" in caplog.text


CALLS: dict[str, Callable[[Client], Any]] = {
    "tools/call": lambda client: client.call_tool("any"),
    "resources/read": lambda client: client.read_resource("a://b"),
    "tools/list": lambda client: client.list_tools(),
    "resources/list": lambda client: client.list_resources(),
    "prompts/list": lambda client: client.list_prompts(),
}


INPUT_REQUESTS: list[Any] = [[1], "x", {"a": 1}, {"a": {}}, {"a": {"method": "m", "params": 1}}]
MALFORMED_RESULTS: dict[str, list[Any]] = {
    "tools/call": [
        "text",
        7,
        [],
        {"content": None},
        *({"resultType": kind} for kind in ("task", "invented")),  # MSG-15
        *(
            {"resultType": "input_required", "inputRequests": requests}
            for requests in INPUT_REQUESTS
        ),
    ],
    "resources/read": [{"contents": [{"uri": "a://b"}]}],
    **{
        f"{kind}/list": [{kind: [{}]}, {kind: [7]}, {kind: 7}, {kind: None}]
        for kind in ("tools", "resources", "prompts")
    },
}


@pytest.mark.parametrize(
    ("method", "sent"),
    [(method, each) for method, results in MALFORMED_RESULTS.items() for each in results],
)
async def test_a_malformed_result_is_an_error_with_a_name(
    fake: Fake, method: str, sent: Any
) -> None:
    async with Client(fake(when(method, f'send(id=message["id"], result={sent!r})'))) as client:
        with pytest.raises(ValueError, match=f"The server's answer to {method}"):
            await CALLS[method](client)


async def test_an_empty_cursor_is_a_cursor(fake: Fake) -> None:
    """PAGE-1."""
    body = when(
        "tools/list",
        'more = {} if "cursor" in message["params"] else {"nextCursor": ""}',
        'tool = {"name": f"t{len(seen)}", "inputSchema": {"type": "object"}}',
        "result(message, tools=[tool], **more)",
    )
    async with Client(fake(body)) as client:
        assert len(await client.list_tools()) == 2


# --- timeouts and cancellation --------------------------------------------------------------------


async def test_a_handshake_that_times_out_is_not_cancelled(fake: Fake, tmp_path: Path) -> None:
    """LIFE-9."""
    notes = tmp_path / "notes"
    body = f'open({str(notes)!r}, "a").write(str(method) + "\\n")'
    with pytest.raises(TimeoutError):
        await Client(fake(body), revision=LAST_HANDSHAKE, timeout=1).__aenter__()
    assert notes.read_text() == "initialize\n"


@pytest.mark.parametrize("revision", [LAST_HANDSHAKE, MODERN])
async def test_the_time_in_which_a_person_answers_does_not_count(revision: str) -> None:
    """Also if another question is answered meanwhile; what follows the answer counts again."""
    app: MCPKit[None] = MCPKit("asking")
    gate = Gate()
    answered: list[str] = []

    @app.tool
    async def ask(text: str, ctx: Context) -> str:
        found = await ctx.elicit(text, bool)
        return str(found.data)

    @app.tool
    async def ask_and_hang(ctx: Context) -> str:
        await ctx.elicit("slow", bool)
        return await gate.pass_through()

    async def elicitation(params: Any) -> Any:
        if params["message"] == "slow":
            await until(lambda: answered)
            await anyio.sleep(1.2)  # longer than the timeout, which runs on in its absence
        return {"action": "accept", "content": {"value": True}}

    async with Client(app, revision=revision, elicitation=elicitation, timeout=1) as client:

        async def call(text: str) -> None:
            assert (await client.call_tool("ask", {"text": text})).text == "True"
            answered.append(text)

        async with anyio.create_task_group() as group:
            group.start_soon(call, "slow")
            group.start_soon(call, "fast")
        assert answered == ["fast", "slow"]
        with pytest.raises(TimeoutError, match="No response to tools/call"):
            await client.call_tool("ask_and_hang")


@pytest.mark.parametrize(
    ("request_of", "says"),
    [
        (
            lambda client: client.call_tool("any", timeout=0.1),
            "No response to tools/call within 0.1",
        ),
        (lambda client: client.ping(), "No response to ping within 0.2 seconds"),
        (lambda client: client.subscribe("a://b"), "No response to .*subscri.* within 0.2 seconds"),
        (lambda client: client.request("x/y", timeout=0.1), "No response to x/y within 0.1 sec"),
    ],
    ids=["a call", "the client's own", "a subscription", "any"],
)
async def test_a_timeout_says_what_is_missing(fake: Fake, request_of: Any, says: str) -> None:
    async with Client(fake(DISCOVERS)) as client:
        client._timeout = 0.2
        with pytest.raises(TimeoutError, match=says):
            await request_of(client)


# --- what servers ask -----------------------------------------------------------------------------

ASKS = f"""
{HANDSHAKES}
if method == "tools/call":
    asked = message
    send(id="s1", method=message["params"]["name"], params=message["params"]["arguments"])
elif message.get("id") == "s1":
    report(asked)
"""


SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}


async def think(params: Any) -> Any:
    await anyio.sleep(0)
    return SAMPLED


def refuse(params: Any) -> Any:
    raise ProtocolError("The user said no", code=-1)


def fail(*_: object) -> Any:
    raise RuntimeError("no model for the key sk-secret")


@pytest.mark.parametrize(
    ("method", "options", "answer"),
    [
        (
            "elicitation/create",
            {"elicitation": lambda params: {"action": "accept", "content": params}},
            {"action": "accept", "content": {"message": "Who?"}},
        ),
        ("sampling/createMessage", {"sampling": think}, SAMPLED),
        ("ping", {}, {}),
        ("sampling/createMessage", {}, MethodNotFound.CODE),
        ("sampling/createMessage", {"sampling": refuse}, -1),
        ("sampling/createMessage", {"sampling": fail}, InternalError.CODE),
        (
            "roots/list",
            {"roots": [ROOT, "https://example.com/a"]},
            {"roots": [{"uri": ROOT.as_uri()}, {"uri": "https://example.com/a"}]},
        ),
    ],
)
async def test_a_request_of_the_server_is_answered(
    fake: Fake, method: str, options: Any, answer: Any
) -> None:
    """PING-1, and an error for what was not declared, is refused or fails."""
    async with Client(fake(ASKS), revision=LAST_HANDSHAKE, **options) as client:
        seen = json.loads((await client.call_tool(method, {"message": "Who?"})).text)
    found = next(each for each in seen if each.get("id") == "s1")
    assert found.get("result", found.get("error", {}).get("code")) == answer
    assert "secret" not in str(found), "which is for this side to read"


@pytest.mark.parametrize("revision", [LAST_HANDSHAKE, MODERN])
async def test_capabilities_are_declared_for_what_is_answered(fake: Fake, revision: str) -> None:
    """META-1, ELIC-1: a function answers forms, and calls of tools by a model."""
    body = when("tools/call", "report(message)", first=HANDSHAKES + DISCOVERS)
    async with Client(
        fake(body),
        revision=revision,
        elicitation=lambda params: params,
        sampling=lambda params: params,
        roots=[],
        capabilities={"experimental": {"x": {}}},
    ) as client:
        params = json.loads((await client.call_tool("report")).text)[0]["params"]
    declared = (
        params.get("capabilities") or params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    )
    assert declared == {
        "elicitation": {"form": {}},
        "sampling": {"tools": {}},
        "roots": {},
        "experimental": {"x": {}},
    }


@pytest.mark.parametrize("opens", [False, True])
async def test_a_function_opens_no_urls_unless_that_is_declared(fake: Fake, opens: bool) -> None:
    """ELIC-1: one that accepts every form would have a user open whatever a server wants."""
    url = {"mode": "url", "message": "Pay", "url": "https://example.com/pay"}
    accepts: Any = {"elicitation": lambda params: {"action": "accept"}}
    if opens:
        accepts["capabilities"] = {"elicitation": {"form": {}, "url": {}}}
    async with Client(fake(ASKS), revision=LAST_HANDSHAKE, **accepts) as client:
        answer = json.loads((await client.call_tool("elicitation/create", url)).text)[-1]
    assert answer.get("result") == ({"action": "accept"} if opens else None)
    assert answer.get("error", {}).get("code") == (None if opens else InvalidParams.CODE)


# --- what servers ask inside a result -------------------------------------------------------------

WANTS_INPUT = f"""
{DISCOVERS}
if method == "tools/call":
    params = message["params"]
    if len(params.get("inputResponses", {{}})) == 1:
        report(message)
    else:
        wish = {{"method": "elicitation/create", "params": {{"message": "Who?"}}}}
        result(message, resultType="input_required", inputRequests={{"who": wish}},
               requestState="opaque é")
"""


async def test_input_is_given_and_the_state_comes_back_as_it_was(fake: Fake) -> None:
    """MRTR-16, MRTR-17: in as many rounds as are allowed."""
    async with Client(
        fake(WANTS_INPUT),
        elicitation=lambda params: {"action": "accept", "content": {}},
        max_rounds=1,
    ) as client:
        seen = json.loads((await client.call_tool("any", {"a": 1})).text)
    first, again = seen[-2:]
    assert again["params"]["requestState"] == "opaque é"
    assert again["params"]["inputResponses"] == {"who": {"action": "accept", "content": {}}}
    assert again["params"]["arguments"] == first["params"]["arguments"] == {"a": 1}
    assert again["id"] != first["id"]


NEVER_HAS_ENOUGH = when(
    "tools/call", 'result(message, resultType="input_required", requestState=str(len(seen)))'
)


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [(WANTS_INPUT, MethodNotFound, "does not answer"), (NEVER_HAS_ENOUGH, ProtocolError, "3")],
    ids=["not declared", "too often"],
)
async def test_input_that_cannot_be_given_fails_the_call(
    fake: Fake, body: str, error: type[ProtocolError], said: str
) -> None:
    """MRTR-17."""
    async with Client(fake(body), max_rounds=3) as client:
        with pytest.raises(error, match=said):
            await client.call_tool("any")


@pytest.mark.parametrize(("count", "options"), [(101, {}), (3, {"max_input_requests": 2})])
async def test_a_server_that_asks_for_too_much_at_once_is_given_nothing(
    fake: Fake, count: int, options: Any
) -> None:
    """Each may be a call of a model, which costs money."""
    body = when(
        "tools/call",
        'wish = {"method": "sampling/createMessage"}',
        f"wishes = {{str(each): wish for each in range({count})}}",
        'result(message, resultType="input_required", inputRequests=wishes)',
    )

    async with Client(
        fake(body), sampling=lambda params: pytest.fail("it was asked"), **options
    ) as client:
        with pytest.raises(ProtocolError, match=f"asks for {count} inputs at once"):
            await client.call_tool("any")


# --- leaving --------------------------------------------------------------------------------------


STUBBORN = f"""
if len(seen) == 1:
    import atexit
    def note(text):
        open(os.environ["NOTES"], "a").write(text + " ")
    def terminate(*args):
        note("SIGTERM")
        if os.environ["HEEDS"] == "SIGTERM":
            os._exit(0)
    signal.signal(signal.SIGTERM, terminate)
    atexit.register(note, "EOF")
    note(str(os.getpid()))
{DISCOVERS}
if method == "notifications/stay":
    sys.stdin.close()
    while True:
        time.sleep(0.05)
"""


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX signals")
@pytest.mark.parametrize("heeds", ["EOF", "SIGTERM", "SIGKILL"])
async def test_the_end_of_input_ends_a_server_or_a_signal(
    fake: Fake, tmp_path: Path, heeds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STDIO-4."""
    notes = tmp_path / "notes"
    async with Client(fake(STUBBORN), env={"NOTES": str(notes), "HEEDS": heeds}) as client:
        if heeds != "EOF":
            monkeypatch.setattr("mcpkit.client.stdio._END_STEP_S", 0.3)
            await client.notify("notifications/stay")
    pid, *noted = notes.read_text().split()
    assert noted == ["EOF" if heeds == "EOF" else "SIGTERM"]
    assert not alive(int(pid))


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX process ids")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_a_server_leaves_behind_does_not_hold_up_the_end(
    fake: Fake, tmp_path: Path, backend: str
) -> None:
    """Its child has the other ends of the pipes."""
    server = when(
        "tools/call",
        "import subprocess",
        'pid = subprocess.Popen(["sleep", "60"]).pid',
        'result(message, content=[{"type": "text", "text": str(pid)}], resultType="complete")',
    )
    program = f"""
import sys, gc, anyio
from mcpkit import Client
async def main():
    async with Client(sys.argv[1:]) as client:
        print((await client.call_tool("any")).text)
anyio.run(main, backend={backend!r})
gc.collect()
"""
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program, *fake(server)]
    # To a file: what is left behind would keep a pipe open for this test as well.
    with (tmp_path / "stderr").open("w+") as stderr:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, timeout=20, text=True
        )
        os.kill(int(ended.stdout), signal.SIGKILL)
        stderr.seek(0)
        assert stderr.read() == ""
    assert ended.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="uses POSIX process ids")
async def test_no_process_stays_behind_when_the_client_is_cancelled(
    fake: Fake, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    env = {"NOTES": str(notes), "HEEDS": "no"}
    with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
        async with Client(fake(STUBBORN), env=env):
            scope.cancel()
            await anyio.sleep_forever()
    assert not alive(int(notes.read_text().split()[0]))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- starting servers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "command"),
    [
        (["node", "server.js"], ["node", "server.js"]),
        (("node", "server.js"), ["node", "server.js"]),
        ("node 'my server.js'", ["node", "my server.js"]),
        ("server.py", [sys.executable, "-m", "mcpkit", "run", "server.py"]),
        (Path("server.py"), [sys.executable, "-m", "mcpkit", "run", "server.py"]),
        ("server.py:app", [sys.executable, "-m", "mcpkit", "run", "server.py:app"]),
        (r"C:\a\server.py", [sys.executable, "-m", "mcpkit", "run", r"C:\a\server.py"]),
        ("python server.py", ["python", "server.py"]),
    ],
)
async def test_targets_and_their_commands(target: Any, command: list[str]) -> None:
    assert command_of(target) == command


async def test_the_environment_is_added_to(fake: Fake, tmp_path: Path) -> None:
    """And stderr may be sent elsewhere."""
    body = when(
        "tools/call",
        'print("a word", file=sys.stderr, flush=True)',
        'text = os.environ["ADDED"] + ("PATH" in os.environ) * " and PATH"',
        'result(message, content=[{"type": "text", "text": text}])',
    )
    with (tmp_path / "log").open("w") as file:
        async with Client(fake(body), env={"ADDED": "added"}, stderr=file.fileno()) as client:
            assert (await client.call_tool("any")).text == "added and PATH"
    assert (tmp_path / "log").read_text() == "a word\n"


# --- calling --------------------------------------------------------------------------------------


async def test_wrong_uses_are_refused() -> None:
    with pytest.raises(ValueError, match="2025-11-25"):
        Client(MCPKit("a"), revision="2031-01-01")
    with pytest.raises(RuntimeError, match="async with"):
        await Client(MCPKit("a")).request("tools/list")
    with pytest.raises(OSError, match="no-such-program"):
        await Client(["/no-such-program"]).__aenter__()
    async with Client(MCPKit("a")) as client:
        with pytest.raises(ValueError, match="prompt="):
            await client.complete("a", "b")
        with pytest.raises(ValueError, match="template="):
            await client.complete("a", "b", prompt="p", template="t")


async def test_listening_fails_if_the_server_refuses(fake: Fake) -> None:
    async with Client(fake(when("subscriptions/listen", "error(message, -32601)"))) as client:
        with pytest.raises(MethodNotFound):
            async with client.listen(lambda *change: None, tools=True):
                pytest.fail("nothing was agreed upon")
