"""Several logins, of which the user chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any
from urllib.parse import urlencode

from mcpkit.auth.server.login import (
    Login,
    LoginAttempt,
    LoginRefused,
    Outcome,
    Page,
    UpstreamTokens,
    User,
)
from mcpkit.auth.server.pages import heading

__all__ = ["Choice"]


class Choice(Login):
    """Logins to choose from.

    Args:
        logins: Two or more, in the order in which they are shown.
    """

    def __init__(self, logins: Sequence[Login]) -> None:
        self._logins = tuple(logins)
        self.keys = [each.key for each in logins if each.key]
        """What answers from elsewhere are told apart by, each at a place of its own."""

    async def begin(self, visit: LoginAttempt) -> Outcome:
        """Show what there is."""
        visit.memory.clear()
        links: list[str] = []
        for number, each in enumerate(self._logins):
            url = f"{visit.action}?{urlencode({'state': visit.state, 'chosen': number})}"
            links.append(f'<a class="button" href="{escape(url)}">{escape(each.label)}</a>')
        return Page(f"{heading(visit)}{''.join(links)}")

    async def answer(self, visit: LoginAttempt) -> Outcome:
        """Begin with the login that was chosen, or hand it what the browser has sent."""
        number: int | None = visit.memory.get("login")
        wanted = None if visit.posted else visit.fields.get("chosen")
        if wanted is not None and wanted in map(str, range(len(self._logins))):
            number = int(wanted)
            inner = self._inner(number, visit, fields={}, memory={})
            outcome: Outcome = await self._logins[number].begin(inner)
        elif number is None or visit.place != self._logins[number].key:
            # Or one provider could pass on what another one has answered (RFC 9700, 4.4.2).
            return await self.begin(visit)
        else:
            inner = self._inner(number, visit, memory=visit.memory["memory"])
            outcome = await self._logins[number].answer(inner)
        visit.memory.update(login=number, memory=inner.memory)
        return outcome

    def _inner(self, number: int, visit: LoginAttempt, **changed: Any) -> LoginAttempt:
        """Return the visit of a login, whose answers come to a place of its own."""
        key = self._logins[number].key
        return replace(visit, action=f"{visit.action}/{key}" if key else visit.action, **changed)

    async def still(self, user: User) -> User | None:
        """Ask the login that a user has come from."""
        for each in self._logins:
            if each.key and user.id.startswith(f"{each.key}:"):
                return await each.still(user)
        for each in self._logins:
            found = None if each.key else await each.still(user)
            if found is not None:
                return found
        return None

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Have the login get new tokens that these came from."""
        for each in self._logins:
            if each.key == tokens.provider:
                return await each.refresh(tokens)
        raise LoginRefused("The provider of these tokens is not asked any more")
