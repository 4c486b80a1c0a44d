"""A handler that raises what ends a process fails its call; Ctrl-C ends a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit import eventually
from tests.messages import Message, notification, request
from tests.transports.http.plain import serving
from tests.transports.processes import call, modern, started

SOURCE: Final = """
import sys
from typing import Annotated
import anyio
from mcpkit import Context, Depends, MCPKit

app = MCPKit("raising")
KINDS = {each.__name__: each for each in (KeyboardInterrupt, SystemExit, GeneratorExit)}


def fail(kind):
    raise KINDS[kind]("on purpose")

@app.tool
def plain(kind: str) -> None:
    fail(kind)

@app.tool(inline=True)
def inline(kind: str) -> None:
    fail(kind)

@app.tool
async def at_once(kind: str) -> None:
    fail(kind)

@app.tool
async def later(kind: str) -> None:
    await anyio.sleep(0)
    fail(kind)

def needed(kind: str) -> None:
    fail(kind)

def left(kind: str):
    yield None
    fail(kind)

async def left_on_the_loop(kind: str):
    yield None
    fail(kind)

@app.tool
async def depends(kind: str, on: Annotated[None, Depends(needed)]) -> None: ...

@app.tool
def leaves(kind: str, on: Annotated[None, Depends(left)]) -> None: ...

@app.tool
async def leaves_on_the_loop(kind: str, on: Annotated[None, Depends(left_on_the_loop)]) -> None: ...

@app.resource("plain://{kind}")
def plain_resource(kind: str) -> str:
    fail(kind)

@app.resource("async://{kind}")
async def async_resource(kind: str) -> str:
    fail(kind)

@app.prompt
def plain_prompt(kind: str) -> str:
    fail(kind)

@app.tool
def roots(kind: str, *, ctx: Context) -> None:
    ctx.roots_changed(lambda found: fail(kind))

@app.middleware
async def in_middleware(ctx, call_next):
    if ctx.method == "completion/complete":
        fail("SystemExit")
    return await call_next()

if __name__ == "__main__":
    app.run("stdio", backend=sys.argv[1])
"""

KINDS: Final = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
TOOLS: Final = ["plain", "inline", "at_once", "later", "depends", "leaves", "leaves_on_the_loop"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

Ask = Callable[[Message], Message]


def requests_that_raise(kind: str) -> Iterator[Message]:
    for tool in TOOLS:
        yield call(1, tool, kind=kind)
    for scheme in ("plain", "async"):
        yield modern(1, "resources/read", uri=f"{scheme}://{kind}")
    yield modern(1, "prompts/get", name="plain_prompt", arguments={"kind": kind})
    reference = {"type": "ref/prompt", "name": "plain_prompt"}
    argument = {"name": "kind", "value": ""}
    yield modern(1, "completion/complete", ref=reference, argument=argument)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raising")
    (folder / "server.py").write_text(SOURCE)
    return folder


@pytest.fixture(scope="module", params=["asyncio", "trio", "http"])
def ask(request: pytest.FixtureRequest, folder: Path) -> Iterator[Ask]:
    if request.param != "http":
        with started([sys.executable, "server.py", request.param], cwd=folder) as process:
            yield process.ask
        return
    with serving("server.py", "--http", cwd=folder) as server:
        client = server.client()

        def post(message: Message) -> Message:
            connection = client.connect()
            uri = message["params"].get("uri")
            client.send(message, connection, {} if uri is None else {"Mcp-Name": uri})
            last: Message = client.receive(connection).last
            return last

        yield post


@pytest.mark.parametrize("kind", KINDS)
def test_the_call_fails_and_the_server_continues(ask: Ask, kind: str) -> None:
    for message in requests_that_raise(kind):
        answer = ask(message)
        assert "error" in answer or answer["result"]["isError"], message
    assert "result" in ask(modern(2, "tools/list"))


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_handler_of_changed_roots_ends_no_server(folder: Path, backend: str, kind: str) -> None:
    with started([sys.executable, "server.py", backend], cwd=folder) as process:
        process.shake_hands("2025-06-18", roots={"listChanged": True})
        process.ask(request(2, "tools/call", name="roots", arguments={"kind": kind}))
        process.send(notification("notifications/roots/list_changed"))
        question = process.receive()
        assert question["method"] == "roots/list"
        process.send({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        process.wait_for_stderr("a handler for changed roots failed")
        assert process.ask(request(3, "ping"))["result"] == {}


MEMORY: Final = """
import asyncio, os, signal, threading, time
from mcpkit import Client, MCPKit

app = MCPKit("memory")

@app.tool
async def busy() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)  # asyncio raises at the second
    time.sleep(60)

async def main():
    async with Client(app) as client:
        await client.call_tool("busy")

asyncio.run(main())
"""


def test_ctrl_c_ends_a_program_that_has_its_server_in_memory(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(MEMORY)
    with started([sys.executable, "program.py"], cwd=tmp_path) as process:
        process.exit_code()
        eventually(lambda: "KeyboardInterrupt" in process.stderr)
