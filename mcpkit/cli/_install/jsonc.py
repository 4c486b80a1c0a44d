"""JSON, with or without comments, edited as text: everything else is unchanged, byte for byte."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*(?s:.*?)\*/)*")
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
    """A JSON file; comments and trailing commas are accepted.

    Each method raises ValueError if the text is not JSON, or not an object.
    """

    def load(self, text: str) -> dict[str, Any]:
        """Return the content of a file; empty if it is blank."""
        root = _parse(text)
        return {} if root is None else root.value

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value at a path of keys, which are added as needed."""
        node = _parse(text)
        if node is None:
            return self.snippet(path, value) + "\n"
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
        """Return the text without a key."""
        node, member = _parse(text), None
        for key in path:
            node = node if member is None else member.node
            member = None if node is None else node.member(key)
            if node is None or member is None:
                return text
        return text if node is None or member is None else _remove(text, node, member)

    def snippet(self, path: list[str], value: Any) -> str:
        """Return a value at a path of keys, as a document."""
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False)


def _nested(path: list[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


# --- reading --------------------------------------------------------------------------------------


def _parse(text: str) -> _Node | None:
    at = _skip(text, len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0)
    if at == len(text):
        return None
    try:
        root = _value(text, at)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    end = _skip(text, root.end)
    if end != len(text):
        raise _syntax_error(text, end, "text after the end")
    if not isinstance(root.value, dict):
        raise ValueError("it is not an object")
    return root


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int) -> _Node:
    if text.startswith(("{", "["), at):
        return _container(text, at)
    token = _STRING.match(text, at) or _SCALAR.match(text, at)
    if token is None:
        raise _syntax_error(text, at, "expected a value")
    return _Node(at, token.end(), _decoded(text, token))


def _container(text: str, at: int) -> _Node:
    node = _Node(at)
    is_object = text[at] == "{"
    at = _skip(text, at + 1)
    while not text.startswith("}" if is_object else "]", at):
        if node.members and node.members[-1].comma is None:
            raise _syntax_error(text, at, "expected a comma")
        start, key = at, ""
        if is_object:
            name = _STRING.match(text, at)
            if name is None:
                raise _syntax_error(text, at, "expected a key in quotes")
            key, colon = _decoded(text, name), _skip(text, name.end())
            if not text.startswith(":", colon):
                raise _syntax_error(text, colon, "expected a colon")
            at = _skip(text, colon + 1)
        member = _Member(key, start, _value(text, at))
        node.members.append(member)
        at = _skip(text, member.node.end)
        if text.startswith(",", at):
            member.comma, at = at, _skip(text, at + 1)
    node.end = at + 1
    values = [(each.key, each.node.value) for each in node.members]
    node.value = dict(values) if is_object else [value for _, value in values]
    return node


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


def _rendered(text: str, value: Any, unit: str | None = None, margin: str = "") -> str:
    """Return a value with an indentation, or in one line."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", _end(text) + margin)


def _end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _insert(text: str, node: _Node, key: str, value: Any, unit: str) -> str:
    last = node.members[-1] if node.members else None
    if last is not None and "\n" not in text[node.start : last.start]:
        member = f"{_rendered(text, key)}: {_rendered(text, value)}"
        new = f", {member}" if last.comma is None else f" {member},"
        return text[: last.end] + new + text[last.end :]
    outer = _margin(text, node.start)
    inner = outer + unit if last is None else _margin(text, last.start)
    member = f"{inner}{_rendered(text, key)}: {_rendered(text, value, unit, inner)}"
    # The comma goes before any comments after the last member.
    head = text[: node.end - 1].rstrip(" \t\r\n")
    if last is not None and last.comma is None:
        head = head[: last.end] + "," + head[last.end :]
    elif last is not None:
        member += ","
    newline = _end(text)
    return head + newline + member + newline + outer + text[node.end - 1 :]


def _replace(text: str, member: _Member, value: Any, unit: str) -> str:
    node = member.node
    long = "\n" in text[node.start : node.end] or (
        not isinstance(node.value, (dict, list)) and _begins_line(text, member.start)
    )
    margin = _margin(text, member.start)
    new = _rendered(text, value, unit, margin) if long else _rendered(text, value)
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
