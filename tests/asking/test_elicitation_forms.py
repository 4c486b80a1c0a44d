"""Forms: types → requested schemas, answers → values (ELIC-4, ELIC-11)."""

from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import Choices, Elicit, ElicitationError, InvalidInputResponse
from mcpkit._protocol.revisions import REVISIONS, Revision
from mcpkit.elicitation import Accepted, Declined, Dismissed, ElicitUrl, Form
from tests.schemas import check_value

WITH_FORMS = [each for each in REVISIONS if each.elicitation_modes]
RICH = [each for each in WITH_FORMS if each.elicitation_rich]
PLAIN = [each for each in WITH_FORMS if not each.elicitation_rich]

with_forms = pytest.mark.parametrize("revision", WITH_FORMS, ids=str)
rich = pytest.mark.parametrize("revision", RICH, ids=str)
plain = pytest.mark.parametrize("revision", PLAIN, ids=str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Trip(BaseModel):
    city: Annotated[str, Field(title="City", description="Where to", min_length=2, max_length=40)]
    days: Annotated[int, Field(ge=1, le=30)] = 7
    window: bool = True
    note: str | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class Login(TypedDict):
    user: str


def requested(wanted: Any, revision: Revision) -> Any:
    """The requested schema, after the official schema had its say."""
    params = Elicit("What?", wanted).params(revision)
    version = revision.version
    rules = "ElicitRequestFormParams" if len(revision.elicitation_modes) > 1 else "ElicitRequest"
    whole: Any = params
    if rules == "ElicitRequest":
        whole = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    check_value(whole, version, rules)
    for field in params["requestedSchema"]["properties"].values():
        check_value(field, version, "PrimitiveSchemaDefinition")
    return params["requestedSchema"]


LONE: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (uuid.UUID, {"type": "string"}),  # of formats there are four
    (Annotated[str, Field(max_length=5)], {"type": "string", "maxLength": 5}),
    (Annotated[int, Field(ge=0, le=9)], {"type": "integer", "minimum": 0, "maximum": 9}),
    (Annotated[str, Field(pattern="^a")], {"type": "string"}),
    (Annotated[int, Field(gt=0)], {"type": "integer"}),
    (Annotated[str, Field(title="T")], {"type": "string", "title": "T"}),
    (Literal["a"], {"type": "string", "enum": ["a"]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Colour, {"type": "string", "enum": ["red", "blue"]}),
    (["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Choices(["a", "b"]), {"type": "string", "enum": ["a", "b"]}),
]


@with_forms
@pytest.mark.parametrize(("wanted", "field"), LONE, ids=lambda each: str(each)[:50])
def test_a_value_is_a_field(wanted: Any, field: Any, revision: Revision) -> None:
    expected = {"type": "object", "properties": {"value": field}, "required": ["value"]}
    assert requested(wanted, revision) == expected


ONE_OF = [{"const": "lis", "title": "Lisbon"}, {"const": "osl", "title": "Oslo"}]
NAMES = {"lis": "Lisbon", "osl": "Oslo"}

CHOICES: list[tuple[Any, dict[str, Any]]] = [
    (NAMES, {"type": "string", "oneOf": ONE_OF}),
    (list[Literal["a"]], {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
    (list[Colour], {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}),
    (
        Choices(["a", "b"], multiple=True, least=1, most=2),
        {
            "type": "array",
            "items": {"type": "string", "enum": ["a", "b"]},
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    (Choices(NAMES, multiple=True), {"type": "array", "items": {"anyOf": ONE_OF}}),
]


@rich
@pytest.mark.parametrize(("wanted", "field"), CHOICES, ids=lambda each: str(each)[:50])
def test_choices_with_titles_and_of_several(wanted: Any, field: Any, revision: Revision) -> None:
    assert requested(wanted, revision)["properties"] == {"value": field}


class Several(BaseModel):
    many: list[Literal["a", "b"]] = []
    one: str


@plain
def test_choices_with_titles_and_of_several_before_they_existed(revision: Revision) -> None:
    """ELIC-11: titles stand beside the values, and a list of choices needs a default."""
    field = requested(NAMES, revision)["properties"]["value"]
    assert field == {"type": "string", "enum": ["lis", "osl"], "enumNames": ["Lisbon", "Oslo"]}
    with pytest.raises(ElicitationError, match="cannot ask for several values"):
        requested(list[Literal["a"]], revision)
    assert list(requested(Several, revision)["properties"]) == ["one"]
    assert Form[Several](Several).read({"one": "x"}) == Accepted(Several(one="x"))


@with_forms
def test_a_model_is_a_form(revision: Revision) -> None:
    days: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 30}
    if revision.elicitation_rich:
        days["default"] = 7  # before, only booleans had one
    city = {"title": "City", "description": "Where to", "minLength": 2, "maxLength": 40}
    assert requested(Trip, revision) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", **city},
            "days": days,
            "window": {"type": "boolean", "default": True},
            "note": {"type": "string"},
        },
        "required": ["city"],
    }
    content = {"city": "Oslo"}
    found: Any = Elicit("What?", Trip).parse_result({"action": "accept", "content": content})
    assert found.data == Trip(city="Oslo")


@with_forms
@pytest.mark.parametrize(("wanted", "names"), [(Point, ["x", "y"]), (Login, ["user"])], ids=str)
def test_other_classes_with_fields_are_forms(
    wanted: Any, names: list[str], revision: Revision
) -> None:
    assert list(requested(wanted, revision)["properties"]) == names


class Nothing(BaseModel, extra="forbid"):
    pass


@with_forms
@pytest.mark.parametrize("wanted", [None, Nothing], ids=str)
def test_a_form_without_fields_has_a_box_to_tick(wanted: Any, revision: Revision) -> None:
    """Some clients show a form without fields with nothing to press, or refuse it."""
    assert requested(wanted, revision) == {
        "type": "object",
        "properties": {"confirm": {"type": "boolean", "title": "Confirm", "default": True}},
    }


@pytest.mark.parametrize("wanted", [None, Nothing], ids=str)
def test_a_user_may_confirm_without_the_box_but_not_with_an_empty_one(wanted: Any) -> None:
    """ELIC-3: to untick the box is to decline."""
    ask = Elicit("Sure?", wanted)
    for content in ({}, {"confirm": True}, {"confirm": None}):
        assert ask.parse_result({"action": "accept", "content": content}).accepted
    assert ask.parse_result({"action": "accept", "content": {"confirm": False}}) == Declined()
    with pytest.raises(InvalidInputResponse):
        ask.parse_result({"action": "accept", "content": {"confirm": "false"}})


class Own(BaseModel):
    confirm: bool


def test_a_field_of_that_name_is_the_authors_own() -> None:
    answer = Elicit("Sure?", Own).parse_result({"action": "accept", "content": {"confirm": False}})
    assert answer.data == Own(confirm=False)


class Nested(BaseModel):
    trip: Trip


class Recursive(BaseModel):
    inner: Recursive | None = None


REFUSED: list[tuple[Any, str]] = [
    (dict, "nothing nested"),
    (Nested, "trip: .*nothing nested"),
    (Recursive, "flat|nothing nested"),
    (list[str], "lists of choices only"),
    (list[Trip], "lists of choices only"),
    (list[str | int], "lists of choices only"),
    (list[Literal[1, 2]], "must be strings"),
    (int | str, "nothing nested"),
    (Literal[1, 2], "must be strings"),
    (NotImplemented, "cannot be asked for"),
]


@pytest.mark.parametrize(("wanted", "reason"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_does_not_fit_into_a_form_is_refused_at_once(wanted: Any, reason: str) -> None:
    """ELIC-11."""
    with pytest.raises(ElicitationError, match=reason):
        Elicit("What?", wanted)


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_forms_and_pages_are_refused_where_they_do_not_exist(revision: Revision) -> None:
    """ELIC-11: a form has a mode where there are pages, and a page an id in one revision."""
    form, page = Elicit("What?"), ElicitUrl("Why", "https://example.com", "id")
    has_pages = "url" in revision.elicitation_modes
    if revision.elicitation_modes:
        assert form.params(revision).get("mode") == ("form" if has_pages else None)
    else:
        with pytest.raises(ElicitationError, match="no elicitation"):
            form.params(revision)
    if not has_pages:
        with pytest.raises(ElicitationError, match="cannot ask to open"):
            page.params(revision)
        return
    params = page.params(revision)
    check_value(params, revision.version, "ElicitRequestURLParams")
    assert ("elicitationId" in params) == revision.elicitation_ids


def test_only_a_parameter_may_compute_its_message() -> None:
    with pytest.raises(ElicitationError, match="only a parameter"):
        Elicit(lambda path: path).params(RICH[0])


# --- answers --------------------------------------------------------------------------------------

READ: list[tuple[Any, Any, Any]] = [
    (str, "x", "x"),
    (int, 3, 3),
    (int, 3.0, 3),
    (float, 3, 3.0),
    (bool, False, False),
    (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
    (Colour, "red", Colour.RED),
    (NAMES, "lis", "lis"),
    (list[Colour], ["red"], [Colour.RED]),
    (Choices(["a", "b"], multiple=True), ["a", "b"], ["a", "b"]),
]


@pytest.mark.parametrize(("wanted", "answer", "value"), READ, ids=lambda each: str(each)[:30])
def test_an_answer_is_read_as_its_type(wanted: Any, answer: Any, value: Any) -> None:
    found = Elicit("What?", wanted).parse_result({"action": "accept", "content": {"value": answer}})
    assert found == Accepted(value)
    assert found.accepted
    assert type(found.data) is type(value)


WRONG: list[tuple[Any, Any]] = [
    (str, 3),
    (str, None),
    (int, "3"),
    (int, True),
    (int, 3.5),
    (float, "3"),
    (bool, "true"),
    (bool, 1),
    (datetime.date, "tomorrow"),
    (datetime.date, 7),
    (Colour, "green"),
    (NAMES, "Lisbon"),
    (list[Colour], "red"),
    (list[Colour], ["green"]),
    (Annotated[int, Field(ge=0)], -1),
    (Annotated[str, Field(pattern="^a")], "b"),
    (Annotated[str, Field(min_length=1)], ""),
]


@pytest.mark.parametrize(("wanted", "answer"), WRONG, ids=lambda each: str(each)[:40])
def test_an_answer_that_breaks_the_schema_is_invalid(wanted: Any, answer: Any) -> None:
    """ELIC-4, MRTR-11."""
    with pytest.raises(InvalidInputResponse):
        Elicit("What?", wanted).parse_result({"action": "accept", "content": {"value": answer}})


@pytest.mark.parametrize("content", [None, [], "x", 7, {}], ids=repr)
def test_an_accepted_form_without_its_content_is_invalid(content: Any) -> None:
    with pytest.raises(InvalidInputResponse):
        Elicit("What?", str).parse_result({"action": "accept", "content": content})


@pytest.mark.parametrize(
    "content",
    ["a" * 100_000, ["a" * 100_000], {"value": ["a"] * 100_000}],
    ids=["text", "array", "object"],
)
def test_a_long_invalid_answer_is_repeated_in_part(content: Any) -> None:
    answer = {"action": "accept", "content": {"value": content}}
    for refused in (answer, {"action": content}):
        with pytest.raises(InvalidInputResponse) as caught:
            Elicit("What?", int).parse_result(refused)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("action", [None, 1, "ACCEPT", [], "maybe"], ids=repr)
def test_an_unknown_action_is_invalid(action: Any) -> None:
    """ELIC-3: and declined is not dismissed."""
    for ask in (Elicit("What?"), ElicitUrl("Why", "https://example.com", "id")):
        with pytest.raises(InvalidInputResponse, match="action"):
            ask.parse_result({"action": action})
        for known, answer in (("decline", Declined()), ("cancel", Dismissed())):
            assert ask.parse_result({"action": known}) == answer
            assert not answer.accepted


class Named(BaseModel):
    """A field that the form shows under another name."""

    city: Annotated[str, Choices({"os": "Oslo", "li": "Lisbon"}), Field(alias="theCity")]


@rich
def test_choices_of_a_field_with_an_alias_stay_choices(revision: Revision) -> None:
    schema = Form(Named).requested(revision)
    assert [each["const"] for each in schema["properties"]["theCity"]["oneOf"]] == ["os", "li"]
