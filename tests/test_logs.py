"""Log records that repeat texts of clients, for our own handler and for those of a host."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpkit._utils import logs
from mcpkit._utils.logs import get_logger
from tests.cli.commands import mcpkit
from tests.messages import announced, called, meta, notification

FORGED = "x\r\nERROR mcpkit: forged \x1b[2J\u202e"
SHOWN = r"x ERROR mcpkit: forged \x1b[2J\u202e"


@pytest.fixture
def hosts() -> Iterator[io.StringIO]:
    """What a handler of a host writes, which knows nothing of us."""
    log, written = logging.getLogger("mcpkit.test"), io.StringIO()
    handler = logging.StreamHandler(written)
    log.addHandler(handler)
    try:
        yield written
    finally:
        log.removeHandler(handler)


def test_arguments_forge_no_line(hosts: io.StringIO) -> None:
    get_logger("mcpkit.test").warning("%s, %r, %s, %d", FORGED, FORGED, ValueError(FORGED), 5)
    escaped = SHOWN.replace("\\", "\\\\")
    assert hosts.getvalue() == f"{SHOWN}, '{escaped}', {SHOWN}, 5\n"


def test_tracebacks_steer_nothing_and_are_short(hosts: io.StringIO) -> None:
    try:
        raise ValueError(FORGED + "y" * 1_000_000)
    except ValueError:
        get_logger("mcpkit.test").exception("failed")
    written = hosts.getvalue()
    assert written.startswith("failed\nTraceback (most recent call last):\n")
    assert r"forged \x1b[2J\u202eyyy" in written
    assert len(written) < 21_000


OURS = Path(logs.__file__).parents[1] / "engine" / "run.py"
TRACEBACK = f"""Traceback (most recent call last):
  File "{OURS}", line 1, in first
    await second()
    ^^^^^^^^^^^^^^
  File "{OURS}", line 2, in second
    author()
  File "/home/a/server.py", line 3, in author
    library()
  File "{OURS}", line 4, in info
    raise KeyError(1)
KeyError: 1"""


FOLDED = f"""Traceback (most recent call last):
  … 2 frames of mcpkit
  File "/home/a/server.py", line 3, in author
    library()
  File "{OURS}", line 4, in info
    raise KeyError(1)
KeyError: 1"""


def test_frames_of_mcpkit_are_one_line_except_the_one_that_raised() -> None:
    assert logs._folded(TRACEBACK) == FOLDED
    grouped = "\n".join(f"  | {line}" for line in TRACEBACK.split("\n"))
    folded = logs._folded(f"{TRACEBACK}\n\nThe above exception\n\n{grouped}")
    assert folded.count("… 2 frames of mcpkit") == 2
    assert "  |   … 2 frames of mcpkit" in folded
    assert "first" not in folded


def test_all_loggers_come_from_one_module() -> None:
    package = Path(logs.__file__).parents[1]
    wanted = re.compile(r"\bgetLogger\(|\bbasicConfig\(")
    found = {each.name for each in package.rglob("*.py") if wanted.search(each.read_text("utf-8"))}
    assert found == {"logs.py"}


SERVER = """
import logging
import mcpkit
app = mcpkit.MCPKit("loud")
@app.tool
async def fail(text: str) -> str:
    logging.getLogger("mine").warning("mine %s", text)
    raise ValueError(text)
"""


def test_a_server_shows_no_forged_line(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(SERVER)
    sent = [
        notification(f"notifications/{FORGED}", _meta=meta()),
        announced("i" * 1000, "tools/call", **called("fail", {"text": FORGED})),
    ]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in sent)
    ended = mcpkit("run", "loud.py", "--debug", input=lines, cwd=tmp_path)
    assert ended.code == 0
    assert f"DEBUG mcpkit: not served: Unknown notification: notifications/{SHOWN}" in ended.stderr
    assert "ValueError: x\n    ERROR mcpkit: forged \\x1b[2J\\u202e\n" in ended.stderr
    assert "\nERROR mcpkit: forged" not in ended.stderr
    assert [each for each in ended.stderr if not each.isprintable() and each != "\n"] == []
    assert len(ended.stderr) < 10_000
