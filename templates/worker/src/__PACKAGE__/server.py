"""The server: work that takes long, as tasks.

A task is run from its start again after a question, and after its process has ended; what must
happen once stands in `ctx.step`. Where tasks are kept is said with ``MCPKIT_TASKS``.
"""

from mcpkit import Accepted, Context, MCPKit, SyncContext, ToolError

from . import __version__
from .mailing import Draft, MailingError, deliver, recipients

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="A mailing takes long; look at it as a task.",
    http={"health": True},
)


@app.tool(task="optional", resumable=True, destructive=True)
async def send_mailing(group: str, subject: str, text: str, ctx: Context) -> str:
    """Send a message to everybody in a group, after the user has agreed.

    Args:
        group: Of people, such as "members".
        subject: Of the message.
        text: Of the message.
    """
    try:
        addresses = await ctx.step("recipients", recipients, group)
    except MailingError as error:
        raise ToolError(str(error)) from None
    answer = await ctx.elicit(f"Send {subject!r} to {len(addresses)} people?", bool)
    if not isinstance(answer, Accepted) or not answer.data:
        return "Nothing was sent."
    draft = Draft(subject, text)
    for number, address in enumerate(addresses, 1):
        # Nobody gets it twice: a step that is done is not done again. One that was cut off in the
        # middle is, so that the message carries a key by which whoever delivers it may see that.
        key = f"{ctx.task.id if ctx.task else 'call'}-{number}"
        await ctx.step(f"to {number}", deliver, draft, address, key)
        ctx.progress(number, len(addresses), "messages sent")
    return f"{len(addresses)} messages were sent."


@app.tool(task="optional", resumable=True, read_only=True)
def check_addresses(group: str, ctx: SyncContext) -> list[str]:
    """Return the addresses of a group that cannot be right.

    Args:
        group: Of people, such as "members".
    """
    try:
        addresses = ctx.step("recipients", recipients, group)
    except MailingError as error:
        raise ToolError(str(error)) from None
    wrong: list[str] = []
    for number, address in enumerate(addresses, 1):
        if ctx.cancelled:  # a thread cannot be stopped from outside
            raise ToolError("Stopped.")
        if address.count("@") != 1:
            wrong.append(address)
        ctx.progress(number, len(addresses))
    return wrong
