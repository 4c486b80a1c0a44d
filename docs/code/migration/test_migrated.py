from mcpkit.testing import TestClient

from migrated import app


def test_a_trip() -> None:
    with TestClient(app) as client:
        arguments = {"start": "Lisbon", "end": "Porto"}
        result = client.call_tool("trip", arguments)
    assert result.data["kilometres"] == 313
