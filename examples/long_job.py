"""Finds duplicate files in a directory: work that takes long, as a task that survives.

A client that knows tasks gets an id at once, and may look, answer, cancel or go away; any other one
waits for the answer. Each batch of files is a step: what was hashed is not hashed again, neither
after a question nor when the server was killed in the middle.

    MCPKIT_TASKS=duplicates.db mcpkit run examples/long_job.py
"""

import hashlib
import os
from collections import defaultdict
from pathlib import Path

from typing_extensions import TypedDict

from mcpkit import Accepted, Context, MCPKit, SyncContext, TaskSupport, ToolError

app = MCPKit("duplicates", version="1.0", instructions="A scan takes long; run it as a task.")

CHUNK = 1 << 20
BATCHES = 100
"""Steps of a scan; its progress is told after each."""


class Report(TypedDict):
    """Groups of files that are equal, as paths below the directory."""

    directory: str
    files: int
    duplicates: list[list[str]]


def files_below(directory: str) -> list[str]:
    """The files of a directory, as paths relative to it.

    Raises:
        ToolError: There is no such directory.
    """
    folder = Path(directory).expanduser()
    if not folder.is_dir():
        raise ToolError(f"{directory} is not a directory; pass an absolute path.")
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sorted(each.relative_to(folder).as_posix() for each in found if each.is_file())


def digest(path: Path, ctx: SyncContext) -> str | None:
    """The SHA-256 of a file's bytes; None if it cannot be read.

    Raises:
        ToolError: The scan was cancelled.
    """
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                if ctx.cancelled:  # a thread has to stop by itself
                    raise ToolError("Stopped.")
                found.update(chunk)
    except OSError:
        return None
    return found.hexdigest()


def grouped(directory: str, digests: dict[str, str]) -> Report:
    """The result of a scan."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for path, found in digests.items():
        groups[found].append(path)
    duplicates = sorted(sorted(each) for each in groups.values() if len(each) > 1)
    return Report(directory=directory, files=len(digests), duplicates=duplicates)


@app.tool(task=TaskSupport(resumable=True), read_only=True)
def scan(directory: str, ctx: SyncContext) -> Report:
    """Find files with the same content.

    Args:
        directory: Its absolute path.
    """
    files = ctx.step("list", files_below, directory)
    size = len(files) // BATCHES + 1

    def hashed(batch: list[str]) -> dict[str, str]:
        digests = {path: digest(Path(directory, path).expanduser(), ctx) for path in batch}
        return {path: found for path, found in digests.items() if found is not None}

    digests: dict[str, str] = {}
    for start in range(0, len(files), size):
        batch = files[start : start + size]
        digests |= ctx.step(f"from {start}", hashed, batch)
        ctx.progress(start + len(batch), len(files), "files hashed")
    return grouped(directory, digests)


def removed(directory: str, paths: list[str]) -> int:
    """Delete files; return their number."""
    for path in paths:
        Path(directory, path).expanduser().unlink(missing_ok=True)
    return len(paths)


@app.tool(task="optional", destructive=True)
async def tidy(directory: str, duplicates: list[list[str]], ctx: Context) -> str:
    """Delete all but the first file of each group, after the user has agreed.

    The question may wait for days: a task that asks is only a record, and no process holds it.

    Args:
        directory: The directory that was scanned.
        duplicates: The groups from the scan.
    """
    copies = [path for group in duplicates for path in group[1:]]
    answer = await ctx.elicit(f"Delete {len(copies)} copies in {directory}?", bool)
    if not isinstance(answer, Accepted) or not answer.data:
        return "Nothing was deleted."
    return f"{await ctx.step('delete', removed, directory, copies)} copies were deleted."


if __name__ == "__main__":
    app.run()
