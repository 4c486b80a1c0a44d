"""What keeps the checking of a value in proportion to its size, whatever a client sends.

Most of it is a second validator, made from the core schema of a type when a value first needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Final

from pydantic_core import (
    CoreConfig,
    CoreSchema,
    PydanticCustomError,
    SchemaValidator,
    ValidationError,
    from_json,
    to_json,
)

from mcpkit._utils.json import UNSET, excess_of, has_more_values, is_array, is_object
from mcpkit._utils.text import summarize, truncate

MOST_VALUES: Final = 50_000
"""The values that the JSON texts inside of strings may have, in one call."""

_MOST_BYTES: Final = 8 * 1024
_MOST_IN_FULL: Final = 500
"""Bytes and values of a text of which all problems are found, however many each value has."""

_MOST_PROBLEMS: Final = 1000
"""The problems that are made objects of Python's."""

_MOST_COLLIDING: Final = 4
"""The different members of a set that may have the same hash: each is compared with all others."""

_MOST_KEYS: Final = 1000
"""The keys of a dict that are neither strings nor integers, if anybody can compute their hashes."""

_LARGEST_KEY: Final = 2**64
"""The largest integer that is a key. Hashes are remainders of a division by 2**61 - 1."""

LONGEST_JSON: Final = 1024 * 1024
"""Characters of a JSON text inside of a string."""

_LONGEST_PATTERN: Final = 10_000
"""Characters of a regular expression: compiling it takes a thousand times as long as reading it."""


def is_checked_in_haste(text: bytes) -> bool:
    """Return True if a list in a JSON text is checked up to its first problem only.

    Collecting all of them takes time in proportion to the values, times the members of a model,
    times the choices of a union; and memory times the length of the path.
    """
    return len(text) > _MOST_BYTES or has_more_values(text, _MOST_IN_FULL)


def first_problems(error: ValidationError) -> list[Any]:
    """Return the first problems of a validation, at most 1,000 of them."""
    if error.error_count() <= _MOST_PROBLEMS:
        return [*error.errors(include_url=False)]
    # The text of all of them is made much faster than an object for each.
    text = error.json(include_url=False, include_context=False, include_input=False)
    found: list[Any] = from_json(text[: _MOST_PROBLEMS * 100], allow_partial=True)
    return [{**each, "loc": tuple(each["loc"])} for each in found if each.keys() >= _PROBLEM]


_PROBLEM: Final = frozenset({"type", "loc", "msg"})


# --- core schemas ---------------------------------------------------------------------------------

_SEQUENCES: Final = frozenset({list, tuple})
_NO_SCHEMAS: Final = frozenset({"config", "default", "expected", "metadata", "serialization"})
"""The members of a core schema in which no validator is described."""


def types_of(core: Any) -> set[str]:
    """Return the types of all core schemas inside one, and its own."""
    return {kind for each in within(core) if isinstance(kind := each.get("type"), str)}


def within(core: Any, skipped: Set[str] = _NO_SCHEMAS) -> Iterator[Mapping[str, Any]]:
    """Yield all core schemas inside one, itself included, and what only looks like one.

    Args:
        core: The core schema.
        skipped: The members that are not looked into.
    """
    waiting = [core]
    while waiting:
        each = waiting.pop()
        if each.__class__ in _SEQUENCES:
            waiting.extend(each)
        elif is_object(each):
            yield each
            waiting.extend(value for key, value in each.items() if key not in skipped)


