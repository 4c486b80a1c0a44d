"""Built-in types are to mcpkit what they are to pydantic, and are read without it."""

from __future__ import annotations

import enum
import json
import operator
import warnings
from functools import reduce
from typing import Annotated, Any, Dict, Final, List, Literal, Optional, Union  # noqa: UP035

import annotated_types as limits
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from mcpkit import Complete, MirroredHeader
from mcpkit._signature.builtin_types import read_built_in
from mcpkit._signature.schema import form_of, schema_generator
from tests.models import Point

CONFIG: Final = ConfigDict(allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64")

TEXT: Final = st.sampled_from(["", "Where to go.", "a\nb", "ä"])
PLAIN: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**60, -1.5, 0.0, 2.0, float("nan"), float("inf")]),
    TEXT,
)
SMALL: Final = st.one_of(
    st.integers(-2, 2), st.sampled_from([0.0, 1.5, -0.5, 2**53, float("nan"), float("inf")])
)


@st.composite
def fields(draw: st.DrawFn) -> Any:
    """What an author writes as ``Field(...)``, with limits that fit a type or do not."""
    said: dict[str, Any] = {}
    for name, values in {
        "default": PLAIN,
        "description": TEXT,
        "title": TEXT,
        "examples": st.lists(PLAIN, max_size=2),
        "ge": SMALL,
        "gt": SMALL,
        "le": SMALL,
        "lt": SMALL,
        "multiple_of": SMALL,
        "min_length": st.integers(-1, 2),
        "max_length": st.integers(-1, 2),
        "pattern": st.just("a"),
        "strict": st.booleans(),
        "deprecated": st.just(True),
        "json_schema_extra": st.just({"x": 1}),
    }.items():
        if draw(st.integers(0, 7)) == 0:
            said[name] = draw(values)
    return Field(**said)


METADATA: Final = st.one_of(
    fields(),
    fields(),
    st.builds(limits.Ge, SMALL),
    st.builds(limits.MaxLen, st.integers(0, 2)),
    st.sampled_from(["a comment", Complete(("a",)), MirroredHeader("A"), limits.Interval(ge=1), 7]),
)

VALUES: Final = st.sampled_from(["a", "b", "", 0, 1, 2, True, False, None])


def union(*members: Any) -> Any:
    return Union[members]  # noqa: UP007


def bars(*members: Any) -> Any:
    try:
        return reduce(operator.or_, members)
    except TypeError:  # None | None
        return union(*members)


LEAVES: Final = st.one_of(
    st.sampled_from([int, float, bool, str, None, Any, object, list, dict]),
    st.lists(VALUES, min_size=1, max_size=4).map(lambda values: Literal[tuple(values)]),
    st.sampled_from([bytes, Point, enum.Enum("Color", {"RED": "red"}), set[int]]),
)


ONE: Final[list[Any]] = [list, List, Optional]  # noqa: UP006
TABLES: Final[list[Any]] = [dict, Dict]  # noqa: UP006


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda of, one: of[one], st.sampled_from(ONE), inner),
        st.builds(
            lambda of, key, one: of[key, one],
            st.sampled_from(TABLES),
            st.sampled_from([str, str, int]),
            inner,
        ),
        members.map(lambda found: union(*found)),
        members.map(lambda found: bars(*found)),
        members.map(lambda found: bars(*found, None)),
        st.builds(
            lambda one, said: reduce(lambda made, each: Annotated[made, each], said, one),
            inner,
            st.lists(METADATA, min_size=1, max_size=2),
        ),
    )


ANNOTATIONS: Final = st.recursive(LEAVES, grown, max_leaves=4)


def adapter_of(annotation: Any) -> TypeAdapter[Any] | None:
    """What pydantic makes of a type; None if it refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return TypeAdapter(annotation, config=CONFIG)
    except Exception as error:
        if getattr(error, "code", None) == "type-adapter-config-unused":
            return TypeAdapter(annotation)
        return None


def bare(core: Any) -> Any:
    """A core schema without what is for JSON Schema only, and without a default around it."""
    if isinstance(core, dict):
        if core.get("type") == "default":
            return bare(core["schema"])
        return {key: bare(value) for key, value in core.items() if key != "metadata"}
    return [bare(each) for each in core] if isinstance(core, list) else core


def typed(value: Any) -> Any:
    """A value that equals another only if their types are equal too: True is not 1."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    return [typed(each) for each in value] if isinstance(value, list) else (type(value), value)


JSON: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.sampled_from("ab01")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def outcome(function: Any, *given: Any, **options: Any) -> Any:
    """What a function returns, or the exception that it raises, as text."""
    try:
        return repr(function(*given, **options))
    except ValidationError as error:
        return repr(error.errors(include_url=False))  # the title is another with a default around
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@given(ANNOTATIONS, st.lists(JSON, min_size=1, max_size=3))
def test_values_equal_those_of_pydantic(annotation: Any, values: list[Any]) -> None:
    """Its core schema, its JSON Schema with the keywords in the same order, and its problems."""
    found = read_built_in(annotation)
    event("read" if found is not None else "left to pydantic")
    if found is None:
        return
    form, adapter = form_of(annotation), adapter_of(annotation)
    assert adapter is not None, "nothing is read that pydantic refuses"
    assert typed(found[0]) == typed(bare(adapter.core_schema))
    for mode in ("validation", "serialization"):
        made = adapter.json_schema(mode=mode, schema_generator=schema_generator())
        assert json.dumps(found[1]) == json.dumps(made)
    for value in values:
        text = to_json(value)
        assert outcome(form.validator.validate_json, text) == outcome(
            adapter.validator.validate_json, text
        )
        assert outcome(form.serializer.to_json, value, warnings="error") == outcome(
            adapter.serializer.to_json, value, warnings="error"
        )


@pytest.mark.parametrize(
    "annotation",
    [
        *(int, float, bool, str, None, Any, object, list, dict),
        list[str],
        List[str],  # noqa: UP006
        dict[str, Any],
        list[dict[str, int | None]],
        int | None,
        Optional[str],  # noqa: UP045
        Union[int, str, None],  # noqa: UP007
        Literal["a", "b"],
        Literal["a", 1, None] | None,
        Annotated[str, "a comment"],
        Annotated[str, Complete(["a"])],
        Annotated[int, Field(description="How many.", ge=1, le=100)],
        Annotated[float, Field(gt=0)],
        Annotated[list[str], Field(min_length=1, max_length=9)],
        Annotated[str, Field(min_length=1)],
        Annotated[int, Field(20, description="How many.")],
        Annotated[int | None, Field(default=None, description="How many.")],
    ],
    ids=str,
)
def test_types_that_tools_have_are_read(annotation: Any) -> None:
    assert read_built_in(annotation) is not None


def test_a_validator_is_made_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """And pydantic's generators are not asked for one."""
    monkeypatch.setattr("mcpkit._signature.schema.SchemaValidator", None)
    form = form_of(list[Annotated[int, Field(ge=7)]])
    assert form.schema("validation") == {
        "items": {"minimum": 7, "type": "integer"},
        "type": "array",
    }
    monkeypatch.undo()
    monkeypatch.setattr("pydantic.TypeAdapter", None)
    assert form.validate([7, "8"]) == [7, 8]
    with pytest.raises(ValidationError):
        form.validate(["a"])
    assert form.dump([9]) == b"[9]"
