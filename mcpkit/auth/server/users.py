"""A list of users with passwords, for a server of one's own or of a few."""

from __future__ import annotations

import re
import time
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from html import escape
from typing import Final

import anyio
from anyio import to_thread

from mcpkit._utils.fetch import PerEventLoop
from mcpkit._utils.names import with_suggestions
from mcpkit.auth.server.login import Login, LoginAttempt, Outcome, Page, User
from mcpkit.auth.server.pages import heading

__all__ = ["Users", "hash_password"]

_COST: Final = 2**15
_BLOCK: Final = 8
_SHORTEST: Final = 8
_LONGEST: Final = 1024
_HASH: Final = re.compile(
    r"scrypt:([0-9]{4,7}):([0-9]{1,2}):([A-Za-z0-9+/=]{22,88}):([A-Za-z0-9+/=]{43,88})"
)
_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time: each takes a tenth of a second and 32 MiB."""

_MOST_WAITING: Final = 20
"""Passwords that may wait for that."""

_LONGEST_NAME: Final = 200
_FREE: Final = 5
"""Wrong passwords of a name before it has to wait."""

_LONGEST_WAIT: Final = 60.0
_MOST_NAMES: Final = 1_000


def hash_password(password: str) -> str:
    """Return the hash of a password, as `Users` takes it; another one each time (RFC 7914).

    Args:
        password: Of 8 characters at least.

    Raises:
        ValueError: It is shorter, or very long.
    """
    import os

    if not _SHORTEST <= len(password) <= _LONGEST:
        raise ValueError(f"a password has at least {_SHORTEST} characters")
    salt = os.urandom(16)
    made = _scrypt(password, salt, _COST, _BLOCK)
    return f"scrypt:{_COST}:{_BLOCK}:{_text(salt)}:{_text(made)}"


class Users(Login):
    """Users who log in with a name and a password.

    Args:
        users: The hash of each one's password (`hash_password`), by name; or a pair of the hash and
            a `User`, who may have claims and scopes.
        clock: Seconds, for the time that wrong passwords cost.

    Raises:
        ValueError: A hash is none, such as a password that was not hashed.
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
            raise ValueError("Users needs at least one: {name: hash_password(…)}")
        self._users: dict[str, tuple[str, User]] = {}
        for name, given in users.items():
            hash, user = (given, User(name)) if isinstance(given, str) else given
            if _HASH.fullmatch(hash) is None:  # which may be the password, and is not repeated
                raise ValueError(
                    f"Users: what stands for {name!r} is no hash, which looks like scrypt:… and is "
                    f"made by hash_password(…)"
                )
            self._users[name] = hash, user
        self._clock = clock
        self._nobody = next(iter(self._users.values()))[0]
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._places = PerEventLoop(lambda: anyio.CapacityLimiter(_AT_ONCE))

    async def begin(self, visit: LoginAttempt) -> Outcome:
        """Show the form."""
        return _form(visit)

    async def answer(self, visit: LoginAttempt) -> Outcome:
        """Check name and password.

        A name that nobody has takes as long as one that somebody has. After a few wrong passwords a
        name has to wait, longer each time, but never for more than a minute, because somebody else
        may be guessing and not its owner.
        """
        name, password = visit.fields.get("name", ""), visit.fields.get("password", "")
        if not visit.posted or not name or not password or len(name) > _LONGEST_NAME:
            return _form(visit, name=name[:_LONGEST_NAME])
        wait = self._wait_of(name)
        if wait > 0:
            return _form(visit, f"Too many wrong passwords: wait {wait:.0f} seconds", name, 429)
        places = self._places.get()
        if places.statistics().tasks_waiting >= _MOST_WAITING:
            return _form(visit, "Too many logins at once: try again", name, 503)
        hash, user = self._users.get(name, (self._nobody, None))
        # Counted before it is known, or many at once would count as one.
        self._count(name)
        fits = len(password) <= _LONGEST and await to_thread.run_sync(
            _fits, password, hash, limiter=places
        )
        if user is None or not fits:
            return _form(visit, "The name or the password is wrong", name, 403)
        self._wrong.pop(name, None)
        return user

    async def still(self, user: User) -> User | None:
        """Return a user of the list; None if they are there no more."""
        return next((each for _, each in self._users.values() if each.id == user.id), None)

    def _wait_of(self, name: str) -> float:
        wrong, since = self._wrong.get(name, (0, 0.0))
        if wrong < _FREE:
            return 0
        return since + min(2.0 ** (wrong - _FREE), _LONGEST_WAIT) - self._clock()

    def _count(self, name: str) -> None:
        wrong, _ = self._wrong.pop(name, (0, 0.0))
        self._wrong[name] = wrong + 1, self._clock()
        while len(self._wrong) > _MOST_NAMES:
            # Names that nobody has make no room for guesses at those that somebody has.
            victim = next((each for each in self._wrong if each not in self._users), None)
            self._wrong.pop(next(iter(self._wrong)) if victim is None else victim)


def _form(visit: LoginAttempt, problem: str = "", name: str = "", status: int = 200) -> Page:
    said = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    body = (
        f"{heading(visit)}{said}"
        f'<form method="post" action="{escape(visit.action)}">'
        f'<input type="hidden" name="state" value="{escape(visit.state)}">'
        f'<label>Name<input name="name" value="{escape(name)}" autocomplete="username" required '
        f'autocapitalize="none" spellcheck="false"></label>'
        f'<label>Password<input name="password" type="password" autocomplete="current-password" '
        f'required></label><button class="strong">Log in</button></form>'
    )
    return Page(body, "Log in", status)


def _fits(password: str, hash: str) -> bool:
    from hmac import compare_digest

    match = _HASH.fullmatch(hash)
    assert match is not None  # as `Users` has checked
    cost, block, salt, made = match.groups()
    found = _scrypt(password, b64decode(salt), int(cost), int(block))
    return compare_digest(found, b64decode(made))


def _scrypt(password: str, salt: bytes, cost: int, block: int) -> bytes:
    from hashlib import scrypt
    from unicodedata import normalize

    # As keyboards differ in how they write the same character (RFC 8265, 4.2).
    text = normalize("NFC", password).encode()
    most = 128 * block * cost + 1024 * 1024
    return scrypt(text, salt=salt, n=cost, r=block, p=1, maxmem=most, dklen=32)


def _text(value: bytes) -> str:
    return b64encode(value).decode("ascii")
