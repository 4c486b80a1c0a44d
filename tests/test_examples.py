"""Every example and template, started and used as a host would."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import EXAMPLES, example
from tests.warm import run
from tests.web import calling, hosted_in

ROOT = Path(__file__).parent.parent
SERVERS = [
    *(path for path in sorted(EXAMPLES.glob("*.py")) if "client" not in path.name),
    *sorted((EXAMPLES / "ported").glob("*.py")),
    *sorted((ROOT / "templates").glob("*/server.py")),
]


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.parent.name + "/" + path.stem)
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-2], REVISIONS[-1]])
def test_every_server_starts_and_describes_its_tools(path: Path, revision: str) -> None:
    with TestClient(example(str(path)), revision=revision) as client:
        tools = client.list_tools()
    assert tools
    assert all(tool.description for tool in tools)


def test_dice_are_shown_and_told() -> None:
    with TestClient(example("dice.py")) as client:
        result = client.call_tool("roll_dice", {"count": 3})
        [page] = client.list_resources()
        [contents] = client.read_resource(page.uri)
        assert "ui/initialize" in getattr(contents, "text", "")
    faces = result.structured_content["faces"]
    assert len(faces) == 3
    assert {*faces} <= {*range(1, 7)}
    assert result.text == f"Rolled {' and '.join(map(str, faces))}."


def test_the_quickstart_is_used_by_its_client() -> None:
    command = [sys.executable, str(EXAMPLES / "quickstart_client.py")]
    done = run(
        command, cold=True, capture_output=True, text=True, encoding="utf-8", timeout=30, check=True
    )
    assert "add(2, 40) = 42" in done.stdout
    assert "Oslo, day 2: 13.0 °C" in done.stdout
    assert "days: expected less than or equal to 7, got 9" in done.stdout
    with TestClient(example("quickstart.py")) as client:
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

    server = example("payment.py")
    with TestClient(server, revision=revision, elicitation=answer) as client:
        first = client.call_tool("pay", {"account": "DE1", "cents": 1250})
        second = client.call_tool("pay", {"account": "DE1", "cents": 1250})
    assert first.text == "Booking 1: 1250 cents into DE1, receipt to mail."
    assert second.text == "Booking 2: 1250 cents into DE1, receipt to mail."
    assert asked == ["Pay 12.50 into DE1?", "Where should the receipt go?"] * 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_no_payment_is_made_without_consent(action: str) -> None:
    server = example("payment.py")
    with TestClient(server, elicitation=lambda params: {"action": action}) as client:
        refused = client.call_tool("pay", {"account": "DE1", "cents": 1250})
        closed = client.call_tool("close", {"account": "DE1"})
    assert refused.is_error
    assert refused.text == "The user did not approve the payment."
    assert closed.is_error
    assert closed.text.startswith("The user d")


# --- parts of other applications ------------------------------------------------------------------


def page(url: str) -> str:
    return httpx2.get(url, timeout=30).text


def test_starlette_knows_its_users() -> None:
    with hosted_in(EXAMPLES, "mount_starlette", "host") as url:
        with calling(url, {"X-Name": "ada"}) as ada:
            assert ada.call_tool("note", {"text": "tea"}).text == "Noted for ada."
        with calling(url, {"X-Name": "bob"}) as bob:
            assert bob.call_tool("read").data == []
        assert page(url) == "Notes are taken at /mcp."


def test_fastapi_and_an_app_share_functions_and_a_lifespan() -> None:
    with hosted_in(EXAMPLES, "mount_fastapi", "api") as url:
        with calling(url) as client:
            tea = client.call_tool("price", {"name": "tea"})
            assert tea.data == {"name": "tea", "cents": 450}
            unknown = client.call_tool("price", {"name": "x"})
            assert unknown.text == "There is no x; there is tea, mug."
        assert page(f"{url}/items/mug") == '{"name":"mug","cents":1200}'


def test_the_guards_of_litestar_are_in_front_of_an_app() -> None:
    with hosted_in(EXAMPLES, "mount_litestar", "host") as url:
        with calling(url, {"X-Key": "k-ada"}) as client:
            assert client.call_tool("greet").text == "Hello, Ada!"
        assert httpx2.post(f"{url}/mcp", json={}, timeout=30).status_code == 401
        assert page(url) == "Greetings are given at /mcp."


def test_an_app_returns_urls_of_a_django_project() -> None:
    with hosted_in(EXAMPLES, "mount_django", "application") as url:
        with calling(url) as client:
            path = client.call_tool("link", {"number": 7}).text
        assert page(f"{url}{path}") == "Article 7"
