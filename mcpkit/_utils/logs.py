"""Logs that repeat texts of others: these forge no line, steer no terminal and stay short.

Tracebacks are about the code of authors: the frames of this package are one line, unless the logger
is on the level of debugging.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Final

from mcpkit._utils.text import escape_control, single_line

_LONGEST_ARGUMENT: Final = 200
"""Characters of one argument of a message."""

_LONGEST_TRACEBACK: Final = 20_000
"""Characters of a traceback, of which the text of the exception is a part."""


def get_logger(name: str) -> logging.Logger:
    """Return a logger whose arguments and tracebacks are harmless for every handler there is."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_harmless)
    return logger


LEVELS: Final = ("debug", "info", "warning", "error", "critical")
"""The levels of Python's logging, by their names on a command line."""


def log_to_stderr(level: str | None = None, *, debug: bool = False) -> None:
    """Show log records on stderr, unless logging has been configured already.

    What has been configured stays as it is, but for what mcpkit itself has to say.

    Args:
        level: The least that is shown, one of `LEVELS`. None: ``"warning"``, and with `debug`
            ``"info"`` of others and all of mcpkit's own.
        debug: True to show what mcpkit does.
    """
    if level is not None or debug:
        own = level or "debug"
        logging.getLogger("mcpkit").setLevel(own.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    shown = level or ("info" if debug else "warning")
    logging.basicConfig(handlers=[handler], level=shown.upper())


class _Formatter(logging.Formatter):
    """Begins a line for a record only: all further lines of it are indented."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_control(super().format(record)).replace("\n", "\n    ")


def _make_harmless(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_harmless, record.args))
    if record.exc_info and record.exc_info[1] is not None:
        written = logging.Formatter().formatException(record.exc_info)
        debugging = logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        harmless = escape_control(_shortened(written if debugging else _folded(written)))
        if harmless != written:
            # Formatters take this one, rather than to write their own.
            record.exc_text = harmless
    return True


def _harmless(argument: object) -> object:
    if isinstance(argument, (str, BaseException)):
        return single_line(argument, _LONGEST_ARGUMENT)
    return argument


_FRAME: Final = re.compile(r'([ |+]*)  File "([^"]+)", line ')
_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _folded(traceback: str) -> str:
    """Return a traceback with one line for frames of this package that follow one another.

    If such a frame raised the exception, it stays: there is nothing else to go by.
    """
    made: list[str] = []
    ours: list[list[str]] = []
    margin = ""
    for frame, is_ours in _frames(traceback):
        if is_ours:
            ours.append(frame)
            margin = (_FRAME.match(frame[0]) or _NOWHERE)[1]
            continue
        if ours:
            raised = _FRAME.match(frame[0]) is None
            kept = ours.pop() if raised else []
            if ours:
                several = "s" if len(ours) > 1 else ""
                made.append(f"{margin}  … {len(ours)} frame{several} of mcpkit")
            made += kept
            ours = []
        made += frame
    return "\n".join(made + [line for frame in ours for line in frame])


_NOWHERE: Final = ("", "")


def _frames(traceback: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the lines of each frame of a traceback, and whether it is one of this package.

    Lines between frames are yielded one by one.
    """
    frame: list[str] = []
    ours = False
    belongs = ("", "")
    for line in traceback.split("\n"):
        found = _FRAME.match(line)
        # The line of code, what marks a part of it, and how often it has been repeated.
        if found is None and frame and line.startswith(belongs):
            frame.append(line)
            continue
        if frame:
            yield frame, ours
            frame = []
        if found is None:
            yield [line], False
            continue
        frame = [line]
        belongs = (f"{found[1]}    ", f"{found[1]}  [")
        ours = found[2].startswith(_OURS)
    if frame:
        yield frame, ours


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    half = _LONGEST_TRACEBACK // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"


log: Final = get_logger("mcpkit")
