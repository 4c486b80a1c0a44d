"""The MCP server: the same functions as tools and resources."""

# skill: from pathlib import Path
from typing import Annotated

from mcpkit import Context, Depends, MCPKit, ResourceNotFound, ToolError
from pydantic import Field

from . import __version__
from .auth import CLOSE
from .service import Desk, Ticket, UnknownTicketError, get_desk

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Opens, lists and closes tickets for the signed-in user.",
)
# skill: app.skills(Path(__file__).with_name("skills"))


def signed_in(ctx: Context) -> str:
    """Return the name of the signed-in user."""
    if ctx.principal is None:
        raise ToolError("Only signed-in users can open tickets, over HTTP.")
    return ctx.principal.id


TheDesk = Annotated[Desk, Depends(get_desk)]
User = Annotated[str, Depends(signed_in)]


@app.tool(read_only=True, open_world=False)
async def list_tickets(
    desk: TheDesk, done: bool = False, limit: Annotated[int, Field(ge=1, le=200)] = 50
) -> list[Ticket]:
    """List the open tickets, latest first.

    Args:
        done: Whether to list closed tickets too.
        limit: The largest number of tickets.
    """
    return desk.tickets(done=done)[:limit]


@app.tool(destructive=False, open_world=False)
async def open_ticket(
    title: Annotated[str, Field(min_length=1, max_length=200)], desk: TheDesk, user: User
) -> Ticket:
    """Open a ticket for the user.

    Args:
        title: The task, in a few words.
    """
    return desk.open(title, user)


@app.tool(scopes=[CLOSE], destructive=False, idempotent=True, open_world=False)
async def close_ticket(number: int, desk: TheDesk) -> Ticket:
    """Mark a ticket as done.

    Args:
        number: The number from list_tickets.
    """
    try:
        return desk.close(number)
    except UnknownTicketError as error:
        raise ToolError(str(error)) from None


@app.resource("tickets://{number}", mime_type="application/json")
async def ticket(number: int, desk: TheDesk) -> Ticket:
    """A ticket.

    Args:
        number: The number of the ticket.
    """
    try:
        return desk.get(number)
    except UnknownTicketError as error:
        raise ResourceNotFound(str(error)) from None
