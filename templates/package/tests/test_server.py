"""What clients see, on every protocol revision."""

import json
import sys

from mcpkit.testing import TestClient

from __PACKAGE__.server import app


def test_a_conversion(client: TestClient) -> None:
    answer = client.call_tool("convert", {"value": 2, "source": "h", "target": "min"})
    assert json.loads(answer.text) == {"value": 120.0, "unit": "min", "quantity": "time"}


def test_a_wrong_unit_is_told_to_the_model(client: TestClient) -> None:
    answer = client.call_tool("convert", {"value": 2, "source": "h", "target": "kg"})
    assert answer.is_error
    assert answer.text == "h measures time, and kg mass."


def test_a_resource(client: TestClient) -> None:
    (contents,) = client.read_resource("units://quantities")
    assert json.loads(getattr(contents, "text", "")) == ["length", "mass", "time"]


def test_a_resource_template(client: TestClient) -> None:
    (contents,) = client.read_resource("units://time/units")
    assert json.loads(getattr(contents, "text", ""))["h"] == 3600


def test_a_quantity_is_completed(client: TestClient) -> None:
    found = client.complete("quantity", "ti", template="units://{quantity}/units")
    assert list(found.values) == ["time"]


def test_the_prompt_has_the_text(client: TestClient) -> None:
    prompt = client.get_prompt("metric", {"text": "6 ft tall"})
    assert prompt.messages[0].text.endswith("6 ft tall")


def test_every_tool_and_resource_is_described(client: TestClient) -> None:
    assert all(each.description for each in client.list_tools())
    assert all(each.description for each in client.list_resources())
    assert all(each.description for each in client.list_resource_templates())


def test_it_is_served_by_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "__PACKAGE__"]
    with TestClient(command) as client:
        assert client.server_info is not None
        assert client.server_info.name == app.name
