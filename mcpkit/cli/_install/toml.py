"""TOML, edited as text: what is not meant stays as it is."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcpkit._utils.json import is_array, is_object

if TYPE_CHECKING:
    import tomlkit

__all__ = ["Toml"]


class Toml:
    """A TOML file. Reading one needs tomlkit."""

    def load(self, text: str) -> dict[str, Any]:
        """Return the content of a file; empty if it is blank.

        Raises:
            ValueError: The text is no TOML.
        """
        return self._parse(text).unwrap()

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value under a path of keys, which are made if need be.

        Raises:
            ValueError: The text is broken, or what is on the way is no table.
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
        """Return the text without a key.

        Raises:
            ValueError: The text is broken.
        """
        document = self._parse(text)
        with _beyond():
            table: Any = document
            for key in path[:-1]:
                table = table[key]
            del table[path[-1]]
            return document.as_string()

    def snippet(self, path: list[str], value: Any) -> str:
        """Return the text that somebody would have to add by hand."""
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
    """Turn any exception of tomlkit into ValueError, as scattered tables are too much for it."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _inline(value: Any) -> Any:
    """Return a value that tomlkit writes in one line."""
    import tomlkit

    return tomlkit.parse(f"value = {_written(value)}")["value"]


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
