from mcpkit.testing import TestClient

from server import app


def test_knead() -> None:
    with TestClient(app) as client:
        kneaded = client.call_tool("knead", {"minutes": 10})
    assert kneaded.text == "Kneaded for 10 minutes."
