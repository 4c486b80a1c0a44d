"""The work: tickets that people open and close. Knows neither FastAPI nor MCP."""

from functools import cache
from itertools import count

from pydantic import BaseModel, Field


class Ticket(BaseModel):
    """Something to be done."""

    number: int
    title: str
    opened_by: str
    done: bool = Field(default=False, description="Whether it is closed.")


class UnknownTicketError(LookupError):
    """There is no ticket of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"There is no ticket {number}.")


class Desk:
    """Where tickets are kept: in memory, until you put a database here."""

    def __init__(self) -> None:
        self._tickets: dict[int, Ticket] = {}
        self._numbers = count(1)

    def open(self, title: str, user: str) -> Ticket:
        """Take a new ticket."""
        ticket = Ticket(number=next(self._numbers), title=title, opened_by=user)
        self._tickets[ticket.number] = ticket
        return ticket

    def tickets(self, *, done: bool = False) -> list[Ticket]:
        """The tickets that are open, the latest first; also those that are done, if wanted."""
        return [each for each in reversed(self._tickets.values()) if done or not each.done]

    def get(self, number: int) -> Ticket:
        """The ticket of a number.

        Raises:
            UnknownTicketError: There is none.
        """
        if number not in self._tickets:
            raise UnknownTicketError(number)
        return self._tickets[number]

    def close(self, number: int) -> Ticket:
        """Mark a ticket as done.

        Raises:
            UnknownTicketError: There is none of this number.
        """
        closed = self.get(number).model_copy(update={"done": True})
        self._tickets[number] = closed
        return closed


@cache
def get_desk() -> Desk:
    """The desk that this process serves."""
    return Desk()
