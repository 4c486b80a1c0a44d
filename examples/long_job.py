"""Finds duplicate files in a directory: work that takes long, can be watched, stopped and resumed.

Shows ``ctx.progress`` and cancellation in both kinds of handlers (a ``def`` looks at
``ctx.cancelled``, an ``async def`` is stopped at its next ``await``), and jobs as resources: what
was done when the client gave up is still there, and the next call goes on from it.

    mcpkit run examples/long_job.py
"""

import hashlib
import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio.to_thread
from typing_extensions import TypedDict

from mcpkit import Context, MCPKit, ResourceNotFound, SyncContext, ToolError

app = MCPKit(
    "duplicates", version="1.0", instructions="To resume a scan that was stopped, start it again."
)

CHUNK = 1 << 20

State = Literal["running", "stopped", "done"]


class Report(TypedDict):
    """How far a scan is, and the groups of equal files that it has found."""

    uri: str
    directory: str
    state: State
    files: int
    hashed: int
    duplicates: list[list[str]]


@dataclass
class Job:
    """A scan. What is hashed stays, so that it can go on later."""

    number: int
    directory: Path
    waiting: list[Path]
    files: int
    digests: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    state: State = "stopped"

    @property
    def uri(self) -> str:
        """Where the job can be read."""
        return f"duplicates://jobs/{self.number}"

    @property
    def done(self) -> int:
        """How many files are dealt with."""
        return self.files - len(self.waiting)

    def note(self, digest: str | None) -> None:
        """The last of the waiting files is done; one that could not be read (None) has no equal."""
        path = self.waiting.pop()
        if digest is not None:
            self.digests[digest].append(path.relative_to(self.directory).as_posix())

    def report(self) -> Report:
        """The job as a client sees it."""
        return Report(
            uri=self.uri,
            directory=str(self.directory),
            state=self.state,
            files=self.files,
            hashed=self.done,
            duplicates=sorted(
                sorted(each) for each in list(self.digests.values()) if len(each) > 1
            ),
        )


jobs: dict[int, Job] = {}
numbers = itertools.count(1)
lock = threading.Lock()


def digest(path: Path) -> str | None:
    """The SHA-256 of a file's bytes; None if it cannot be read."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
    except OSError:
        return None
    return found.hexdigest()


def open_job(directory: str) -> Job:
    """The job for a directory: the last one, if it is not done, or a new one. May take long.

    Raises:
        ToolError: There is no such directory.
    """
    folder = Path(directory).expanduser().resolve()
    if not folder.is_dir():
        raise ToolError(f"{directory} is no directory; pass the absolute path of one.")
    with lock:
        job = next((each for each in reversed(jobs.values()) if each.directory == folder), None)
        if job is None or job.state == "done":
            found = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
            waiting = sorted((each for each in found if each.is_file()), reverse=True)
            number = next(numbers)
            job = jobs[number] = Job(number, folder, waiting, len(waiting))
        return job


@contextmanager
def running(job: Job) -> Generator[None, None, None]:
    """Whatever happens inside, the job is stopped or done afterwards.

    Raises:
        ToolError: It runs already.
    """
    with lock:
        if job.state == "running":
            raise ToolError(f"{job.directory} is being scanned; read {job.uri} to see how far.")
        job.state = "running"
    try:
        yield
    finally:  # also when an async handler is stopped in the middle
        job.state = "stopped" if job.waiting else "done"
        app.changed(job.uri)


@app.tool(read_only=True)
def scan(directory: str, ctx: SyncContext) -> Report:
    """Find files with the same content. Continues a scan of the directory that was stopped.

    Args:
        directory: Its absolute path.
    """
    job = open_job(directory)
    with running(job):
        ctx.info(f"{job.uri}: {job.done} of {job.files} files were hashed before")
        while job.waiting:
            if ctx.cancelled:  # a thread cannot be stopped from outside
                raise ToolError(f"Stopped; {job.uri} has what was found.")
            job.note(digest(job.waiting[-1]))
            ctx.progress(job.done, job.files, f"{job.done} of {job.files} files")
    return job.report()


@app.tool(read_only=True)
async def scan_async(directory: str, ctx: Context) -> Report:
    """The same as scan, for programs that are written with async and await.

    Args:
        directory: Its absolute path.
    """
    job = await anyio.to_thread.run_sync(open_job, directory)
    with running(job):
        ctx.info(f"{job.uri}: {job.done} of {job.files} files were hashed before")
        while job.waiting:
            # Stopped here: the thread may still read, but what it finds is not noted.
            job.note(await anyio.to_thread.run_sync(digest, job.waiting[-1]))
            await ctx.progress(job.done, job.files, f"{job.done} of {job.files} files")
    return job.report()


@app.resource("duplicates://jobs")
def all_jobs() -> list[Report]:
    """All scans since the server was started, the latest one last."""
    return [job.report() for job in list(jobs.values())]


@app.resource("duplicates://jobs/{number}")
def one_job(number: int) -> Report:
    """A scan: how far it is, and what it has found so far."""
    job = jobs.get(number)
    if job is None:
        raise ResourceNotFound()
    return job.report()


if __name__ == "__main__":
    app.run()
