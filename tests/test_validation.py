"""Validating a value takes time in proportion to its size.

Without limits, most of these tests would take seconds or never end, and would be timed out.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, ConfigDict, Json, RootModel, model_validator
from pydantic import Field as Described
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from mcpkit._signature.validation import MAX_JSON_VALUES
from mcpkit.errors import InvalidArguments
from tests.authoring import accepted, arguments_of, handler
from tests.models import Point

COLLIDING = 2**61 - 1
"""Multiples of it have the same hash."""


def colliding_uuids(number: int) -> list[str]:
    return [str(uuid.UUID(int=each * COLLIDING)) for each in range(number)]


def problem(annotation: Any, raw: Any) -> str:
    """The only problem of a value of the argument ``x``, as a model reads it."""
    with pytest.raises(InvalidArguments) as caught:
        arguments_of(handler(annotation)).validate({"x": raw})
    lines = [each for each in caught.value.problems if not each.startswith("there may be more")]
    assert len(lines) == 1
    return lines[0]


# --- hashes that collide --------------------------------------------------------------------------


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)

    number: int


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        (set[int], [each * COLLIDING for each in range(20_000)]),
        (frozenset[int], [each * COLLIDING for each in range(20_000)]),
        (dict[int, int], {str(each * COLLIDING): 1 for each in range(20_000)}),
        (list[set[int]], [[each * COLLIDING for each in range(20_000)]]),
        (set[uuid.UUID], colliding_uuids(1000)),
        (dict[uuid.UUID, int], dict.fromkeys(colliding_uuids(1001), 1)),
        (list[dict[uuid.UUID, int]], [{key: 1} for key in colliding_uuids(900)]),
        (set[Any], [each * COLLIDING for each in range(1500)]),
        (cast("Any", set), [each * COLLIDING for each in range(1500)]),
        (set[Frozen], [{"number": each * COLLIDING} for each in range(1500)]),
        (set[tuple[int, int]], [[each * COLLIDING, 0] for each in range(1500)]),
    ],
    ids=lambda each: str(each)[:30],
)
def test_values_that_were_chosen_to_collide_are_refused(annotation: Any, raw: Any) -> None:
    assert problem(annotation, raw).startswith("x")


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        (set[int], [*range(20_000)]),
        (set[int], [10**18 + each for each in range(5000)]),
        (dict[int, str], {str(each): "" for each in range(20_000)}),
        (dict[str, int], {str(each * COLLIDING): 1 for each in range(20_000)}),
        (dict[Any, int], {str(each): 1 for each in range(20_000)}),
        (cast("Any", dict), {str(each): 1 for each in range(20_000)}),
        (set[str], [str(each) for each in range(20_000)]),
        (set[float], [each / 7 for each in range(20_000)]),
        (set[uuid.UUID], [str(uuid.UUID(int=each)) for each in range(5000)]),
        (dict[uuid.UUID, int], {str(uuid.UUID(int=each)): 1 for each in range(900)}),
        (set[Frozen], [{"number": each} for each in range(5000)]),
        (Annotated[set[int], Described(min_length=5000)], [*range(5000)]),
        (frozenset[int], [2**61 * (each + 1) for each in range(500)]),
    ],
    ids=lambda each: str(each)[:30],
)
def test_other_keys_are_not_limited(annotation: Any, raw: Any) -> None:
    assert len(accepted(annotation, raw)) == len(raw)


def test_a_long_set_may_repeat_values_and_is_refused_for_the_reasons_of_a_short_one() -> None:
    assert accepted(set[int], [COLLIDING, 0] * 10_000) == {0, COLLIDING}
    assert accepted(set[Frozen], [{"number": 1}] * 5000) == {Frozen(number=1)}
    assert problem(set[int], ["a"] * 5000) == 'x[0]: expected an integer, got "a"'
    assert "hash" in problem(set[Point], [{"x": 1}] * 5000)
    assert "at most 10 items" in problem(
        Annotated[set[int], Described(max_length=10)], [*range(5000)]
    )


# --- texts that are expensive to read -------------------------------------------------------------


def test_a_regular_expression_is_short_and_not_nested_deeply() -> None:
    assert accepted(re.Pattern, "a" * 9000).pattern == "a" * 9000
    assert "at most 10,000 characters" in problem(re.Pattern, "a" * 1_000_000)
    assert "at most 10,000 characters" in problem(list[re.Pattern[str]], ["a" * 1_000_000])
    nested = "(" * 3000 + ")" * 3000
    assert problem(re.Pattern, nested) == "x: nested too deeply"


def test_json_in_a_string_is_as_short_as_any() -> None:
    assert len(accepted(Json[list[int]], json.dumps([1] * 40_000))) == 40_000
    too_much = json.dumps([1] * (MAX_JSON_VALUES + 1))
    assert "expected JSON without more than 50,000 values" in problem(Json[list[int]], too_much)
    assert "expected JSON without more than 50,000 values" in problem(Json, too_much)


def test_the_strings_of_one_call_share_one_limit() -> None:
    def fn(a: list[int], b: list[int], c: list[int]) -> None: ...

    text = json.dumps([1] * 20_000)
    arguments = arguments_of(fn)
    assert arguments.validate({"a": text, "b": text, "c": [1]})["b"] == [1] * 20_000
    with pytest.raises(InvalidArguments) as caught:
        arguments.validate({"a": text, "b": text, "c": text})
    assert [each[:20] for each in caught.value.problems] == ["c: expected an array"]
    assert accepted(list[int], "[" + "7" * 4000 + "]") == [int("7" * 4000)]
    assert "expected an array" in problem(list[int], f"[{','.join(['7' * 4000] * 100)}]")


# --- members that are forbidden -------------------------------------------------------------------


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    day: date


@pydantic_dataclass(config=ConfigDict(extra="forbid"))
class Sealed:
    day: date


@pytest.mark.parametrize("annotation", [Closed, Sealed], ids=lambda each: each.__name__)
def test_of_many_forbidden_members_the_first_are_named(annotation: Any) -> None:
    raw = {"day": "2026-11-22", **{f"{number:0150}": number for number in range(20_000)}}
    with pytest.raises(InvalidArguments, match=r"000: unknown member\n(.*\n)*there may be more"):
        arguments_of(handler(annotation)).validate({"x": raw})


# --- unions whose choices look alike --------------------------------------------------------------


class Left(BaseModel):
    """One of two that only differ at the innermost level."""

    inner: Left | Right | None = None


class Right(BaseModel):
    inner: Left | Right | None = None
    end: int = 0


class Typed(TypedDict, total=False):
    """One of two that are plain objects."""

    inner: Typed | Other


class Other(TypedDict, total=False):
    inner: Typed | Other
    end: int


@dataclass
class Branch:
    """One of two that look like the other, with a list between the levels."""

    inner: list[Branch | Twig]


@dataclass
class Twig:
    inner: list[Branch | Twig]


class Changed(BaseModel):
    """One whose members may be others before they are checked."""

    inner: Changed | Left | None = None

    @model_validator(mode="before")
    @classmethod
    def keep(cls, value: Any) -> Any:
        return value


class Many(RootModel[list["Many | Few | int"]]):
    """A list of lists."""


class Few(RootModel[list["Many | Few | int"]]):
    """Another one."""


def nested(levels: int, innermost: Any, **members: Any) -> Any:
    """An object in an object, and so on."""
    value = innermost
    for _ in range(levels):
        value = {"inner": value, **members}
    return value


def listed(levels: int, *, in_objects: bool = False) -> Any:
    """A list in a list, and so on."""
    value: Any = {"inner": []} if in_objects else []
    for _ in range(levels):
        value = {"inner": [value]} if in_objects else [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        (Left | Right, nested(100, None)),
        (Left | Right, nested(100, {"end": "no number"})),
        (list[Left | Right], [nested(8, {"end": 1})] * 50),
        (Typed | Other, nested(100, {})),
        (Branch | Twig, listed(90, in_objects=True)),
        (Changed | Left, nested(100, None)),
        (Many | Few, listed(100)),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_value_of_many_levels_is_refused(annotation: Any, raw: Any) -> None:
    assert problem(annotation, raw) == (
        "x: nested too deeply to find out which of the types fits at each level"
    )


class Tagged(BaseModel):
    """One with a discriminator."""

    kind: Literal["tagged"]
    inner: Annotated[Tagged | Marked, Described(discriminator="kind")] | None = None


class Marked(BaseModel):
    kind: Literal["marked"]
    inner: Annotated[Tagged | Marked, Described(discriminator="kind")] | None = None


class Tree(BaseModel):
    inner: Tree | None = None


class Value(RootModel["dict[str, Value] | list[Value] | str | None"]):
    """Choices that do not look alike."""


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        # A few levels only.
        (Left | Right, nested(8, None)),
        (list[Left | Right], [nested(2, None)] * 300),
        (Typed | Other, nested(8, {})),
        (Branch | Twig, listed(5, in_objects=True)),
        (Changed | Left, nested(8, None)),
        (Many | Few, listed(8)),
        # Nothing is ambiguous.
        (Tagged, nested(100, None, kind="tagged")),
        (Tree, nested(100, None)),
        (Value, nested(60, listed(60))),
    ],
    ids=lambda each: str(each)[:30],
)
def test_other_values_are_accepted(annotation: Any, raw: Any) -> None:
    assert accepted(annotation, raw)


# --- what is said of a value that fits no choice --------------------------------------------------


class And(BaseModel):
    items: list[Condition]


class Not(BaseModel):
    item: Condition


class Equals(BaseModel):
    field: str
    value: str


Condition = And | Not | Equals


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


NEEDS = "required, but missing"


@pytest.mark.parametrize(
    ("annotation", "raw", "said"),
    [
        # The members that are there tell which one is meant, at every level.
        (Condition, {"field": 1, "value": "x"}, "x.field: expected a string, got 1"),
        (
            Condition,
            {"items": [{"item": {"field": "a", "value": 2}}]},
            "x.items[0].item.value: expected a string, got 2",
        ),
        (Condition, 5, "x: expected an object, got 5"),
        # So does a member that has one value, whatever else is wrong.
        (Cat | Dog, {"kind": "dog"}, f"x.age: {NEEDS}"),
        (
            list[Cat | Dog],
            [{"kind": "cat", "lives": "9!"}],
            'x[0].lives: expected an integer, got "9!"',
        ),
        (list[int] | int, ["a"], 'x[0]: expected an integer, got "a"'),
        (Literal["all"] | int, "some", "x: expected 'all' or an integer, got \"some\""),
        # Otherwise each says what it needs.
        (
            Condition,
            {"items": [{"field": "a"}]},
            (
                f"x.items[0]: expected And (items: {NEEDS}) or Not (item: {NEEDS}) "
                f'or Equals (value: {NEEDS}), got {{"field":"a"}}'
            ),
        ),
        (
            Cat | Dog,
            {"kind": "cow"},
            (
                f"x: expected Cat (kind: 'cat', lives: {NEEDS}) "
                f'or Dog (kind: \'dog\', age: {NEEDS}), got {{"kind":"cow"}}'
            ),
        ),
    ],
    ids=str,
)
def test_the_choice_that_was_meant_is_explained(annotation: Any, raw: Any, said: str) -> None:
    assert problem(annotation, raw) == said
