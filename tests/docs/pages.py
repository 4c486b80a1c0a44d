"""The documentation as a program: files to write, commands to run, output to expect.

What a block is, its fence says:

- ``{ .python }`` shows a file of ``docs/code`` or ``examples``, whole or a section of it. That file
  then stands in the page's folder; with ``title="server.py"`` under this name.
- ``{ .sh .run }`` is run there as it is written; with ``.fails`` it has to fail, with ``.serve`` it
  goes on until the page ends.
- ``{ .text .output }`` is what the command before it prints; ``…`` stands for anything, on a line
  of its own for any lines.
  The README says the same as ``sh run``, which the page of a repository can show.
- ``{ .sh .shown }`` is not run: it needs a network, another machine, or somebody who looks.

A comment, ``<!-- server.py is docs/code/first.py -->``, puts a file there that is not shown.

``python -m tests.docs.pages docs/tutorial.md`` runs a page and writes the output it finds into it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.warm import put_mcpkit

__all__ = ["DOCS", "PAGES", "README", "ROOT", "Block", "Page", "blocks_of", "resolved"]

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(DOCS.rglob("*.md"))
README: Final = ROOT / "README.md"
_PATIENCE: Final = 60
"""Seconds that one command may take."""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_SNIPPET: Final = re.compile(r'^--8<-- "(?P<path>[^":]+)(?::(?P<section>\w+))?"$')
_PUT: Final = re.compile(r"^<!-- (?P<name>\S+) is (?P<path>\S+) -->$", re.MULTILINE)
_MARK: Final = re.compile(r"^.*--8<-- \[(?:start|end):\w+\].*\n?", re.MULTILINE)


@dataclass
class Block:
    """A fenced block of a page.

    Args:
        language: Such as ``sh``; empty if it has none.
        classes: What else stands in its braces with a dot.
        title: The name above it.
        body: Without its indentation; snippets are not filled in.
        line: Where its fence is.
        span: Where its body is in the text of the page.
        indent: What every line of it begins with.
    """

    language: str
    classes: frozenset[str]
    title: str | None
    body: str
    line: int
    span: tuple[int, int]
    indent: str

    @property
    def sources(self) -> list[tuple[Path, str | None]]:
        """The files, and sections of them, that it shows."""
        found = (_SNIPPET.match(line) for line in self.body.splitlines())
        return [(ROOT / each["path"], each["section"]) for each in found if each is not None]

    @property
    def is_only_snippets(self) -> bool:
        """Whether nothing in it was written on the page."""
        return all(_SNIPPET.match(line) for line in self.body.splitlines() if line.strip())


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for found in _FENCE.finditer(text):
        info = found["info"].strip()
        title = re.search(r'title="([^"]*)"', info)
        if info.startswith("{"):
            language, *classes = re.findall(r"\.([\w-]+)", info.partition('"')[0]) or [""]
        else:
            language, *words = info.split() or [""]
            classes = [word for word in words if "=" not in word]
        indent = found["indent"]
        body = "".join(line.removeprefix(indent) for line in found["body"].splitlines(True))
        yield Block(
            language,
            frozenset(classes),
            title and title[1],
            body,
            text.count("\n", 0, found.start()) + 1,
            found.span("body"),
            indent,
        )


def resolved(path: Path, section: str | None) -> str:
    """What a snippet shows."""
    text = path.read_text(encoding="utf-8")
    if section is None:
        return text
    marked = rf"^[^\n]*--8<-- \[start:{section}\][^\n]*\n(.*?)^[^\n]*--8<-- \[end:{section}\]"
    found = re.search(marked, text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{path.name} has no section {section}"
    return _MARK.sub("", found[1])


def without_marks(path: Path) -> str:
    """A file as it is read: without the lines that begin and end sections."""
    return _MARK.sub("", path.read_text(encoding="utf-8"))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


Served: TypeAlias = "tuple[subprocess.Popen[str], threading.Thread]"


@dataclass
class Page:
    """A page that is being followed, in a folder of its own.

    Args:
        path: Where it is.
        folder: Where its commands begin to run.
        cold: Whether ``mcpkit`` is what has been installed, rather than forked (`tests.warm`).
    """

    path: Path
    folder: Path
    cold: bool = True
    port: int = field(default_factory=free_port)
    outputs: list[tuple[Block, str]] = field(default_factory=list[tuple[Block, str]])
    _here: Path = field(init=False)
    _served: list[Served] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._here = self.folder

    def follow(self, check: Callable[[Block, str], None]) -> None:
        """Do what the page says; `check` is given each block of output, and what was printed."""
        printed: str | None = None
        try:
            text = self.path.read_text(encoding="utf-8")
            for put in _PUT.finditer(text):
                self._file(put["name"], without_marks(ROOT / put["path"]))
            for block in blocks_of(text):
                if block.sources:
                    self._write(block)
                elif block.title is not None and block.language in ("python", "toml", "json"):
                    self._file(block.title, self._ported(block.body))
                elif "run" in block.classes:
                    printed = self._run(block)
                elif "output" in block.classes:
                    assert printed is not None, f"{self._at(block)}: nothing was run before"
                    check(block, printed.replace(str(self.port), "8000"))
        finally:
            for process, _ in self._served:
                process.terminate()
            for process, reader in self._served:
                process.wait(20)
                reader.join(20)
                assert process.stdout is not None
                process.stdout.close()

    def _at(self, block: Block) -> str:
        return f"{self.path.relative_to(ROOT)}:{block.line}"

    def _ported(self, text: str) -> str:
        return text.replace("8000", str(self.port))

    def _file(self, name: str, text: str) -> None:
        target = self._here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self._ported(text), encoding="utf-8")

    def _write(self, block: Block) -> None:
        for path, _ in block.sources:
            title = block.title or ""
            self._file(title if Path(title).suffix else path.name, without_marks(path))

    def _run(self, block: Block) -> str:
        command = self._ported(block.body)
        if "serve" in block.classes:
            return self._serve(block, command)
        told = self.folder / ".pwd"
        script = f"set -eo pipefail\ntrap 'pwd > {told}' EXIT\n{command}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._here,
            env=environment(self.folder, cold=self.cold),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
            encoding="utf-8",
        )
        self._here = Path(told.read_text().strip())
        failed = done.returncode != 0
        assert failed == ("fails" in block.classes), (
            f"{self._at(block)} ended with {done.returncode}:\n{done.stdout}"
        )
        return done.stdout

    def _serve(self, block: Block, command: str) -> str:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._here,
            env=environment(self.folder, cold=self.cold),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        lines: list[str] = []
        listens = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if str(self.port) in line:
                    listens.set()
            listens.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self._served.append((process, reader))
        assert listens.wait(_PATIENCE), f"{self._at(block)} does not listen: {lines}"
        return "".join(lines)


def environment(folder: Path, *, cold: bool = True) -> dict[str, str]:
    """What the commands of a page find: this Python and mcpkit, and a home of their own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST", "MCPKIT", "PYTHON", "XDG_", "COV_"))
    }
    home = folder / ".home"
    programs = folder / ".programs"
    for each in (home, programs):
        each.mkdir(exist_ok=True)
    if not cold:
        put_mcpkit(programs)
    path = [str(programs), str(Path(sys.executable).parent), kept.get("PATH", "")]
    own = {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "TERM": "dumb",
        **({"PYTHONUTF8": "1"} if cold else {"LC_ALL": "C.UTF-8"}),
    }
    return {**kept, **own}


