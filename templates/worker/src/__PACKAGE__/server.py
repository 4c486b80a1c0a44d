"""The MCP server: long work, as tasks.

A task runs again from its start after a question and after a crash of its process, so work that
must happen once goes into `ctx.step`. ``MCPKIT_TASKS`` names the store of tasks.
"""

# skill: from pathlib import Path
# skill:
from mcpkit import Accepted, Context, MCPKit, SyncContext, TaskSupport, ToolError

from . import __version__
from .mailing import Draft, MailingError, deliver, recipients

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="A mailing takes long; run it as a task.",
    http={"health": True},
)
# skill: app.skills(Path(__file__).with_name("skills"))


@app.tool(task=TaskSupport(resumable=True), destructive=True)
async def send_mailing(group: str, subject: str, text: str, ctx: Context) -> str:
    """Send a message to all members of a group, after the user has agreed.

    Args:
        group: The name of a group, such as "members".
        subject: The subject of the message.
        text: The text of the message.
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
        # A finished step does not run again, so no member gets two messages. A step that was
        # interrupted does; the mail server recognizes the repeated message by its key.
        key = f"{ctx.task.id if ctx.task else 'call'}-{number}"
        await ctx.step(f"to {number}", deliver, draft, address, key)
        ctx.progress(number, len(addresses), "messages sent")
    return f"{len(addresses)} messages were sent."


@app.tool(task=TaskSupport(resumable=True), read_only=True)
def check_addresses(group: str, ctx: SyncContext) -> list[str]:
    """Return the invalid addresses of a group.

    Args:
        group: The name of a group, such as "members".
    """
    try:
        addresses = ctx.step("recipients", recipients, group)
    except MailingError as error:
        raise ToolError(str(error)) from None
    wrong: list[str] = []
    for number, address in enumerate(addresses, 1):
        if ctx.cancelled:  # a thread has to stop by itself
            raise ToolError("Stopped.")
        if address.count("@") != 1:
            wrong.append(address)
        ctx.progress(number, len(addresses))
    return wrong
