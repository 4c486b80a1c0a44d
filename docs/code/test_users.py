from mcpkit.testing import TestClient

from notes import app


def test_notes_belong_to_their_user() -> None:
    with TestClient(app, principal="ada") as client:
        client.call_tool("note", {"text": "Buy tea."})
        assert "Buy tea." in str(client.read_resource("notes://mine"))
    with TestClient(app, principal="bob") as client:
        assert "Buy tea." not in str(client.read_resource("notes://mine"))
