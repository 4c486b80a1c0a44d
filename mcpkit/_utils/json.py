"""JSON values, the size of a JSON text, and the walk through a JSON Schema."""

from __future__ import annotations

import gc
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard, cast

# --- values ---------------------------------------------------------------------------------------


class Unset:
    """The type of `UNSET`: absent, where None would be a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset()


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return True if a value that came from JSON is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return True if a value that came from JSON is an array."""
    return isinstance(value, list)


def value_at(value: object, *path: str) -> Any:
    """Return the value at a path of members, in objects from JSON; None if there is none."""
    for name in path:
        value = value.get(name) if is_object(value) else None
    return value


def well_formed(value: Any) -> Any:
    """Return a JSON value in which U+FFFD replaces each lone surrogate, which UTF-8 does not have.

    Python makes them for the names of files that are not UTF-8.
    """
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if is_object(value):
        return {well_formed(name): well_formed(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(well_formed, cast("Iterable[Any]", value))]
    return value


def is_binary(value: object) -> TypeGuard[bytes | bytearray | memoryview]:
    """Return True if a value is ``bytes``, a ``bytearray`` or a ``memoryview``."""
    return isinstance(value, (bytes, bytearray, memoryview))


BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""What Windows tools write before UTF-8; readers of JSON may skip it (RFC 8259, section 8.1)."""


# --- the size of a text ---------------------------------------------------------------------------

_NO_SEPARATORS: Final = bytes(each for each in range(256) if each not in b",[{")
"""The bytes that neither open a container nor separate two values."""

_LARGE: Final = 64 * 1024
_MAX_DIGITS: Final = 400
"""Digits of a number in a large text, because parsing an integer takes quadratic time."""

_LONG: Final = 20
"""Digits from which on an integer may not fit into 64 bits, which makes it slow to parse."""

_MAX_LONG_DIGITS: Final = 200_000
"""Digits of all such integers in a large text together."""

_DIGITS: Final = bytes(b"0"[0] if chr(each).isdecimal() else b" "[0] for each in range(256))


def count_values(text: bytes, most: int) -> int:
    """Return the number of values in a JSON text, or a number above `most` if it has more.

    Names of members do not count. Of a text that is not JSON, at least the values before the first
    mistake do.
    """
    plain = _without_escapes(text)
    if plain.count(b'"') > 4 * most:
        return most + 1  # each value has at most two strings: its name and itself
    plain = b"0".join(plain.split(b'"')[::2]).translate(None, b" \t\r\n")
    return 1 + _count_separators(plain) - plain.count(b"[]") - plain.count(b"{}")


def has_more_values(text: bytes, most: int) -> bool:
    """Return True if a JSON text has more than `most` values; see `count_values`."""
    # A JSON value takes at least two bytes, including its separator. Strings may contain more.
    if len(text) < 2 * most or _count_separators(text) < most:
        return False
    return count_values(text, most) > most


def excess_of(text: bytes, most: int) -> str:
    """Return which limit a JSON text exceeds, in words; empty if it has at most `most` values."""
    if has_more_values(text, most):
        return f"more than {most:,} values"
    return excess_of_digits(text)


def excess_of_digits(text: bytes) -> str:
    """Return which limit on digits a JSON text exceeds, in words; short ones are parsed in 2 ms."""
    if len(text) < _LARGE or not _long_numbers(text):
        return ""
    return _long_numbers(b" ".join(_without_escapes(text).split(b'"')[::2]))


def _long_numbers(text: bytes) -> str:
    digits = text.translate(_DIGITS)
    if b"0" * (_MAX_DIGITS + 1) in digits:
        return f"a number of more than {_MAX_DIGITS} digits"
    if _LONG * digits.count(b"0" * _LONG) > _MAX_LONG_DIGITS:
        return f"numbers of {_LONG} digits and more, of {_MAX_LONG_DIGITS:,} digits in all"
    return ""


def _without_escapes(text: bytes) -> bytes:
    # Backslashes occur in strings only. Without them, each quote begins or ends a string.
    if b"\\" not in text:  # much faster than to replace none
        return text
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _count_separators(text: bytes) -> int:
    # Unlike `count`, deleting takes the same time for any number of separators.
    return len(text.translate(None, _NO_SEPARATORS))


class CollectorPause:
    """Disables the garbage collector while many objects are made that are not garbage.

    Of pauses that overlap in several threads, the one that has found it enabled ends all.
    """

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


# --- the walk through a schema --------------------------------------------------------------------

JsonSchema: TypeAlias = dict[str, Any]

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords whose schemas apply only where a reference names them."""

_TABLES: Final = frozenset(
    {*DEFINITIONS, "properties", "patternProperties", "dependentSchemas", "dependencies"}
)
"""Keywords whose value is an object of schemas by name, in JSON Schema 2020-12 or older drafts."""

_HOLDERS: Final = _TABLES | {
    *("additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if"),
    *("items", "not", "oneOf", "prefixItems", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
}
"""Keywords whose value is a schema, a list of schemas, or a table of schemas."""

_DATA: Final = frozenset(
    {
        *("const", "default", "dependentRequired", "description", "enum", "examples", "required"),
        *("title", "type"),
    }
)
"""Keywords whose value contains no schemas, even if it looks like one."""


class Step(NamedTuple):
    """The step from a schema to one directly inside it."""

    keyword: str
    # The name in a table, the index in a list, or None if the value is the inner schema itself.
    key: str | int | None


class Place(NamedTuple):
    """A schema somewhere inside another, and the steps that lead to it."""

    way: tuple[Step, ...]
    schema: Mapping[str, Any]  # the schemas ``true`` and ``false`` have no place


def subschemas(
    schema: Mapping[str, Any], *, unknown: bool = False
) -> list[tuple[Step, JsonSchema]]:
    """Return the schemas directly inside a schema, in the order of its keywords.

    Also those in keywords that no draft defines, if they are to be included (`unknown`).
    """
    found: list[tuple[Step, JsonSchema]] = []
    for keyword, value in schema.items():
        if keyword in _DATA or not (unknown or keyword in _HOLDERS):
            continue
        members: Iterable[tuple[str | int | None, Any]] = [(None, value)]
        if is_array(value):
            members = enumerate(value)
        elif is_object(value) and keyword in _TABLES:
            members = value.items()
        found += [(Step(keyword, key), each) for key, each in members if is_object(each)]
    return found


def walk(
    schema: Mapping[str, Any],
    *,
    unknown: bool = False,
    without: Collection[str] = (),
    deepest: int | None = None,
    seen: Container[int] = (),
) -> Iterator[Place]:
    """Yield a schema and all schemas below it, each before those inside it.

    References are not followed. A schema may be changed once it has been yielded: the walk
    continues in the changed one.

    Args:
        schema: The outermost schema.
        unknown: As in `subschemas`.
        without: Keywords that the walk leaves out.
        deepest: The maximum number of steps to a place; None for no limit. Without it, a schema
            that contains itself as a Python object makes the walk endless.
        seen: The identities of schemas to leave out, with all below them.
    """
    waiting = [Place((), schema)]
    while waiting:
        place = waiting.pop()
        way, found = place
        if id(found) in seen:
            continue
        yield place
        if deepest is not None and len(way) >= deepest:
            continue
        inner = subschemas(found, unknown=unknown)
        if without:
            inner = [each for each in inner if each[0].keyword not in without]
        waiting += [Place((*way, step), each) for step, each in reversed(inner)]


def every_schema(schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield a schema and all schemas below it, to be read or to be changed; see `walk`."""
    return cast("Iterator[JsonSchema]", (place.schema for place in walk(schema)))


class References:
    """Resolves the references inside one document, which must not change in the meantime."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._anchors: dict[str, Mapping[str, Any]] | None = None
        self.resolve = cache(self._resolve)

    def _resolve(self, reference: str) -> Mapping[str, Any] | bool | None:
        """Return the schema at ``#``, a pointer such as ``#/$defs/Name``, or an anchor, if any."""
        if not reference.startswith("#"):
            return None
        pointer = reference[1:]
        if pointer and not pointer.startswith("/"):
            if self._anchors is None:
                self._anchors = {}
                for place in walk(self._root, deepest=_MAX_DEPTH):
                    anchor = place.schema.get("$anchor")
                    if isinstance(anchor, str):
                        self._anchors.setdefault(anchor, place.schema)
            return self._anchors.get(pointer)
        found: Any = self._root
        for part in pointer.split("/")[1:]:
            name = unescaped(part)
            is_index = name.isdecimal() and len(name) <= _MAX_INDEX_DIGITS
            if is_object(found) and name in found:
                found = found[name]
            elif is_array(found) and is_index and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if is_object(found) or isinstance(found, bool) else None


_MAX_DEPTH: Final = 100
"""Steps to an anchor."""

_MAX_INDEX_DIGITS: Final = 9
"""Digits of an array index: Python refuses to parse integers of several thousand digits."""


def unescaped(part: str) -> str:
    """Return the name that a part of a JSON pointer in a URI fragment stands for (RFC 6901)."""
    if "%" not in part and "~" not in part:
        return part
    from urllib.parse import unquote  # only references need it

    return unquote(part).replace("~1", "/").replace("~0", "~")


def copy_schema(value: Any) -> Any:
    """Return a copy of a schema that may be changed, down to its innermost arrays."""
    if is_object(value):
        return {key: copy_schema(each) for key, each in value.items()}
    return [*map(copy_schema, value)] if is_array(value) else value
