"""Lets a model work with a git repository: status, differences, history, commits and branches.

    mcpkit run examples/ported/git_server.py:make_app -- --repository path/to/repository

A `repo_path` must be in the repository that the flag or GIT_REPOSITORY names. Without them, a host
on stdio may name folders by its roots, and otherwise it is the folder that the server runs in.
Hooks, which are programs that a repository names, do not run unless `--hooks` is given.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from mcpkit import Context, MCPKit, ToolError, tool

MAX_SECONDS = 30.0
MAX_BYTES = 200_000
QUIET = {
    "GIT_TERMINAL_PROMPT": "0",  # never ask for a password
    "GIT_EDITOR": "false",  # never wait for an editor
    "GIT_OPTIONAL_LOCKS": "0",  # never write in order to read
    "LC_ALL": "C",
}
SAFE = [
    *("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false"),
    *("-c", "log.showSignature=false", "-c", "commit.gpgSign=false"),
    *("-c", "color.ui=false", "-c", "core.quotePath=false"),
]
"""A repository's own configuration may name programs to start: these options prevent it."""

PATCH = ["--no-ext-diff", "--no-textconv"]


def no_option(value: str) -> str:
    """Refuse what git would read as an option."""
    if value.startswith("-") or "\0" in value:
        raise ValueError("must not begin with a dash or contain NUL")
    return value


RepoPath = Annotated[str, Field(min_length=1, description="The path of the repository.")]
Revision = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(no_option)]
When = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(no_option)]
FilePath = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(no_option)]
Lines = Annotated[
    int, Field(ge=0, le=1000, description="How many unchanged lines to show around a change.")
]


class Place(NamedTuple):
    """A folder, and the allowed one that it is in."""

    folder: Path
    allowed: Path


class Commit(TypedDict):
    """A commit; the date is ISO 8601."""

    hash: str
    author: str
    date: str
    message: str


