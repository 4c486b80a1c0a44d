"""Tickets, without FastAPI and MCP."""

from functools import cache
from itertools import count

from pydantic import BaseModel, Field


class Ticket(BaseModel):
    """A task that a user has reported."""

    number: int
    title: str
    opened_by: str
    done: bool = Field(default=False, description="True when the ticket is closed.")


class UnknownTicketError(LookupError):
    """No ticket has this number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"There is no ticket {number}.")


class Desk:
    """A store of tickets in memory; replace it with your database."""

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}
        self._numbers = count(1)

    def open(self, title: str, user: str) -> Ticket:
        """Open a ticket."""
        ticket = Ticket(number=next(self._numbers), title=title, opened_by=user)
        self._tickets[ticket.number] = ticket
        return ticket

    def tickets(self, *, done: bool = False) -> list[Ticket]:
        """Return the open tickets, latest first; with ``done``, the closed ones too."""
        return [each for each in reversed(self._tickets.values()) if done or not each.done]

    def get(self, number: int) -> Ticket:
        """Return the ticket with a number.

        Raises:
            UnknownTicketError: No ticket has this number.
        """
        if number not in self._tickets:
            raise UnknownTicketError(number)
        return self._tickets[number]

    def close(self, number: int) -> Ticket:
        """Mark a ticket as done.

        Raises:
            UnknownTicketError: No ticket has this number.
        """
        closed = self.get(number).model_copy(update={"done": True})
        self._tickets[number] = closed
        return closed


@cache
def get_desk() -> Desk:
    """Return the desk of this process."""
    return Desk()
