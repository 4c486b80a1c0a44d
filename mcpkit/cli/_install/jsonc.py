"""JSON, with or without comments, edited as text: everything else is unchanged, byte for byte."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass
class _Node:
    """A value and its place: ``text[start:end]``."""

    start: int
    end: int = 0
    value: Any = None
    members: list[_Member] = field(default_factory=list["_Member"])

    def member(self, key: str) -> _Member | None:
        """Return the last member of a name, because JSON parsers take that one."""
        return next((each for each in reversed(self.members) if each.key == key), None)


@dataclass
class _Member:
    """A key with its value, and the place of the comma after it, if there is one."""

    key: str
    start: int
    node: _Node
    comma: int | None = None

    @property
    def end(self) -> int:
        return self.node.end if self.comma is None else self.comma + 1


class Json:
    """A JSON file.

    Args:
        comments: True if the host accepts comments and trailing commas.
    """

    def __init__(self, *, comments: bool = False) -> None:
        self._comments = comments

    def load(self, text: str) -> dict[str, Any]:
        """Return the content of a file; empty if it is blank.

        Raises:
            ValueError: The text is not JSON, or not an object.
        """
        root = self._parse(text)
        return {} if root is None else root.value

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value at a path of keys, which are added as needed.

        Raises:
            ValueError: The text is invalid, or a value on the path is not an object.
        """
        node = self._parse(text)
        if node is None:
            return json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
        unit = _unit(text, node)
        for depth, key in enumerate(path):
            if not isinstance(node.value, dict):
                raise ValueError(f'"{path[depth - 1]}" is not an object')
            member = node.member(key)
            if member is None:
                return _insert(text, node, key, _nested(path[depth + 1 :], value), unit)
            if depth == len(path) - 1:
                return _replace(text, member, value, unit)
            node = member.node
        return text

    def drop(self, text: str, path: list[str]) -> str:
        """Return the text without a key.

        Raises:
            ValueError: The text is invalid.
        """
        node = self._parse(text)
        for key in path[:-1]:
            member = None if node is None else node.member(key)
            node = None if member is None else member.node
        member = None if node is None else node.member(path[-1])
        return text if node is None or member is None else _remove(text, node, member)

    def snippet(self, path: list[str], value: Any) -> str:
        """Return a value at a path of keys, as a document."""
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False)

    # --- reading ----------------------------------------------------------------------------------

    def _parse(self, text: str) -> _Node | None:
        at = self._skip(text, len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0)
        if at == len(text):
            return None
        try:
            root = self._value(text, at)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if self._skip(text, root.end) != len(text):
            raise _syntax_error(text, self._skip(text, root.end), "text after the end")
        if not isinstance(root.value, dict):
            raise ValueError("it is not an object")
        return root

    def _skip(self, text: str, at: int) -> int:
        while True:
            at = _end(_BLANK, text, at)
            if not text.startswith(("//", "/*"), at):
                return at
            if not self._comments:
                raise _syntax_error(text, at, "a comment, which this host does not accept")
            comment = _COMMENT.match(text, at)
            if comment is None:
                raise _syntax_error(text, at, "an unterminated comment")
            at = comment.end()

    def _value(self, text: str, at: int) -> _Node:
        if text.startswith("{", at):
            return self._object(text, at)
        if text.startswith("[", at):
            return self._array(text, at)
        token = _STRING.match(text, at) or _SCALAR.match(text, at)
        if token is None:
            raise _syntax_error(text, at, "expected a value")
        return _Node(at, token.end(), _decoded(text, token))

    def _object(self, text: str, at: int) -> _Node:
        node = _Node(at, value={})
        at = self._skip(text, at + 1)
        while not text.startswith("}", at):
            if node.members and node.members[-1].comma is None:
                raise _syntax_error(text, at, "expected a comma")
            name = _STRING.match(text, at)
            if name is None:
                raise _syntax_error(text, at, "expected a key in quotes")
            colon = self._skip(text, name.end())
            if not text.startswith(":", colon):
                raise _syntax_error(text, colon, "expected a colon")
            value = self._value(text, self._skip(text, colon + 1))
            member = _Member(_decoded(text, name), at, value)
            node.members.append(member)
            node.value[member.key] = value.value
            at, member.comma = self._after(text, value.end, "}")
        node.end = at + 1
        return node

    def _array(self, text: str, at: int) -> _Node:
        node = _Node(at, value=[])
        at, comma = self._skip(text, at + 1), None
        while not text.startswith("]", at):
            if node.value and comma is None:
                raise _syntax_error(text, at, "expected a comma")
            value = self._value(text, at)
            node.value.append(value.value)
            at, comma = self._after(text, value.end, "]")
        node.end = at + 1
        return node

    def _after(self, text: str, at: int, close: str) -> tuple[int, int | None]:
        """Return the place of the next token after a value and its comma, and of that comma."""
        at = self._skip(text, at)
        if not text.startswith(",", at):
            return at, None
        comma, at = at, self._skip(text, at + 1)
        if text.startswith(close, at) and not self._comments:
            raise _syntax_error(text, comma, "a trailing comma")
        return at, comma


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _decoded(text: str, token: re.Match[str]) -> Any:
    try:
        return json.loads(token[0])
    except ValueError:
        raise _syntax_error(text, token.start(), "an invalid escape") from None


