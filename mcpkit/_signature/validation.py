"""Validators whose time is proportional to the size of a value, and validation errors in words.

A message must not block the event loop for long, whatever a client sends. Size, count and depth are
limited where a message arrives, but some types take more than linear time in pydantic: sets and
dicts whose keys were chosen to have one hash, recursive unions without a discriminator, regular
expressions, JSON inside of strings, and the errors of huge arrays. So values that are not small
are validated by a second validator, made on first use from the core schema of the type with these
cases limited; and a value that is too deep for a recursive union is rejected before validation.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic_core import (
    CoreConfig,
    PydanticCustomError,
    SchemaValidator,
    ValidationError,
    from_json,
    to_json,
)

from mcpkit._utils.json import UNSET, excess_of, has_more_values, is_array, is_object
from mcpkit._utils.text import summarize, truncate

MAX_JSON_VALUES: Final = 50_000
"""Values in the JSON texts inside of strings, in one call."""

MAX_JSON_LENGTH: Final = 1024 * 1024
"""Characters of a JSON text inside of a string."""

_MAX_SMALL_BYTES: Final = 8 * 1024
_MAX_SMALL_VALUES: Final = 500
"""Bytes and values of a text of which all problems are found."""

_MAX_ERRORS: Final = 1000
"""Errors that become Python objects."""

_MAX_COLLIDING: Final = 4
"""Different keys with the same hash, because each is compared with all others."""

_MAX_PATTERN: Final = 10_000
"""Characters of a regular expression, because compiling one is slow."""

_MAX_TRIED: Final = 10_000
"""Comparisons of a part of a value with a choice of a union."""


def is_large(text: bytes) -> bool:
    """Return True if validation of a JSON text stops at the first error of each list.

    Collecting all errors takes time in proportion to the values, times the members of a model,
    times the choices of a union; and memory times the length of the path.
    """
    return len(text) > _MAX_SMALL_BYTES or has_more_values(text, _MAX_SMALL_VALUES)


# --- core schemas ---------------------------------------------------------------------------------

_SEQUENCES: Final = frozenset({list, tuple})
_NO_SCHEMAS: Final = frozenset({"config", "default", "expected", "metadata", "serialization"})
"""The members of a core schema that contain no validators."""


def types_of(core: Any) -> set[str]:
    """Return the types of a core schema and of all core schemas inside it."""
    return {kind for each in within(core) if isinstance(kind := each.get("type"), str)}


def within(core: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a core schema and all dicts inside it, most of which are core schemas."""
    waiting = [core]
    while waiting:
        each = waiting.pop()
        if each.__class__ in _SEQUENCES:
            waiting.extend(each)
        elif is_object(each):
            yield each
            waiting.extend(value for key, value in each.items() if key not in _NO_SCHEMAS)


