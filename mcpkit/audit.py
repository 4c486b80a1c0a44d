"""The audit log: a record of every operation, and of every message that is refused."""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from io import FileIO
from typing import Any, Final

from pydantic_core import to_json

from mcpkit._server.operations import Observer, Operation, session_name
from mcpkit._utils.json import DEFINITIONS, References, every_schema, is_object, well_formed
from mcpkit._utils.logs import get_logger, log
from mcpkit.errors import ProtocolError

LOGGER: Final = get_logger("mcpkit.audit")

_PAUSE_S: Final = 0.05
_CLOSE_S: Final = 5.0
"""Seconds in which a file has to take what is left, when the process ends."""

_MAX_WAITING: Final = 10_000
"""Records that wait for a file, as while its disk hangs; further ones are counted."""

_MAX_TEXT: Final = 1000
"""Characters of a text that a client sends."""

_MAX_ARGUMENTS: Final = 10_000
"""Characters of all arguments of a call."""

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
        exception, principal = operation.exception or operation.error, request.principal
        info = request.client.info or {}
        client = " ".join(str(info[each]) for each in ("name", "version") if info.get(each))
        members = {
            "event": "operation",
            "principal": None if principal is None else principal.id,
            "client": _shortened(client),
            "session": session_name(request.origin and request.origin.http),
            "revision": request.revision.version,
            "transport": "stdio" if request.origin is None else "http",
            "method": request.method,
            "name": _shortened(operation.name),
            "outcome": operation.outcome,
            "error": None if exception is None else type(exception).__name__,
            "code": None if operation.error is None else operation.error.code,
            "duration": round(operation.duration, 6),
            "received": operation.received or None,
            "sent": operation.sent,
            "trace_id": request.trace_id,
            "arguments": shown_arguments(operation) if self._arguments else None,
        }
        _write(level, members)

    def rejected(self, error: ProtocolError, status: int | None, source: Any) -> None:
        """Log a message that is not served."""
        members = {
            "event": "rejection",
            "principal": None
            if source is None or source.principal is None
            else source.principal.id,
            "address": None if source is None or not source.client else source.client[0],
            "session": session_name(source),
            "transport": "stdio" if source is None else "http",
            "status": status,
            "error": type(error).__name__,
            "code": error.code,
            "reason": _shortened(error.message),
        }
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
    properties, references = schema.get("properties", {}), References(schema)
    rest = {key: each for key, each in schema.items() if key not in ("properties", *DEFINITIONS)}
    all_hidden = _has_secret(rest, references)  # ``allOf`` may speak of any argument
    shown: dict[str, Any] = {}
    size = 0
    for count, (name, value) in enumerate(given.items()):
        if size > _MAX_ARGUMENTS:
            shown["…"] = f"{len(given) - count} more"
            break
        hidden = all_hidden or _has_secret(properties.get(name), references)
        text = value if isinstance(value, str) else to_json(value).decode()
        if hidden:
            text = value = "[secret]"
        said = _shortened(name)
        shown[said] = _shortened(text) if len(text) > _MAX_TEXT else value
        size += len(said) + min(len(text), _MAX_TEXT)
    return shown


def _has_secret(schema: Any, references: References) -> bool:
    """Return True if a value of a schema may hold a secret, also if nothing is known of it."""
    waiting, seen = [schema], set[int]()
    while waiting:
        found = waiting.pop()
        if found is True or found is False:
            continue
        if not is_object(found):
            return True
        for part in every_schema(found):
            if part.get("writeOnly") is True or part.get("format") == "password":
                return True
            reference = part.get("$ref")
            if reference is not None:
                target = references.resolve(reference) if isinstance(reference, str) else None
                if id(target) not in seen:
                    seen.add(id(target))
                    waiting.append(target)
    return False


def _write(level: int, members: Mapping[str, Any]) -> None:
    shown = {key: each for key, each in members.items() if each is not None}
    LOGGER.handle(_Record(level, shown))


