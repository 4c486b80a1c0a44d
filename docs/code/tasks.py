"""Tools that take long."""

# region optional
from typing import Annotated

from mcpkit import (
    Context,
    Elicit,
    MCPKit,
    SyncContext,
    TaskOptions,
    TaskSupport,
)

app = MCPKit("reports")


@app.tool(task="optional")
async def report(year: int, ctx: Context) -> str:
    """Write a report.

    Args:
        year: The year of the figures.
    """
    pages: list[str] = []
    for month in range(1, 13):
        pages.append(await ctx.step(f"month {month}", write, year, month))
        ctx.progress(month, 12, "months written")
    return "\n".join(pages)


async def write(year: int, month: int) -> str:
    """Write a page."""
    return f"{year}-{month:02}: all is well."
    # endregion optional


# region asking
@app.tool(task=TaskSupport(resumable=True))
def publish(
    year: int,
    public: Annotated[bool, Elicit("For everybody?")],
    ctx: SyncContext,
) -> str:
    """Publish a report.

    Args:
        year: The year of the report.
        public: Asked before the task begins.
    """
    address = ctx.step("upload", upload, year, public)
    answer = ctx.elicit(f"It is at {address}. Tell the subscribers?", bool)
    if answer.action == "accept" and answer.data:
        ctx.step("mail", mail, address)
    return address


def upload(year: int, public: bool) -> str:
    """Upload a report."""
    return f"https://example.com/{'public' if public else 'own'}/{year}"


def mail(address: str) -> None:
    """Write to the subscribers."""
    # endregion asking


# region idempotent
@app.tool(task=TaskSupport("required", resumable=True))
async def charge(cents: int, ctx: Context) -> str:
    """Charge the card of the user."""
    assert ctx.task is not None
    return await ctx.step("charge", charge_card, cents, f"{ctx.task.id}/charge")


async def charge_card(cents: int, idempotency_key: str) -> str:
    """Call the payment service, which charges once for each key."""
    return f"{cents} cents, reference {idempotency_key}"


# endregion idempotent


# region status
@app.tool(task=TaskSupport("required", ttl=3600))
async def compare(ctx: Context) -> str:
    """Compare all reports."""
    if ctx.task is not None:
        ctx.task.status("Waiting for the archive")
    return "They are equal."


# endregion status


# region start
@app.tool
async def yearly(year: int, ctx: Context) -> str:
    """Start a report, and return the id of its task."""
    id = await app.tasks.start(report, {"year": year}, ctx=ctx)
    return f"The report of {year} is the task {id}."


# endregion start


# region options
options: TaskOptions = {
    "store": "reports.db",
    "ttl": 7 * 24 * 3600,
    "poll_interval": 5,
    "max_tasks_each": 20,
}
lasting = MCPKit("reports", tasks=options)
# endregion options
