"""The documentation as a program: code to write, commands to run, output to expect.

What a block is, its fence says:

- ``python`` behind ``<!-- from docs/code/tools.py:first -->`` has the code of that file: its
  section ``first``, from ``# region first`` to ``# endregion first``, or all of it if none is
  named. The file then stands in the page's folder; with ``title="server.py"`` under this name.
- ``sh run`` is run there as it is written; with ``fails`` it has to fail, with ``serve`` it goes on
  until the page ends.
- ``text output`` is what the command before it prints; ``…`` stands for anything, on a line of its
  own for any lines.
- ``sh shown`` is not run: it needs a network, another machine, or a person who looks.

A comment, ``<!-- server.py is docs/code/first.py -->``, puts a file there that is not shown.

``python -m tests.docs.pages --code`` writes the code of its files into every page, and
``python -m tests.docs.pages docs/tutorial.md`` runs a page too and writes the output that it finds.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.warm import put_programs

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(each for each in DOCS.rglob("*.md") if "code" not in each.parts)
README: Final = ROOT / "README.md"
_PATIENCE: Final = 60
"""Seconds that one command may take."""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_FROM: Final = re.compile(r"<!-- from (?P<path>[^\s:]+)(?::(?P<section>\w+))? -->\n$")
_PUT: Final = re.compile(r"^<!-- (?P<name>\S+) is (?P<path>\S+) -->$", re.MULTILINE)
_MARK: Final = re.compile(r"^ *# (?:end)?region \w+\n", re.MULTILINE)
_WORDS: Final = {"sh": {"run", "fails", "serve", "shown"}, "text": {"output"}}
"""What may stand behind the language of a fence."""


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    words: frozenset[str]  # those behind the language
    title: str | None
    body: str  # without its indentation
    line: int  # of its fence
    span: tuple[int, int]  # of its body, in the text of the page
    indent: str
    source: tuple[Path, str | None] | None = None  # a file and its section

    @property
    def code(self) -> str:
        """What its file has for it."""
        assert self.source is not None
        return code_of(*self.source)


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for found in _FENCE.finditer(text):
        info = found["info"].strip()
        title = re.search(r'title="([^"]*)"', info)
        language, *words = info.partition(" title=")[0].split() or [""]
        line = text.count("\n", 0, found.start()) + 1
        assert _WORDS.get(language, set()) >= set(words), f"line {line}: {info}"
        indent = found["indent"]
        marked = _FROM.search(text, 0, found.start())
        yield Block(
            language,
            frozenset(words),
            title and title[1],
            "".join(line.removeprefix(indent) for line in found["body"].splitlines(True)),
            line,
            found.span("body"),
            indent,
            (ROOT / marked["path"], marked["section"]) if marked else None,
        )


def titled(page: str, title: str) -> str:
    """The block of a page that has a title."""
    blocks = blocks_of((DOCS / page).read_text(encoding="utf-8"))
    (found,) = [each.body for each in blocks if each.title == title]
    return found


def code_of(path: Path, section: str | None) -> str:
    """The code of a file, or of a section of it, as a page has it."""
    if section is None:
        return without_marks(path)
    text = path.read_text(encoding="utf-8")
    marked = rf"^ *# region {section}\n(.*?)^ *# endregion {section}$"
    found = re.search(marked, text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{path.name} has no section {section}"
    return textwrap.dedent(_MARK.sub("", found[1])).strip("\n") + "\n"


def without_marks(path: Path) -> str:
    """A file as it is read: without the lines that begin and end sections."""
    return _MARK.sub("", path.read_text(encoding="utf-8"))


def free_port() -> int:
    """A port that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def free_ports() -> dict[str, str]:
    """Ports that are not in use, by those that pages have."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return {"8000": str(listener.getsockname()[1]), "8001": str(free_port())}


def changed(text: str, words: Mapping[str, str]) -> str:
    """A text with other words instead of some."""
    return re.sub("|".join(words), lambda found: words[found[0]], text)


Served: TypeAlias = "tuple[subprocess.Popen[str], threading.Thread]"


@dataclass
class Page:
    """A page that is followed, in its own folder."""

    path: Path
    folder: Path  # where its commands begin to run
    cold: bool = True  # use the installed programs, not the forked ones of `tests.warm`
    ports: dict[str, str] = field(default_factory=free_ports)
    _served: list[Served] = field(default_factory=list)

    def follow(self, check: Callable[[Block, str], None]) -> None:
        """Do what the page says; `check` is given each block of output, and what was printed."""
        printed: str | None = None
        self._here = self.folder
        try:
            text = self.path.read_text(encoding="utf-8")
            for put in _PUT.finditer(text):
                self._file(put["name"], without_marks(ROOT / put["path"]))
            for block in blocks_of(text):
                if block.source is not None:
                    path, title = block.source[0], block.title or ""
                    self._file(title if Path(title).suffix else path.name, without_marks(path))
                elif block.title is not None and block.language in ("python", "toml", "json"):
                    self._file(block.title, block.body)
                elif "run" in block.words:
                    printed = self._run(block)
                elif "output" in block.words:
                    assert printed is not None, f"{self._at(block)}: nothing was run before"
                    shown = {free: port for port, free in self.ports.items()}
                    check(block, changed(printed, shown))
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

    def _file(self, name: str, text: str) -> None:
        target = self._here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(changed(text, self.ports), encoding="utf-8")

    def _run(self, block: Block) -> str:
        command = changed(block.body, self.ports)
        if "serve" in block.words:
            return self._serve(block, command)
        left_in = self.folder / ".pwd"
        script = f"set -eo pipefail\ntrap 'pwd > {left_in}' EXIT\n{command}"
        with self._started(script) as process:
            try:
                printed, _ = process.communicate(timeout=_PATIENCE)
            finally:
                process.kill()
        self._here = Path(left_in.read_text().strip())
        failed = process.returncode != 0
        assert failed == ("fails" in block.words), (
            f"{self._at(block)} ended with {process.returncode}:\n{printed}"
        )
        return printed

    def _started(self, script: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._here,
            env=environment(self.folder, cold=self.cold),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def _serve(self, block: Block, command: str) -> str:
        process = self._started(f"exec {command}")
        lines: list[str] = []
        listens = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if any(each in line for each in self.ports.values()):
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
        put_programs(programs)
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


def replaced(text: str, bodies: Iterable[tuple[Block, str]]) -> str:
    """The text of a page, with other bodies in some of its blocks."""
    for block, body in sorted(bodies, key=lambda each: each[0].line, reverse=True):
        lines = (f"{block.indent}{line}".rstrip() + "\n" for line in body.splitlines())
        text = text[: block.span[0]] + "".join(lines) + text[block.span[1] :]
    return text


def with_code(text: str) -> str:
    """The text of a page, with the code that its files have now."""
    return replaced(text, [(each, each.code) for each in blocks_of(text) if each.source])


def write_code(path: Path) -> None:
    """Write the code of its files into a page."""
    text = path.read_text(encoding="utf-8")
    new = with_code(text)
    if new != text:
        path.write_text(new, encoding="utf-8")
        print(f"{path.name} has changed")


def write_output(path: Path) -> None:
    """Run a page, and write what its commands print into it, where that has changed."""
    found: list[tuple[Block, str]] = []

    def collect(block: Block, printed: str) -> None:
        fits = pattern_of(block.body).fullmatch(printed.rstrip("\n") + "\n")
        if fits is None:
            found.append((block, printed.rstrip("\n")))
            print(f"{path.name}:{block.line} has changed")

    with tempfile.TemporaryDirectory() as folder:
        Page(path, Path(folder).resolve()).follow(collect)
    text = path.read_text(encoding="utf-8")
    path.write_text(replaced(text, found), encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Bring pages up to date."""
    only_code = "--code" in arguments
    named = [Path(each).resolve() for each in arguments if each != "--code"]
    for each in named or [README, *PAGES]:
        write_code(each)
        if not only_code:
            write_output(each)


if __name__ == "__main__":
    main(sys.argv[1:])
