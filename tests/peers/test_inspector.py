"""The command line of the official Inspector uses an example over HTTP.

It takes long to start, and does one thing at a time: all are tried over one transport.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.peers.installed import NODE, ROOT, inspector, require
from tests.transports.http.plain import serving

EXAMPLE = ROOT / "examples" / "quickstart.py"

pytestmark = pytest.mark.peers


@contextmanager
def serving_example(transport: str) -> Iterator[list[str]]:
    """What tells the Inspector where the example is."""
    require(NODE)
    with serving(str(EXAMPLE), "--transport", transport, cwd=ROOT) as server:
        url = server.url if transport == "http" else server.url.replace("/mcp", "/sse")
        yield [url, "--transport", transport]


def inspect(target: list[str], home: Path, method: str, *arguments: str) -> Any:
    return json.loads(inspector(home, *target, "--method", method, *arguments))


def test_everything_is_used(tmp_path: Path) -> None:
    """With ``--strict`` a schema that some client may not understand is an error."""
    with serving_example("http") as target:
        listed = inspect(target, tmp_path, "tools/list", "--strict")
        arguments = ["--tool-name", "add", "--tool-arg", "a=2", "--tool-arg", "b=40"]
        called = inspect(target, tmp_path, "tools/call", *arguments)
        read = inspect(target, tmp_path, "resources/read", "--uri", "weather://cities")
        arguments = ["--prompt-name", "pack", "--prompt-args", "city=Oslo"]
        result = inspect(target, tmp_path, "prompts/get", *arguments)
    assert [tool["name"] for tool in listed["tools"]] == ["add", "forecast", "travel"]
    assert called["content"] == [{"type": "text", "text": "42"}]
    assert called["structuredContent"] == {"result": 42}
    assert json.loads(read["contents"][0]["text"]) == ["Lisbon", "Oslo", "Quito"]
    text = "What should I pack for 3 days in Oslo? Look at the forecast first."
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": text}}]


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_tool_that_reports_progress_is_called(transport: str, tmp_path: Path) -> None:
    arguments = ["--tool-name", "forecast", "--tool-arg", "city=Oslo", "--tool-arg", "days=1"]
    with serving_example(transport) as target:
        result = inspect(target, tmp_path, "tools/call", *arguments)
    [forecast] = result["structuredContent"]["result"]
    assert forecast == {"city": "Oslo", "day": 1, "celsius": 12.0}