def _syntax_error(text: str, at: int, what: str) -> ValueError:
    if at >= len(text):
        return ValueError("it ends too early")
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return ValueError(f"line {line}, column {column}: {what}")


def _nested(path: list[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


# --- writing --------------------------------------------------------------------------------------


def _margin(text: str, at: int) -> str:
    """Return the indentation of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip(_BYTE_ORDER_MARK)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def _unit(text: str, root: _Node) -> str:
    """Return the indentation of one level."""
    first = root.members[0] if root.members else None
    return (first and "\n" in text[: first.start] and _margin(text, first.start)) or "  "


def _rendered(text: str, value: Any, unit: str, margin: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + margin)


def _in_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _insert(text: str, node: _Node, key: str, value: Any, unit: str) -> str:
    last = node.members[-1] if node.members else None
    if last is not None and "\n" not in text[node.start : last.start]:
        member = f"{_in_line(key)}: {_in_line(value)}"
        new = f", {member}" if last.comma is None else f" {member},"
        return text[: last.end] + new + text[last.end :]
    outer = _margin(text, node.start)
    inner = outer + unit if last is None else _margin(text, last.start)
    member = f"{inner}{_in_line(key)}: {_rendered(text, value, unit, inner)}"
    # The comma goes before any comments after the last member.
    head = text[: node.end - 1].rstrip(" \t\r\n")
    if last is not None and last.comma is None:
        head = head[: last.end] + "," + head[last.end :]
    elif last is not None:
        member += ","
    newline = "\r\n" if "\r\n" in text else "\n"
    return head + newline + member + newline + outer + text[node.end - 1 :]


def _replace(text: str, member: _Member, value: Any, unit: str) -> str:
    node = member.node
    long = "\n" in text[node.start : node.end] or (
        not isinstance(node.value, (dict, list)) and _begins_line(text, member.start)
    )
    margin = _margin(text, member.start)
    new = _rendered(text, value, unit, margin) if long else _in_line(value)
    return text[: node.start] + new + text[node.end :]


def _remove(text: str, node: _Node, member: _Member) -> str:
    index = next(at for at, each in enumerate(node.members) if each is member)
    before = node.members[index - 1] if index else None
    after = node.members[index + 1] if index + 1 < len(node.members) else None
    rest = text[member.end :].split("\n", 1)[0]
    alone = _begins_line(text, member.start) and not _COMMENT.sub("", rest).strip()
    if alone:
        # With the comment on the same line, which belongs to this member.
        start = text.rfind("\n", 0, member.start) + 1
        end = min(member.end + len(rest) + 1, len(text))
    elif after is not None:
        start, end = member.start, after.start
    else:
        start, end = (before.end if before else member.start), member.end
    cut = text[:start] + text[end:]
    if after is None and before is not None and before.comma is not None and member.comma is None:
        cut = cut[: before.comma] + cut[before.comma + 1 :]
    if len(node.members) == 1 and not cut[node.start + 1 : node.end - 1 - (end - start)].strip():
        cut = cut[: node.start + 1] + cut[node.end - 1 - (end - start) :]
    return cut
