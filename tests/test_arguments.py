"""Validation of arguments: their values, and the problems that a model reads."""

from __future__ import annotations

import datetime as dt
import gc
import json
import math
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model
from pydantic_core import ValidationError
from typing_extensions import TypedDict

from mcpkit._signature import schema
from mcpkit._signature.arguments import HOST_ARGUMENTS
from mcpkit._signature.schema import form_of
from mcpkit._utils.json import UNSET, every_schema
from mcpkit._utils.text import summarize
from mcpkit.errors import InvalidArguments, RegistrationError
from tests.authoring import accepted, arguments_of, handler
from tests.models import Color, Guest, Level, Movie, Pair, Pet, Point, Renamed, Spot, Strict, Tree

ACCEPTED: list[tuple[Any, Any, Any]] = [  # beside the values in `test_output`
    (int, 3.0, 3),
    (int, "3", 3),
    (float, 3, 3.0),
    (str, "3", "3"),
    (bool, "true", True),
    (Any, [1, {"a": None}], [1, {"a": None}]),
    (bytes, "aGk=", b"hi"),
    (bytes, "-_8=", b"\xfb\xff"),
    (bytes, "+/8=", b"\xfb\xff"),
    (dt.datetime, "2026-07-28T10:00:00Z", dt.datetime(2026, 7, 28, 10, tzinfo=dt.timezone.utc)),
    (dt.time, "10:30", dt.time(10, 30)),
    (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
    (uuid.UUID, f"{0x12345678:032x}", uuid.UUID(int=0x12345678)),
    (set[int], [1, 1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (Literal["a", 1], 1, 1),
    (Level, 2, Level.HIGH),
    (Point, {"x": 1}, Point(x=1)),
    (Pair, [1], Pair(1)),
    (dt.date | str, "2026-07-28", dt.date(2026, 7, 28)),
    (str | dt.date, "2026-07-28", "2026-07-28"),
]


class Kind(Enum):
    A = "a"
    B = 2


class Worded(str, Enum):
    A = "a"


class Dated(Enum):
    A = dt.date(2026, 7, 28)


class Shape(Enum):
    A = (1, 2)


ONE_OF: dict[Any, bool] = {
    Kind: True,
    Worded: True,
    Literal[Worded.A]: True,
    Literal["a", 2]: True,
    Literal[Kind.A]: False,  # pydantic compares the text with the member
    Literal[Kind.A, "b"]: False,
    Literal[b"a"]: False,
    Dated: False,
    Shape: False,
}
AROUND: list[Any] = [
    lambda kind: (kind, lambda value: value),
    lambda kind: (list[kind], lambda value: [value]),  # type: ignore[valid-type]
    lambda kind: (kind | None, lambda value: value),
    lambda kind: (Annotated[kind, "text"], lambda value: value),
    lambda kind: (create_model("M", k=(kind, ...)), lambda value: {"k": value}),
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("kind", "can_be_sent"), ONE_OF.items(), ids=lambda each: str(each)[:30])
def test_every_value_that_a_schema_lists_is_accepted_or_refused_at_registration(
    kind: Any, can_be_sent: bool, around: Any
) -> None:
    annotation, wrap = around(kind)
    if not can_be_sent:
        with pytest.raises(RegistrationError, match=r"no client can send .*\(str, Enum\)"):
            arguments_of(handler(annotation))
        return
    parts = every_schema(arguments_of(handler(annotation)).schema())
    listed = [each.get("enum", [each.get("const")]) for each in parts]
    values = [value for each in listed for value in each if value is not None]
    assert values
    for value in values:
        accepted(annotation, wrap(value))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(Annotated[int, Field(ge=1)], 0), (str, None), (Literal["a"], "b"), (list[int], ["x"])],
    ids=str,
)
def test_a_default_that_no_client_can_send_is_not_listed(annotation: Any, default: Any) -> None:
    assert "default" not in arguments_of(handler(annotation, default)).schema()["properties"]["x"]
    assert arguments_of(handler(annotation, default)).validate({}).get("x", default) == default


@pytest.mark.parametrize(("annotation", "raw", "value"), ACCEPTED, ids=lambda each: str(each)[:30])
def test_values(annotation: Any, raw: Any, value: Any) -> None:
    found = accepted(annotation, raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "annotation",
    [
        *(bytes | str, str | bytes, bytes | str | None, bytes | bytearray | str),
        *(Annotated[bytes | str, "text"], Annotated[bytes | str, Field(max_length=9)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("text", ["test", "hello", "", "aGk="])
def test_text_stays_text_although_it_may_be_base64(annotation: Any, text: str) -> None:
    assert accepted(annotation, text) == text
    assert "contentEncoding" not in json.dumps(arguments_of(handler(annotation)).schema())
    assert accepted(Annotated[bytes | bytearray, "data"], "aGk=") == b"hi"


class TestTextWithJson:
    """Models send arrays and objects as text; only what has failed as text is read as JSON."""

    @pytest.mark.parametrize(
        ("annotation", "raw", "value"),
        [
            (list[int], "[1, 2]", [1, 2]),
            (list[int], " [1]", [1]),
            (dict[str, int], '{"a": 1}', {"a": 1}),
            (Point, '{"x": 1}', Point(x=1)),
            (list[Point], '[{"x": 1}]', [Point(x=1)]),
            (Point | None, '{"x": 1}', Point(x=1)),
            (set[int], "[1]", {1}),
            (Literal[1, 2], "2", 2),
        ],
        ids=str,
    )
    def test_is_read_where_it_belongs(self, annotation: Any, raw: str, value: Any) -> None:
        assert accepted(annotation, raw) == value

    @pytest.mark.parametrize("annotation", [str, str | dict[str, int], Any, str | None], ids=str)
    @pytest.mark.parametrize("raw", ['{"a": 1}', "[1]", "1", "null"])
    def test_stays_text_where_text_belongs(self, annotation: Any, raw: str) -> None:
        assert accepted(annotation, raw) == raw
        assert accepted(list[str], [raw]) == [raw]

    def test_that_is_not_json_is_reported_as_it_was_sent(self) -> None:
        for raw in ("[1", "[NaN]", "1"):
            assert problems(list[int], raw) == f"x: expected an array, got {json.dumps(raw)}"
        assert problems(int, "true") == 'x: expected an integer, got "true"'


def refuse(value: str) -> str:
    """A validator of an author who shows what was sent."""
    raise ValueError(f"{value} is refused")


class Measured(BaseModel):
    size: float


class Weight(TypedDict):
    grams: float


class Unbounded(BaseModel):
    model_config = ConfigDict(allow_inf_nan=True)
    size: float


def problems(annotation: Any, raw: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        accepted(annotation, raw)
    return str(caught.value)


PROBLEMS: list[tuple[Any, Any, str]] = [
    (int, "two", 'x: expected an integer, got "two"'),
    (int, 1.5, "x: expected an integer, got 1.5"),
    (int, None, "x: expected an integer, got null"),
    (int, [1], "x: expected an integer, got [1]"),
    (float, "a", 'x: expected a number, got "a"'),
    (float, "nan", 'x: expected a finite number, got "nan"'),
    (bool, 3, "x: expected true or false, got 3"),
    (str, 3, "x: expected a string, got 3"),
    (list[int], 3, "x: expected an array, got 3"),
    (set[int], 3, "x: expected an array, got 3"),
    (tuple[int, ...], 3, "x: expected an array, got 3"),
    (dict[str, int], 3, "x: expected an object, got 3"),
    (Point, 3, "x: expected an object, got 3"),
    (Spot, 3, "x: expected an object, got 3"),
    (Movie, 3, "x: expected an object, got 3"),
    (None, 3, "x: expected null, got 3"),
    (bytes, "!", 'x: expected base64, got "!"'),
    (dt.date, "soon", 'x: expected a date (YYYY-MM-DD), got "soon"'),
    (dt.date, "1", 'x: expected a date (YYYY-MM-DD), got "1"'),
    (dt.datetime, "soon", 'x: expected a date and time (ISO 8601), got "soon"'),
    (dt.time, "soon", 'x: expected a time (HH:MM:SS), got "soon"'),
    (dt.timedelta, "soon", 'x: expected a duration (ISO 8601), got "soon"'),
    (uuid.UUID, "me", 'x: expected a UUID, got "me"'),
    (Decimal, "a", 'x: expected a decimal number, got "a"'),
    (Literal["a", "b"], "c", "x: expected 'a' or 'b', got \"c\""),
    (Color, "green", "x: expected 'red' or 'blue', got \"green\""),
    (int | None, "two", 'x: expected an integer, got "two"'),
    (int | list[int], "two", 'x: expected an integer or an array, got "two"'),
    (Annotated[int, Field(ge=3)], 2, "x: expected greater than or equal to 3, got 2"),
    (Annotated[str, Field(min_length=2)], "a", 'x: expected at least 2 characters, got "a"'),
    (Annotated[str, Field(pattern="^b")], "a", "x: expected to match pattern '^b', got \"a\""),
    (list[int], [1, "two"], 'x[1]: expected an integer, got "two"'),
    (dict[str, int], {"a": "b"}, 'x.a: expected an integer, got "b"'),
    (dict[int, int], {"a": 1}, 'x.a: expected an integer, got "a"'),
    (tuple[int, int], [1], "x[1]: required, but missing"),
    (Guest, {"name": "Ann"}, "x.age: required, but missing"),
    (Guest, {"name": "Eve", "age": 1}, "x.name: Eve is not welcome"),
    (list[Guest], [{"name": "Ann", "age": "old"}], 'x[0].age: expected an integer, got "old"'),
    (
        Guest,
        {"name": "Ann", "age": 1, "tags": {"a": "b"}},
        'x.tags.a: expected an integer, got "b"',
    ),
    (Strict, {"x": 1, "z": 2}, "x.z: unknown member"),
    (Renamed, {"theX": "a"}, 'x.theX: expected an integer, got "a"'),
    (Pet, {"kind": "cat", "lives": "a"}, 'x.lives: expected an integer, got "a"'),
    (
        Pet,
        {"kind": "cow"},
        (
            "x: Input tag 'cow' found using 'kind' does not match any of the expected tags: "
            "'cat', 'dog'"
        ),
    ),
    (Pet, {}, "x: Unable to extract tag using discriminator 'kind'"),
    (Guest | None, {"name": "Ann", "age": "old"}, 'x.age: expected an integer, got "old"'),
]


class TestProblems:
    @pytest.mark.parametrize(
        ("annotation", "raw", "text"), PROBLEMS, ids=lambda each: str(each)[:40]
    )
    def test_are_one_line(self, annotation: Any, raw: Any, text: str) -> None:
        assert problems(annotation, raw) == text
        assert "pydantic" not in text

    @pytest.mark.parametrize(
        ("annotation", "raw", "text"),
        [each for each in PROBLEMS if isinstance(each[1], (dict, list))],
        ids=lambda each: str(each)[:40],
    )
    def test_of_a_text_with_json_are_those_inside_it(
        self, annotation: Any, raw: Any, text: str
    ) -> None:
        assert problems(annotation, json.dumps(raw)) == text

    def test_come_all_at_once(self) -> None:
        def fn(city: str, nights: int, guests: list[Guest]) -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            arguments_of(fn).validate(
                {"nights": "two", "guests": [{"name": 1, "age": "old"}], "sity": "oslo"}
            )
        assert caught.value.problems == [
            "city: required, but missing",
            'nights: expected an integer, got "two"',
            "guests[0].name: expected a string, got 1",
            'guests[0].age: expected an integer, got "old"',
            'sity: unknown argument; did you mean "city"?',
        ]

    def test_name_the_arguments_as_on_the_wire(self) -> None:
        def fn(city: str, nights: int) -> None: ...

        renamed = handler(Annotated[int, Field(alias="in")])
        assert arguments_of(renamed).validate({"in": 3}) == {"x": 3}
        for function, raw, said in (
            (
                fn,
                {"city": "oslo", "nights": 1, "zzz": 1},
                "zzz: unknown argument; known: city, nights",
            ),
            (lambda: None, {"a": 1}, "a: unknown argument; known: none"),
            (renamed, {"in": "a"}, 'in: expected an integer, got "a"'),
        ):
            with pytest.raises(InvalidArguments, match=f"^{said}$"):
                arguments_of(function).validate(raw)

    def test_are_twenty_at_most_and_the_number_of_the_others(self) -> None:
        lines = problems(list[int], ["a"] * 400).splitlines()
        assert lines[0] == 'x[0]: expected an integer, got "a"'
        assert lines[19:] == ['x[19]: expected an integer, got "a"', "and 380 more problems"]
        lines = problems(list[int | list[int]], ["a"] * 21).splitlines()
        assert lines[20] == "and 2 more problems", "each type of a union counts"
        assert len(problems(list[Measured], [{"size": "a"}, {"size": "b"}]).splitlines()) == 2

        def fn(x: list[int], y: int, z: list[int]) -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            arguments_of(fn).validate({"x": ["a"] * 15, "z": ["a"] * 10, "u": 1, "v": 1})
        assert len(caught.value.problems) == 21
        assert caught.value.problems[-1] == "and 8 more problems"

    @pytest.mark.parametrize(
        ("annotation", "raw"),
        [
            (list[Guest], [{}] * 10_000),
            (list[int | str | list[int]], [None] * 10_000),
            (dict[str, list[int]], {"a" * 10_000: ["b"] * 100}),
            (Tree, {"value": 1, "children": [{"value": 1, "children": [{}] * 10_000}]}),
        ],
        ids=lambda each: str(each)[:30],
    )
    def test_of_a_long_value_are_not_all_collected(self, annotation: Any, raw: Any) -> None:
        with pytest.raises(ValidationError) as caught:
            form_of(annotation).validate(raw)
        assert caught.value.error_count() <= 10

    def test_of_a_long_value_are_found_while_the_collector_rests(self) -> None:
        collects: set[bool] = set()

        def note(value: int) -> int:
            collects.add(gc.isenabled())
            return value

        accepted(list[Annotated[int, AfterValidator(note)]], [1] * 10_000)
        assert collects == {False}
        assert gc.isenabled()
        assert accepted(list[Point], [{"x": 1}] * 10_000) == [Point(x=1)] * 10_000
        assert accepted(Tree, {"value": 1, "children": [{"value": "2"}] * 10_000}).value == 1

    def test_that_cannot_be_cut_short_are_read_up_to_a_number(self) -> None:
        more = {f"more{number}": 1 for number in range(5000)}
        said = "there may be more: a long list is checked up to its first problem only"
        lines = problems(Strict, {"x": 1, **more}).splitlines()
        assert lines[:2] == ["x.more0: unknown member", "x.more1: unknown member"]
        assert lines[20:] == ["and 4,980 more problems", said]
        lines = problems(list[int], ["a"] * 10_000).splitlines()
        assert lines == ['x[0]: expected an integer, got "a"', said]

    def test_with_unknown_arguments_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        compared: list[str] = []

        def get_close_matches(name: str, names: Any, n: int) -> list[str]:
            compared.append(name)
            return []

        monkeypatch.setattr("difflib.get_close_matches", get_close_matches)
        raw = {"n" * 65: 1, **{f"n{number}": 1 for number in range(75_331)}}
        with pytest.raises(InvalidArguments) as caught:
            arguments_of(handler(int, 1)).validate(raw)
        assert caught.value.problems[-1] == "and 75,312 more problems"
        assert compared == ["n0", "n1"]

    @pytest.mark.parametrize(
        ("annotation", "raw"),
        [
            (dict[str, int], {"a" * 100_000: "b"}),
            (Guest, {"name": "a" * 100_000, "age": "b" * 100_000}),
            (Annotated[str, AfterValidator(refuse)], "a" * 100_000),
            (list[list[int]], [["a" * 100_000]]),
        ],
        ids=lambda each: str(each)[:30],
    )
    def test_are_short(self, annotation: Any, raw: Any) -> None:
        assert max(map(len, problems(annotation, raw).splitlines())) <= 1000
        with pytest.raises(InvalidArguments) as caught:
            arguments_of(handler(int, 1)).validate({"a" * 100_000: 1})
        assert len(str(caught.value)) < 300

    def test_do_not_read_more_of_a_value_than_they_show(self) -> None:
        read: list[int] = []

        class Counted(list[int]):
            def __iter__(self) -> Iterator[int]:
                for each in super().__iter__():
                    read.append(each)
                    yield each

        assert summarize(Counted(range(10_000))).startswith("[0,1,2,3,4,5,6,7,8,9,10,11,")
        assert len(read) < 60

    @pytest.mark.parametrize(
        "value",
        [
            [[[1, 2], [3]], {}, {"a": "b" * 57}, []],
            {"a": [1] * 40},
            {"a" * 70: 1},
            "é" * 60,
            '"' * 60,
            [1] * 28 + [[]],
            [[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
            10**70,
        ],
        ids=lambda each: str(each)[:20],
    )
    def test_show_the_beginning_of_a_value(self, value: Any) -> None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        assert summarize(value) == (text if len(text) <= 60 else text[:59] + "…")

    @pytest.mark.parametrize(
        ("annotation", "raw", "path"),
        [
            (float, math.inf, "x"),
            (int, math.inf, "x"),
            (Any, -math.inf, "x"),
            (Any, {"a": [1, math.inf]}, "x.a[1]"),
            (list[Any], [math.inf], "x[0]"),
            (dict[str, float], {"a": math.inf}, "x.a"),
            (Measured, {"size": math.inf}, "x.size"),
            (Measured, {"size": "1e400"}, "x.size"),
            (Measured, {"size": "nan"}, "x.size"),
            (list[Measured | None], [{"size": "inf"}], "x[0].size"),
            (list[Measured], [{"size": "inf"}] * 10_000, "x[0].size"),
            (Weight, {"grams": "inf"}, "x.grams"),
            (float | str, math.inf, "x"),
            (list[Measured], '[{"size": 1e400}]', "x[0].size"),
        ],
        ids=lambda each: str(each)[:40],
    )
    def test_are_numbers_too_large_for_a_float(self, annotation: Any, raw: Any, path: str) -> None:
        """Where a parser reads 1e400."""
        text = problems(annotation, raw)
        assert text.startswith(f"{path}: expected ")

    @pytest.mark.parametrize("annotation", [Any, list[Any], list[str]], ids=str)
    def test_are_none_if_a_text_speaks_of_infinity(
        self, annotation: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def walk(*_: Any) -> Any:
            raise AssertionError("a long value would be walked through for one word")

        monkeypatch.setattr(schema, "infinities", walk)
        assert accepted(annotation, ["to Infinity"]) == ["to Infinity"]
        assert accepted(Unbounded, {"size": "inf"}).size == math.inf

    def test_are_texts_with_more_values_than_a_message_may_have(self) -> None:
        assert len(accepted(list[int], json.dumps([0] * 49_990))) == 49_990
        found = problems(list[int], json.dumps([0] * 50_000))
        assert found.startswith("x: expected an array, got ")


class TestHostQuirks:
    """Arguments that hosts add by themselves are not passed to the tool."""

    def test_an_added_argument_is_dropped_unless_the_tool_has_it(self) -> None:
        for mark, names in HOST_ARGUMENTS.items():
            added = dict.fromkeys(names, "x")
            assert arguments_of(handler(int)).validate({"x": 2, **added}) == {"x": 2}
            own = arguments_of(handler(Annotated[str, Field(alias=mark)]))
            assert own.validate({mark: "mine"}) == {"x": "mine"}
            assert mark in names

    def test_other_arguments_are_unknown(self) -> None:
        """Without the mark, and beside it."""
        for unknown, added in ("action", {}), ("b", {"wait_for_previous": True}):
            with pytest.raises(InvalidArguments, match=f"^{unknown}: unknown argument; known: x$"):
                arguments_of(handler(int)).validate({"x": 1, unknown: "x", **added})


class TestAbsent:
    def test_a_default_is_filled_in_and_not_shared_by_calls(self) -> None:
        assert arguments_of(handler(int, 3)).validate({}) == {}, "Python fills it in"
        for annotation, default in (
            (list[int], Field([7])),
            (Annotated[list[int], Field(default=[7])], UNSET),
            (list[int], Field(default_factory=lambda: [7])),
            (list[int], [7]),
        ):
            arguments = arguments_of(handler(annotation, default))
            arguments.validate({})["x"].append(8)
            assert arguments.validate({}) == {"x": [7]}
            shown = arguments.schema()["properties"]["x"].get("default", [7])
            assert shown == [7]

    def test_a_sentinel_stays_itself(self) -> None:
        missing = object()
        assert arguments_of(handler(int, missing)).validate({}) == {}, "Python fills it in"

    @pytest.mark.filterwarnings("ignore:Default value")
    def test_a_default_that_cannot_be_copied_is_used_as_it_is(self) -> None:
        lock = threading.Lock()
        assert arguments_of(handler(Any, Field(lock))).validate({}) == {"x": lock}

    def test_null_is_accepted_though_it_is_not_advertised(self) -> None:
        assert arguments_of(handler(int | None, None)).validate({"x": None}) == {"x": None}
