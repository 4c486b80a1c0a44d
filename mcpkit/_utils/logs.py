"""Loggers that are safe with foreign text: no forged lines, no control characters, limited length.

Tracebacks show the code of authors: frames of this package are folded into one line, unless the
level of the logger is DEBUG.
"""

from __future__ import annotations

import logging
import os
import re
import sys
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
        is_text = (str, BaseException)
        record.args = tuple(
            [single_line(x, _MAX_ARGUMENT) if isinstance(x, is_text) else x for x in record.args]
        )
    if record.exc_info and record.exc_info[1] is not None:
        written = logging.Formatter().formatException(record.exc_info)
        debugging = logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        harmless = escape_control(_shortened(written if debugging else _folded(written)))
        if harmless != written:
            # Formatters use this text instead of formatting the exception again.
            record.exc_text = harmless
    return True


_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_FRAMES: Final = re.compile(
    # A frame of this package, with the line of code, the marks below it and the number of
    # repetitions, if another frame follows.
    rf'^(?:([ |+]*)  File "{re.escape(_OURS)}[^"\n]*", line .*\n'
    r'(?:\1(?:    |  \[).*\n)*(?=[ |+]*  File "))+',
    re.MULTILINE,
)


def _folded(traceback: str) -> str:
    """Fold consecutive frames of this package into one line, except the one that raised."""

    def summary(found: re.Match[str]) -> str:
        count = found[0].count(f'{found[1]}  File "{_OURS}')
        return f"{found[1]}  … {count} frame{'s' if count > 1 else ''} of mcpkit\n"

    return _FRAMES.sub(summary, traceback)


def _shortened(text: str) -> str:
    if len(text) <= _MAX_TRACEBACK:
        return text
    half = _MAX_TRACEBACK // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"


log: Final = get_logger("mcpkit")
