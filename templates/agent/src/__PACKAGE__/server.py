"""Tools that ask the client for its folders, its model for text and its user for decisions.

On some revisions of the protocol a tool runs again from its start with each answer, so work that
must happen once goes into `ctx.step`. The code is the same on every revision.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from mcpkit import Accepted, Context, MCPKit, ToolError
from pydantic import BaseModel, Field

from . import __version__
from .workspace import Workspace, WorkspaceError

app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Use `research` for questions about the user's files, `triage` for messages.",
)
# skill: app.skills(Path(__file__).with_name("skills"))

RESEARCHER = "Answer from the user's files only. Name the files you have used. Be brief."
EXCERPTS = 10
EXCERPT_BYTES = 2_000


@dataclass
class Answer:
    """The answer to a question."""

    text: str
    headline: str
    saved_as: str | None


@dataclass
class Save:
    """The form that asks the user where to save an answer."""

    file: Annotated[str, Field(description="The name of the new file", max_length=80)] = "answer.md"


class Triage(BaseModel):
    """The topic and urgency of a message."""

    topic: Annotated[str, Field(max_length=80)]
    urgency: Literal["low", "normal", "high"]
    needs_reply: bool


@app.tool(destructive=False, open_world=False)
async def research(question: str, ctx: Context) -> Answer:
    """Answer a question from the user's files, and save the answer if the user agrees.

    Args:
        question: The question to answer.
    """
    workspace = Workspace(Path(await choose_folder(ctx)))
    text = await think(question, workspace, ctx)
    saved_as = None
    decision = await ctx.elicit(f"Save this answer?\n\n{text}", Save)
    if isinstance(decision, Accepted):
        try:
            # A step, because the next question may run this tool again from its start.
            saved_as = await ctx.step("save", workspace.save, decision.data.file, text)
        except WorkspaceError as error:
            raise ToolError(str(error)) from None
    headline = await ctx.sample(f"Sum this up in at most ten words:\n\n{text}", max_tokens=50)
    return Answer(text, headline.text, saved_as)


@app.tool(read_only=True, open_world=False)
async def triage(message: str, ctx: Context) -> Triage:
    """Find the topic and urgency of a message.

    Args:
        message: The whole text.
    """
    return await ctx.sample(f"Triage this message:\n\n{message}", result_type=Triage)


async def choose_folder(ctx: Context) -> str:
    """Return the folder that the client shares; if it shares several, the user chooses."""
    paths = [root.path for root in await ctx.roots()]
    folders = [str(path) for path in paths if path is not None and path.is_dir()]
    if not folders:
        raise ToolError("The client shares no folder; open one first.")
    if len(folders) == 1:
        return folders[0]
    choice = await ctx.elicit("Which folder is this about?", folders)
    if not isinstance(choice, Accepted):
        raise ToolError("The user has not chosen a folder.")
    return choice.data


async def think(question: str, workspace: Workspace, ctx: Context) -> str:
    """Return the answer of the client's model, which may read the files."""

    def list_files() -> list[str]:
        """List the files of the user."""
        return workspace.list_files()

    def read_file(name: str) -> str:
        """Read a file of the user.

        Args:
            name: A name from list_files.
        """
        try:
            return workspace.read(name)
        except WorkspaceError as error:
            raise ToolError(str(error)) from None

    if ctx.client.supports("sampling", "tools"):
        answer = await ctx.sample(question, system=RESEARCHER, tools=[list_files, read_file])
        return answer.text
    # A model that cannot call functions gets the beginnings of the first files.
    names = workspace.list_files()[:EXCERPTS]
    shown = [f"{name}:\n{workspace.read(name, EXCERPT_BYTES)}" for name in names]
    answer = await ctx.sample("\n\n".join([question, *shown]), system=RESEARCHER)
    return answer.text
