"""What commands show of servers that send what steers a terminal, hides, or never ends."""

from __future__ import annotations

import ast
import json
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Final

import anyio
import pytest
import typer

import mcpkit as package
from mcpkit.cli._answers import Answers
from mcpkit.cli._connection import run_async
from mcpkit.cli._render import Binary, name_from
from tests.cli.commands import Ended, answering, at_terminal, mcpkit

EVIL: Final = "\x1b]52;c;aGk=\x07\x9b2J\u202e\u200b"
SEEN: Final = r"\x1b]52;c;aGk=\x07\x9b2J\u202e\u200b"


def result(**members: Any) -> dict[str, Any]:
    return {"result": members}


HELLO: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
    "serverInfo": {"name": f"n{EVIL}", "version": f"1{EVIL}"},
}
TOOL: Final = {
    "name": f"t{EVIL}",
    "title": EVIL,
    "description": f"{EVIL}First.\n\n" + "More.\n" * 30,
    "inputSchema": {"type": "object", "properties": {f"a{EVIL}": {"description": EVIL}}},
}
ANSWERS: Final[dict[str, Any]] = {
    "initialize": {"result": HELLO},
    "tools/list": result(tools=[TOOL, {**TOOL, "name": "t"}]),
    "resources/list": result(resources=[{"uri": f"a:{EVIL}", "name": EVIL, "mimeType": EVIL}]),
    "resources/templates/list": result(resourceTemplates=[]),
    "prompts/list": result(
        prompts=[
            {"name": "p", "title": EVIL, "arguments": [{"name": f"x{EVIL}", "required": True}]}
        ]
    ),
}


def telling(kind: str, **params: Any) -> dict[str, Any]:
    """A call with a notification before its result."""
    before = [{"method": f"notifications/{kind}", "params": params}]
    return {"tools/call": {"before": before, **result(content=[])}}


def stub(**answers: Any) -> str:
    """The command of a server that answers these methods so."""
    return answering({**ANSWERS, **answers})


def shown(said: Ended | str) -> str:
    """What was said, after a look at whether any of it is obeyed or hidden."""
    text = said if isinstance(said, str) else said.stdout + said.stderr
    assert [each for each in text if not each.isprintable() and each not in "\n\t"] == []
    return text


SAID: Final[dict[str, tuple[list[str], dict[str, Any], str]]] = {
    "everything that is offered": (["inspect"], {}, f"n{SEEN} 1{SEEN}"),
    "the hint on the rest of a description": (["inspect"], {}, f"more lines: --tool t{SEEN}"),
    "findings": (["check", "--fail-on", "never"], {}, SEEN),
    "another tool than the wanted one": (["call", "T"], {}, f"t{SEEN}"),
    "an argument that is missing": (["prompt", "p"], {}, f"p needs x{SEEN}=…"),
    "an error": (
        ["inspect"],
        {"initialize": {"error": {"code": -5, "message": f"no{EVIL}\nmcpkit: all is well"}}},
        f"no{SEEN} mcpkit: all is well",
    ),
    "a version": (
        ["inspect"],
        {"initialize": result(**{**HELLO, "protocolVersion": f"v{EVIL}"})},
        f"v{SEEN}",
    ),
    "the type of bytes that are saved": (
        ["read", "a:b", "--save", "."],
        {"resources/read": result(contents=[{"uri": "a:b", "mimeType": EVIL, "blob": "aGk="}])},
        f"{SEEN}, 2 bytes: saved as",
    ),
    "the names of several contents": (
        ["read", "a:b"],
        {
            "resources/read": result(
                contents=[{"uri": f"u{EVIL}", "mimeType": EVIL, "text": "x"}] * 2
            )
        },
        f"u{SEEN} ({SEEN}), 1 byte:",
    ),
    "a tool that fails": (
        ["call", "t"],
        {"tools/call": result(isError=True, content=[{"type": "text", "text": f"e{EVIL}"}])},
        f"e{SEEN}",
    ),
    "a log message": (
        ["call", "t"],
        telling("message", level=EVIL, logger=EVIL, data="a\nerror   forged"),
        f"{SEEN} {SEEN}: a\n        error   forged\n",
    ),
    "progress": (["call", "t"], telling("progress", progress=1, message=f"m{EVIL}"), f"m{SEEN}"),
    "not a message": (
        ["call", "t"],
        {"tools/call": {"before": [{"method": 5, EVIL: EVIL}], **result(content=[])}},
        "an invalid message",
    ),
}


@pytest.mark.parametrize(("words", "answers", "text"), SAID.values(), ids=SAID.keys())
def test_nothing_of_a_server_steers_or_hides(
    words: list[str], answers: dict[str, Any], text: str, tmp_path: Path
) -> None:
    command, *rest = words
    said = shown(mcpkit(command, stub(**answers), *rest, cwd=tmp_path))
    assert text in said
    assert "Traceback" not in said


@pytest.mark.parametrize("given", [None, ["x=1"], ["accept"]], ids=str)
def test_nor_does_a_question(given: list[str] | None, capsys: pytest.CaptureFixture[str]) -> None:
    asking = Answers(given, None, nullcontext)
    field = {"type": "string", "title": f"{EVIL}\nmcpkit: no"}
    form = {"properties": {"x": field, f"y\nmcpkit: {EVIL}": field}, "required": ["x"]}
    message = f"Who?{EVIL}\nmcpkit: yes"

    async def ask() -> None:
        await asking.elicit({"message": message, "requestedSchema": form})
        await asking.elicit({"message": message, "mode": "url", "url": f"https://a/{EVIL}"})

    anyio.run(ask)
    said = shown(capsys.readouterr().err)
    assert said.count(f"Who?{SEEN}") == 2
    assert "\nmcpkit: yes" not in said
    assert "\nmcpkit: no" not in said


