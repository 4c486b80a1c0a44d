"""Typed arguments, ``key=value`` and ``key:=json``, to JSON values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpkit._utils.json import is_object
from mcpkit.cli._schema_text import KINDS, compact, in_words, kinds_of, properties_of, resolved
from mcpkit.cli._terminal import fail

Schema = Mapping[str, Any]

_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "y", "on"), True),
    **dict.fromkeys(("false", "no", "n", "off"), False),
}

# Comparing names takes time in proportion to both lengths, and a server may send any number.
_MAX_COMPARED: Final = 1000
_MAX_COMPARED_CHARS: Final = 100


class Assignment(NamedTuple):
    """A typed argument; a file in its place has been read."""

    word: str
    name: str
    text: str
    is_json: bool


def parse_assignment(word: str) -> Assignment:
    """Parse ``key=value``, ``key:=json``, ``key=@file`` or ``key:=@file``."""
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        fail(f"{word!r} is not an argument: write key=value, or key:=json")
    if text.startswith("@"):
        text = _read(word, text[1:])
    return Assignment(word, name, text, is_json)


def _read(word: str, path: str) -> str:
    if not path:
        fail(f"{word}: name a file after the @; for the value '@', write key:='\"@\"'")
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        fail(f"{word}: {path} cannot be read: {error.strerror or error}")
    except UnicodeDecodeError:
        fail(f"{word}: {path} is not UTF-8 text")


def _json(word: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{word}: this is not JSON: {error}")


def tool_arguments(words: Iterable[str], schema: Schema, whole: str | None) -> dict[str, Any]:
    """Return the arguments of a tool, of which `words` override those in `whole` (``--args``)."""
    arguments: dict[str, Any] = {}
    if whole is not None:
        if whole == "-" or whole.startswith("@"):
            whole = _read(f"--args {whole}", whole.removeprefix("@"))
        found = _json("--args", whole)
        if not is_object(found):
            fail('--args must be a JSON object, such as \'{"key": "value"}\'')
        arguments = found
    typed: set[tuple[str, ...]] = set()
    for word in words:
        each = parse_assignment(word)
        path, described = _place(each.name, schema)
        inside = arguments
        for part in path[:-1]:
            inside = inside.setdefault(part, {})
            if not is_object(inside):
                fail(f"{word}: {part} has been given already, and is not an object")
        kinds = kinds_of(described, schema)
        is_list = "array" in kinds and "string" not in kinds and not each.text.startswith("[")
        is_item = is_list and not each.is_json  # tag=a tag=b
        if path in typed and not is_item:
            fail(f"{word}: {each.name} has been given already")
        if is_item:
            described = resolved(described, schema).get("items", {})
        try:
            text = each.text
            value = _json(word, text) if each.is_json else converted(text, described, schema)
        except ValueError as error:
            fail(f"{each.name}: {error}")
        before: list[Any] = inside[path[-1]] if path in typed else []
        inside[path[-1]] = [*before, value] if is_item else value
        typed.add(path)
    return arguments


def _place(name: str, schema: Schema) -> tuple[tuple[str, ...], object]:
    """Return the path of an argument and its schema; ``a.b`` is b in a if a is an object."""
    properties = properties_of(schema, schema)
    if name in properties or "." not in name:
        return (name,), properties.get(name, {})
    path = name.split(".")
    described: object = schema
    for part in path:
        members = properties_of(resolved(described, schema), schema)
        if part not in members and described is schema:
            return (name,), {}
        described = members.get(part, {})
    return tuple(path), described


def converted(text: str, schema: object, root: Schema) -> Any:
    """Return the value of a text, converted if the schema does not allow strings."""
    kinds = kinds_of(schema, root)
    if not kinds or "string" in kinds:
        return text
    word = text.strip()
    if "boolean" in kinds and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    if "null" in kinds and word.lower() in ("null", "none"):
        return None
    try:
        value = json.loads(word)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, float) and value.is_integer() and "number" not in kinds:
        value = int(value)
    kind = KINDS[type(value)]
    if kind in kinds or (kind == "integer" and "number" in kinds):
        return value
    raise ValueError(f"expected {in_words(schema, root)}, got {compact(text)}")


def suggest(kind: str, name: str, names: Sequence[str]) -> str:
    """Return a message that a name is missing or unknown, with a similar one or some others."""
    short = [each for each in names[:_MAX_COMPARED] if len(each) <= _MAX_COMPARED_CHARS]
    near = get_close_matches(name, short, 1, 0.6)
    if near:
        return f"there is no {kind} {name!r}; did you mean {near[0]!r}?"
    what = f"there is no {kind} {name!r}" if name else f"name a {kind}"
    if not names:
        return f"{what}; there are none at all"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{what}; there is {', '.join(names[:8])}{more}"
