"""Every example and template, started and used as a host would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpkit.testing import REVISIONS, TestClient

ROOT = Path(__file__).parent.parent
SERVERS = [
    *(path for path in sorted((ROOT / "examples").glob("*.py")) if "client" not in path.name),
    *sorted((ROOT / "templates").glob("*/server.py")),
]


def stdio(path: Path) -> list[str]:
    return [sys.executable, "-m", "mcpkit", "run", str(path)]


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.parent.name + "/" + path.stem)
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-2], REVISIONS[-1]])
def test_every_server_starts_and_describes_its_tools(path: Path, revision: str) -> None:
    with TestClient(stdio(path), revision=revision) as client:
        tools = client.list_tools()
    assert tools
    assert all(tool.description for tool in tools)


def test_the_quickstart_client_shows_a_server_at_work() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart_client.py")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=True,
    )
    assert "add(2, 40) = 42" in done.stdout
    assert "Oslo, day 2: 13.0 °C" in done.stdout
    assert "days: expected less than or equal to 7, got 9" in done.stdout


def test_the_quickstart_reads_and_prompts() -> None:
    with TestClient(stdio(ROOT / "examples" / "quickstart.py")) as client:
        (weather,) = client.read_resource("weather://Quito/now")
        prompt = client.get_prompt("pack", {"city": "Oslo", "days": "2"})
        suggested = client.complete("city", "o", prompt="pack")
    assert '"celsius":18.0' in getattr(weather, "text", "")
    assert "2 days in Oslo" in prompt.messages[0].text
    assert list(suggested.values) == ["Oslo", "Lisbon", "Quito"]


@pytest.mark.parametrize("revision", REVISIONS[2:])
def test_a_payment_is_made_once_on_every_revision_that_can_ask(revision: str) -> None:
    asked: list[str] = []

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(params["message"])
        content = {"approve": True} if "Pay" in params["message"] else {"value": "mail"}
        return {"action": "accept", "content": content}

    server = stdio(ROOT / "examples" / "payment.py")
    with TestClient(server, revision=revision, elicitation=answer) as client:
        first = client.call_tool("pay", {"account": "DE1", "cents": 1250})
        second = client.call_tool("pay", {"account": "DE1", "cents": 1250})
    assert first.text == "Booking 1: 1250 cents into DE1, receipt to mail."
    assert second.text == "Booking 2: 1250 cents into DE1, receipt to mail."
    assert asked == ["Pay 12.50 into DE1?", "Where should the receipt go?"] * 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_no_payment_is_made_without_consent(action: str) -> None:
    server = stdio(ROOT / "examples" / "payment.py")
    with TestClient(server, elicitation=lambda params: {"action": action}) as client:
        refused = client.call_tool("pay", {"account": "DE1", "cents": 1250})
        closed = client.call_tool("close", {"account": "DE1"})
    assert refused.is_error
    assert refused.text == "The user did not approve the payment."
    assert closed.is_error
    assert closed.text.startswith("The user d")