class _Record(logging.LogRecord):
    """A record of the audit log; made without a look at the caller, which is always this module."""

    _template = logging.LogRecord(LOGGER.name, logging.INFO, __file__, 0, "%s", None, None)

    def __init__(self, level: int, members: Mapping[str, Any]) -> None:
        vars(self).update(vars(self._template))
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.created = time.time()
        self.msecs = self.created % 1 * 1000
        self.args = (_Line(members),)
        self.audit = members


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


class JsonLinesHandler(logging.Handler):
    """Writes the records of the audit log into a file, a line of JSON each, in a thread of its own.

    Add it to the logger ``mcpkit.audit``. While the disk hangs, 10,000 records wait, the others are
    counted in a record ``{"event": "lost"}``, and the process can still end.

    Args:
        path: The file, which is appended to.
        max_bytes: The size at which the file is renamed to ``path.1`` and a new one begun; 0:
            never.
        backups: The number of renamed files that are kept.
    """

    def __init__(self, path: str, *, max_bytes: int = 10_000_000, backups: int = 5) -> None:
        super().__init__()
        self._path, self._max_bytes, self._backups = path, max_bytes, backups
        self._file = self._open("ab")
        self._size = self._file.tell()
        self._records = queue.SimpleQueue[tuple[float, Mapping[str, Any]] | None]()
        self._lost = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="mcpkit audit", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record: its attribute ``audit``, and nothing else."""
        if self._records.qsize() >= _MAX_WAITING:
            self._lost += 1
            if self._lost == 1:
                log.error("%s does not take the audit log; records are lost", self._path)
            return
        members = getattr(record, "audit", None) or {"message": record.getMessage()}
        self._tell_lost(record.created)
        self._records.put((record.created, members))

    def _tell_lost(self, at: float) -> None:
        if self._lost:
            self._records.put((at, {"event": "lost", "records": self._lost}))
            self._lost = 0

    def close(self) -> None:
        """Write what is left, for at most five seconds, and close the file."""
        if not self._is_closed:
            self._is_closed = True
            self._tell_lost(time.time())
            self._records.put(None)
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                log.error("%s does not take the end of the audit log", self._path)
        super().close()

    def _work(self) -> None:
        is_open = True
        while is_open:
            records = [self._records.get()]
            if records[0] is not None:
                # Waking this thread for each record would take longer than to write it.
                time.sleep(_PAUSE_S)
            while not self._records.empty():
                records.append(self._records.get())
            is_open = records[-1] is not None
            for record in records:
                try:
                    if record is None:
                        self._file.close()
                    else:
                        self._write(_line_of(*record))
                except Exception:
                    self.handleError(_Record(logging.ERROR, {"event": "write"}))

    def _open(self, mode: str) -> FileIO:
        # Without a buffer, whose lock an interpreter that ends would wait for.
        return FileIO(self._path, mode)

    def _write(self, line: bytes) -> None:
        self._size += len(line)
        while line:
            line = line[self._file.write(line) :]
        if self._size >= self._max_bytes > 0:
            self._size = 0
            self._rotate()

    def _rotate(self) -> None:
        self._file.close()
        try:
            for number in range(self._backups - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            if self._backups:
                os.replace(self._path, f"{self._path}.1")
        finally:  # a file that cannot be renamed is written on
            self._file = self._open("ab" if self._backups else "wb")


def _line_of(created: float, members: Mapping[str, Any]) -> bytes:
    at = f"{_second(int(created))}.{int(created % 1 * 1000):03}+00:00"
    # In ASCII, as `_Line`.
    line = json.dumps({"time": at, **members}, default=str, separators=(",", ":"))
    if r"\ud" in line:  # a surrogate, and maybe a lone one
        line = json.dumps(well_formed(json.loads(line)), separators=(",", ":"))
    return line.encode() + b"\n"


@lru_cache(maxsize=1)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