def _mapped(core: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a copy of a core schema in which `change` replaced each one, innermost first."""
    if core.__class__ in _SEQUENCES:
        return core.__class__([_mapped(each, change) for each in core])
    if not is_object(core):
        return core
    return change(
        {
            key: value if key in _NO_SCHEMAS else _mapped(value, change)
            for key, value in core.items()
        }
    )


# --- validators for JSON from clients -------------------------------------------------------------

_FINITE: Final = CoreConfig(allow_inf_nan=False)
_FAIL_FAST: Final = frozenset({"dict", "frozenset", "list", "set", "tuple"})
_KEYS: Final = {"dict": "keys_schema", "frozenset": "items_schema", "set": "items_schema"}
_SAFE_KEYS: Final = frozenset(
    {"bool", "bytes", "date", "datetime", "enum", "float", "literal", "none", "str", "time", "url"}
)
"""The types whose hashes a client cannot choose, or of which only a few are equal."""


def make_validator(
    core: Any, config: CoreConfig | None, *, limited: bool = False
) -> SchemaValidator:
    """Make a validator for values from clients: models reject infinities by default.

    Args:
        core: The core schema of a type.
        config: The configuration of the validator.
        limited: Stop at the first error of each list or dict, and limit everything that takes more
            than linear time. Validate with `validate_limited` then.
    """
    adapted = _mapped(core, _limit if limited else _without_infinities)
    make: Callable[..., SchemaValidator] = SchemaValidator
    try:
        # pydantic-core would use the validators that models already have instead of the schema.
        return make(adapted, config, _use_prebuilt=False)
    except TypeError:  # a version without this parameter
        return make(adapted, config)


def validate_limited(validator: SchemaValidator, text: bytes) -> Any:
    """Validate a JSON text by a limited validator."""
    _keys.by_hash = {}
    try:
        return validator.validate_json(text)
    finally:
        _keys.by_hash = {}


def _without_infinities(made: dict[str, Any]) -> Any:
    # A dict without a type holds the schemas of members by name.
    if isinstance(made.get("type"), str) and is_object(made.get("config")):
        made["config"] = {**_FINITE, **made["config"]}
    return made


def _limit(made: dict[str, Any]) -> Any:
    kind = made.get("type")
    if not isinstance(kind, str):
        return made
    if kind in _FAIL_FAST:
        made["fail_fast"] = True
    if kind in _KEYS:
        keys = made.get(_KEYS[kind], {"type": "any"})
        is_text = kind == "dict" and keys.get("type") == "any"
        if keys.get("type") not in _SAFE_KEYS and not is_text:
            made[_KEYS[kind]] = _checked("function-after", _check_hash, keys)
    elif kind == "json":
        return _checked("function-before", _check_json, made)
    elif kind == "function-plain":
        made_by = getattr(made.get("function", {}).get("function"), "__name__", "")
        if made_by.startswith("pattern_"):
            return _checked("function-before", _check_pattern, made)
    return _without_infinities(made)


def _checked(kind: str, check: Callable[[Any], Any], core: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "function": {"type": "no-info", "function": check}, "schema": core}


_keys: Final = threading.local()
"""The different keys of one message by their hash, while a thread validates it."""


def _check_hash(value: Any) -> Any:
    try:
        alike = _keys.by_hash.setdefault(hash(value), [])
    except TypeError:
        return value  # the set reports it
    if value not in alike:
        alike.append(value)
        if len(alike) > _MAX_COLLIDING:
            raise ValueError("expected values whose hashes differ")
    return value


def _check_json(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > MAX_JSON_LENGTH:
            raise ValueError(f"expected JSON of at most {MAX_JSON_LENGTH:,} characters")
        if excess := excess_of(value.encode(), MAX_JSON_VALUES):
            raise ValueError(f"expected JSON without {excess}")
    return value


def _check_pattern(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_PATTERN:
        raise ValueError(f"expected at most {_MAX_PATTERN:,} characters")
    return value


# --- recursive unions without a discriminator -----------------------------------------------------

_OBJECTS: Final = frozenset({"dataclass", "dict", "model", "typed-dict"})
_ARRAYS: Final = frozenset({"frozenset", "generator", "list", "set", "tuple"})
_WRAPPERS: Final = frozenset(
    {"default", "function-after", "function-before", "function-wrap", "nullable"}
)
"""The schemas whose ``schema`` receives the same JSON value."""


def too_deep(value: Any, problem: str = "nested too deeply") -> ValidationError:
    """Return the error of a value that is nested too deeply."""
    kind = PydanticCustomError("too_deep", "{problem}", {"problem": problem})
    found: Any = {"type": kind, "loc": (), "input": value}
    return ValidationError.from_exception_data("value", [found])


def limit_of_depth(core: Any) -> Callable[[Any], bool] | None:
    """Return a test for values that are too deep for a type.

    It is for types with recursive unions in which several choices look alike: only the innermost
    values tell which one fits, so the time grows with the number of choices to the power of the
    depth. None for other types.
    """
    if not types_of(core) >= {"union", "definition-ref"}:
        return None
    definitions = {each["ref"]: each for each in within(core) if isinstance(each.get("ref"), str)}
    most = 1
    containers: tuple[type, ...] = ()
    for union in within(core):
        if union.get("type") != "union" or "choices" not in union:
            continue
        choices: list[Any] = [each[0] if type(each) is tuple else each for each in union["choices"]]
        recursive = [each for each in choices if _leads_to(union, each, definitions)]
        kinds = [_kind(each, definitions) for each in recursive]
        for container, others in ((dict, _ARRAYS), (list, _OBJECTS)):
            alike = sum(kind not in others for kind in kinds)
            if alike > 1:
                most = max(most, alike)
                containers += (container,)

    def is_too_deep(value: Any) -> bool:
        tried = 0
        level: list[Any] = [value]
        each_tried = 1
        while level:
            deeper: list[Any] = []
            # One level after the other: all values of a level are tried equally often.
            while level:
                each = level.pop()
                inner = each.values() if is_object(each) else each if is_array(each) else ()
                if not isinstance(each, containers):
                    level.extend(inner)
                    continue
                tried += each_tried
                if tried > _MAX_TRIED:
                    return True
                deeper.extend(inner)
            level = deeper
            each_tried *= most
        return False

    return is_too_deep if containers else None


def _kind(core: Any, definitions: Mapping[str, Any]) -> Any:
    """Return the type of the core schema that receives the JSON value in the end."""
    for _ in range(len(definitions) + 100):  # more than anyone nests
        kind = core.get("type")
        if kind == "definition-ref":
            core = definitions.get(core["schema_ref"], {})
        elif kind in _WRAPPERS or (kind == "model" and core.get("root_model")):
            core = core["schema"]
        else:
            break
    return core.get("type")


def _leads_to(union: Mapping[str, Any], choice: Any, definitions: Mapping[str, Any]) -> bool:
    """Return True if a union is inside of one of its choices."""
    seen: set[str] = set()
    waiting = [choice]
    while waiting:
        for each in within(waiting.pop()):
            if each is union:
                return True
            ref = each.get("schema_ref")
            if isinstance(ref, str) and ref not in seen and ref in definitions:
                seen.add(ref)
                waiting.append(definitions[ref])
    return False


# --- errors in words ------------------------------------------------------------------------------

_EXPECTED: Final[Mapping[str, str]] = {
    kind: words
    for words, kinds in {
        "an integer": ("int_type", "int_parsing", "int_from_float"),
        "a number": ("float_type", "float_parsing"),
        "a finite number": ("finite_number",),
        "true or false": ("bool_type", "bool_parsing"),
        "a string": ("string_type",),
        "an array": ("list_type", "tuple_type", "set_type", "frozen_set_type"),
        "an object": ("dict_type", "model_type", "model_attributes_type", "dataclass_type"),
        "null": ("none_required",),
        "a date (YYYY-MM-DD)": (
            *("date_type", "date_parsing"),
            *("date_from_datetime_parsing", "date_from_datetime_inexact"),
        ),
        "a date and time (ISO 8601)": (
            *("datetime_type", "datetime_parsing", "datetime_from_date_parsing"),
        ),
        "a time (HH:MM:SS)": ("time_type", "time_parsing"),
        "a duration (ISO 8601)": ("time_delta_type", "time_delta_parsing"),
        "a UUID": ("uuid_type", "uuid_parsing"),
        "a decimal number": ("decimal_type", "decimal_parsing"),
        "base64": ("bytes_type", "bytes_invalid_encoding"),
        "a path": ("path_type",),
        "a URL": ("url_type", "url_parsing"),
    }.items()
    for kind in kinds
}
"""The expected value in words, by the type of pydantic's error."""

_TAGS: Final = frozenset({"enum", "literal_error"})
_SHOULD: Final = re.compile(r"^[A-Z][\w ]*? should (be |have )?")

MAX_PROBLEMS: Final = 20
"""The problems that are listed; a model fixes those and tries again."""

_MAX_COMPARED: Final = 3
"""The unknown arguments whose names are compared with the known ones."""

_MAX_NAME: Final = 64
_MAX_PATH: Final = 200
_MAX_LINE: Final = 1000
"""Characters of a name that is compared, of a path, and of a line."""


def explain(error: ValidationError, raw: Any, name: str) -> list[str]:
    """Return the first problems of one value, a line for each: ``path: expected …, got …``."""
    problems = Problems()
    problems.explain(error, raw, name)
    return problems.lines()


class Problems:
    """The problems of a call: a line for each of the first, and the number of the others."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._others = 0
        self._is_incomplete = False

    def lines(self) -> list[str]:
        """Return the lines."""
        lines = [*self._lines]
        if self._others:
            lines.append(f"and {self._others:,} more problem{'s' if self._others > 1 else ''}")
        if self._is_incomplete:
            lines.append("there may be more: a long list is checked up to its first problem only")
        return lines

    def add(self, path: str, text: str, count: int = 1) -> None:
        """Add a line, which stands for `count` problems."""
        if len(self._lines) < MAX_PROBLEMS:
            line = f"{truncate(path, _MAX_PATH)}: {text}"
            self._lines.append(truncate(line, _MAX_LINE))
        else:
            self._others += count

    def add_unknown(self, unknown: Sequence[str], names: Sequence[str]) -> None:
        """Add arguments whose names are not among the known ones."""
        import difflib  # only after a mistake

        shown = unknown[: max(0, MAX_PROBLEMS - len(self._lines))]
        for index, name in enumerate(shown):
            hint = f"known: {', '.join(names) or 'none'}"
            if index < _MAX_COMPARED and len(name) <= _MAX_NAME:
                for close in difflib.get_close_matches(name, names, n=1):
                    hint = f'did you mean "{close}"?'
            self.add(name, f"unknown argument; {hint}")
        self._others += len(unknown) - len(shown)

    def explain(self, error: ValidationError, raw: Any, name: str) -> None:
        """Add the errors that a validator has found in one value.

        Errors at one path share a line: of a union, each choice says what it expects. If one of
        them is closer to the value than the others, only its errors are added.
        """
        found: dict[str, list[tuple[str, Any]]] = {}
        first = _first_errors(error)
        likely, ties = _likely(first, raw)
        hidden = len(first) - len(likely)
        for each in likely:
            path, words, value = _describe(each, raw, name)
            tie = next((loc for loc in _unions(each, raw) if loc in ties), None)
            if tie is not None:
                below, label = path, f"{each['loc'][len(tie)]} ("
                path, value, _ = _reach(tie, raw, name)
                words = f"{label}{below.removeprefix(path).removeprefix('.')}: {words})"
                if path in found and (before := found[path][-1][0]).startswith(label):
                    words = f"{before[:-1]}, {words.removeprefix(label)}"
                    found[path].pop()
                    hidden += 1
            if path not in found and len(found) >= MAX_PROBLEMS:
                break
            found.setdefault(path, []).append((words, value))
        for path, errors in found.items():
            text = " or ".join(dict.fromkeys(words for words, _ in errors))
            values = [value for _, value in errors if value is not UNSET]
            if values:
                text = f"expected {text}, got {summarize(values[-1])}"
            self.add(path, text, len(errors))
        self._others += error.error_count() - hidden - sum(map(len, found.values()))
        if is_array(raw) or is_object(raw):
            # To encode a large value again takes long.
            has_many = len(raw) > _MAX_SMALL_VALUES
            self._is_incomplete |= has_many or is_large(to_json(raw, fallback=str))


def _first_errors(error: ValidationError) -> list[Any]:
    if error.error_count() <= _MAX_ERRORS:
        return [*error.errors(include_url=False)]
    # Serializing the errors as JSON is much faster than building a dict for each.
    text = error.json(include_url=False, include_context=False, include_input=False)
    found: list[Any] = from_json(text[: _MAX_ERRORS * 100], allow_partial=True)
    return [each for each in found if each.keys() >= {"type", "loc", "msg"}]


def _reach(loc: Sequence[Any], raw: Any, name: str) -> tuple[str, Any, list[int]]:
    """Return the path and the value that a location leads to, and the places of other steps."""
    path, value = name, raw
    others: list[int] = []
    for place, step in enumerate(loc):
        if isinstance(step, int) and is_array(value) and step < len(value):
            path, value = f"{path}[{step}]", value[step]
        elif isinstance(step, str) and is_object(value) and step in value:
            path, value = f"{path}.{step}", value[step]
        else:
            others.append(place)
    return path, value, others


def _unions(error: Any, raw: Any) -> list[tuple[Any, ...]]:
    """Return the locations of the unions above an error, where the next step names a choice."""
    loc = error["loc"][:-1] if error["type"] == "missing" else error["loc"]
    return [tuple(loc[:each]) for each in _reach(loc, raw, "")[2] if loc[each] != "[key]"]


def _likely(errors: Sequence[Any], raw: Any) -> tuple[list[Any], set[tuple[Any, ...]]]:
    """Return the errors of the choices of each union that are closest to the value.

    Beside them are the locations of unions of which several choices are equally close.
    """
    unions: dict[tuple[Any, ...], dict[Any, list[Any]]] = {}
    for each in errors:
        for loc in _unions(each, raw):
            unions.setdefault(loc, {}).setdefault(each["loc"][len(loc)], []).append(each)
    unlikely: set[int] = set()
    ties: set[tuple[Any, ...]] = set()
    for loc, choices in unions.items():
        misfits = {choice: _misfit(found, len(loc) + 1) for choice, found in choices.items()}
        least = min(misfits.values())
        if not least[0] and any(least) and [*misfits.values()].count(least) > 1:
            ties.add(loc)
        for choice, found in choices.items():
            if misfits[choice] > least:
                unlikely.update(map(id, found))
    return [each for each in errors if id(each) not in unlikely], ties


def _misfit(errors: Sequence[Any], depth: int) -> tuple[bool, bool, bool]:
    """Return whether a choice wants another type, another tag, and other members."""
    own, inner = ({e["type"] for e in errors if len(e["loc"]) == at} for at in (depth, depth + 1))
    wants_type = not own.isdisjoint({*_EXPECTED, *_TAGS})
    return wants_type, bool(inner & _TAGS), bool(inner & {"extra_forbidden", "missing"})


def _describe(error: Any, raw: Any, name: str) -> tuple[str, str, Any]:
    """Return the path of an error, the expected value in words, and the value to show."""
    loc = error["loc"]
    path, value, _ = _reach(loc, raw, name)
    if [*loc[-1:]] == ["[key]"]:
        value = loc[-2]
    kind = error["type"]
    if kind == "missing":
        key = f"{path}[{loc[-1]}]" if isinstance(loc[-1], int) else f"{path}.{loc[-1]}"
        return key, "required, but missing", UNSET
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return path, "unknown member", UNSET
    if kind in _EXPECTED:
        return path, _EXPECTED[kind], value
    if _SHOULD.match(error["msg"]):
        return path, _SHOULD.sub(lambda match: "" if match[1] else "to ", error["msg"]), value
    return path, error["msg"].removeprefix("Value error, "), UNSET
