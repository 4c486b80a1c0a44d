"""The audit log: what it says of operations and rejections, and what it keeps to itself."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, SecretStr

from mcpkit import Context, MCPKit, ToolError, audit
from mcpkit.audit import Audit, JsonLinesHandler
from mcpkit.errors import ProtocolError
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.asking.conftest import accept
from tests.kit import PATIENCE, eventually, until

every_revision = pytest.mark.parametrize("revision", REVISIONS)


class Point(BaseModel):
    a: int


class Login(BaseModel):
    user: str
    password: SecretStr


def make_app(**options: Any) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit("audited", **options)

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    def log_in(login: Login, note: str = "", pin: SecretStr | None = None) -> str:
        return login.user

    @app.tool
    def fail(how: str) -> str:
        raise (ToolError(how) if how == "told" else OSError(how))

    @app.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Sure?", bool)).data)

    @app.resource("notes://today")
    def today() -> str:
        return "rain"

    return app


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, "mcpkit.audit")

    def records(method: str | None = None) -> list[dict[str, Any]]:
        found = [each.audit for each in caplog.records if each.name == "mcpkit.audit"]  # type: ignore[attr-defined]
        return [each for each in found if method in (None, each.get("method"))]

    return records


@every_revision
async def test_an_operation_is_logged_when_it_has_ended(revision: str, audited: Any) -> None:
    async with AsyncTestClient(make_app(audit=True), revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.read_resource("notes://today")
    (call,) = audited("tools/call")
    assert call.pop("duration") > 0
    assert call.pop("sent") > call.pop("received") / 2 > 0
    assert call.pop("client").split()[0]
    assert call == {
        "event": "operation",
        "revision": revision,
        "transport": "stdio",
        "method": "tools/call",
        "name": "add",
        "outcome": "ok",
    }
    (read,) = audited("resources/read")
    assert (read["name"], read["outcome"]) == ("notes://today", "ok")


@pytest.mark.parametrize(
    ("how", "error"), [("told", "ToolError"), ("other", "OSError"), (5, "InvalidArguments")]
)
async def test_a_failure_has_its_class(how: Any, error: str, audited: Any) -> None:
    async with AsyncTestClient(make_app(audit=True), raise_exceptions=False) as client:
        assert (await client.call_tool("fail", {"how": how})).is_error
    (call,) = audited("tools/call")
    assert (call["outcome"], call["error"]) == ("tool_error", error)
    assert "arguments" not in call


@every_revision
async def test_errors_of_the_protocol_have_a_code(revision: str, audited: Any) -> None:
    async with AsyncTestClient(make_app(audit=True), revision=revision) as client:
        with pytest.raises(ProtocolError):
            await client.request("tools/call", {"name": "nothing"})
        with pytest.raises(ProtocolError):
            await client.request("no/such")
    (call,) = audited("tools/call")
    assert (call["outcome"], call["code"], call["name"]) == ("error", -32602, "nothing")
    (rejection,) = [each for each in audited() if each["event"] == "rejection"]
    assert (rejection["code"], rejection["reason"]) == (-32601, "Method not found: no/such")


async def test_each_request_of_a_dialogue_is_logged(audited: Any) -> None:
    options: Any = {"revision": REVISIONS[-1], "elicitation": lambda params: accept(True)}
    async with AsyncTestClient(make_app(audit=True), **options) as client:
        assert (await client.call_tool("ask")).text == "True"
    assert [each["outcome"] for each in audited("tools/call")] == ["input_required", "ok"]


async def test_arguments_are_logged_on_request_and_secrets_never(
    audited: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(audit=Audit(arguments=True))
    async with AsyncTestClient(app) as client:
        login = {"user": "ada", "password": "hunter2"}
        await client.call_tool("log_in", {"login": login, "note": "a\nb\x1b[0m", "pin": "1234"})
    (call,) = audited("tools/call")
    assert call["arguments"] == {"login": "[secret]", "note": "a\nb\x1b[0m", "pin": "[secret]"}
    assert "hunter2" not in caplog.text
    assert "1234" not in caplog.text
    lines = [each.getMessage() for each in caplog.records if each.name == "mcpkit.audit"]
    assert all(each.isprintable() for each in lines)


class Node(BaseModel):
    password: SecretStr
    inner: Node | None = None


def recursive(x: Node) -> None: ...
def twice(x: Login, y: Login | None = None) -> None: ...
def in_lists(x: dict[str, list[Login]]) -> None: ...


SECRET: Final[dict[str, Any]] = {"type": "string", "writeOnly": True}


@pytest.mark.parametrize(
    "given",
    [
        recursive,
        twice,
        in_lists,
        {
            "properties": {"x": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": SECRET},
        },
        {"properties": {"x": {"$ref": "#a"}}, "$defs": {"b": {**SECRET, "$anchor": "a"}}},
        {"properties": {"x": {"$ref": "#/properties/y"}, "y": SECRET}},
        {"properties": {"x": {"anyOf": [{"type": "integer"}, {"items": {"format": "password"}}]}}},
        {"properties": {"x": {}}, "allOf": [{"properties": {"x": SECRET}}]},
        {"additionalProperties": True},
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
async def test_a_secret_is_hidden_wherever_its_schema_says_so(given: Any, audited: Any) -> None:
    """SEC-13: through references, in unions, and where nothing is known."""
    app = MCPKit("audited", audit=Audit(arguments=True))

    async def open_(**arguments: Any) -> None: ...

    if isinstance(given, dict):
        app.add_tool(open_, name="f", input_schema={"type": "object", **given})
    else:
        app.add_tool(given, name="f")
    async with AsyncTestClient(app) as client:
        await client.call_tool("f", {"x": {"password": "hunter2"}})
        await client.call_tool("f", {"x": ["hunter2"]})
    shown = [each["arguments"]["x"] for each in audited("tools/call")]
    assert shown == ["[secret]", "[secret]"]


async def test_what_is_no_secret_is_shown_beside_one(audited: Any) -> None:
    def f(x: Node, y: list[int], z: tuple[Point, Point]) -> None: ...

    app = MCPKit("audited", audit=Audit(arguments=True))
    app.add_tool(f)
    async with AsyncTestClient(app) as client:
        await client.call_tool("f", {"x": {}, "y": [1], "z": [{"a": 1}, {"a": 2}]})
    (call,) = audited("tools/call")
    assert call["arguments"] == {"x": "[secret]", "y": [1], "z": [{"a": 1}, {"a": 2}]}


@pytest.mark.parametrize("kind", ["text", "list"])
async def test_long_arguments_are_cut(kind: str, audited: Any) -> None:
    app = make_app(audit=Audit(arguments=True))

    @app.tool
    def count(items: str | list[str]) -> int:
        return len(items)

    async with AsyncTestClient(app) as client:
        await client.call_tool("count", {"items": "x" * 5000 if kind == "text" else ["x"] * 5000})
    (call,) = audited("tools/call")
    assert call["arguments"]["items"].startswith("xxx" if kind == "text" else '["x","x"')
    assert len(call["arguments"]["items"]) == 1001


async def test_names_and_numbers_of_arguments_are_cut(audited: Any) -> None:
    app = make_app(audit=Audit(arguments=True))

    @app.tool(input_schema={"type": "object"})
    def take(**arguments: Any) -> int:
        return len(arguments)

    async with AsyncTestClient(app) as client:
        await client.call_tool("take", {"n" * 3_000_000: "x" * 5000})
        await client.call_tool("take", {f"{number:0900}": 0 for number in range(1000)})
    long, many = (each["arguments"] for each in audited("tools/call"))
    assert long == {"n" * 1000 + "…": "[secret]"}
    assert len(many) == 13
    assert many["…"] == "988 more"


async def test_a_fault_of_the_log_is_reported_and_fails_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Audit):
        def ended(self, operation: Any) -> None:
            raise OSError("full")

    async with AsyncTestClient(make_app(audit=Broken())) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert "an observer failed: " in caplog.text


async def test_without_it_nothing_is_logged(audited: Any) -> None:
    async with AsyncTestClient(make_app()) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    assert audited() == []


@pytest.mark.usefixtures("audited")
async def test_a_file_has_a_line_for_each_and_is_rotated(tmp_path: Path) -> None:
    handler = JsonLinesHandler(str(tmp_path / "audit.jsonl"), max_bytes=2000, backups=2)
    logger = logging.getLogger("mcpkit.audit")
    logger.addHandler(handler)
    try:
        async with AsyncTestClient(make_app(audit=True)) as client:
            for number in range(20):
                await client.call_tool("add", {"a": number, "b": 0})
    finally:
        logger.removeHandler(handler)
        handler.close()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    for each in files:
        for line in each.read_text().splitlines():
            found = json.loads(line)
            assert found["time"].endswith("+00:00")
            assert found["event"] == "operation"


def test_a_line_of_a_file_controls_no_terminal(tmp_path: Path) -> None:
    """By C1 controls, separators of lines or bidirectional marks; and no text makes it fail."""
    odd = "\x1b\x85\x9b\u2028\u202e\u200b\ud83d\U000e0041é"
    handler = JsonLinesHandler(str(tmp_path / "audit.jsonl"))
    handler.handle(logging.makeLogRecord({"audit": {"name": odd, odd: object}}))
    handler.close()
    (line,) = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert line.isascii()
    assert json.loads(line)["name"] == odd.replace("\ud83d", "\ufffd")


class Hanging:
    """A pipe in the place of a file: it takes 64 KiB, and no more until it is read."""

    def __init__(self, folder: Path) -> None:
        path = str(folder / "pipe")
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.handler = JsonLinesHandler(str(folder / "audit.jsonl"))
        self.handler._file.close()
        self.handler._file = FileIO(path, "ab")

    @property
    def held(self) -> int:
        """The bytes in the pipe."""
        size = fcntl.ioctl(self.reader, termios.FIONREAD, bytes(4))
        return int.from_bytes(size, sys.byteorder)

    def fill(self, count: int) -> None:
        for number in range(count):
            self.handler.handle(logging.makeLogRecord({"audit": {"number": number}}))


def test_a_hanging_disk_costs_a_bounded_number_of_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = Hanging(tmp_path)
    hanging.fill(audit._MAX_WAITING)
    eventually(lambda: hanging.held, lambda size: size > 60_000)  # so that nothing more is taken
    hanging.fill(2 * audit._MAX_WAITING)
    assert hanging.handler._records.qsize() == audit._MAX_WAITING
    assert caplog.text.count("records are lost") == 1
    got = b""

    def read() -> bytes:
        nonlocal got
        with suppress(BlockingIOError):
            got += os.read(hanging.reader, 1_000_000)
        return got

    eventually(read, lambda _: hanging.handler._records.qsize() == 0)
    ending = threading.Thread(target=hanging.handler.close)
    ending.start()
    eventually(read, lambda _: not ending.is_alive())
    os.close(hanging.reader)
    *records, last = map(json.loads, got.splitlines())
    assert last["event"] == "lost"
    assert last["records"] + len(records) == 3 * audit._MAX_WAITING


def test_a_process_ends_whose_disk_hangs(tmp_path: Path) -> None:
    program = (
        "import logging, sys\nfrom pathlib import Path\nfrom mcpkit import audit\n"
        "from tests.test_audit import Hanging\n"
        "audit._CLOSE_S = 0.2\nhanging = Hanging(Path(sys.argv[1]))\nhanging.fill(5000)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert "does not take the end of the audit log" in ended.stderr


async def test_a_file_that_cannot_be_renamed_loses_no_record(tmp_path: Path) -> None:
    path, obstacle = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    obstacle.mkdir()
    handler = JsonLinesHandler(str(path), max_bytes=10, backups=1)
    handler.handleError = lambda record: None  # type: ignore[method-assign]
    try:
        for number in range(3):
            handler.handle(logging.makeLogRecord({"msg": f"number {number}"}))
        await until(lambda: path.read_text().count("number") == 3)
        obstacle.rmdir()
        handler.handle(logging.makeLogRecord({"msg": "number 3"}))
    finally:
        handler.close()
    assert obstacle.read_text().count("number") == 4
