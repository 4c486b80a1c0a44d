"""A list of users with passwords, functions as logins, and the choice among several logins."""

from __future__ import annotations

import inspect
import os
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import scrypt
from hmac import compare_digest
from html import escape
from typing import Any, Final, TypeAlias, cast
from unicodedata import normalize
from urllib.parse import urlencode

import anyio
from anyio import to_thread

from mcpkit._utils.json import is_array
from mcpkit._utils.names import with_suggestions
from mcpkit._utils.quota import Quota, QuotaExceeded, RateLimit
from mcpkit._utils.turns import PerEventLoop, Turns
from mcpkit.auth.server.login import Login, LoginAttempt, Outcome, Page, UpstreamTokens, User
from mcpkit.auth.server.pages import heading

_COST: Final = 2**15
_BLOCK: Final = 8
_MIN_PASSWORD: Final = 8
MAX_PASSWORD: Final = 1024
_HASH: Final = re.compile(
    r"scrypt:[0-9]{4,7}:[0-9]{1,2}:[A-Za-z0-9+/=]{22,88}:[A-Za-z0-9+/=]{43,88}"
)
MAX_HASHING: Final = 2  # passwords hashed concurrently: each takes a tenth of a second and 32 MiB
MAX_WAITING: Final = 20  # passwords waiting to be hashed
MAX_EACH: Final = 2  # passwords of one network that have a place; the others wait for one
MAX_NAME: Final = 200
_FREE_FAILURES: Final = 5  # wrong passwords for a name before it has to wait
MAX_WAIT: Final = 60.0
MAX_NAMES: Final = 10_000  # names and networks with wrong passwords
_PER_HOUR: Final = 100.0  # passwords for a name, from all networks; one alone does not reach it


def hash_password(password: str) -> str:
    """Return a salted hash of a password for `Users` (RFC 7914).

    Args:
        password: At least 8 characters.

    Raises:
        ValueError: It is shorter, or longer than 1,024 characters.
    """
    if not _MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise ValueError(f"a password has at least {_MIN_PASSWORD} characters")
    salt = os.urandom(16)
    made = _scrypt(password, salt, _COST, _BLOCK)
    return f"scrypt:{_COST}:{_BLOCK}:{b64encode(salt).decode()}:{b64encode(made).decode()}"


