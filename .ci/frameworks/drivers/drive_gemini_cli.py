"""Gemini CLI: one round without a login, in which answers that stand in a file are the model's.

It shows text, and gives the rest of a result to the model only, which is in the file of the
session. Neither is given structured results, or progress.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from driving import ADD, BOOK, REFUSE, SERVER, URL, WAIT, Report, program

CALLS = {"add": ADD, "ready": {}, "book": BOOK, "picture": {}, "refuse": REFUSE}


def said(*parts: dict[str, Any]) -> str:
    """One answer of the model, as a line of the file."""
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return json.dumps(
        {"method": "generateContentStream", "response": [{"candidates": [candidate]}]}
    )


def within(value: Any, key: str) -> Any:
    """Every value of a key in a tree of JSON."""
    if isinstance(value, dict):
        yield from (each for name, each in value.items() if name == key)
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from within(each, key)


def main(home: Path) -> None:
    report = Report("@google/gemini-cli")
    entry = {"httpUrl": URL} if URL else {"command": SERVER[0], "args": SERVER[1:]}
    settings = {
        "mcpServers": {"here": {**entry, "trust": True}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    calls = [
        {"functionCall": {"name": f"mcp_here_{name}", "args": values}}
        for name, values in CALLS.items()
    ]
    answers = home / "answers"
    answers.write_text(f"{said(*calls)}\n{said({'text': 'Thanks.'})}\n")
    done = subprocess.run(
        [
            *(program("gemini"), "--prompt", "What is 2 + 40?", "--model", "scripted"),
            *("--fake-responses-non-strict", str(answers)),
            *("--approval-mode", "yolo", "--skip-trust", "--output-format", "stream-json"),
        ],
        cwd=home,
        # A key has to be there, and is not used.
        env={**os.environ, "HOME": str(home), "GEMINI_API_KEY": "none"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAIT,
        check=True,
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    names = {each["tool_id"]: each["tool_name"] for each in events if each["type"] == "tool_use"}
    results = {names[each["tool_id"]]: each for each in events if each["type"] == "tool_result"}

    def text(name: str) -> Any:
        result = results[f"mcp_here_{name}"]
        return result["output"] if result["status"] == "success" else result

    def refuse() -> Any:
        result = results["mcp_here_refuse"]
        right = result["status"] == "error" and '"text":"not today"' in result["error"]["message"]
        return REFUSE["reason"] if right else result

    def picture() -> Any:
        (session,) = home.rglob("session-*.jsonl")
        lines = [json.loads(line) for line in session.read_text().splitlines()]
        return next(within(lines, "inlineData"))["data"]

    def agent() -> Any:
        last = "".join(each["content"] for each in events if each.get("role") == "assistant")
        return f"{text('add')} {last}"

    for name in ("add", "ready", "book"):
        report.note_now(name, lambda name=name: text(name))
    report.note_now("picture", picture)
    report.note_now("refuse", refuse)
    report.note_now("agent", agent)
    report.print()


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
