"""Typed text → JSON values: arguments of tools, and fields of forms."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from mcpkit.cli._answers import Field, fields_of
from mcpkit.cli._arguments import suggest, tool_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "real": {"type": "number"},
        "flag": {"type": "boolean"},
        "words": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "any": {},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"enum": [1, 2]},
        "address": {"$ref": "#/$defs/Address"},
        "a.b": {"type": "integer"},
    },
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "number": {"type": "integer"}},
        }
    },
}

RIGHT: dict[str, tuple[list[str], dict[str, Any]]] = {
    "a text": (["text=12"], {"text": "12"}),
    "an empty text": (["text="], {"text": ""}),
    "a text with a sign in it": (["text=a=b:=c"], {"text": "a=b:=c"}),
    "an integer": (["whole=2"], {"whole": 2}),
    "an integer like a float": (["whole=2.0"], {"whole": 2}),
    "a number": (["real=2.5"], {"real": 2.5}),
    "yes": (["flag=yes"], {"flag": True}),
    "false": (["flag=False"], {"flag": False}),
    "a list of one": (["words=a,b"], {"words": ["a,b"]}),
    "a list item by item": (["numbers=1", "numbers=2"], {"numbers": [1, 2]}),
    "a list as JSON": (["numbers=[1, 2]"], {"numbers": [1, 2]}),
    "a text where anything goes": (["any=1"], {"any": "1"}),
    "a text where one is allowed": (["either=1"], {"either": "1"}),
    "an optional integer": (["maybe=1"], {"maybe": 1}),
    "null": (["maybe=null"], {"maybe": None}),
    "a choice of numbers": (["level=2"], {"level": 2}),
    "an object as JSON": (['address={"city": "Oslo"}'], {"address": {"city": "Oslo"}}),
    "members of an object": (
        ["address.city=Oslo", "address.number=3"],
        {"address": {"city": "Oslo", "number": 3}},
    ),
    "a name with a dot": (["a.b=1"], {"a.b": 1}),
    "a name that is not known": (["new.thing=1"], {"new.thing": "1"}),
    "JSON as it is": (["text:=12", "any:=[null]"], {"text": 12, "any": [None]}),
}


@pytest.mark.parametrize(("words", "arguments"), RIGHT.values(), ids=RIGHT.keys())
def test_words_become_what_the_schema_wants(words: list[str], arguments: dict[str, Any]) -> None:
    assert tool_arguments(words, SCHEMA, None) == arguments


WRONG = {
    "no sign": (["text"], None, "'text' is not an argument: write key=value, or key:=json"),
    "no name": (["=text"], None, "'=text' is not an argument"),
    "no integer": (["whole=two"], None, 'whole: expected integer, got "two"'),
    "half an integer": (["whole=2.5"], None, 'whole: expected integer, got "2.5"'),
    "no boolean": (["flag=maybe"], None, 'flag: expected boolean, got "maybe"'),
    "no item": (["numbers=x"], None, 'numbers: expected integer, got "x"'),
    "no object": (["address=Oslo"], None, "address: expected {city?: string, "),
    "no JSON": (["any:={"], None, "any:={: this is not JSON"),
    "twice": (["text=a", "text=b"], None, "text has been given already"),
    "no file": (["text=@missing.txt"], None, "missing.txt cannot be read: No such file"),
    "no name of a file": (["text=@"], None, "name a file after the @"),
    "no text in a file": ([f"text=@{sys.executable}"], None, " is not UTF-8 text"),
    "no object at once": ([], "[1]", "--args must be a JSON object"),
    "no JSON at once": ([], "{", "--args: this is not JSON"),
    "a member of a text": (["address.city=Oslo"], '{"address": 1}', "address has been given"),
}


@pytest.mark.parametrize(("words", "whole", "message"), WRONG.values(), ids=WRONG.keys())
def test_one_line_says_what_is_wrong(
    words: list[str], whole: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught:
        tool_arguments(words, SCHEMA, whole)
    shown = capsys.readouterr().err
    assert caught.value.exit_code == 2
    assert message in shown
    assert len(shown.splitlines()) == 1


def test_files(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear\n", encoding="utf-8")
    (tmp_path / "data.json").write_text('{"a": [1]}', encoding="utf-8")
    words = [f"text=@{tmp_path / 'letter.txt'}", f"any:=@{tmp_path / 'data.json'}"]
    assert tool_arguments(words, SCHEMA, '{"text": "a", "whole": 1}') == {
        "text": "Dear\n",  # single arguments override the object
        "any": {"a": [1]},
        "whole": 1,
    }


@pytest.mark.parametrize(
    ("names", "rest"),
    [
        (["book", "search"], "did you mean 'book'?"),
        ([], "there are none at all"),
        (["x", "y"], "there is x, y"),
        ([f"t{i:02}" for i in range(10)], "t07 and 2 more"),
    ],
)
def test_what_there_is_instead(names: list[str], rest: str) -> None:
    assert suggest("tool", "bok", names).endswith(rest)


def test_not_all_names_of_a_server_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[list[str]] = []

    def compare(name: str, names: list[str], *limits: float) -> list[str]:
        compared.append(names)
        return []

    monkeypatch.setattr("mcpkit.cli._arguments.get_close_matches", compare)
    suggest("tool", "bok", ["x" * 101, *["book"] * 100_000])
    assert compared == [["book"] * 999]


# --- fields of forms ------------------------------------------------------------------------------

TITLED = [{"const": "b", "title": "Breakfast"}, {"const": "p", "title": "Parking"}]
MANY = {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1}
TEXT = {"type": "string"}
CHOICE = {"type": "string", "enum": ["x", "y"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (TEXT, " a b ", " a b "),
        ({**TEXT, "format": "email"}, "a@b.c", "a@b.c"),
        ({**TEXT, "format": "uri"}, "https://a.b", "https://a.b"),
        ({**TEXT, "format": "date"}, "1999-12-31", "1999-12-31"),
        ({**TEXT, "format": "date-time"}, "1999-12-31T10:00:00Z", "1999-12-31T10:00:00Z"),
        ({"type": "integer", "minimum": 1}, " 3 ", 3),
        ({"type": "integer"}, "-3", -3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "no", False),
        (CHOICE, "y", "y"),
        (CHOICE, "2", "y"),
        ({**CHOICE, "enumNames": ["Ex", "Why"]}, "why", "y"),
        ({**TEXT, "enum": ["2", "1"]}, "1", "1"),
        ({**TEXT, "oneOf": TITLED}, "parking", "p"),
        (MANY, "1, parking", ["b", "p"]),
        (MANY, '["p"]', ["p"]),
        ({"type": "array", "items": CHOICE}, "x", ["x"]),
    ],
    ids=str,
)
def test_what_fits(schema: dict[str, Any], text: str, value: Any) -> None:
    assert Field("field", schema, True).read(text) == value


KINDS: dict[str, str] = {"string": "a", "integer": "1", "number": "1.5", "array": "a", "x": "a"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["x", None, [], {}, [[]], True], ids=repr)
def test_a_malformed_limit_is_ignored(kind: str, wrong: Any) -> None:
    keywords = (
        "minimum maximum minLength maxLength minItems maxItems format enum enumNames oneOf anyOf "
        "items title description"
    )
    schema: dict[str, Any] = {**dict.fromkeys(keywords.split(), wrong), "type": kind}
    (field,) = fields_of({"properties": {"a": schema}, "required": wrong})
    assert field.read(KINDS[kind]) is not None
    assert "None" not in field.about
    assert "True" not in field.about


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({**TEXT, "minLength": 2}, "a", "string, at least 2 characters"),
        ({**TEXT, "minLength": 2, "maxLength": 3}, "abcd", "string, 2 to 3 characters"),
        ({**TEXT, "format": "email"}, "a.b", "string, email, as ada@example.com"),
        ({**TEXT, "format": "uri"}, "a b", "string, uri, as https://example.com"),
        ({**TEXT, "format": "date"}, "1999-2-3", "string, date, as YYYY-MM-DD"),
        ({**TEXT, "format": "date-time"}, "1999-02-01", "string, date-time, as YYYY-MM-DDT"),
        ({"type": "integer"}, "2.5", 'integer, got "2.5"'),
        ({"type": "integer", "minimum": 1, "maximum": 4}, "5", "integer, 1 to 4"),
        ({"type": "number"}, "two", 'number, got "two"'),
        ({"type": "number", "maximum": 1}, "1.5", "number, at most 1"),
        ({"type": "boolean"}, "perhaps", 'boolean, got "perhaps"'),
        (CHOICE, "3", '"x" | "y"'),
        (MANY, "1, 7", 'list of ("b" | "p"), at least 1 item'),
        (MANY, '["z"]', 'list of ("b" | "p"), at least 1 item'),
        (MANY, ",", 'list of ("b" | "p"), at least 1 item'),
    ],
    ids=str,
)
def test_what_does_not_fit(schema: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^expected " + re.escape(message)):
        Field("field", schema, True).read(text)


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer"}, True), ({"type": "boolean"}, 1), (TEXT, 1), (MANY, "b")],
    ids=str,
)
def test_json_of_another_type(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        Field("field", schema, True).checked(value)


def test_the_fields_of_a_form() -> None:
    found = fields_of({"properties": {"a": {"default": 1}, "b": {}}, "required": ["b"]})
    assert [(each.name, each.required, each.has_default) for each in found] == [
        ("a", False, True),
        ("b", True, False),
    ]
