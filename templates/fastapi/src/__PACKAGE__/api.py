"""The web API: paths and JSON."""

from typing import Annotated

from fastapi import APIRouter, Depends, Security
from mcpkit import Principal
from pydantic import BaseModel, Field

from .auth import CLOSE, signed_in
from .service import Desk, Ticket, get_desk

router = APIRouter(prefix="/tickets", tags=["tickets"], dependencies=[Depends(signed_in)])

TheDesk = Annotated[Desk, Depends(get_desk)]
User = Annotated[Principal, Depends(signed_in)]


class NewTicket(BaseModel):
    """The body of a request that opens a ticket."""

    title: str = Field(min_length=1, max_length=200)


@router.get("")
async def list_tickets(desk: TheDesk, done: bool = False) -> list[Ticket]:
    """Return the open tickets, latest first; with ``done``, the closed ones too."""
    return desk.tickets(done=done)


@router.post("", status_code=201)
async def open_ticket(new: NewTicket, desk: TheDesk, user: User) -> Ticket:
    """Open a ticket."""
    return desk.open(new.title, user.id)


@router.get("/{number}")
async def get_ticket(number: int, desk: TheDesk) -> Ticket:
    """One ticket."""
    return desk.get(number)


@router.post("/{number}/close", dependencies=[Security(signed_in, scopes=[CLOSE])])
async def close_ticket(number: int, desk: TheDesk) -> Ticket:
    """Mark a ticket as done."""
    return desk.close(number)
