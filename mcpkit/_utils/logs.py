"""Loggers that are safe with foreign text: no forged lines, no control characters, limited length.

Tracebacks show the code of authors: frames of this package are folded into one line, unless the
level of the logger is DEBUG.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Final

from mcpkit._utils.text import escape_control, single_line

_MAX_ARGUMENT: Final = 200
"""Characters of one argument of a message."""

_MAX_TRACEBACK: Final = 20_000
"""Characters of a traceback, including the text of the exception."""


def get_logger(name: str) -> logging.Logger:
    """Return a logger whose arguments and tracebacks are safe in every handler."""
    logger = logging.getLogger(name)
    logger.addFilter(_make_harmless)
    return logger


LEVELS: Final = ("debug", "info", "warning", "error", "critical")
"""The log levels by their names on the command line."""


def log_to_stderr(level: str | None = None, *, debug: bool = False) -> None:
    """Show log records on stderr, unless logging has been configured already.

    An existing configuration is kept; only the level of mcpkit's own loggers changes.

    Args:
        level: The minimum level, one of `LEVELS`. None means ``"warning"``, or with `debug`
            ``"info"`` for others and everything for mcpkit's own loggers.
        debug: True to show the records of mcpkit at the level DEBUG.
    """
    if level is not None or debug:
        own = level or "debug"
        logging.getLogger("mcpkit").setLevel(own.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    shown = level or ("info" if debug else "warning")
    logging.basicConfig(handlers=[handler], level=shown.upper())


class _Formatter(logging.Formatter):
    """Indents all lines of a record except the first."""

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
            # Formatters use this text instead of formatting the exception again.
            record.exc_text = harmless
    return True


def _harmless(argument: object) -> object:
    if isinstance(argument, (str, BaseException)):
        return single_line(argument, _MAX_ARGUMENT)
    return argument


_FRAME: Final = re.compile(r'([ |+]*)  File "([^"]+)", line ')
_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _folded(traceback: str) -> str:
    """Return a traceback with consecutive frames of this package folded into one line.

    The frame that raised the exception is kept.
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
    """Yield the lines of each frame of a traceback, and True if it belongs to this package.

    Lines between frames are yielded one by one.
    """
    frame: list[str] = []
    ours = False
    belongs = ("", "")
    for line in traceback.split("\n"):
        found = _FRAME.match(line)
        # The line of code, the marks below it, and the number of repetitions.
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
    if len(text) <= _MAX_TRACEBACK:
        return text
    half = _MAX_TRACEBACK // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"


log: Final = get_logger("mcpkit")
