"""An event loop that is blocked is reported with the code that blocks it, and replaced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kit import eventually
from tests.transports.http.plain import serving
from tests.transports.processes import call

SOURCE = """
import os, re, time
from mcpkit import MCPKit

app = MCPKit("busy", http={"watch_loop": True})


@app.tool
async def pid() -> int:
    return os.getpid()


@app.tool
async def sleeps(seconds: float) -> None:
    time.sleep(seconds)  # for the report


@app.tool
async def matches() -> None:
    re.match("(a+)+$", "a" * 40 + "b")  # keeps all threads of the process from running


@app.tool
async def loaded() -> bool:
    import sys
    return "mcpkit.transports.http.blocked" in sys.modules
"""

SOON = """
import sys
from mcpkit.cli import main
from mcpkit.cli._run import workers

workers._BLOCKED_S = 3
sys.argv[1:] = ["run", "server.py", "--http", "--port", "0", "--workers", "2"]
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SOURCE)
    return tmp_path


def test_it_is_reported_once_per_block_with_the_stack(folder: Path) -> None:
    with serving("server.py", "--http", cwd=folder) as server:
        client = server.client()
        client.post(call(1, "sleeps", seconds=0.5))
        assert server.process.stderr.count("blocked") == 0
        for count in (1, 2):
            client.post(call(2, "sleeps", seconds=6.5))
            reports = server.process.stderr.split("the event loop has been blocked for 5 seconds")
            assert len(reports) == count + 1
            assert reports[-1].rstrip().endswith("time.sleep(seconds)  # for the report")
            assert 'server.py", line 15, in sleeps' in reports[-1]


@pytest.mark.parametrize("tool", ["sleeps", "matches"])
def test_the_worker_is_replaced(folder: Path, tool: str) -> None:
    """Also if its other threads cannot run either."""
    command = [sys.executable, "-c", SOON]
    with serving(cwd=folder, command=command, within=True) as server:
        client, connection = server.client(), server.client().connect()
        first = client.post(call(1, "pid"), connection).text
        arguments = {"seconds": 600} if tool == "sleeps" else {}
        client.send(call(2, tool, **arguments), connection)
        server.process.wait_for_stderr("a worker has been blocked for 3 seconds, and is killed")
        server.process.wait_for_stderr("another takes its place")
        seen = set[str]()

        def two_serve() -> bool:
            seen.add(server.client().post(call(3, "pid")).text)
            return len(seen) == 2

        eventually(two_serve)
        assert first not in seen
        assert server.process.stderr.count("is killed") == 1


def test_a_server_without_it_does_not_import_it(folder: Path) -> None:
    (folder / "server.py").write_text(SOURCE.replace('{"watch_loop": True}', "{}"))
    with serving("server.py", "--http", cwd=folder, cold=True) as server:
        assert server.client().post(call(1, "loaded")).text == "false"
