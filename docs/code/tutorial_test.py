from mcpkit.testing import TestClient

from server import app


def test_the_forecast() -> None:
    with TestClient(app) as client:
        days = client.call_tool(
            "city_forecast", {"city": "Oslo", "days": 2}
        ).data
    assert days == [{"day": 1, "celsius": 12.0}, {"day": 2, "celsius": 13.0}]


def test_no_room_without_consent() -> None:
    with TestClient(
        app, elicitation=lambda question: {"action": "decline"}
    ) as client:
        refused = client.call_tool("book_room", {"city": "Oslo", "nights": 2})
    assert refused.text == "The user does not want that room."
