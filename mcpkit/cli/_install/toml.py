"""TOML, edited as text: everything else is unchanged."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcpkit._utils.json import is_array, is_object

if TYPE_CHECKING:
    import tomlkit


class Toml:
    """A TOML file. Reading one needs tomlkit."""

    def load(self, text: str) -> dict[str, Any]:
        """Return the content of a file; empty if it is blank."""
        return self._parse(text).unwrap()

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value at a path of keys, which are added as needed."""
        document = self._parse(text)
        if len(path) == 2 and path[-1] not in self.load(text).get(path[0], {}):
            newline = "\r\n" if "\r\n" in text else "\n"
            gap = newline if not text or text.endswith("\n") else newline * 2
            added = self.snippet(path, value).replace("\n", newline) + newline
            added = text + gap + added if text.strip() else added
            with suppress(ValueError):
                self._parse(added)
                return added
        with _as_value_error():
            table: Any = document
            for key in path[:-1]:
                table = table.setdefault(key, {})
            inline = self._parse(f"value = {_written(value)}")
            table[path[-1]] = inline["value"]
            return document.as_string()

    def drop(self, text: str, path: list[str]) -> str:
        """Return the text without a key."""
        document = self._parse(text)
        with _as_value_error():
            table: Any = document
            for key in path[:-1]:
                table = table[key]
            del table[path[-1]]
            return document.as_string()

    def snippet(self, path: list[str], value: Any) -> str:
        """Return a table at a path of keys, as a document."""
        lines = [f"{key} = {_written(item)}" for key, item in value.items()]
        return "\n".join([f"[{'.'.join(path)}]", *lines])

    def _parse(self, text: str) -> tomlkit.TOMLDocument:
        try:
            import tomlkit
            from tomlkit.exceptions import TOMLKitError
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "its configuration is TOML, and reading that needs tomlkit: pip install tomlkit"
            ) from error
        try:
            return tomlkit.parse(text)
        except TOMLKitError as error:
            raise ValueError(str(error)) from None


@contextmanager
def _as_value_error() -> Generator[None, None, None]:
    """Turn any exception into ValueError, because tomlkit fails on scattered tables."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _written(value: Any) -> str:
    """Write a string, or a list or table of such, as TOML."""
    if is_object(value):
        inside = ", ".join(f"{_quoted(key)} = {_written(item)}" for key, item in value.items())
        return "{ " + inside + " }" if inside else "{}"
    if is_array(value):
        return "[" + ", ".join(map(_written, value)) + "]"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's too; TOML escapes DEL as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
