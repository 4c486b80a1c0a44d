"""Several logins, of which the user chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from urllib.parse import urlencode

from mcpkit.auth.server.login import Login, LoginRefused, Outcome, Page, UpstreamTokens, Visit

__all__ = ["Choice"]


class Choice(Login):
    """Logins to choose from.

    Args:
        logins: Two or more, in the order in which they are shown.
    """

    def __init__(self, logins: Sequence[Login]) -> None:
        self._logins = tuple(logins)

    async def begin(self, visit: Visit) -> Outcome:
        """Show what there is."""
        client = escape(visit.client_name or "a program")
        links: list[str] = []
        for number, each in enumerate(self._logins):
            url = f"{visit.action}?{urlencode({'state': visit.state, 'chosen': number})}"
            links.append(f'<a class="button" href="{escape(url)}">{escape(each.label)}</a>')
        return Page(f"<h1>Log in</h1><p>to connect {client}</p>{''.join(links)}")

    async def answer(self, visit: Visit) -> Outcome:
        """Begin with the login that was chosen, or hand it what the browser has sent."""
        number: int | None = visit.memory.get("login")
        wanted = None if visit.posted else visit.fields.get("chosen")
        if wanted is not None and wanted in map(str, range(len(self._logins))):
            number = int(wanted)
            inner = replace(visit, fields={}, memory={})
            outcome: Outcome = await self._logins[number].begin(inner)
        elif number is None:
            return await self.begin(visit)
        else:
            inner = replace(visit, memory=visit.memory["memory"])
            outcome = await self._logins[number].answer(inner)
        visit.memory.update(login=number, memory=inner.memory)
        return outcome

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Have the login get new tokens that these came from."""
        for each in self._logins:
            if each.key == tokens.provider:
                return await each.refresh(tokens)
        raise LoginRefused("The provider of these tokens is not asked any more")
