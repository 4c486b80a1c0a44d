"""Answers are read however much stands before them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.warm import Popen

SERVER = """
from mcpkit import Context, MCPKit

app = MCPKit("pressed", max_in_flight=1)


@app.tool
async def ask(ctx: Context) -> bool:
    return (await ctx.elicit("Go on?")).accepted
"""


def line(**message: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


def test_an_answer_behind_two_thousand_requests_is_read(tmp_path: Path) -> None:
    """SEC-17 and S2C-4: reading pauses under load, but not before what handlers wait for."""
    count = 2000
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    command = [sys.executable, "-m", "mcpkit", "run", str(server)]
    pipe = subprocess.PIPE
    with Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        stop = threading.Timer(45, process.kill)
        stop.start()
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        }
        process.stdin.write(line(id=0, method="initialize", params=hello))
        process.stdin.write(line(method="notifications/initialized"))
        for number in range(1, count + 1):
            process.stdin.write(line(id=number, method="tools/call", params={"name": "ask"}))
        process.stdin.flush()
        answered: set[int] = set()
        while len(answered) < count:
            message = json.loads(process.stdout.readline())
            if message.get("method") == "elicitation/create":
                process.stdin.write(line(id=message["id"], result={"action": "accept"}))
                process.stdin.flush()
            elif message["id"]:
                assert message["result"]["structuredContent"] == {"result": True}
                answered.add(message["id"])
        stop.cancel()
        process.stdin.close()
        assert process.wait(10) == 0