class Users(Login):
    """Users who log in with a name and a password.

    Args:
        users: The hash of each password (`hash_password`) by name, or a pair of the hash and a
            `User` with claims and scopes.
        clock: Seconds, for the delay after wrong passwords.

    Raises:
        ValueError: A hash is malformed, such as a password that was not hashed.
    """

    label = "Log in with a password"

    @with_suggestions()
    def __init__(
        self,
        users: Mapping[str, str | tuple[str, User]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not users:
            raise ValueError("Users needs at least one user: {name: hash_password(…)}")
        self._users: dict[str, tuple[str, User]] = {}
        for name, given in users.items():
            hash, user = (given, User(name)) if isinstance(given, str) else given
            if _HASH.fullmatch(hash) is None:  # it may be the password, and is not repeated
                raise ValueError(f"Users: the value for {name!r} is not one of hash_password(…)")
            self._users[name] = hash, user
        self._clock = clock
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}  # the latest last
        self._guesses = RateLimit(_PER_HOUR, _PER_HOUR / 3600, clock)
        self._hashing = Quota(MAX_HASHING + MAX_WAITING)
        self._turns = Turns(MAX_EACH)
        costliest = max((hash for hash, _ in self._users.values()), key=_cost)
        self._nobody = costliest, None  # unknown names take as long as any
        self._limiter = PerEventLoop(lambda: anyio.CapacityLimiter(MAX_HASHING))

    async def begin(self, attempt: LoginAttempt) -> Outcome:
        """Show the form."""
        return _form(attempt)

    async def answer(self, attempt: LoginAttempt) -> Outcome:
        """Check name and password.

        Unknown names take as long as known ones. After a few wrong passwords a name has to wait,
        longer each time, but at most a minute, because the guesses may not be those of its owner:
        per network, and for everybody after many passwords from many networks.
        """
        name, password = attempt.fields.get("name", ""), attempt.fields.get("password", "")
        if not attempt.posted or not name or not password or len(name) > MAX_NAME:
            return _form(attempt, name=name[:MAX_NAME])
        async with self._turns.of(attempt.caller):
            return await self._check(attempt, name, password)

    async def _check(self, attempt: LoginAttempt, name: str, password: str) -> Outcome:
        key = name, attempt.caller
        wait = max(self._wait(key), self._guesses.take(name, 0))
        if wait > 0:
            return _form(attempt, f"Too many wrong passwords: wait {wait:.0f} seconds", name, 429)
        try:
            slot = self._hashing.take(attempt.caller)
        except QuotaExceeded:
            return _form(attempt, "Too many logins at once: try again", name, 503)
        # Counted before hashing, or concurrent guesses would count as one.
        self._guesses.take(name)
        self._failures[key] = self._failures.pop(key, (0, 0.0))[0] + 1, self._clock()
        while len(self._failures) > MAX_NAMES:  # whatever the name, or it would show who exists
            del self._failures[next(iter(self._failures))]
        hash, user = self._users.get(name, self._nobody)
        try:
            matches = len(password) <= MAX_PASSWORD and await to_thread.run_sync(
                _matches, password, hash, limiter=self._limiter.get()
            )
        finally:
            slot.release()
        if user is None or not matches:
            return _form(attempt, "The name or the password is wrong", name, 403)
        self._failures.pop(key, None)
        return user

    def _wait(self, key: tuple[str, str]) -> float:
        """Return the seconds until the next guess of a name in a network."""
        wrong, since = self._failures.get(key, (0, 0.0))
        over = wrong - _FREE_FAILURES
        return since + min(2.0 ** min(over, 10), MAX_WAIT) - self._clock() if over >= 0 else 0.0

    async def still(self, user: User) -> User | None:
        """Return a user of the list; None if they are not in it."""
        return next((each for _, each in self._users.values() if each.id == user.id), None)


def _form(attempt: LoginAttempt, problem: str = "", name: str = "", status: int = 200) -> Page:
    said = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    body = (
        f"{heading(attempt)}{said}"
        f'<form method="post" action="{escape(attempt.action)}">'
        f'<input type="hidden" name="state" value="{escape(attempt.state)}">'
        f'<label>Name<input name="name" value="{escape(name)}" autocomplete="username" required '
        f'autocapitalize="none" spellcheck="false"></label>'
        f'<label>Password<input name="password" type="password" autocomplete="current-password" '
        f'required></label><button class="strong">Log in</button></form>'
    )
    return Page(body, "Log in", status)


def _matches(password: str, hash: str) -> bool:
    _, cost, block, salt, made = hash.split(":")
    found = _scrypt(password, b64decode(salt), int(cost), int(block))
    return compare_digest(found, b64decode(made))


def _cost(hash: str) -> int:
    return int(hash.split(":")[1]) * int(hash.split(":")[2])


def _scrypt(password: str, salt: bytes, cost: int, block: int) -> bytes:
    # Keyboards differ in how they write the same character (RFC 8265, 4.2).
    text = normalize("NFC", password).encode()
    memory = 128 * block * cost + 1024 * 1024
    return scrypt(text, salt=salt, n=cost, r=block, p=1, maxmem=memory, dklen=32)


class LoginChooser(Login):
    """A choice among several logins."""

    def __init__(self, logins: Sequence[Login]) -> None:
        self._logins = tuple(logins)
        self.keys = [each.key for each in logins if each.key]
        """The keys of logins with providers, each of which redirects to a path of its own."""

    async def begin(self, attempt: LoginAttempt) -> Outcome:
        """Show the logins."""
        attempt.memory.clear()
        links: list[str] = []
        for number, each in enumerate(self._logins):
            url = f"{attempt.action}?{urlencode({'state': attempt.state, 'chosen': number})}"
            links.append(f'<a class="button" href="{escape(url)}">{escape(each.label)}</a>')
        return Page(f"{heading(attempt)}{''.join(links)}")

    async def answer(self, attempt: LoginAttempt) -> Outcome:
        """Start the chosen login, or pass it the browser's answer."""
        number: int | None = attempt.memory.get("login")
        wanted = "" if attempt.posted else attempt.fields.get("chosen", "")
        is_new = wanted in map(str, range(len(self._logins)))
        if is_new:
            number = int(wanted)
        elif number is None or attempt.place != self._logins[number].key:
            # Or one provider could replay the answer of another one (RFC 9700, 4.4.2).
            return await self.begin(attempt)
        login = self._logins[number]
        inner = replace(
            attempt,
            action=f"{attempt.action}/{login.key}" if login.key else attempt.action,
            fields={} if is_new else attempt.fields,
            memory={} if is_new else attempt.memory["memory"],
        )
        outcome = await (login.begin(inner) if is_new else login.answer(inner))
        attempt.memory.update(login=number, memory=inner.memory)
        return outcome

    async def still(self, user: User) -> User | None:
        """Ask the login of a user."""
        own = [each for each in self._logins if each.key and user.id.startswith(f"{each.key}:")]
        for each in own[:1] or [each for each in self._logins if not each.key]:
            found = await each.still(user)
            if found is not None:
                return found
        return None

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Ask the login that the tokens are from."""
        for each in self._logins:
            if each.key == tokens.provider:
                return await each.refresh(tokens)
        return await super().refresh(tokens)


LoginFunction: TypeAlias = Callable[[LoginAttempt], Outcome | Awaitable[Outcome]]
"""A function as a login: called first without fields, then with the fields of its form."""


class _FunctionLogin(Login):
    def __init__(self, ask: LoginFunction) -> None:
        self._ask = ask

    async def answer(self, attempt: LoginAttempt) -> Outcome:
        found = self._ask(attempt)
        found = await found if inspect.isawaitable(found) else found
        if not isinstance(found, Outcome):
            raise TypeError("a function of login= returns a User, a Page or a Redirect")
        return found

    begin = answer


def login_of(given: Any) -> Login:
    """Return the login for the option ``login``."""
    if is_array(given):
        several = [login_of(each) for each in given]
        if not several:
            raise ValueError("login= needs at least one Login")
        keys = [each.key for each in several if each.key]
        if len(set(keys)) < len(keys):
            raise ValueError("login= has two logins with the same provider")
        return several[0] if len(several) == 1 else LoginChooser(several)
    if isinstance(given, Login):
        return given
    if callable(given) and not isinstance(given, type):
        return _FunctionLogin(cast("LoginFunction", given))
    raise TypeError("login= takes a Login, several, or a function from a LoginAttempt to a User")
