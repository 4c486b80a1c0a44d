"""Codex: its app server, which connects and calls tools without a login.

It is JSON-RPC without ``jsonrpc``, on stdio. A call needs a thread; no turn of a model is ever
begun in it. Progress of a call that is made so is not passed on.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from driving import ADD, BOOK, LOCATE, REFUSE, SERVER, URL, Report, program

CONFIG = """
model_provider = "nobody"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.nobody]
name = "nobody"
base_url = "http://127.0.0.1:9/v1"
[mcp_servers.here]
{entry}
"""
"""A thread prepares a connection to its model; there is none."""


class AppServer:
    """One process, asked one thing after the other."""

    def __init__(self, home: str) -> None:
        entry = f"url = {json.dumps(URL)}" if URL else ""
        if not URL:
            entry = f"command = {json.dumps(SERVER[0])}\nargs = {json.dumps(SERVER[1:])}"
        config = CONFIG.format(entry=entry)
        (Path(home) / "config.toml").write_text(config)
        self._process = subprocess.Popen(
            [program("codex"), "app-server"],
            cwd=home,
            env={**os.environ, "HOME": home, "CODEX_HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ids = iter(range(1, 1000))

    def send(self, message: dict[str, Any]) -> None:
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self.send({"id": number, "method": method, "params": params})
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(message["error"])
                return message["result"]
        raise RuntimeError("the app server has ended")

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def main(home: str) -> None:
    report = Report("@openai/codex")
    server = AppServer(home)
    server.ask("initialize", clientInfo={"name": "driver", "title": "Driver", "version": "1"})
    server.send({"method": "initialized"})
    thread = server.ask("thread/start", cwd=home)["thread"]["id"]

    def tools() -> Any:
        (status,) = server.ask("mcpServerStatus/list", serverName="here", threadId=thread)["data"]
        found = status["tools"].items()
        return {name: sorted(each["inputSchema"]["properties"]) for name, each in found}

    def call(name: str, values: dict[str, Any]) -> Any:
        return server.ask(
            "mcpServer/tool/call", server="here", threadId=thread, tool=name, arguments=values
        )

    def text(name: str, values: dict[str, Any]) -> Any:
        return call(name, values)["content"][0]["text"]

    def refuse() -> Any:
        result = call("refuse", REFUSE)
        return result["content"][0]["text"] if result["isError"] else None

    report.note_now("tools", tools)
    report.note_now("add", lambda: text("add", ADD))
    report.note_now("ready", lambda: text("ready", {}))
    report.note_now("book", lambda: text("book", BOOK))
    report.note_now("locate", lambda: call("locate", LOCATE)["structuredContent"])
    report.note_now("picture", lambda: call("picture", {})["content"][0]["data"])
    report.note_now("refuse", refuse)
    server.end()
    report.print()


with tempfile.TemporaryDirectory() as folder:
    main(folder)
