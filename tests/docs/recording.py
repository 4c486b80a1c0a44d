"""A call in a terminal, recorded as a picture that moves: ``python -m tests.docs.recording``.

The command runs under a pseudo-terminal and is answered as a person would. Each line that is ever
on its screen becomes a text of the picture, seen for as long as the line was. A picture that
does not move, because its viewer asks for that or cannot, shows the last screen.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.docs.pages import DOCS, ROOT, environment

PICTURE: Final = DOCS / "assets" / "call.svg"
SERVER: Final = DOCS / "code" / "rooms.py"
ARGUMENTS: Final = ["call", SERVER.name, "book", "city=Oslo", "nights=3"]
QUESTION: Final = "yes, no or cancel? "
ANSWER: Final = "yes"
_COLUMNS: Final = 64
_PATIENCE: Final = 60
"""Seconds that the command may take."""

# --- a terminal -----------------------------------------------------------------------------------

Run: TypeAlias = "tuple[str, str]"
"""A style, and text in it."""

Line: TypeAlias = "tuple[Run, ...]"
Screen: TypeAlias = "tuple[Line, ...]"

_CODE: Final = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")
_STYLES: Final = {"1": "bold", "2": "dim", "32": "green", "36": "cyan", "38;5;237": "dark"}


class Terminal:
    """What is on a screen, for the few codes that the command writes."""

    def __init__(self) -> None:
        self._rows: list[list[Run]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str) -> None:
        """Take what a program has written."""
        place = 0
        for code in _CODE.finditer(text):
            self._print(text[place : code.start()])
            self._obey(code[1], code[2])
            place = code.end()
        assert "\x1b" not in text[place:], f"a code that is not known: {text[place:]!r}"
        self._print(text[place:])

    @property
    def screen(self) -> Screen:
        """Every row, as runs of characters of one style."""
        return tuple(map(_runs, self._rows))

    def _print(self, text: str) -> None:
        for character in text:
            if character == "\r":
                self._column = 0
            elif character == "\n":
                self._row += 1
                if self._row == len(self._rows):
                    self._rows.append([])
            else:
                row = self._rows[self._row]
                row[self._column : self._column + 1] = [(self._style, character)]
                self._column += 1

    def _obey(self, numbers: str, letter: str) -> None:
        if letter == "m":
            styles = [] if numbers in ("", "0") else [*self._style.split(), *_known(numbers)]
            self._style = " ".join(styles)
        elif letter == "K":
            assert numbers == "2"
            self._rows[self._row] = []
        elif letter == "A":
            self._row -= int(numbers or 1)
        else:
            assert numbers == "?25", f"a code that is not known: {numbers}{letter}"


def _known(numbers: str) -> list[str]:
    if numbers in _STYLES:
        return [_STYLES[numbers]]
    return [_STYLES[each] for each in numbers.split(";") if each != "39"]


def _runs(row: list[Run]) -> Line:
    runs: list[Run] = []
    for style, character in row:
        if runs and runs[-1][0] == style:
            runs[-1] = (style, runs[-1][1] + character)
        else:
            runs.append((style, character))
    return tuple(runs)


# --- a recording ----------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A screen, and the seconds since the beginning at which it came."""

    at: float
    screen: Screen


def record() -> list[Frame]:
    """Run the command under a pseudo-terminal, and answer it."""
    import fcntl
    import pty
    import struct
    import termios

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / SERVER.name).write_bytes(SERVER.read_bytes())
        wanted = {**environment(folder), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        del wanted["NO_COLOR"], wanted["COLUMNS"]
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(folder)
            command = [sys.executable, "-m", "mcpkit", *ARGUMENTS]
            os.execve(sys.executable, command, wanted)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 20, _COLUMNS, 0, 0))
        try:
            frames = list(_frames(terminal))
        finally:
            os.close(terminal)
            status = os.waitpid(process, 0)[1]
    assert status == 0, status
    return frames


def _frames(terminal: int) -> Iterator[Frame]:
    began = time.monotonic()
    seen = Terminal()
    to_type = ANSWER + "\r"
    for text in _texts(terminal):
        seen.write(text)
        yield Frame(time.monotonic() - began, seen.screen)
        if to_type and QUESTION in _plain(seen.screen[-1]):
            time.sleep(0.8 if len(to_type) > len(ANSWER) else 0.15)
            os.write(terminal, to_type[0].encode())
            to_type = to_type[1:]


def _texts(terminal: int) -> Iterator[str]:
    """Yield what is written to a terminal, never a part of a character or of a code."""
    import select

    left = b""
    while True:
        assert select.select([terminal], [], [], _PATIENCE)[0], "the command does not end"
        try:
            read = os.read(terminal, 65536)
        except OSError:  # what Linux says at the end
            read = b""
        if not read:
            yield left.decode()
            return
        left += read
        if select.select([terminal], [], [], 0.02)[0]:
            continue  # the rest of what is written at once
        whole = re.match(rb"(?s)(.*?)(\x1b(?:\[[?0-9;]*)?)?\Z", left)
        assert whole is not None
        try:
            text = whole[1].decode()
        except UnicodeDecodeError:
            continue
        left = whole[2] or b""
        yield text


