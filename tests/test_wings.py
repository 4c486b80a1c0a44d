"""The core serves tools, resources and prompts without any of its wings.

Each wing is deleted from a copy of the package, with what stands on it, and all of them together.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.wings import PACKAGE, WINGS, carried_by, core_files, files_of

TIMEOUT_S: Final = 60

SERVER: Final = textwrap.dedent(
    """
    import sys
    from dataclasses import dataclass
    from mcpkit import Context, Depends, MCPKit

    app = MCPKit("core")

    @dataclass
    class Size:
        inches: int

    @app.tool
    def add(a: int, b: int = 1) -> int:
        "Add two numbers."
        return a + b

    @app.tool
    async def fit(ctx: Context) -> str:
        answer = await ctx.elicit("Which size?", Size)
        return f"{answer.data.inches} inches" if answer.accepted else "none"

    @app.resource("cities://{name}")
    def city(name: str) -> str:
        return f"{name} is a city"

    @app.prompt
    def greet(who: str) -> str:
        return f"Greet {who}."

    if sys.argv[1:] == ["http"]:
        app.run("http", port=0)
    elif __name__ == "__main__":
        app.run()
    """
)


@pytest.fixture(scope="module", params=[*WINGS, "all"])
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server, and a copy of the package that has not all wings."""
    name = str(request.param)
    gone = {*WINGS} if name == "all" else carried_by(name)
    folder = tmp_path_factory.mktemp("copy")
    for path in {*core_files(), *files_of(*WINGS), Path("extensions/__init__.py")} - {
        *files_of(*gone)
    }:
        (folder / "mcpkit" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PACKAGE / path, folder / "mcpkit" / path)
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    return folder


def start(folder: Path, *args: str, code: str | None = None, **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = ["server.py"] if code is None else ["-c", code]
    return subprocess.Popen(
        [sys.executable, *command, *args],
        cwd=folder,
        env=environment,
        text=True,
        encoding="utf-8",
        **more,
    )


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    process = start(folder, code=code, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = process.communicate(timeout=TIMEOUT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def test_a_copy_has_only_what_was_copied(without: Path) -> None:
    done = run(without, "import mcpkit; print(mcpkit.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(without), done.stderr


def requests_on(send: Callable[[str, Mapping[str, Any]], Any]) -> None:
    """Use a tool, a resource and a prompt of the server."""
    listed = send("tools/list", {})["tools"]
    assert [each["name"] for each in listed] == ["add", "fit"]
    added = send("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
    assert added["structuredContent"] == {"result": 5}
    wrong = send("tools/call", {"name": "add", "arguments": {"a": "two"}})
    assert wrong["isError"]
    assert "expected an integer" in wrong["content"][0]["text"]
    read = send("resources/read", {"uri": "cities://Oslo"})
    assert read["contents"][0]["text"] == "Oslo is a city"
    prompt = send("prompts/get", {"name": "greet", "arguments": {"who": "Ann"}})
    assert prompt["messages"][0]["content"]["text"] == "Greet Ann."


def test_the_core_serves_and_asks_on_stdio(without: Path) -> None:
    pipe = subprocess.PIPE
    with start(without, stdin=pipe, stdout=pipe) as server:
        assert server.stdin
        assert server.stdout
        written, lines = server.stdin, server.stdout

        def post(**message: Any) -> None:
            written.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            written.flush()

        def send(method: str, params: Mapping[str, Any]) -> Any:
            post(id=1, method=method, params=params)
            while True:
                message = json.loads(lines.readline())
                if message.get("method") == "elicitation/create":
                    assert message["params"]["message"] == "Which size?"
                    answer = {"action": "accept", "content": {"inches": 12}}
                    post(id=message["id"], result=answer)
                elif message.get("id") == 1 and "method" not in message:
                    assert "error" not in message, message
                    return message["result"]

        try:
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "test", "version": "1"},
            }
            assert send("initialize", hello)["protocolVersion"] == "2025-11-25"
            post(method="notifications/initialized")
            requests_on(send)
            asked = send("tools/call", {"name": "fit", "arguments": {}})
            assert asked["content"][0]["text"] == "12 inches"
            written.close()
            assert server.wait(TIMEOUT_S) == 0
        finally:
            server.kill()


@pytest.fixture(scope="module")
def url(without: Path) -> Iterator[str]:
    with start(without, "http", stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr
            seen = []
            for line in server.stderr:
                seen.append(line)
                if "http://127.0.0.1:" in line:
                    yield "http://127.0.0.1:" + line.split("http://127.0.0.1:")[1].split()[0]
                    break
            else:
                pytest.fail("".join(seen))
        finally:
            server.kill()


def test_the_core_serves_and_asks_over_http(url: str) -> None:
    revision = "2026-07-28"

    def send(method: str, params: Mapping[str, Any]) -> Any:
        name = params.get("name") or params.get("uri")
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": revision,
            "Mcp-Method": method,
            **({"Mcp-Name": name} if name else {}),
        }
        meta = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        request = Request(url, json.dumps(body).encode(), headers)
        with urlopen(request, timeout=TIMEOUT_S) as response:
            message = json.loads(response.read())
        assert "error" not in message, message
        return message["result"]

    requests_on(send)
    call: dict[str, Any] = {"name": "fit", "arguments": {}}
    asked = send("tools/call", call)
    [key] = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"inches": 7}}}
    state = {"requestState": asked["requestState"], "inputResponses": answers}
    assert send("tools/call", {**call, **state})["content"][0]["text"] == "7 inches"


