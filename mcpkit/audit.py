"""The audit log: a record of every operation, and of every message that is refused."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from pydantic_core import to_json

from mcpkit._protocol.wire import some
from mcpkit._server.operations import Observer, Operation, session_name
from mcpkit._utils.json import every_schema, is_object
from mcpkit._utils.logs import get_logger
from mcpkit.errors import ProtocolError

LOGGER: Final = get_logger("mcpkit.audit")

_PAUSE_S: Final = 0.05
_MAX_TEXT: Final = 1000
"""Characters of a text that a client sends."""

_QUIET: Final = frozenset({"ok", "input_required", "task", "cancelled"})
"""The outcomes that are logged as information, not as warnings."""


class Audit(Observer):
    """Writes the audit log: ``MCPKit("shop", audit=Audit(arguments=True))``.

    The logger ``mcpkit.audit`` gets a record of each operation at the level INFO, and of those that
    fail or are refused at WARNING. Its message is one line of JSON, and its attribute ``audit`` the
    same as a dict; the guide lists the members.

    Args:
        arguments: True to log the arguments of tools and prompts, except those whose type has a
            ``SecretStr`` or ``SecretBytes`` of pydantic in it.
    """

    def __init__(self, *, arguments: bool = False) -> None:
        self._arguments = arguments

    def ended(self, operation: Operation) -> None:
        """Log an operation."""
        level = logging.INFO if operation.outcome in _QUIET else logging.WARNING
        if not LOGGER.isEnabledFor(level):
            return
        request = operation.request
        exception = operation.exception or operation.error
        info = request.client.info or {}
        members = some(
            event="operation",
            principal=None if request.principal is None else request.principal.id,
            client=" ".join(str(each) for each in (info.get("name"), info.get("version")) if each),
            session=session_name(request.origin and request.origin.http),
            revision=request.revision.version,
            transport="stdio" if request.origin is None else "http",
            method=request.method,
            name=operation.name,
            outcome=operation.outcome,
            error=None if exception is None else type(exception).__name__,
            code=None if operation.error is None else operation.error.code,
            duration=round(operation.duration, 6),
            received=operation.received or None,
            sent=operation.sent,
            trace_id=request.trace_id,
            arguments=shown_arguments(operation) if self._arguments else None,
        )
        _write(level, members)

    def rejected(self, error: ProtocolError, status: int | None, source: Any) -> None:
        """Log a message that is not served."""
        members = some(
            event="rejection",
            principal=None if source is None or source.principal is None else source.principal.id,
            address=None if source is None or not source.client else source.client[0],
            session=session_name(source),
            transport="stdio" if source is None else "http",
            status=status,
            error=type(error).__name__,
            code=error.code,
            reason=error.message,
        )
        _write(logging.WARNING, members)


def shown_arguments(operation: Operation) -> Mapping[str, Any] | None:
    """Return the arguments of a call, without secrets."""
    given = operation.request.params.get("arguments")
    if not is_object(given):
        return None
    entry = operation.entry
    if entry is None:  # and nothing is known of its arguments
        return None
    schema = getattr(entry, "input_schema", None) or entry.accepts.schema()
    definitions = any(_is_secret(each) for each in every_schema(schema.get("$defs", {})))
    shown: dict[str, Any] = {}
    for name, value in given.items():
        parts = [*every_schema(schema.get("properties", {}).get(name, {"writeOnly": True}))]
        hidden = any(_is_secret(each) or (definitions and "$ref" in each) for each in parts)
        text = value if isinstance(value, str) else to_json(value).decode()
        is_long = len(text) > _MAX_TEXT
        shown[name] = "[secret]" if hidden else _shortened(text) if is_long else value
    return shown


def _is_secret(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _write(level: int, members: Mapping[str, Any]) -> None:
    shown = {key: _shortened(each) for key, each in members.items()}
    extra = {"audit": shown}
    # Without the search for the caller, which is always this module.
    record = LOGGER.makeRecord(
        LOGGER.name, level, __file__, 0, "%s", (_Line(shown),), None, extra=extra
    )
    LOGGER.handle(record)


class _Line:
    """A record as a line, which is only made if a handler writes it."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members

    def __str__(self) -> str:
        # JSON in ASCII escapes what would begin another line, or mean something to a terminal.
        return json.dumps(self._members, default=str)


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return value[:_MAX_TEXT] + "…"
    return value


class JsonLinesHandler(logging.handlers.QueueHandler):
    """Writes the records of the audit log into a file, a line of JSON each, in a thread of its own.

    Add it to the logger ``mcpkit.audit``.

    Args:
        path: The file, which is appended to.
        max_bytes: The size at which the file is renamed to ``path.1`` and a new one begun; 0:
            never.
        backups: The number of renamed files that are kept.
    """

    def __init__(self, path: str, *, max_bytes: int = 10_000_000, backups: int = 5) -> None:
        super().__init__(queue.SimpleQueue())
        file = _File(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8", delay=True)
        file.setFormatter(_JsonLines())
        self._listener = _Listener(self.queue, file)
        self._file = file
        self._listener.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record as it is: its attribute ``audit`` is written, and nothing else."""
        return record

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._listener._thread is not None:
            self._listener.stop()
        self._file.close()
        super().close()


class _Listener(logging.handlers.QueueListener):
    def dequeue(self, block: bool) -> Any:
        queue: Any = self.queue
        if queue.empty():
            # Waking this thread for each record would take longer than to write it.
            time.sleep(_PAUSE_S)
        return super().dequeue(block)


class _File(logging.handlers.RotatingFileHandler):
    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802
        # The base class looks at the file system before each record.
        return self.stream is not None and self.stream.tell() >= self.maxBytes > 0


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        members = getattr(record, "audit", None) or {"message": record.getMessage()}
        return to_json({"time": at, **members}, fallback=str).decode()