def _mapped(core: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a core schema in which each is what `change` makes of it, the innermost first."""
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


# --- a validator for what arrives -----------------------------------------------------------------

_FINITE: Final = CoreConfig(allow_inf_nan=False)
_CONTAINERS: Final = frozenset({"dict", "frozenset", "list", "set", "tuple"})
_SETS: Final = frozenset({"frozenset", "set"})
_OF_HARMLESS_HASH: Final = frozenset(
    {"bool", "bytes", "date", "datetime", "enum", "float", "literal", "none", "str", "time", "url"}
)
"""The types whose values have hashes that nobody can know, or of which few are equal."""


def make_validator(
    core: CoreSchema, config: CoreConfig | None, *, hasty: bool = False
) -> SchemaValidator | None:
    """Make a validator for what arrives: models have no infinities unless they say so.

    Args:
        core: The core schema of a type.
        config: That it is made with.
        hasty: Check lists and dicts up to the first problem only, and bound what takes longer than
            in proportion to its size.

    Returns:
        The validator; None if the schema is not at hand.
    """
    given: Any = core
    if type(given) is not dict:
        return None
    adapted = _mapped(given, _adapt_in_haste if hasty else _adapt)
    make: Any = SchemaValidator
    made: SchemaValidator
    try:
        # Models have validators already, which pydantic-core would take instead of the schema.
        made = make(adapted, config, _use_prebuilt=False)
    except TypeError:  # of a version that has no such parameter
        made = make(adapted, config)
    return made


def _adapt(made: dict[str, Any]) -> Any:
    # Without a type, it is the schemas of members by their names.
    if isinstance(made.get("type"), str) and is_object(made.get("config")):
        made["config"] = {**_FINITE, **made["config"]}
    return made


def _adapt_in_haste(made: dict[str, Any]) -> Any:
    kind = made.get("type")
    if not isinstance(kind, str):
        return made
    if kind in _CONTAINERS:
        made["fail_fast"] = True
    if kind in _SETS:
        return _from_list(made)
    if kind == "dict":
        return _with_few_keys(made)
    if kind in _OBJECTS:
        return _forbidding_in_short(_adapt(made))
    if kind == "json":
        return _preceded_by(_check_json, made)
    if kind == "function-plain" and _is_pattern(made):
        return _preceded_by(_check_pattern, made)
    return _adapt(made)


def _from_list(core: dict[str, Any]) -> dict[str, Any]:
    """Return the core schema of a set that is built once the hashes of its members are known."""
    items = core.get("items_schema", {"type": "any"})
    if items.get("type") in _OF_HARMLESS_HASH:
        return core
    listed = {"type": "list", "items_schema": items, "fail_fast": True}
    function = {"type": "no-info", "function": _check_hashes}
    checked = {"type": "function-after", "function": function, "schema": listed}
    built = {**core, "items_schema": {"type": "any"}, "strict": False}
    return {"type": "chain", "steps": [checked, built]}


def _check_hashes(values: list[Any]) -> list[Any]:
    known: dict[int, list[Any]] = {}
    for each in values:
        try:
            own = hash(each)
        except TypeError:
            break  # and the set will say so
        alike = known.setdefault(own, [])
        if each not in alike:
            alike.append(each)
            if len(alike) > _MOST_COLLIDING:
                raise ValueError("expected values whose hashes differ")
    return values


def _with_few_keys(core: dict[str, Any]) -> dict[str, Any]:
    """Return the core schema of a dict of whose keys not many have the same hash."""
    keys = core.get("keys_schema", {"type": "any"})
    kind = keys.get("type")
    if kind == "int":
        return {**core, "keys_schema": {"le": _LARGEST_KEY, "ge": -_LARGEST_KEY, **keys}}
    if kind != "any" and kind not in _OF_HARMLESS_HASH:  # any key is a string in JSON
        core.setdefault("max_length", _MOST_KEYS)
    return core


_MOST_EXTRA: Final = 20
"""The members of one object that are said to be forbidden."""

_FIELDS: Final[dict[str, Callable[[Any], Mapping[str, Any]]]] = {
    "model-fields": lambda validated: validated[1] or {},
    "typed-dict": lambda validated: validated,
    "dataclass-args": lambda validated: validated[0],
}
"""The types of schemas of fields, with what finds extra members in what comes of them.

Those of a model are by themselves; those of others are among the fields."""


def _forbidding_in_short(core: dict[str, Any]) -> dict[str, Any]:
    """Return the core schema of an object that does not name each member that it forbids."""
    holder, fields = {}, core
    while fields.get("type") not in _FIELDS:
        if not is_object(fields.get("schema")):
            return core
        holder, fields = fields, fields["schema"]
    config = core.get("config", {})
    if fields.get("extra_behavior", config.get("extra_fields_behavior")) != "forbid":
        return core
    find, known = _FIELDS[fields["type"]], _names_of(fields)
    if known is None:
        return core

    def refuse_extra(validated: Any) -> Any:
        extra = [each for each in find(validated).items() if each[0] not in known]
        if extra:
            told: Any = [
                {"type": "extra_forbidden", "loc": (name,), "input": value}
                for name, value in extra[:_MOST_EXTRA]
            ]
            raise ValidationError.from_exception_data("object", told)
        return validated

    checked: dict[str, Any] = {
        "type": "function-after",
        "function": {"type": "no-info", "function": refuse_extra},
        "schema": {**fields, "extra_behavior": "allow"},
    }
    if fields is not core:
        holder["schema"] = checked
        return core
    reference = checked["schema"].pop("ref", None)
    return checked if reference is None else {**checked, "ref": reference}


def _names_of(fields: dict[str, Any]) -> Set[str] | None:
    """Return the names that are no extra ones; None if an extra one may look like a field."""
    if fields["type"] == "model-fields":
        return frozenset()
    listed = fields["fields"]
    named: Any = listed.items() if is_object(listed) else ((each["name"], each) for each in listed)
    known = dict(named)
    return None if any("validation_alias" in each for each in known.values()) else known.keys()


def _preceded_by(check: Callable[[Any], Any], core: dict[str, Any]) -> dict[str, Any]:
    function = {"type": "no-info", "function": check}
    return {"type": "function-before", "function": function, "schema": core}


def _check_json(value: Any) -> Any:
    if isinstance(value, str):
        if len(value) > LONGEST_JSON:
            raise ValueError(f"expected JSON of at most {LONGEST_JSON:,} characters")
        if excess := excess_of(value.encode(), MOST_VALUES):
            raise ValueError(f"expected JSON without {excess}")
    return value


def _is_pattern(core: Mapping[str, Any]) -> bool:
    made_by = getattr(core.get("function", {}).get("function"), "__name__", "")
    return made_by.startswith("pattern_")


def _check_pattern(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_PATTERN:
        raise ValueError(f"expected at most {_LONGEST_PATTERN:,} characters")
    return value


# --- unions whose choices look alike --------------------------------------------------------------

_MOST_TRIED: Final = 3000
"""The times that a part of a value may be compared with a choice."""

_OBJECTS: Final = frozenset({"dataclass", "dict", "model", "typed-dict"})
_ARRAYS: Final = frozenset({"frozenset", "generator", "list", "set", "tuple"})
_WRAPPERS: Final = frozenset({"default", "function-after", "nullable"})
"""The schemas whose ``schema`` takes the same JSON value as they."""
_CHANGING: Final = frozenset({"function-before", "function-wrap"})
"""Those whose ``schema`` most often does."""


class Ambiguity:
    """That a type has unions inside of themselves, of which several choices look alike.

    Which one fits is only known at the innermost values, so each level of a value takes as many
    times longer as there are such choices.

    Args:
        core: The core schema of the type.
        choices: The most choices of one union that look alike.
        containers: The classes of the JSON values that they look like.
    """

    def __init__(self, core: CoreSchema, choices: int, containers: tuple[type, ...]) -> None:
        self.choices = choices
        self._core = core
        self._containers = containers

    def is_too_deep(self, value: Any) -> bool:
        """Return True if a JSON value would be compared with choices too often."""
        tried = 0
        level: list[Any] = [value]
        each_tried = 1
        while level:
            deeper: list[Any] = []
            # One level after the other: what is as deep is tried as often.
            while level:
                each = level.pop()
                if is_object(each):
                    inner = [*each.values()]
                elif is_array(each):
                    inner = each
                else:
                    continue
                if isinstance(each, self._containers):
                    tried += each_tried
                    if tried > _MOST_TRIED:
                        return True
                    deeper.extend(inner)
                else:
                    level.extend(inner)
            level = deeper
            each_tried *= self.choices
        return False

    @cached_property
    def resolved(self) -> CoreSchema | None:
        """A core schema in which a member tells such choices apart; None if none does.

        That is a member with literals, of which no two choices have the same one. Unlike in the
        type itself, it has to be there.
        """
        definitions = _definitions(self._core)
        made: Any = _mapped(self._core, lambda each: _told_apart(each, definitions))
        return made if find_ambiguity(made) is None else None

    def refusal(self, value: Any) -> ValidationError:
        """Return the error that says that a value is too deep."""
        return too_deep(
            value, "nested too deeply to find out which of the types fits at each level"
        )


def too_deep(value: Any, problem: str) -> ValidationError:
    """Return the error of a value that is nested too deeply."""
    kind = PydanticCustomError("too_deep", "{problem}", {"problem": problem})
    found: Any = {"type": kind, "loc": (), "input": value}
    return ValidationError.from_exception_data("value", [found])


def find_ambiguity(core: CoreSchema) -> Ambiguity | None:
    """Return the ambiguity of a type; None if it has none."""
    if type(core) is not dict or not types_of(core) >= {"union", "definition-ref"}:
        return None
    definitions = _definitions(core)
    most = 1
    containers: set[type] = set()
    for union in within(core):
        if union.get("type") != "union" or "choices" not in union:
            continue
        back = [each for each in _choices(union) if _leads_to(union, each, definitions)]
        kinds = [_kind(each, definitions) for each in back]
        for container, others in ((dict, _ARRAYS), (list, _OBJECTS)):
            alike = sum(kind not in others for kind in kinds)
            if alike > 1:
                most = max(most, alike)
                containers.add(container)
    return Ambiguity(core, most, tuple(containers)) if containers else None


def _definitions(core: Any) -> dict[str, Any]:
    return {each["ref"]: each for each in within(core) if isinstance(each.get("ref"), str)}


def _choices(union: Mapping[str, Any]) -> list[Any]:
    """Return the core schemas of the choices, which may have labels."""
    return [each[0] if type(each) is tuple else each for each in union["choices"]]


def _unwrapped(
    core: Any, definitions: Mapping[str, Any], wrappers: Set[str] = _WRAPPERS
) -> Mapping[str, Any]:
    """Return the core schema that says what a JSON value looks like."""
    for _ in range(len(definitions) + 100):  # nobody wraps as often
        kind = core.get("type")
        if kind == "definition-ref":
            core = definitions.get(core["schema_ref"], {})
        elif kind in wrappers or (kind == "model" and core.get("root_model")):
            core = core["schema"]
        else:
            break
    found: Mapping[str, Any] = core
    return found


def _kind(core: Any, definitions: Mapping[str, Any]) -> Any:
    return _unwrapped(core, definitions, _WRAPPERS | _CHANGING).get("type")


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


def _told_apart(made: dict[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Return a union with a tag, if its objects have one; else the core schema as it is."""
    if made.get("type") != "union" or "choices" not in made:
        return made
    choices = _choices(made)
    objects = [each for each in choices if _unwrapped(each, definitions).get("type") in _OBJECTS]
    literals = [_literals(_unwrapped(each, definitions)) for each in objects]
    if len(objects) < 2:
        return made
    for name in literals[0]:
        if not all(name in each for each in literals):
            continue
        by_tag = {
            tag: choice
            for choice, each in zip(objects, literals, strict=True)
            for tag in each[name]
        }
        if len(by_tag) < sum(len(each[name]) for each in literals):
            continue
        tagged: Any = {"type": "tagged-union", "discriminator": name, "choices": by_tag}
        others = [each for each in choices if each not in objects]
        return {**made, "choices": [tagged, *others]} if others else tagged
    return made


def _literals(core: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the literals of the members of an object that have nothing else."""
    fields: Any = core.get("schema", core).get("fields", {}) if core.get("type") != "dict" else {}
    if is_array(fields):  # of a dataclass
        fields = {each["name"]: each for each in fields}
    found: dict[str, list[Any]] = {}
    for name, field in fields.items():
        alias = field.get("validation_alias", name)
        schema = field["schema"]
        schema = schema["schema"] if schema.get("type") == "default" else schema
        literals = schema.get("expected", ()) if schema.get("type") == "literal" else ()
        if literals and isinstance(alias, str) and _TAGS.issuperset(map(type, literals)):
            found[alias] = literals
    return found


_TAGS: Final = frozenset({int, str})


# --- problems, for a model to read ----------------------------------------------------------------

_EXPECTED: Final[dict[str, str]] = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "none_required": "null",
    "date_type": "a date (YYYY-MM-DD)",
    "date_parsing": "a date (YYYY-MM-DD)",
    "date_from_datetime_parsing": "a date (YYYY-MM-DD)",
    "date_from_datetime_inexact": "a date (YYYY-MM-DD)",
    "datetime_type": "a date and time (ISO 8601)",
    "datetime_parsing": "a date and time (ISO 8601)",
    "datetime_from_date_parsing": "a date and time (ISO 8601)",
    "time_type": "a time (HH:MM:SS)",
    "time_parsing": "a time (HH:MM:SS)",
    "time_delta_type": "a duration (ISO 8601)",
    "time_delta_parsing": "a duration (ISO 8601)",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
    "decimal_type": "a decimal number",
    "decimal_parsing": "a decimal number",
    "bytes_type": "base64",
    "bytes_invalid_encoding": "base64",
    "path_type": "a path",
    "url_type": "a URL",
    "url_parsing": "a URL",
}

_SHOULD: Final = re.compile(r"^[A-Z][\w ]*? should (be |have )?")


def _to_expected(match: re.Match[str]) -> str:
    return "" if match[1] else "to "


_MOST_TOLD: Final = 20
"""The problems that a model reads at once; it mends those and tries again."""

_MOST_COMPARED: Final = 3
"""The unknown arguments whose names are compared with the known ones."""

_LONGEST_NAME: Final = 64
_LONGEST_PATH: Final = 200
_LONGEST_LINE: Final = 1000
"""Characters of a name that is compared, of a path, and of a line."""


def explain(error: ValidationError, raw: Any, name: str) -> list[str]:
    """Return the first problems of one value, a line for each: ``path: expected …, got …``.

    Args:
        error: Of a validator made by `form_of`.
        raw: The value as it was sent; None if it is not at hand.
        name: Of the value.
    """
    problems = Problems()
    problems.explain(error, raw, name)
    return problems.told()


class Problems:
    """The problems of a call: lines for the first ones, and the number of the others."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._others = 0
        self._may_be_more = False

    def told(self) -> list[str]:
        """Return the lines."""
        lines = [*self._lines]
        if self._others:
            lines.append(f"and {self._others:,} more problem{'s' if self._others > 1 else ''}")
        if self._may_be_more:
            lines.append("there may be more: a long list is checked up to its first problem only")
        return lines

    def add(self, path: str, text: str, count: int = 1) -> None:
        """Add a line, which stands for `count` problems."""
        if len(self._lines) < _MOST_TOLD:
            line = f"{truncate(path, _LONGEST_PATH)}: {text}"
            self._lines.append(truncate(line, _LONGEST_LINE))
        else:
            self._others += count

    def add_unknown(self, unknown: Sequence[str], names: Sequence[str]) -> None:
        """Add arguments that have none of the names."""
        told = unknown[: max(0, _MOST_TOLD - len(self._lines))]
        for place, name in enumerate(told):
            self.add(name, _unknown(name, names, compared=place < _MOST_COMPARED))
        self._others += len(unknown) - len(told)

    def explain(self, error: ValidationError, raw: Any, name: str) -> None:
        """Add the problems that a validator has found in one value."""
        found: dict[str, _Found] = {}
        read = 0
        for problem in first_problems(error):
            path, wanted, got = _read_problem(problem, raw, name)
            if path not in found and len(found) >= _MOST_TOLD:
                break
            one = found.setdefault(path, _Found())
            one.wanted[wanted] = None
            one.got = one.got if got is UNSET else got
            one.count += 1
            read += 1
        for path, one in found.items():
            text = " or ".join(one.wanted)
            if one.got is not UNSET:
                text = f"expected {text}, got {summarize(one.got)}"
            self.add(path, text, one.count)
        self._others += error.error_count() - read
        if (is_array(raw) or is_object(raw)) and is_checked_in_haste(to_json(raw, fallback=str)):
            self._may_be_more = True


class _Found:
    """The problems at one path: one of several types fits, and each of them says what it wants."""

    def __init__(self) -> None:
        self.wanted: dict[str, None] = {}
        self.got: Any = UNSET
        self.count = 0


def _unknown(name: str, names: Sequence[str], *, compared: bool) -> str:
    import difflib  # only for those who get it wrong

    if compared and len(name) <= _LONGEST_NAME:
        close = difflib.get_close_matches(name, names, n=1)
        if close:
            return f'unknown argument; did you mean "{close[0]}"?'
    return f"unknown argument; known: {', '.join(names) or 'none'}"


def _read_problem(problem: Any, raw: Any, name: str) -> tuple[str, str, Any]:
    """Return the path of a problem, what is wanted there, and the value, if it is to be shown."""
    path, value = _locate(problem["loc"], raw, name)
    kind = problem["type"]
    if kind == "missing":
        last = problem["loc"][-1]
        key = f"{path}[{last}]" if isinstance(last, int) else f"{path}.{last}"
        return key, "required, but missing", UNSET
    if kind == "union_tag_not_found" and (tag := _quoted(problem)):
        return f"{path}.{tag}", "required, but missing", UNSET
    if kind == "union_tag_invalid" and (tag := _quoted(problem)):
        wanted = problem.get("ctx", {}).get("expected_tags", "").replace(", ", " or ")
        return f"{path}.{tag}", wanted, value.get(tag) if is_object(value) else value
    if kind == "extra_forbidden":
        return path, "unknown member", UNSET
    if kind in _EXPECTED or _SHOULD.match(problem["msg"]):
        return path, _EXPECTED.get(kind) or _SHOULD.sub(_to_expected, problem["msg"]), value
    return path, problem["msg"].removeprefix("Value error, "), UNSET


def _quoted(problem: Any) -> str:
    """Return the member that tells the types of a union apart, or an empty string."""
    found = re.fullmatch(r"'([^']+)'", str(problem.get("ctx", {}).get("discriminator", "")))
    return found[1] if found else ""


def _locate(loc: tuple[int | str, ...], raw: Any, name: str) -> tuple[str, Any]:
    """Return the path of a problem and the value there; labels of unions are no part of it."""
    path, value = name, raw
    for step in loc:
        if isinstance(step, int) and is_array(value):
            if step < len(value):
                path, value = f"{path}[{step}]", value[step]
        elif isinstance(step, str) and is_object(value) and step in value:
            path, value = f"{path}.{step}", value[step]
    if loc[-1:] == ("[key]",):
        value = loc[-2]
    return path, value