def _plain(line: Line) -> str:
    return "".join(text for _, text in line)


# --- a picture ------------------------------------------------------------------------------------


@dataclass
class Shown:
    """A line of text in a row, and when it is there."""

    row: int
    line: Line
    times: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


def picture_of(frames: list[Frame]) -> str:
    """A recording as an SVG."""
    frames = _with_prompt(frames)
    ends = [*(frame.at for frame in frames[1:]), frames[-1].at + 4]
    length = ends[-1]
    shown: dict[tuple[int, Line], Shown] = {}
    for frame, end in zip(frames, ends, strict=True):
        for row, line in enumerate(frame.screen):
            if _plain(line).strip():
                times = shown.setdefault((row, line), Shown(row, line)).times
                if times and times[-1][1] == frame.at:
                    times[-1] = (times[-1][0], end)
                else:
                    times.append((frame.at, end))
    rules: list[str] = []
    texts: list[str] = []
    for number, each in enumerate(shown.values()):
        stays = each.times[-1][1] == length
        if each.times != [(0, length)]:
            rules.append(_keyframes(f"k{number}", each.times, length))
        style = f"animation-name:k{number}" + ("" if stays else ";opacity:0")
        runs = "".join(
            f'<tspan class="{name}">{escape(text)}</tspan>' if name else escape(text)
            for name, text in each.line
        )
        y = _TOP + _HEIGHT * each.row
        texts.append(f'<text x="{_LEFT}" y="{y}" style="{style}">{runs}</text>')
    return _SVG.format(
        width=_LEFT * 2 + round(8.43 * _COLUMNS),
        height=_TOP + _HEIGHT * max(len(frame.screen) for frame in frames),
        length=f"{length:.2f}",
        rules="\n".join(rules),
        texts="\n".join(texts),
    )


_LEFT, _TOP, _HEIGHT = 18, 52, 21

_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-label="mcpkit call in a terminal">
<style>
text {{ font: 14px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; \
fill: #dce6ea; white-space: pre; animation: {length}s step-end infinite }}
.bold {{ font-weight: 700 }}
.dim {{ fill: #93a5ad }}
.cyan {{ fill: #6cd3dd }}
.green {{ fill: #8fd694 }}
.dark {{ fill: #4a5f69 }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}
{rules}
</style>
<rect width="100%" height="100%" rx="8" fill="#14232b"/>
<g fill="#3c5560"><circle cx="20" cy="18" r="5"/><circle cx="38" cy="18" r="5"/>\
<circle cx="56" cy="18" r="5"/></g>
{texts}
</svg>
"""


def _with_prompt(frames: list[Frame]) -> list[Frame]:
    """A recording that begins in a shell, where somebody types the command."""
    typed = f"mcpkit {' '.join(ARGUMENTS)}"
    prompt: Line = (("dim", "$ "),)
    made = [Frame(0, (prompt,))]
    for size in [*range(2, len(typed), 2), len(typed)]:
        made.append(Frame(0.5 + size * 0.04, ((*prompt, ("", typed[:size])),)))
    command = made[-1].screen[0]
    # What the command says first, it says at once: how long Python takes is another matter.
    late = made[-1].at + 0.3 - frames[0].at
    made += [Frame(frame.at + late, (command, *frame.screen)) for frame in frames]
    return _thinned(made)


def _thinned(frames: list[Frame]) -> list[Frame]:
    """Without those that nobody could see."""
    kept: list[Frame] = []
    for frame in frames:
        if kept and frame.at - kept[-1].at < 0.05:
            kept[-1] = Frame(kept[-1].at, frame.screen)
        else:
            kept.append(frame)
    return kept


def _keyframes(name: str, times: list[tuple[float, float]], length: float) -> str:
    steps = {0.0: 0}
    for begin, end in times:
        steps[round(100 * begin / length, 2)] = 1
        if end < length:
            steps[round(100 * end / length, 2)] = 0
    written = "".join(f"{at:g}%{{opacity:{value}}}" for at, value in sorted(steps.items()))
    return f"@keyframes {name}{{{written}}}"


# --- what is compared -----------------------------------------------------------------------------

_SPINNER: Final = re.compile(r"[\u2800-\u28ff]")


def said(lines: list[str]) -> set[str]:
    """What lines say, whatever the time: no spinner, no seconds."""
    return {re.sub(r" \d+ s ", " ", _SPINNER.sub(" ", line)).rstrip() for line in lines} - {""}


def lines_of(frames: list[Frame]) -> list[str]:
    """Every line that is seen in a recording."""
    return [_plain(line) for frame in _with_prompt(frames) for line in frame.screen]


def lines_in(picture: Path) -> list[str]:
    """Every line that is seen in a picture."""
    tree = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    texts = tree.iter("{http://www.w3.org/2000/svg}text")
    return ["".join(each.itertext()) for each in texts]


if __name__ == "__main__":
    PICTURE.write_text(picture_of(record()), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} has {PICTURE.stat().st_size:,} bytes")
