"""A list of users with passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from urllib.parse import urlencode

import anyio
import anyio.lowlevel
import pytest

from mcpkit.auth import LoginAttempt, User, Users, hash_password
from mcpkit.auth.server import users as users_module
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


def test_users_log_in_with_their_password(site: Site) -> None:
    for name, id in (("ada", "ada"), ("bob", "b-17")):
        tokens = site.tokens(who(name, f"the password of {name}"))
        assert site.said(tokens["access_token"]).startswith(f"{id} ")
        assert site.refresh(tokens["refresh_token"]).status == 200
    assert anyio.run(Users({"ada": ADA}).still, User("b-17")) is None
    # A password in an address stays in histories and logs.
    browser = Browser()
    form = browser.open(site.authorize_url()).forms[0]
    fields = {**form.fields, "name": "ada", "password": "the password of ada"}
    assert "Log in" in browser.open(f"{form.action}?{urlencode(fields)}").text


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada", "wrong password"),
        ("eve", "the password of ada"),
        ("ADA", "the password of ada"),
        ('"><script>', "wrong password"),
    ],
)
def test_others_see_the_form_again(site: Site, name: str, password: str) -> None:
    browser = who(name, password)
    page = browser.fill_in(browser.open(site.authorize_url()))
    assert page.status == 403
    assert "The name or the password is wrong" in page.text
    assert password not in page.text
    assert "<script>" not in page.text
    assert f'value="{escape(name)}"' in page.text


async def status_of(users: Users, name: str, password: str, caller: str = "here") -> int:
    """The status of the page that is shown; 0 for a user."""
    fields = {"name": name, "password": password}
    attempt = LoginAttempt("s", "/login", "", (), fields, True, caller=caller)
    found = await users.answer(attempt)
    return getattr(found, "status", 0)


async def test_guesses_take_longer_each_time_up_to_a_minute() -> None:
    """AUTH-16: unknown names as well; others are not held up."""
    clock = Clock()
    users = Users({"ada": ADA}, clock=clock)
    for name in ("ada", "eve"):
        for _ in range(5):
            assert await status_of(users, name, "wrong password") == 403
        for wait in (1, 2, 4):
            assert await status_of(users, name, "the password of ada") == 429
            clock.now += wait
            assert await status_of(users, name, "wrong password") == 403
    assert await status_of(users, "a" * 200, "wrong password") == 403
    assert await status_of(users, "a" * 201, "wrong password") == 200, "too long for a name"
    users._failures["ada", "here"] = 5000, clock.now
    clock.now += 59
    assert await status_of(users, "ada", "the password of ada") == 429
    clock.now += 1
    assert await status_of(users, "ada", "the password of ada") == 0
    assert await status_of(users, "ada", "wrong password") == 403


async def test_guesses_from_elsewhere_keep_nobody_out() -> None:
    """SEC-17: those of one network make that network wait; very many make everybody wait."""
    clock = Clock()
    users = Users({"ada": ADA}, clock=clock)
    for _ in range(5):
        assert await status_of(users, "ada", "wrong password", "there") == 403
    assert await status_of(users, "ada", "the password of ada", "there") == 429
    assert await status_of(users, "ada", "the password of ada") == 0
    for number in range(94):
        assert await status_of(users, "ada", "wrong password", f"network {number}") == 403
    assert await status_of(users, "ada", "the password of ada") == 429
    clock.now += 36
    assert await status_of(users, "ada", "the password of ada") == 0


async def test_one_network_has_two_passwords_hashed_at_once() -> None:
    """SEC-17: the others of that network wait for their turn, and each is counted."""
    names = [f"user {number}" for number in range(30)]
    users = Users(dict.fromkeys((*names, "bob"), ADA), clock=Clock())
    found: list[int] = []

    async def log_in(name: str, password: str) -> None:
        found.append(await status_of(users, name, password, "there"))

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(log_in, "ada", "wrong password")
            group.start_soon(log_in, name, "the password of ada")
        await anyio.lowlevel.checkpoint()
        assert await status_of(users, "bob", "the password of ada") == 0
        assert len(found) < 10, "bob has waited for most of them"
    assert sorted(found) == [0] * 30 + [403] * 5 + [429] * 25


async def test_nobody_learns_which_names_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-16: names are forgotten in their order, and unknown ones cost as much as any."""
    monkeypatch.setattr(users_module, "MAX_NAMES", 4)
    users = Users({"ada": ADA, "bob": cheap_hash("the password of bob")}, clock=Clock())
    costs: list[str] = []

    def matches(password: str, hash: str) -> bool:
        costs.append(hash)
        return False

    monkeypatch.setattr(users_module, "_matches", matches)
    for name in ("ada", "nobody"):
        for _ in range(5):
            assert await status_of(users, name, "wrong password") == 403
        assert await status_of(users, name, "wrong password") == 429
        for number in range(4):
            await status_of(users, f"other {number}", "wrong password")
        assert await status_of(users, name, "wrong password") == 403
    dear = ADA.replace("scrypt:1024:", "scrypt:2048:")
    users = Users({"ada": ADA, "dear": dear}, clock=Clock())
    await status_of(users, "nobody", "wrong password")
    assert costs[-1] == dear


def test_a_hash_has_a_salt_and_a_password_a_length() -> None:
    first, second = hash_password("the same password"), hash_password("the same password")
    assert first != second
    assert re.fullmatch(r"scrypt:32768:8:[\w+/=]+:[\w+/=]+", first)
    for password in ("short", "a" * 1025):
        with pytest.raises(ValueError, match="at least 8"):
            hash_password(password)


@pytest.mark.parametrize("users", [{}, {"ada": "the password itself"}])
def test_users_need_hashes(users: dict[str, str]) -> None:
    """SEC-13: an error does not repeat what may be the password."""
    with pytest.raises(ValueError, match="hash_password") as caught:
        Users(users)
    assert "itself" not in str(caught.value)


@pytest.mark.parametrize(
    ("id", "is_there"),
    [("ada", True), ("git:bob", True), ("ada-2", False), ("git:ada", False), ("hub:bob", False)],
)
async def test_of_several_logins_that_of_the_user_is_asked(id: str, is_there: bool) -> None:
    """One with a provider has the users whose ids begin with its key."""
    provider = Users({"bob": (ADA, User("git:bob"))})
    provider.key = "git"
    logins = users_module.LoginChooser([Users({"eve": ADA}), Users({"ada": ADA}), provider])
    found = await logins.still(User(id))
    assert (found is not None and found.id == id) == is_there