def test_nor_does_a_fault_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    async def fault() -> None:
        raise LookupError(EVIL)

    with pytest.raises(typer.Exit) as left:
        run_async(fault)
    assert left.value.exit_code == 1
    assert shown(capsys.readouterr().err).endswith(f"\nLookupError: {SEEN}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("words", ["inspect", "call t", "call t --quiet"])
def test_nor_do_data_and_stderr_at_a_terminal(words: str) -> None:
    answers = {**ANSWERS, "tools/call": result(content=[{"type": "text", "text": f"漢字 {EVIL}"}])}
    server = answering(answers, f"import sys; print({EVIL!r} + 'loud', file=sys.stderr)")
    command, *rest = words.split()
    said = shown(at_terminal(command, server, *rest))
    assert f"{SEEN}loud\n" in said
    assert command == "inspect" or f"漢字 {SEEN}" in said


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_nor_does_json(command: str) -> None:
    ended = mcpkit(command, stub(), "--json")
    shown(ended)
    assert json.loads(ended.stdout)["server"]["name"] == f"n{EVIL}"


@contextmanager
def responding(response: bytes) -> Iterator[str]:
    """A server that answers every request with the same bytes."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(response)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 503 \x9b2J\xe2\x80\xae\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 No\r\ncontent-length: 19\r\n\r\n\x1b]52;c;aGk=\x07\xe2\x80\xaeerror",
        b"HTTP/1.1 302 No\r\nlocation: ftp://\xe2\x80\xae/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: a/\xe2\x80\xae\x9b2J\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["reason", "body", "redirect", "type"],
)
def test_nor_does_a_server_over_http(response: bytes) -> None:
    with responding(response) as url:
        ended = mcpkit("inspect", url)
    assert ended.code == 2
    assert shown(ended).count("\n") == 1


# --- malformed messages ---------------------------------------------------------------------------

BYTES: Final = {"type": "image", "mimeType": 5, "data": "aGk="}
MALFORMED: Final[dict[str, tuple[str, str, dict[str, Any], str]]] = {
    "no list": ("inspect", "tools/list", {}, "to tools/list is malformed: KeyError('tools')"),
    "version": ("inspect", "initialize", {**HELLO, "protocolVersion": {}}, "Unsupported protocol"),
    "name": ("call", "tools/list", {"tools": [{"name": {}, "inputSchema": {}}]}, "malformed"),
    "argument": ("prompt", "prompts/list", {"prompts": [{"name": "t", "arguments": [5]}]}, "malf"),
    "text": ("call", "tools/call", {"content": [{"type": "text", "text": 5}]}, "malformed"),
    "type": ("call", "tools/call", {"content": [BYTES]}, "malformed"),
    "contents": ("read", "resources/read", {"contents": [{"uri": "t", "text": 5}]}, "malformed"),
}


@pytest.mark.parametrize(
    ("command", "method", "answer", "text"), MALFORMED.values(), ids=MALFORMED.keys()
)
def test_a_malformed_answer_is_said_in_one_line(
    command: str, method: str, answer: dict[str, Any], text: str
) -> None:
    words = [] if command == "inspect" else ["t"]
    ended = mcpkit(command, stub(**{method: result(**answer)}), *words)
    assert ended.code in (1, 2)
    assert text in ended.stderr
    assert shown(ended).count("\n") == 1


def test_members_of_other_types_are_shown_as_they_are() -> None:
    tool = {"name": "t\n", "description": 5, "inputSchema": {"properties": {"a": 7}}}
    ended = mcpkit("inspect", stub(**{"tools/list": result(tools=[tool])}))
    assert ended.code == 0
    assert "    5\n    a  anything, optional\n" in shown(ended)


# --- what never ends ------------------------------------------------------------------------------


def test_a_line_that_never_ends_and_an_error_that_is_long() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('x' * 1000000)"
    ended = mcpkit("inspect", shlex.join([sys.executable, "-c", endless]))
    assert ended.code == 2
    said = shown(ended)
    assert said.endswith(": The server sends too much: a line of more than 67108864 bytes\n")
    answers = {"initialize": {"error": {"code": -5, "message": "x" * 100_000}}}
    assert len(shown(mcpkit("inspect", stub(**answers)))) < 5000


def test_files_without_number(tmp_path: Path) -> None:
    content = [{"type": "image", "mimeType": "image/png", "data": ""}] * 1001
    answers = {"tools/call": result(content=content)}
    ended = mcpkit("call", stub(**answers), "t", "--save", "files", cwd=tmp_path)
    assert ended.code == 2
    assert shown(ended).endswith("sends more than 1000 files; the others are not saved\n")
    assert len(list((tmp_path / "files").iterdir())) == 1000


@pytest.mark.parametrize(
    "name", ["CON", "nul.txt", "com1", "Lpt9.tar.gz", "COM\xb9", "aux.", " prn ", "COM0.", "..NUL"]
)
def test_no_file_is_called_like_a_device_of_windows(name: str) -> None:
    assert Binary(b"", "text/plain", name).name.startswith("_")
    assert name_from(f"file:///{name}").startswith("_")
    assert name_from("file:///console") == "console"


# --- the rule -------------------------------------------------------------------------------------

CLI: Final = Path(package.__file__).parent / "cli"
WRITES: Final = {"typer.echo", "typer.secho", "typer.prompt", "typer.confirm", "print", "Console"}


def calls(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_commands_speak_through_one_module() -> None:
    assert {path.name for path in CLI.rglob("*.py") if calls(path) & WRITES} == {"_terminal.py"}
