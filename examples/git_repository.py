"""Reads a git repository through the git program: history, differences, files, blame, branches.

Shows how to run a program for a model: a list of arguments and no shell, nothing that git could
take for an option, a deadline, a limit on the output, and the program killed when the call is
cancelled.

    GIT_REPOSITORY=path/to/repository mcpkit run examples/git_repository.py

Without GIT_REPOSITORY it reads the first of the client's roots, or else the current directory.
"""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from mcpkit import Context, Depends, MCPKit, ToolError

app = MCPKit("git", version="1.0", instructions="Reads a repository; it cannot change anything.")

MAX_SECONDS = 20.0
MAX_BYTES = 200_000
QUIET = {
    "GIT_TERMINAL_PROMPT": "0",  # never ask for a password
    "GIT_OPTIONAL_LOCKS": "0",  # never write, not even to refresh the index
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
SAFE = [
    *("--no-pager", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "log.showSignature=false"),
    *("-c", "color.ui=false", "-c", "core.quotePath=false"),
]
"""A repository's own configuration may name programs to start: these options prevent it."""


def no_option(value: str) -> str:
    """Reject values that git would read as options, against injection."""
    if value.startswith("-") or "\0" in value:
        raise ValueError("must not begin with a dash or contain NUL")
    return value


Revision = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(no_option)]
FilePath = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(no_option)]


class Commit(TypedDict):
    """A commit; the time is ISO 8601."""

    id: str
    author: str
    time: str
    subject: str


class Branch(TypedDict):
    """A branch and the commit at its tip."""

    name: str
    commit: str
    current: bool


async def repository(ctx: Context) -> Path:
    """Return the configured repository, or else the client's first root."""
    given = os.environ.get("GIT_REPOSITORY")
    if given is None and ctx.client.supports("roots"):
        paths = [root.path for root in await ctx.roots()]
        return next((path for path in paths if path is not None and path.is_dir()), Path.cwd())
    return Path(given or ".")


Repository = Annotated[Path, Depends(repository)]


async def git(where: Path, *arguments: str) -> str:
    """Run git; return its output, cut at MAX_BYTES.

    Raises:
        ToolError: Git fails or takes too long.
    """
    command = ["git", "-C", str(where), *SAFE, *arguments]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        # No input: this process's own is what the client writes.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=nothing, stdout=pipe, stderr=pipe, env={**os.environ, **QUIET}
        )
    except FileNotFoundError:
        raise ToolError("The program git is not installed where this server runs.") from None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        reading = asyncio.gather(read(process.stdout), read(process.stderr), process.wait())
        output, problem, code = await asyncio.wait_for(reading, MAX_SECONDS)
    except asyncio.TimeoutError:
        raise ToolError(f"git {arguments[0]} took more than {MAX_SECONDS} s.") from None
    finally:
        if process.returncode is None:  # too late, or the client has cancelled the call
            process.kill()
            await process.wait()
    if code != 0:
        raise ToolError(problem[:500].strip() or f"git {arguments[0]} failed.")
    return output


async def read(stream: asyncio.StreamReader) -> str:
    """The beginning of a stream, which is read to its end so that git does not wait."""
    kept = bytearray()
    cut = False
    while chunk := await stream.read(65536):
        room = MAX_BYTES - len(kept)
        kept += chunk[:room]
        cut = cut or len(chunk) > room
    text = kept.decode("utf-8", errors="replace")
    return f"{text}\n… cut after {MAX_BYTES} bytes" if cut else text


@app.tool(read_only=True)
async def log(
    where: Repository,
    revision: Revision = "HEAD",
    path: FilePath = ".",
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
) -> list[Commit]:
    """List commits, the newest first.

    Args:
        revision: A branch, tag, commit or range, such as ``main`` or ``v1..v2``.
        path: Only commits that change this file or directory.
        limit: The largest number of results.
    """
    form = "--format=%H%x1f%an%x1f%aI%x1f%s"
    found = await git(
        where, "log", f"--max-count={limit}", form, "--end-of-options", revision, "--", path
    )
    parts = [line.split("\x1f") for line in found.splitlines() if line.count("\x1f") == 3]
    return [Commit(id=id, author=who, time=time, subject=what) for id, who, time, what in parts]


@app.tool(read_only=True)
async def diff(
    where: Repository, start: Revision, end: Revision | None = None, path: FilePath = "."
) -> str:
    """Show how files differ between two revisions, as a patch.

    Args:
        start: The older revision.
        end: The newer one; the files as they are in the working directory if left out.
        path: Only this file or directory.
    """
    revisions = [start] if end is None else [start, end]
    options = ["--no-ext-diff", "--no-textconv", "--stat", "--patch"]
    found = await git(where, "diff", *options, "--end-of-options", *revisions, "--", path)
    return found or "There is no difference."


@app.tool(read_only=True)
async def show_file(where: Repository, path: FilePath, revision: Revision = "HEAD") -> str:
    """Show a file as it was in a revision.

    Args:
        path: From the top of the repository.
        revision: A branch, tag or commit.
    """
    return await git(where, "cat-file", "blob", f"{revision}:{path}")


@app.tool(read_only=True)
async def blame(
    where: Repository,
    path: FilePath,
    first: Annotated[int, Field(ge=1)],
    last: Annotated[int, Field(ge=1)],
    revision: Revision = "HEAD",
) -> str:
    """Show the commit that last changed each line.

    Args:
        path: The path of the file.
        first: The first line, from 1.
        last: The last line.
        revision: Look at the file as it was there.
    """
    # Its --end-of-options does not work before a revision; no_option has to do.
    return await git(
        where, "blame", "--no-textconv", "--date=short", f"-L{first},{last}", revision, "--", path
    )


@app.tool(read_only=True)
async def branches(where: Repository) -> list[Branch]:
    """List the branches of the repository."""
    form = "--format=%(HEAD)%1f%(refname:short)%1f%(objectname)"
    found = await git(where, "for-each-ref", form, "refs/heads")
    parts = [line.split("\x1f") for line in found.splitlines()]
    return [Branch(name=name, commit=id, current=head == "*") for head, name, id in parts]


if __name__ == "__main__":
    app.run()
