"""Searches the folders that the client has opened (its roots), and nothing outside them.

Shows ``ctx.roots()`` behind a dependency, limits on everything that a model may ask for, progress,
and a ``def`` handler that stops when the client gives up.

    mcpkit run examples/file_search.py

Clients without roots are served the folder in ``FILE_SEARCH_DIR``, if it is set.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mcpkit import Context, Depends, MCPKit, SyncContext, ToolError

app = MCPKit(
    "file-search", version="1.0", instructions="Find files first, then search or read them."
)

MAX_FILES = 20_000
MAX_BYTES = 2_000_000
MAX_LINE = 200
SKIPPED = {".git", ".venv", "__pycache__", "node_modules"}


@dataclass
class Found:
    """A file: its path, to be passed to other tools, and its size in bytes."""

    path: str
    size: int


@dataclass
class Match:
    """A line that contains the text; lines count from 1."""

    path: str
    line: int
    text: str


@dataclass
class Matches:
    """The lines that were found; there may be more if it stopped at the limit."""

    matches: list[Match]
    files_searched: int
    more: bool


async def folders(ctx: Context) -> list[Path]:
    """Return the directories that the client has opened, with links resolved."""
    if ctx.client.supports("roots"):
        found = [root.path for root in await ctx.roots()]
    else:
        found = [Path(each) for each in [os.environ.get("FILE_SEARCH_DIR")] if each]
    opened = [path.resolve() for path in found if path is not None and path.is_dir()]
    if not opened:
        raise ToolError("There is no folder to search. Ask the user to open one in the client.")
    return opened


Folders = Annotated[list[Path], Depends(folders)]
Pattern = Annotated[str, Field(max_length=200)]
Limit = Annotated[int, Field(ge=1, le=1000)]


def inside(path: Path, opened: list[Path]) -> bool:
    """Return True if a file is inside an opened folder after links are resolved."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # it is gone, a loop of links, or no path at all
        return False
    return real.is_file() and any(real.is_relative_to(folder) for folder in opened)


def walk(opened: list[Path], pattern: str) -> Iterator[Path]:
    """The files whose path below an opened folder fits the pattern, in the order of their names."""
    for folder in opened:
        for parent, below, names in os.walk(folder):  # it does not follow links to directories
            below[:] = sorted(name for name in below if name not in SKIPPED)
            for name in sorted(names):
                path = Path(parent, name)
                relative = path.relative_to(folder).as_posix()
                if fnmatch(relative, pattern) and inside(path, opened):
                    yield path


def read_text(path: Path) -> str | None:
    """The text of a file; None if it is binary, too long, or cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    return None if b"\0" in data[:8192] else data.decode("utf-8", errors="replace")


@app.tool(read_only=True)
def find_files(opened: Folders, pattern: Pattern = "*", limit: Limit = 100) -> list[Found]:
    """List files in the folders that the user has opened.

    Args:
        pattern: Shell pattern for the path below the folder; ``*`` also matches ``/``, so
            ``*.py`` finds Python files at any depth and ``src/*`` everything below ``src``.
        limit: The largest number of files.
    """
    found: list[Found] = []
    for path in walk(opened, pattern):
        found.append(Found(str(path), path.stat().st_size))
        if len(found) == limit:
            break
    return found


@app.tool(read_only=True)
def search_text(
    text: Annotated[str, Field(min_length=1, max_length=500)],
    opened: Folders,
    ctx: SyncContext,
    pattern: Pattern = "*",
    match_case: bool = False,
    limit: Limit = 50,
) -> Matches:
    """Find lines that contain a text. Binary and very long files are left out.

    Args:
        text: The text to find, literally.
        pattern: The files to search, as for find_files.
        match_case: Whether upper and lower case differ.
        limit: The largest number of lines.
    """
    wanted = text if match_case else text.casefold()
    files = [path for path, _ in zip(walk(opened, pattern), range(MAX_FILES), strict=False)]
    ctx.info(f"searching {len(files)} files")
    matches: list[Match] = []
    for number, path in enumerate(files, 1):
        if ctx.cancelled:
            raise ToolError("The search was cancelled.")
        for line_number, line in enumerate((read_text(path) or "").splitlines(), 1):
            if wanted in (line if match_case else line.casefold()):
                if len(matches) == limit:
                    return Matches(matches, number, more=True)
                matches.append(Match(str(path), line_number, line.strip()[:MAX_LINE]))
        ctx.progress(number, len(files), path.name)
    return Matches(matches, len(files), more=False)


@app.tool(read_only=True)
def read_file(
    path: str,
    opened: Folders,
    start: Annotated[int, Field(ge=1)] = 1,
    count: Annotated[int, Field(ge=1, le=2000)] = 200,
) -> str:
    """Read lines of a text file in an opened folder.

    Args:
        path: A path from find_files, or relative to an opened folder.
        start: The first line, from 1.
        count: The largest number of lines.
    """
    candidates = [folder / path for folder in opened]  # an absolute path replaces the folder
    file = next((each for each in candidates if inside(each, opened)), None)
    if file is None:
        raise ToolError(f"There is no file {path!r} in the opened folders. Try find_files first.")
    text = read_text(file)
    if text is None:
        raise ToolError(f"{file.name} is binary, or longer than {MAX_BYTES} bytes.")
    return "\n".join(text.splitlines()[start - 1 : start - 1 + count])


if __name__ == "__main__":
    app.run()
