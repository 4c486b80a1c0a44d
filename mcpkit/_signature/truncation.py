"""JSON values and texts, truncated so that the output schema still allows them, and their rest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, takewhile
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from mcpkit._utils.json import JsonSchema, References, is_array, is_object
from mcpkit._utils.text import truncate

_LEAST: Final = 200
"""Characters that each long part keeps, unless parts have to be left out."""

_KINDS: Final[Mapping[type, tuple[str, str, str]]] = {
    str: ("string", "minLength", " characters"),
    list: ("array", "minItems", ""),
    dict: ("object", "minProperties", " members"),
}
"""The name of a type in schemas, the keyword for the least length, and the unit of the length."""

_HARMLESS: Final = frozenset(
    {
        *("$ref", "$defs", "$comment", "type", "anyOf", "allOf", "title", "description"),
        *("default", "examples", "deprecated", "readOnly", "writeOnly", "minLength", "maxLength"),
        *("items", "minItems", "maxItems", "uniqueItems", "properties", "additionalProperties"),
        *("required", "propertyNames", "minProperties", "maxProperties", "oneOf", "prefixItems"),
    }
)
"""The keywords that are followed, or that no shorter value can violate."""


class Cut(NamedTuple):
    """A value that was truncated, at a path such as ``items[3].text``."""

    path: str
    whole: Any
    kept: Any

    def __str__(self) -> str:
        path, unit = truncate(self.path, 60) or "result", _KINDS[type(self.whole)][2]
        return f"{path}: {len(self.kept):,} of {len(self.whole):,}{unit}"

    def lines(self) -> Iterator[str]:
        """Yield a line with the path and the JSON of each missing item, member or end of a text."""
        path, whole, start = self.path, self.whole, len(self.kept)
        if isinstance(whole, str):
            rest: Iterable[tuple[str, Any]] = [(f"{path}[{start}:]", whole[start:])]
        elif is_array(whole):
            rest = ((f"{path}[{at}]", whole[at]) for at in range(start, len(whole)))
        else:
            rest = ((_member(path, name), whole[name]) for name in whole if name not in self.kept)
        return (f"{place} = {to_json(value).decode()}\n" for place, value in rest)


def size_of(value: Any) -> int:
    """Return the characters of a JSON value."""
    return len(to_json(value).decode())


def end_of_piece(text: str, start: int, limit: int) -> int:
    """Return where a piece of at most `limit` characters ends: after a line or word if possible."""
    end = start + limit
    if end >= len(text):
        return len(text)
    found = (text.rfind(mark, start + limit // 2, end) + 1 for mark in "\n ")
    return next(filter(None, found), end)


def pieces(text: str, limit: int) -> Iterator[str]:
    """Yield a text in pieces of at most `limit` characters."""
    start = 0
    while start < len(text):
        end = end_of_piece(text, start, limit)
        yield text[start:end]
        start = end


class Truncation:
    """A JSON value that is truncated to a number of characters.

    The longest lists and texts lose their ends, down to a common length. If that is not enough,
    lists may become empty, and objects whose members no schema names lose their last ones.

    Every schema that may apply to a part is obeyed, of a union all. A part whose schema has other
    keywords than those that are known here, such as ``pattern`` or ``enum``, stays whole.

    Args:
        value: The value.
        schema: A JSON Schema that the value fits, as the truncated value will; None allows any.
        room: The number of characters, at least 200.
    """

    def __init__(self, value: Any, schema: JsonSchema | None, room: int) -> None:
        self._references = References(schema or {})
        self._given = "" if is_object(value) else "result", value, [schema]
        self._leaves_out = False
        self._leaves_out = self._try(_LEAST) > room
        levels = range(0 if self._leaves_out else _LEAST, room + 1)
        fitting = bisect_right(levels, room, key=self._try)
        self.fits = self._try(levels[max(0, fitting - 1)]) <= room
        """False if the schema allows no such value."""

    def _try(self, level: int) -> int:
        """Truncate every part longer than `level`; return the size, which grows with the level."""
        self.cuts: list[Cut] = []
        self.value = self._fit(*self._given, level)
        return size_of(self.value)

    def _fit(self, path: str, value: Any, schemas: Sequence[Any], level: int) -> Any:
        rules = None if size_of(value) <= level else self._rules(value, schemas)
        if rules is None:
            return value
        keyword = _KINDS[type(value)][1]
        least = min(len(value), max((each.get(keyword, 0) for each in rules), default=0))
        kept: Any
        if isinstance(value, str):
            kept = value[: max(least, end_of_piece(value, 0, level))]
        elif is_array(value):
            ends = accumulate(size_of(each) + 1 for each in value)
            kept = value[: len([*takewhile(level.__ge__, ends)])]
            least = least or int(not self._leaves_out)
            if len(kept) < least > 1 and any(each.get("uniqueItems") for each in rules):
                kept = value[:least]  # if they were shorter, two might be the same
            elif len(kept) < least:
                kept = [
                    self._fit(f"{path}[{at}]", value[at], _schemas_at(rules, at), level)
                    for at in range(least)
                ]
        else:
            kept = self._members(path, value, rules, least, level)
        if len(kept) < len(value):
            self.cuts.append(Cut(path, value, kept))
        return kept

    def _members(
        self, path: str, value: dict[str, Any], rules: Sequence[JsonSchema], least: int, level: int
    ) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        used = 0
        is_named = any(each.get("properties") or each.get("required") for each in rules)
        for name, each in value.items():
            if self._leaves_out and used >= level and len(kept) >= least and not is_named:
                break
            inner = [
                rule.get("properties", {}).get(name, rule.get("additionalProperties"))
                for rule in rules
            ]
            kept[name] = self._fit(_member(path, name), each, inner, level)
            used += size_of(name) + size_of(kept[name]) + 2
        return kept

    def _rules(self, value: Any, schemas: Iterable[Any]) -> Sequence[JsonSchema] | None:
        """Return the schemas that may apply to a value; None if it has to stay whole."""
        if type(value) not in _KINDS:
            return None
        kind = _KINDS[type(value)][0]
        every = (each for schema in schemas for each in self._combined(schema))
        found = [each for each in every if kind in each.get("type", kind)]  # one type, or several
        for each in found:
            # "oneOf" is for tagged objects, which keep their tag; others might fit a second one.
            if each.keys() - _HARMLESS or ("oneOf" in each and kind != "object"):
                return None
        return found

    def _combined(self, schema: Any) -> Iterator[JsonSchema]:
        """Yield a schema, and those that it refers to or consists of."""
        if is_object(schema):  # not true or None
            yield schema
            to = self._references.resolve(schema["$ref"]) if "$ref" in schema else None
            several = (schema.get(keyword, ()) for keyword in ("anyOf", "allOf", "oneOf"))
            for each in (to, *chain.from_iterable(several)):
                yield from self._combined(each)


def _schemas_at(rules: Sequence[JsonSchema], at: int) -> list[Any]:
    """Return the schemas of an item."""
    return [(*each.get("prefixItems", ())[at : at + 1], each.get("items"))[0] for each in rules]


def _member(path: str, name: str) -> str:
    """Return the path of a member."""
    if not (name.isascii() and name.isidentifier()):
        return f"{path}[{to_json(name).decode()}]"
    return f"{path}.{name}" if path else name
