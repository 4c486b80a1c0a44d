"""A list of users with passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator

import anyio
import pytest

from mcpkit.auth import LoginAttempt, User, Users, hash_password
from tests.auth.browser import Browser
from tests.auth.server.conftest import Clock, Site, cheap_hash, serving

ADA = cheap_hash("the password of ada")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    clock = Clock()
    users: dict[str, str | tuple[str, User]] = {
        "ada": ADA,
        "bob": (cheap_hash("the password of bob"), User("b-17", "Bob", {"team": "red"})),
    }
    with serving(clock=clock, login=Users(users, clock=clock)) as found:
        yield found


def who(name: str, password: str) -> Browser:
    return Browser({"name": name, "password": password}, "allow")


def test_whoever_knows_the_password_is_the_user(site: Site) -> None:
    assert site.said(site.tokens(who("ada", "the password of ada"))["access_token"])[:4] == "ada "
    bob = site.tokens(who("bob", "the password of bob"))["access_token"]
    assert site.said(bob)[:5] == "b-17 "


@pytest.mark.parametrize(
    ("name", "password"),
    [("ada", "wrong password"), ("nobody", "the password of ada"), ("ADA", "the password of ada")],
)
def test_anybody_else_sees_the_form_again(site: Site, name: str, password: str) -> None:
    browser = who(name, password)
    page = browser.fill_in(browser.open(site.authorize_url()))
    assert page.status == 403
    assert "The name or the password is wrong" in page.text
    assert password not in page.text


def test_what_somebody_writes_is_shown_as_text(site: Site) -> None:
    browser = who('"><script>', "wrong password")
    page = browser.fill_in(browser.open(site.authorize_url()))
    assert "<script>" not in page.text
    assert 'value="&quot;&gt;&lt;script&gt;"' in page.text


def test_the_password_does_not_stand_in_an_address(site: Site) -> None:
    browser = Browser()
    page = browser.open(site.authorize_url())
    state = page.forms[0].fields["state"]
    url = f"{page.forms[0].action}?state={state}&name=ada&password=the+password+of+ada"
    assert browser.open(url).status == 200
    assert "Log in" in browser.open(url).text


@pytest.mark.anyio
async def test_guesses_take_longer_each_time_and_never_for_ever() -> None:
    """AUTH-16: a name of nobody as well; others are not held up."""
    clock = Clock()
    users = Users({"ada": ADA}, clock=clock)

    async def tried(name: str, password: str) -> object:
        fields = {"name": name, "password": password}
        return await users.answer(LoginAttempt("s", "/login", "", (), fields, True))

    for name in ("ada", "nobody"):
        for _ in range(5):
            assert getattr(await tried(name, "wrong password"), "status", 0) == 403
        for wait in (1, 2, 4):
            page = await tried(name, "the password of ada")
            assert getattr(page, "status", 0) == 429
            clock.now += wait
            assert getattr(await tried(name, "wrong password"), "status", 0) == 403
    clock.now += 60
    assert await tried("ada", "the password of ada") == User("ada")
    assert getattr(await tried("ada", "wrong password"), "status", 0) == 403


@pytest.mark.anyio
async def test_many_guesses_at_once_are_counted_each() -> None:
    clock = Clock()
    users = Users({"ada": ADA}, clock=clock)
    found: list[int] = []

    async def guess() -> None:
        fields = {"name": "ada", "password": "wrong password"}
        page = await users.answer(LoginAttempt("s", "/login", "", (), fields, True))
        found.append(getattr(page, "status", 0))

    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(guess)
    assert sorted(found) == [403] * 5 + [429] * 7


def test_a_hash_says_nothing_of_the_password_and_has_a_salt() -> None:
    first, second = hash_password("the same password"), hash_password("the same password")
    assert first != second
    assert re.fullmatch(r"scrypt:32768:8:[\w+/=]+:[\w+/=]+", first)


@pytest.mark.parametrize("password", ["short", "a" * 1025])
def test_a_password_has_a_length(password: str) -> None:
    with pytest.raises(ValueError, match="at least 8"):
        hash_password(password)


@pytest.mark.parametrize("users", [{}, {"ada": "the password itself"}])
def test_a_list_that_cannot_be_right_is_refused(users: dict[str, str]) -> None:
    """SEC-13: without repeating what may be the password."""
    with pytest.raises(ValueError, match="hash_password") as caught:
        Users(users)
    assert "itself" not in str(caught.value)
