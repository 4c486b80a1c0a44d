"""Logs that repeat texts of others: these forge no line, steer no terminal and stay short."""

from __future__ import annotations

import logging
import sys
from typing import Final

from mcpkit.support.plain import one_line, visible

__all__ = ["LEVELS", "get_logger", "log_to_stderr"]

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
        return visible(super().format(record)).replace("\n", "\n    ")


def _make_harmless(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_harmless, record.args))
    if record.exc_info and record.exc_info[1] is not None:
        written = logging.Formatter().formatException(record.exc_info)
        harmless = visible(_shortened(written))
        if harmless != written:
            # Formatters take this one, rather than to write their own.
            record.exc_text = harmless
    return True


def _harmless(argument: object) -> object:
    if isinstance(argument, (str, BaseException)):
        return one_line(argument, _LONGEST_ARGUMENT)
    return argument


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_TRACEBACK:
        return text
    half = _LONGEST_TRACEBACK // 2
    return f"{text[:half]}… ({len(text)} characters) …{text[-half:]}"