APP: Final = "import mcpkit; from mcpkit import MCPKit; app = MCPKit('core'); f = lambda: None; "

USES: Final = {
    "cli": ("import mcpkit.cli", "mcpkit.cli"),
    "client": ("mcpkit.Client", "mcpkit.client"),
    "fetching": ("import mcpkit._utils.fetch", "mcpkit._utils.fetch"),
    "stores": ("app.tool(f, name='f', task='optional'); app.run()", "mcpkit.tasks"),
    "tasks": ("app.tool(f, name='f', task='optional'); app.run()", "mcpkit.tasks"),
    "keyed calls": ("app.tool(f, name='f', single_flight=True)", "mcpkit.idempotency"),
    "auth": ("MCPKit('x', auth=print)", "mcpkit.auth"),
    "authorization server": ("import mcpkit.auth.server", "mcpkit.auth.server"),
    "apps": ("app.tool(f, name='f', ui='ui://x')", "mcpkit.extensions.apps"),
    "skills": ("app.skills('.')", "mcpkit.extensions.skills"),
    "observation": ("MCPKit('x', audit=True)", "mcpkit.audit"),
    "health": ("MCPKit('x', http={'ready': True}).asgi()", "mcpkit.transports.http.readiness"),
    "server card": ("MCPKit('x', http={'card': True}).asgi()", "mcpkit.transports.http.card"),
    "call limits": ("app.tool(f, name='f', timeout=3)", "mcpkit.call_limits"),
    "files": ("app.files('.', 'x://')", "mcpkit.providers.files"),
    "host hints": ("app.tool(f, name='f', always_load=True)", "mcpkit.host_hints"),
    "settings": ("import mcpkit._settings", "mcpkit._settings"),
    "testing": ("import mcpkit.testing", "mcpkit.testing"),
}
"""Wing → code that uses it, and the part that is missing then."""


def test_there_is_a_use_of_each_wing() -> None:
    assert USES.keys() == WINGS.keys()


def test_what_needs_a_missing_wing_names_it(without: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["without"]
    for each in USES if name == "all" else [name]:
        code, missing = USES[each]
        done = run(without, APP + code)
        assert done.returncode == 1, (each, done)
        found = re.search(r"No module named '([\w.]+)'$", done.stderr.strip())
        assert found, (each, done.stderr)
        # If all are gone, a package around the part may be the first that is missing.
        assert found[1].startswith(missing) or (name == "all" and missing.startswith(found[1]))
