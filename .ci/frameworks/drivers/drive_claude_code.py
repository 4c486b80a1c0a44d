"""Claude Code: without a login it connects, and shows no more than that."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile

from driving import SERVER, URL, WAIT, Report, program


def main(home: str) -> None:
    report = Report("@anthropic-ai/claude-code")
    entry = (
        {"type": "http", "url": URL}
        if URL
        else {"type": "stdio", "command": SERVER[0], "args": SERVER[1:]}
    )

    def claude(*arguments: str) -> str:
        done = subprocess.run(
            [program("claude"), *arguments],
            cwd=home,
            env={
                **os.environ,
                "HOME": home,
                "CLAUDE_CONFIG_DIR": home,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=True,
        )
        return done.stdout

    def connected() -> bool:
        claude("mcp", "add-json", "--scope", "user", "here", json.dumps(entry))
        return "Connected" in claude("mcp", "get", "here")

    report.note_now("connected", connected)
    report.print()


with tempfile.TemporaryDirectory() as folder:
    main(folder)
