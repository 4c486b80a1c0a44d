"""JSON, with or without comments, edited as text: everything else is unchanged, byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from mcpkit._utils.json import is_array, is_object

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_COMMENT: Final = re.compile(f"{_STRING}|{_COMMENT.pattern}", re.DOTALL)
_STRING_OR_LAST_COMMA: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_BYTE_ORDER_MARK: Final = "\ufeff"


class _Member(NamedTuple):
    """A key with its value, and the position of the comma after it, if there is one."""

    start: int
    value: Any
    value_start: int
    value_end: int
    comma: int | None

    @property
    def end(self) -> int:
        return self.value_end if self.comma is None else self.comma + 1


class _Object(NamedTuple):
    """An object in a text: ``text[start:end]``."""

    start: int
    end: int
    members: dict[str, _Member]  # the last one of a name, as JSON parsers have it


class Json:
    """A JSON file; comments and trailing commas are accepted."""

    def load(self, text: str) -> dict[str, Any]:
        """Return the content of a file; empty if it is blank."""
        strict = _without_last_commas(_without_comments(text))
        if not strict.strip():
            return {}
        try:
            value: Any = json.loads(strict)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not is_object(value):
            raise ValueError("it is not an object")
        return value

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value at a path of keys, which are added as needed."""
        plain = _without_comments(text)
        if not plain.strip():
            return self.snippet(path, value) + "\n"
        self.load(text)
        found = _object_at(plain, _skip(plain, 0))
        unit = _unit(text, found)
        for depth, key in enumerate(path):
            member = found.members.get(key)
            if member is None:
                return _insert(text, found, key, _nested(path[depth + 1 :], value), unit)
            if depth == len(path) - 1:
                return _replace(text, member, value, unit)
            found = _object_at(plain, member.value_start)
        return text

    def drop(self, text: str, path: list[str]) -> str:
        """Return the text without a key, which it has."""
        plain = _without_comments(text)
        found = _object_at(plain, _skip(plain, 0))
        for key in path[:-1]:
            found = _object_at(plain, found.members[key].value_start)
        return _remove(text, found, found.members[path[-1]])

    def snippet(self, path: list[str], value: Any) -> str:
        """Return a value at a path of keys, as a document."""
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False)


def _nested(path: list[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


# --- reading --------------------------------------------------------------------------------------


def _blank(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else re.sub(r"[^\r\n]", " ", found)


def _without_comments(text: str) -> str:
    """Return a text with spaces in the place of comments and a byte order mark."""
    if text.startswith(_BYTE_ORDER_MARK):
        text = " " + text[1:]
    return _STRING_OR_COMMENT.sub(_blank, text)


def _without_last_commas(plain: str) -> str:
    return _STRING_OR_LAST_COMMA.sub(_blank, plain)


def _skip(plain: str, at: int) -> int:
    while plain[at : at + 1].isspace():
        at += 1
    return at


def _object_at(plain: str, start: int) -> _Object:
    """Return the object at a position of a valid document without comments."""
    strict, decode = _without_last_commas(plain), json.JSONDecoder().raw_decode
    members: dict[str, _Member] = {}
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, colon = decode(strict, at)
        value_start = _skip(plain, _skip(plain, colon) + 1)
        value, value_end = decode(strict, value_start)
        after = _skip(plain, value_end)
        comma = after if plain[after] == "," else None
        members.pop(key, None)
        members[key] = _Member(at, value, value_start, value_end, comma)
        at = after if comma is None else _skip(plain, comma + 1)
    return _Object(start, at + 1, members)


# --- writing --------------------------------------------------------------------------------------


def _margin(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip(_BYTE_ORDER_MARK)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t")


def _unit(text: str, root: _Object) -> str:
    first = next(iter(root.members.values()), None)
    return (first and "\n" in text[: first.start] and _margin(text, first.start)) or "  "


def _rendered(text: str, value: Any, unit: str | None = None, margin: str = "") -> str:
    """Return a value with an indentation, or in one line."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", _end(text) + margin)


def _end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _insert(text: str, node: _Object, key: str, value: Any, unit: str) -> str:
    last = next(reversed(node.members.values()), None)
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
    start, end = member.value_start, member.value_end
    is_inner = is_object(member.value) or is_array(member.value)
    is_long = "\n" in text[start:end] or (not is_inner and _begins_line(text, member.start))
    margin = _margin(text, member.start)
    new = _rendered(text, value, unit, margin) if is_long else _rendered(text, value)
    return text[:start] + new + text[end:]


def _remove(text: str, node: _Object, member: _Member) -> str:
    members = [*node.members.values()]
    index = members.index(member)
    before = members[index - 1] if index else None
    after = members[index + 1] if index + 1 < len(members) else None
    rest = text[member.end :].split("\n", 1)[0]
    if _begins_line(text, member.start) and not _COMMENT.sub("", rest).strip():
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
    if len(members) == 1 and not cut[node.start + 1 : node.end - 1 - (end - start)].strip():
        cut = cut[: node.start + 1] + cut[node.end - 1 - (end - start) :]
    return cut
