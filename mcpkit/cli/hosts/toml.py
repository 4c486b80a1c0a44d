"""TOML, edited as text: what is not meant stays as it is."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcpkit.types import is_array, is_object

if TYPE_CHECKING:
    import tomlkit

__all__ = ["Toml"]


class Toml:
    """A TOML file. Reading one needs tomlkit."""

    def load(self, text: str) -> dict[str, Any]:
        """What is in a file; nothing if it is blank.

        Raises:
            ValueError: It is no TOML.
        """
        return self._parse(text).unwrap()

    def put(self, text: str, path: list[str], value: Any) -> str:
        """The text with a value under a path of keys, which are made if need be.

        Raises:
            ValueError: It is broken, or what is on the way is no table.
        """
        document = self._parse(text)
        table: Any = document
        for at, key in enumerate(path[:-1]):
            table = table.get(key, {})
            if not is_object(table):
                raise ValueError(f'"{".".join(path[: at + 1])}" is no table')
        if len(path) == 2 and path[-1] not in table:
            added = self._appended(text, path, value)
            if self._is_toml(added):
                return added
        with _beyond():
            table = document
            for key in path[:-1]:
                table = table.setdefault(key, {})
            table[path[-1]] = _inline(value)
            return document.as_string()

    def drop(self, text: str, path: list[str]) -> str:
        """The text without a key.

        Raises:
            ValueError: It is broken.
        """
        document = self._parse(text)
        with _beyond():
            table: Any = document
            for key in path[:-1]:
                table = table[key]
            del table[path[-1]]
            return document.as_string()

    def snippet(self, path: list[str], value: Any) -> str:
        """What somebody would have to add by hand."""
        lines = [f"{key} = {_written(item)}" for key, item in value.items()]
        return "\n".join([f"[{'.'.join(path)}]", *lines])

    def _appended(self, text: str, path: list[str], value: Any) -> str:
        newline = "\r\n" if "\r\n" in text else "\n"
        between = newline if not text or text.endswith("\n") else newline * 2
        if not text.strip():
            text, between = "", ""
        return text + between + self.snippet(path, value).replace("\n", newline) + newline

    def _is_toml(self, text: str) -> bool:
        try:
            self._parse(text)
        except ValueError:
            return False
        return True

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
def _beyond() -> Generator[None, None, None]:
    """A table that is scattered over a file may be too much for tomlkit."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _inline(value: Any) -> Any:
    """A value as tomlkit writes it in one line."""
    import tomlkit

    return tomlkit.parse(f"value = {_written(value)}")["value"]


def _written(value: Any) -> str:
    """A string, or a list or table of such, as TOML."""
    if is_object(value):
        inside = ", ".join(f"{_quoted(key)} = {_written(item)}" for key, item in value.items())
        return "{ " + inside + " }" if inside else "{}"
    if is_array(value):
        return "[" + ", ".join(map(_written, value)) + "]"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    # What JSON escapes, it escapes as TOML does; DEL is TOML's own.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