@dataclass(frozen=True)
class Git:
    """The tools.

    Args:
        repository: Where all repositories must be; None to ask the host.
        hooks: Whether the hooks of a repository run.
    """

    repository: Path | None = None
    hooks: bool = False

    async def run(self, ctx: Context, repo_path: str, *arguments: str) -> str:
        """What git writes about a repository, if that is allowed."""
        return await self.git(await self.place(ctx, repo_path), *arguments)

    async def git(self, place: Place, *arguments: str) -> str:
        """What git writes, cut at MAX_BYTES.

        Raises:
            ToolError: It fails, says why, or takes too long.
        """
        hooks = [] if self.hooks else ["-c", f"core.hooksPath={os.devnull}"]
        command = ["git", "-C", str(place.folder), *SAFE, *hooks, *arguments]
        # Looking above a folder for its repository, git must not find one that is not allowed.
        env = {**os.environ, **QUIET, "GIT_CEILING_DIRECTORIES": str(place.allowed.parent)}
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            # No input: this process's own is what the client writes.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=nothing, stdout=pipe, stderr=pipe, env=env
            )
        except FileNotFoundError:
            raise ToolError("The program git is not installed where this server runs.") from None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            reading = asyncio.gather(read(process.stdout), read(process.stderr), process.wait())
            output, problem, code = await asyncio.wait_for(reading, MAX_SECONDS)
        except asyncio.TimeoutError:
            raise ToolError(f"git {arguments[0]} took more than {MAX_SECONDS:g} s.") from None
        finally:
            if process.returncode is None:  # too late, or the client has cancelled the call
                process.kill()
                await process.wait()
        if code != 0:
            raise ToolError((problem or output)[:500].strip() or f"git {arguments[0]} failed.")
        return output

    async def place(self, ctx: Context, repo_path: str) -> Place:
        """Find out whether a folder is allowed."""
        # Over HTTP the roots are on another machine, whose user could name any folder here.
        local = self.repository is None and ctx.http is None and ctx.client.supports("roots")
        roots = [root.path for root in await ctx.roots()] if local else []
        allowed = [each for each in roots if each is not None] or [self.repository or Path.cwd()]
        where = Path(repo_path).resolve()
        for each in allowed:
            if where.is_relative_to(each.resolve()):
                return Place(where, each.resolve())
        names = " or ".join(map(str, allowed))
        raise ToolError(f"repo_path: {repo_path} is not in {names}, which is all that is allowed.")

    @tool(read_only=True, open_world=False)
    async def git_status(self, repo_path: RepoPath, ctx: Context) -> str:
        """Show the branch, the staged and the other changes."""
        return await self.run(ctx, repo_path, "status")

    @tool(read_only=True, open_world=False)
    async def git_diff_unstaged(
        self, repo_path: RepoPath, ctx: Context, context_lines: Lines = 3
    ) -> str:
        """Show changes of files that are not staged yet, as a patch."""
        found = await self.run(ctx, repo_path, "diff", *PATCH, f"--unified={context_lines}")
        return found or "Nothing has changed since it was staged."

    @tool(read_only=True, open_world=False)
    async def git_diff_staged(
        self, repo_path: RepoPath, ctx: Context, context_lines: Lines = 3
    ) -> str:
        """Show what the next commit would change, as a patch."""
        options = [*PATCH, f"--unified={context_lines}", "--cached"]
        return await self.run(ctx, repo_path, "diff", *options) or "Nothing is staged."

    @tool(read_only=True, open_world=False)
    async def git_diff(
        self, repo_path: RepoPath, target: Revision, ctx: Context, context_lines: Lines = 3
    ) -> str:
        """Show how the files differ from a branch or commit, as a patch.

        Args:
            target: A branch, tag, commit or range.
        """
        options = [*PATCH, f"--unified={context_lines}", "--end-of-options", target, "--"]
        return await self.run(ctx, repo_path, "diff", *options) or "There is no difference."

    @tool(destructive=False, idempotent=False, open_world=False)
    async def git_commit(
        self, repo_path: RepoPath, message: Annotated[str, Field(min_length=1)], ctx: Context
    ) -> str:
        """Commit the staged changes.

        Args:
            message: What the commit says.
        """
        # Asked for once: after an answer to the second question everything would run again.
        place = await self.place(ctx, repo_path)
        await self.git(place, "commit", "--quiet", "--cleanup=verbatim", f"-m{message}")
        made = await self.git(place, "rev-parse", "HEAD")
        return f"Committed as {made.strip()}."

    @tool(destructive=False, idempotent=True, open_world=False)
    async def git_add(
        self,
        repo_path: RepoPath,
        files: Annotated[list[FilePath], Field(min_length=1)],
        ctx: Context,
    ) -> str:
        """Stage files for the next commit.

        Args:
            files: Their paths in the repository; "." for all that have changed.
        """
        await self.run(ctx, repo_path, "add", "--", *files)
        return f"Staged {', '.join(files)}."

    @tool(destructive=True, idempotent=True, open_world=False)
    async def git_reset(self, repo_path: RepoPath, ctx: Context) -> str:
        """Unstage everything; the files stay as they are."""
        if ctx.client.supports("elicitation"):  # the others have the hint that it is destructive
            answer = await ctx.elicit(f"Unstage everything in {repo_path}?")
            if not answer.accepted:
                raise ToolError("The user does not want everything to be unstaged.")
        await self.run(ctx, repo_path, "reset", "--quiet")
        return "Nothing is staged any more."

    @tool(read_only=True, open_world=False)
    async def git_log(
        self,
        repo_path: RepoPath,
        ctx: Context,
        max_count: Annotated[int, Field(ge=1, le=1000)] = 10,
        start_timestamp: When | None = None,
        end_timestamp: When | None = None,
    ) -> list[Commit]:
        """List commits, the newest first.

        Args:
            max_count: How many at most.
            start_timestamp: Only those after a time that git understands: "2024-01-15T14:30",
                "yesterday", "2 weeks ago".
            end_timestamp: Only those before such a time.
        """
        options = [f"--max-count={max_count}", "--format=%H%x1f%an%x1f%aI%x1f%B%x1e"]
        options += [f"--since={start_timestamp}"] if start_timestamp else []
        options += [f"--until={end_timestamp}"] if end_timestamp else []
        found = await self.run(ctx, repo_path, "log", *options, "--")
        parts = [entry.strip("\n").split("\x1f", 3) for entry in found.split("\x1e")]
        return [
            Commit(hash=part[0], author=part[1], date=part[2], message=part[3].strip())
            for part in parts
            if len(part) == 4
        ]

    @tool(destructive=False, idempotent=False, open_world=False)
    async def git_create_branch(
        self,
        repo_path: RepoPath,
        branch_name: Revision,
        ctx: Context,
        base_branch: Revision | None = None,
    ) -> str:
        """Create a branch, without switching to it.

        Args:
            branch_name: The new branch.
            base_branch: Where it begins; the current branch if left out.
        """
        base = base_branch or "HEAD"
        await self.run(ctx, repo_path, "branch", "--no-track", "--", branch_name, base)
        return f"Created the branch {branch_name} at {base}."

    @tool(destructive=False, idempotent=True, open_world=False)
    async def git_checkout(self, repo_path: RepoPath, branch_name: Revision, ctx: Context) -> str:
        """Switch to a branch; git refuses if that would overwrite changes.

        Args:
            branch_name: A branch, or a commit to look at.
        """
        await self.run(ctx, repo_path, "checkout", "--quiet", branch_name, "--")
        return f"Switched to {branch_name}."

    @tool(read_only=True, open_world=False)
    async def git_show(self, repo_path: RepoPath, revision: Revision, ctx: Context) -> str:
        """Show a commit: who made it, when, why, and what it changed.

        Args:
            revision: A branch, tag or commit.
        """
        return await self.run(
            ctx, repo_path, "show", *PATCH, "--date=iso-strict", "--end-of-options", revision, "--"
        )

    @tool(read_only=True, open_world=False)
    async def git_branch(
        self,
        repo_path: RepoPath,
        ctx: Context,
        branch_type: Literal["local", "remote", "all"] = "local",
        contains: Revision | None = None,
        not_contains: Revision | None = None,
    ) -> list[str]:
        """List the names of branches, such as main and origin/main.

        Args:
            branch_type: Those of this repository, those that are known of others, or both.
            contains: Only branches with this commit.
            not_contains: Only branches without this commit.
        """
        places = {"local": ["refs/heads"], "remote": ["refs/remotes"]}
        options = [f"--contains={contains}"] if contains else []
        options += [f"--no-contains={not_contains}"] if not_contains else []
        options += places.get(branch_type, ["refs/heads", "refs/remotes"])
        found = await self.run(
            ctx, repo_path, "for-each-ref", "--format=%(refname:short)", *options
        )
        return found.splitlines()


async def read(stream: asyncio.StreamReader) -> str:
    """The beginning of a stream, which is read to its end so that git does not wait."""
    kept = bytearray()
    size = 0
    while chunk := await stream.read(65536):
        size += len(chunk)
        kept += chunk[: MAX_BYTES - len(kept)]
    text = kept.decode("utf-8", errors="replace")
    return text if size <= MAX_BYTES else f"{text}\n… cut after {MAX_BYTES} bytes"


def make_app(repository: Path | None = None, hooks: bool = False) -> MCPKit:
    """Make the server, with the flags of its command line."""
    given = os.environ.get("GIT_REPOSITORY")
    app = MCPKit("mcp-git", version="1.0", instructions="Look at the status before you commit.")
    app.include(Git(repository or (Path(given) if given else None), hooks))
    return app


app = make_app()

if __name__ == "__main__":
    app.run()
