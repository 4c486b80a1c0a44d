"""Arguments as they are typed, ``key=value`` and ``key:=json``, to JSON values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpkit._utils.json import is_array, is_object
from mcpkit.cli._schema_text import a_kind, compact, kinds_of, properties_of, resolved
from mcpkit.cli._terminal import fail

Schema = Mapping[str, Any]

_YES: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

_MOST_COMPARED: Final = 1000
"""Names that are compared with one that is not there."""

_LONGEST_COMPARED: Final = 100
"""Characters of such a name."""


class Given(NamedTuple):
    """An argument as it was typed.

    Args:
        word: The whole word, for messages.
        name: The part before the sign.
        text: The part behind the sign, or the content of the file that it names.
        is_json: True if the sign was ``:=``.
    """

    word: str
    name: str
    text: str
    is_json: bool


def given(word: str) -> Given:
    """Take a word apart: ``key=value``, ``key:=json``, ``key=@file`` or ``key:=@file``.

    Raises:
        typer.Exit: The word is none of these; a message has said so.
    """
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        fail(f"{word!r} is not an argument: write key=value, or key:=json")
    if text.startswith("@"):
        text = _read(word, text[1:])
    return Given(word, name, text, is_json)


def _read(word: str, place: str) -> str:
    if not place:
        fail(f"{word}: name a file after the @; for a value that is one, write key:='\"@\"'")
    try:
        data = sys.stdin.buffer.read() if place == "-" else Path(place).expanduser().read_bytes()
    except OSError as error:
        fail(f"{word}: {place} cannot be read: {error.strerror or error}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        fail(f"{word}: {place} is not UTF-8 text")


def _json(word: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"{word}: this is not JSON: {error}")


def object_from(text: str) -> dict[str, Any]:
    """Return all arguments at once, from ``--args``: JSON, ``-`` for stdin, or ``@file``.

    Raises:
        typer.Exit: The text is not a JSON object; a message has said so.
    """
    if text == "-" or text.startswith("@"):
        text = _read(f"--args {text}", "-" if text == "-" else text[1:])
    found = _json("--args", text)
    if not is_object(found):
        fail('--args must be a JSON object, such as \'{"key": "value"}\'')
    return dict(found)


def tool_arguments(words: Iterable[str], schema: Schema, whole: str | None) -> dict[str, Any]:
    """Return the arguments of a tool.

    Args:
        words: As typed; they override those in `whole`.
        schema: The tool's input schema, by which texts are converted.
        whole: The value of ``--args``; None if it was not given.

    Raises:
        typer.Exit: An argument is malformed, or cannot be converted; a message has said so.
    """
    arguments = {} if whole is None else object_from(whole)
    typed: set[tuple[str, ...]] = set()
    for word in words:
        each = given(word)
        path, described = _place(each.name, schema)
        value: Any = _json(word, each.text) if each.is_json else None
        inside = _inside(arguments, path, word)
        again = path in typed
        if not each.is_json and _is_list(described, schema) and not each.text.startswith("["):
            # Items one by one: tag=a tag=b
            items = resolved(described, schema).get("items", {})
            before: list[Any] = inside[path[-1]] if again else []
            value = [*before, _converted(each, items, schema)]
        elif again:
            fail(f"{word}: {each.name} has been given already")
        elif not each.is_json:
            value = _converted(each, described, schema)
        typed.add(path)
        inside[path[-1]] = value
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


def _inside(arguments: dict[str, Any], path: Sequence[str], word: str) -> dict[str, Any]:
    for part in path[:-1]:
        arguments = arguments.setdefault(part, {})
        if not is_object(arguments):
            fail(f"{word}: {part} has been given already, and is not an object")
    return arguments


def _is_list(schema: object, root: Schema) -> bool:
    kinds = kinds_of(schema, root)
    return "array" in kinds and "string" not in kinds


def _converted(each: Given, schema: object, root: Schema) -> Any:
    try:
        return converted(each.text, schema, root)
    except ValueError as error:
        fail(f"{each.name}: {error}")


def converted(text: str, schema: object, root: Schema) -> Any:
    """Return the value that a text stands for where a schema wants something else than a text.

    Args:
        text: As typed.
        schema: Of the value; where it allows a string or does not say, the text stays one.
        root: The document that it is part of, for its references.

    Raises:
        ValueError: The schema allows no such value; the message says what it allows.
    """
    kinds = kinds_of(schema, root)
    if not kinds or "string" in kinds:
        return text
    word = text.strip()
    if "boolean" in kinds and word.lower() in _YES:
        return _YES[word.lower()]
    if "null" in kinds and word.lower() in ("null", "none"):
        return None
    try:
        value = json.loads(word)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, float) and value.is_integer() and not kinds & {"number"}:
        value = int(value)
    if _is_any(value, kinds):
        return value
    raise ValueError(f"expected {a_kind(kinds)}, got {compact(text)}")


def _is_any(value: object, kinds: set[str]) -> bool:
    if isinstance(value, bool) or value is None:
        return False  # that would have been found above, or is not allowed
    return (
        (isinstance(value, int) and bool(kinds & {"integer", "number"}))
        or (isinstance(value, float) and "number" in kinds)
        or (is_array(value) and "array" in kinds)
        or (is_object(value) and "object" in kinds)
    )


def suggest(kind: str, name: str, names: Sequence[str]) -> str:
    """Return a message: there is nothing of a name, but something like it, or others."""
    # A comparison takes time in proportion to both lengths, and there may be any number of names.
    short = [each for each in names[:_MOST_COMPARED] if len(each) <= _LONGEST_COMPARED]
    near = get_close_matches(name, short, 1, 0.6)
    if near:
        return f"there is no {kind} {name!r}; did you mean {near[0]!r}?"
    if not names:
        return f"there is no {kind} {name!r}; there are none at all"
    named = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"there is no {kind} {name!r}; there is {named}"