def pattern_of(expected: str) -> re.Pattern[str]:
    """What an output block allows."""
    parts: list[str] = []
    for line in expected.rstrip("\n").splitlines():
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append("[^\n]*".join(map(re.escape, line.rstrip().split("…"))) + "[ ]*\n")
    return re.compile("".join(parts))


@contextmanager
def followed(path: Path, folder: Path, *, cold: bool = True) -> Iterator[Page]:
    """A page in a folder, resolved so that what commands print names it as it is."""
    yield Page(path, folder.resolve(), cold)


def update(path: Path) -> None:
    """Run a page, and write what its commands print into it, where that has changed."""
    found: list[tuple[Block, str]] = []

    def collect(block: Block, printed: str) -> None:
        fits = pattern_of(block.body).fullmatch(printed.rstrip("\n") + "\n")
        if fits is None:
            found.append((block, printed))

    with tempfile.TemporaryDirectory() as folder, followed(path, Path(folder)) as page:
        page.follow(collect)
    text = path.read_text(encoding="utf-8")
    for block, printed in reversed(found):
        lines = (line.rstrip() for line in printed.rstrip("\n").splitlines())
        body = "".join(f"{block.indent}{line}".rstrip() + "\n" for line in lines)
        text = text[: block.span[0]] + body + text[block.span[1] :]
        print(f"{path.name}:{block.line} has changed")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        update(Path(each).resolve())
