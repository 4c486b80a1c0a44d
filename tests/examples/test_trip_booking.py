"""examples/trip_booking.py: asks the user, and books once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from mcpkit.client.results import CallResult
from mcpkit.testing import REVISIONS, TestClient
from tests.examples.host import ASKING, data_of, example, refused

SERVER = example("trip_booking.py")
STAY = {"arrival": "2027-05-01", "nights": 3}
GUEST = {"name": "Ada", "meal": "veg"}


class User:
    """Fills in forms: a part of the question → the content, ``decline`` or ``cancel``."""

    def __init__(self, **answers: Any) -> None:
        self.will_say(**answers)

    def will_say(self, **answers: Any) -> None:
        """Start again, with some answers that differ from the usual ones."""
        self.answers: dict[str, Any] = {
            "When": STAY,
            "room": {"value": "double"},
            "Who": GUEST,
            "Book it": {},
            "Remind": {"value": "yes"},
            **answers,
        }
        self.asked: list[str] = []
        self.forms: dict[str, Any] = {}

    def __call__(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        message = params["message"]
        self.asked.append(message)
        part = next(part for part in self.answers if part in message)
        self.forms[part] = params["requestedSchema"]
        answer = self.answers[part]
        if isinstance(answer, str):
            return {"action": answer}
        return {"action": "accept", "content": answer}


class Desk(NamedTuple):
    """A connection, and who sits at its other end."""

    client: TestClient
    user: User

    def book(self, city: str = "Lisbon") -> CallResult:
        return self.client.call_tool("book", {"city": city})

    def bookings(self) -> Any:
        return data_of(self.client.call_tool("list_bookings"))


@pytest.fixture(scope="module", params=ASKING)
def shared(request: pytest.FixtureRequest) -> Iterator[Desk]:
    user = User()
    with TestClient(SERVER, revision=request.param, elicitation=user) as client:
        yield Desk(client, user)


@pytest.fixture
def desk(shared: Desk) -> Desk:
    """One at which nothing is booked."""
    shared.user.will_say(Cancel={"cancel": True})
    for booking in shared.bookings():
        shared.client.call_tool("cancel", {"number": booking["number"]})
    shared.user.will_say()
    return shared


def test_a_trip_is_booked_once_with_five_questions(desk: Desk) -> None:
    booked = data_of(desk.book())
    number = booked["number"]
    assert booked == {
        "number": number,
        "city": "Lisbon",
        "arrival": "2027-05-01",
        "nights": 3,
        "room": "double",
        "guest": "Ada",
        "cents": 40500,
    }
    assert desk.bookings() == [booked]
    asked = desk.user.asked
    assert asked[0] == "When do you travel to Lisbon?"
    assert set(asked[1:3]) == {"Which room?", "Who travels?"}
    assert asked[3:] == [
        "3 nights in Lisbon for 405.00. Book it?",
        f"Booked: number {number}. Remind you?",
    ]


def test_two_questions_are_one_round_of_forms() -> None:
    """On 2026-07-28: the stay, room and guest together, the price, the reminder."""
    user = User()
    rounds: list[int] = []
    with TestClient(
        SERVER, elicitation=user, on_round=lambda number, result: rounds.append(number)
    ) as client:
        client.call_tool("book", {"city": "Oslo"})
    assert rounds == [1, 2, 3, 4]
    assert user.forms["When"]["properties"] == {
        "arrival": {"type": "string", "format": "date"},
        "nights": {"type": "integer", "minimum": 1, "maximum": 30},
    }
    assert user.forms["Who"]["required"] == ["name"]
    assert user.forms["Who"]["properties"]["name"]["title"] == "Name in the passport"
    rooms = user.forms["room"]["properties"]["value"]["oneOf"]
    assert [each["const"] for each in rooms] == ["single", "double"]


@pytest.mark.parametrize(
    ("part", "action", "said"),
    [
        ("When", "decline", "The user does not want to travel."),
        ("When", "cancel", "The user closed the form."),
        ("room", "decline", "The user did not say which room"),
        ("Who", "cancel", "The user did not say which room"),
        ("Book it", "decline", "The user declined the price."),
    ],
)
def test_nothing_is_booked_without_consent(desk: Desk, part: str, action: str, said: str) -> None:
    desk.user.will_say(**{part: action})
    assert refused(desk.client, "book", city="Lisbon").startswith(said)
    assert desk.bookings() == []


def test_a_booking_stands_without_a_reminder(desk: Desk) -> None:
    desk.user.will_say(Remind="cancel")
    assert [data_of(desk.book())] == desk.bookings()
    said = refused(desk.client, "cancel", number=0)
    assert said.startswith("There is no booking 0; there are: ")


def test_an_invalid_answer_is_asked_for_again() -> None:
    """On 2026-07-28; before, the tool fails."""
    tries = iter([{"arrival": "soon", "nights": 3}, STAY])
    user = User()

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        filled = user(params)
        if "When" in params["message"]:
            return {"action": "accept", "content": next(tries)}
        return filled

    with TestClient(SERVER, elicitation=answer) as client:
        assert data_of(client.call_tool("book", {"city": "Quito"}))["nights"] == 3
    assert len([each for each in user.asked if "When" in each]) == 2


@pytest.mark.parametrize(
    ("city", "revision", "said"),
    [("Quito", ASKING[0], "nights: expected less than"), ("Atlantis", ASKING[-1], "city: ")],
)
def test_wrong_values_are_refused(city: str, revision: str, said: str) -> None:
    """A wrong answer only before 2026-07-28; a wrong city before anything is asked."""
    user = User(When={"arrival": "2027-05-01", "nights": 99})
    with TestClient(SERVER, revision=revision, elicitation=user) as client:
        assert said in refused(client, "book", city=city)
    assert len(user.asked) == (city == "Quito")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_that_cannot_ask_books_nothing(revision: str) -> None:
    with TestClient(SERVER, revision=revision) as client:
        assert refused(client, "book", city="Lisbon").startswith("Your client cannot ask the user")


@pytest.mark.parametrize(
    ("answer", "left"),
    [({"cancel": True}, 0), ({"cancel": False}, 1), ("decline", 1), ("cancel", 1)],
)
def test_a_booking_is_cancelled_if_the_user_agrees(desk: Desk, answer: Any, left: int) -> None:
    desk.user.will_say(Cancel=answer)
    number = data_of(desk.book())["number"]
    desk.client.call_tool("cancel", {"number": number})
    assert desk.user.asked[-1] == f"Cancel booking {number} for good?"
    assert len(desk.bookings()) == left
