"""Tests of the web API."""

import pytest

from .conftest import Doors

pytestmark = pytest.mark.anyio


async def test_a_ticket_is_opened_and_closed(doors: Doors) -> None:
    async with doors.web("ada") as web:
        opened = await web.post("/tickets", json={"title": "Water the plants"})
        closed = await web.post(f"/tickets/{opened.json()['number']}/close")
        left = await web.get("/tickets")
    assert opened.status_code == 201
    assert opened.json()["opened_by"] == "ada"
    assert closed.json()["done"] is True
    assert left.json() == []


async def test_a_missing_ticket_is_404(doors: Doors) -> None:
    async with doors.web("ada") as web:
        answer = await web.get("/tickets/7")
    assert (answer.status_code, answer.json()) == (404, {"detail": "There is no ticket 7."})


@pytest.mark.parametrize("path", ["/tickets", "/mcp"])
async def test_nobody_gets_in_without_a_token(doors: Doors, path: str) -> None:
    async with doors.web() as web:
        answer = await web.post(path, json={})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_whoever_lacks_the_scope_closes_nothing(doors: Doors) -> None:
    async with doors.web("bob") as web:
        await web.post("/tickets", json={"title": "Water the plants"})
        answer = await web.post("/tickets/1/close")
        left = await web.get("/tickets")
    assert answer.status_code == 403
    assert [each["done"] for each in left.json()] == [False]


async def test_anybody_may_ask_whether_it_is_there(doors: Doors) -> None:
    async with doors.web() as web:
        assert (await web.get("/health")).json() == {"status": "ok"}
