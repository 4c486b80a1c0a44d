"""The frontmatter of skills: fields, and YAML that every host reads alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol.skills import parse_frontmatter
from mcpkit.errors import SkillError

REQUIRED = "name: pdf\ndescription: Read it.\n"


def fields(yaml_text: str) -> Mapping[str, Any]:
    """The fields of a frontmatter besides the required ones."""
    found = dict(parse_frontmatter(f"---\n{REQUIRED}{yaml_text}\n---\n# Body\n"))
    assert (found.pop("name"), found.pop("description")) == ("pdf", "Read it.")
    return found


def written(document: Mapping[str, Any]) -> str:
    """A file with these fields, each on a line of its own."""
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in document.items()]
    return f"---\n{''.join(lines)}---\n"


def refusal(text: str) -> str:
    with pytest.raises(SkillError) as caught:
        parse_frontmatter(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("word", "word"),
        ("'Use it: now'", "Use it: now"),
        ("1.2.3", "1.2.3"),
        ("v1", "v1"),
        ("https://example.com/?a=b#c", "https://example.com/?a=b#c"),
        ("don't # a comment", "don't"),
        ("over\n  two lines", "over two lines"),
        (">-\n  folded\n  text", "folded text"),
        ("|\n  lines\n  kept\nlast: x", "lines\nkept\n"),
        ('"\\u00fc \\U0001F600"', "ü 😀"),
        ("ü 😀", "ü 😀"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("", None),
        ("-12", -12),
        ("0", 0),
        ("999999999999999", 999_999_999_999_999),
        ("1.50", 1.5),
        ("[a, 1, {b: [c]}]", ["a", 1, {"b": ["c"]}]),
        ("\n- a\n- b: c\n  d: 1", ["a", {"b": "c", "d": 1}]),
        ("{\n  a: b\n}", {"a": "b"}),
        ("[" * 31 + "]" * 31, json.loads("[" * 31 + "]" * 31)),
    ],
)
def test_fields_are_passed_on_as_json_values(text: str, value: Any) -> None:
    """SKILL-12: the frontmatter is the whole YAML as JSON. SKILL-10: other fields pass through."""
    assert fields(f"extra: {text}")["extra"] == value


@pytest.mark.parametrize(
    "word",
    [
        *("yes", "No", "ON", "off", "y", "N", "True", "FALSE", "Null"),
        *("010", "00", "0o17", "0x1F", "0b11", "1_000", "12:30", "1:2:3", "+1", "-0"),
        *("1e3", "1.5e+3", ".5", "5.", "1_0.5", ".inf", "-.INF", ".nan"),
        *("2024-01-01", "2001-12-14t21:59:43.10-05:00", "<<", "=", "9" * 16, "9" * 1000),
    ],
    ids=lambda word: word[:30],
)
def test_words_that_yaml_1_1_and_1_2_read_differently_must_be_quoted(word: str) -> None:
    """SKILL-13"""
    for yaml_text in (f"extra: {word}", f"extra: [a, {word}]", f"{word}: value"):
        with pytest.raises(
            SkillError, match=r"^SKILL.md:4: YAML readers may disagree about .* quotes"
        ):
            fields(yaml_text)
    assert fields(f"extra: '{word}'") == {"extra": word}
    assert fields(f"extra: >-\n  {word}") == {"extra": word}


@pytest.mark.parametrize(
    ("yaml_text", "line", "reason"),
    [
        ("a: &anchor b", 4, "anchor or alias"),
        ("a: b\nc: *a", 5, "anchor or alias"),
        ("a: !!str 1", 4, "the tag 'tag:yaml.org,2002:str'"),
        ("a: !own 1", 4, "the tag '!own'"),
        ("a: b\na: c", 5, "repeats the key 'a'"),
        ("a:\n  {b: 1, b: 2}", 5, "repeats the key 'b'"),
        ("1: a", 4, "key that is not a string"),
        ("[a]: b", 4, "key that is not a string"),
        ("? a\n: b", 4, "question mark"),
        ("a: {?b}", 4, "question mark"),
        ("a:\n\t- b", 5, "tab"),
        ("a:\tb", 4, "not valid YAML"),
        ("...\na: b", 4, "single document"),
        ("a: " + "[" * 32 + "]" * 32, 4, "deeper than 32"),
        ("a: " + "[" * 60_000, 4, "deeper than 32"),
        ("a: [b", 5, "not valid YAML"),
        ("a: Use it: now", 4, "quote a value that contains ': '"),
        ("a: 'b'#c", 4, "space is missing before the comment"),
        ("a: [b,#c\n d]", 4, "space is missing before the comment"),
        ("a: 'b\nc'", 4, "indented by more spaces"),
        ("a:\n|-\nb: c", 5, "indented by more spaces"),
        ("a: [b\n, c]", 4, "indented by more spaces"),
        ("a: |2-\n    b", 4, "only '-' or '[+]' may follow"),
        ("a: >\n  b", 4, "last newline; write >- instead"),
        ("a: b\u2028c", 4, r"the character '\\u2028'"),
        ("a: b\x85", 4, r"the character '\\x85'"),
        ("a: b\rc: d", 4, r"the character '\\r'"),
        ("a: \ufeff", 4, r"the character '\\ufeff'"),
        ("a: \0", 4, r"the character '\\x00'"),
        (r'a: "\ud83d\ude00"', 4, "escaped surrogate"),
    ],
)
def test_yaml_that_hosts_read_differently_is_refused_with_its_line(
    yaml_text: str, line: int, reason: str
) -> None:
    """SKILL-13"""
    with pytest.raises(SkillError, match=rf"^SKILL.md:{line}: .*{reason}"):
        fields(yaml_text)


@pytest.mark.parametrize("escape", [r"\U00110000", r"\UFFFFFFFF"])
def test_an_escape_beyond_unicode_is_refused(escape: str) -> None:
    assert "not a Unicode character" in refusal(f'---\nname: "{escape}"\n---\n')


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_frontmatter_stands_between_lines_of_three_hyphens(newline: str) -> None:
    """SKILL-11"""
    lines = ["---", "name: a-1", "description: d", "---", "", "---", "yes: no"]
    for count in (4, 5, 7):  # what follows is not YAML, and need not be there
        found = parse_frontmatter(newline.join(lines[:count]))
        assert found == {"name": "a-1", "description": "d"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "SKILL.md:1: must begin with a line of three hyphens"),
        ("# Title\n", "SKILL.md:1: must begin"),
        (f"\ufeff---\n{REQUIRED}---\n", "SKILL.md:1: must begin"),
        (f"--- \n{REQUIRED}---\n", "SKILL.md:1: must begin"),
        (f"\n---\n{REQUIRED}---\n", "SKILL.md:1: must begin"),
        (f"---\n{REQUIRED}", "SKILL.md: within 65536 characters"),
        (f"---\n{REQUIRED}x: {'y' * 65536}\n---\n", "SKILL.md: within 65536 characters"),
        (f"---\n{REQUIRED}--- \n", "SKILL.md:4: this line must be three hyphens"),
        (f"---\n{REQUIRED}---- \n---\n", "SKILL.md:4: this line must be three hyphens"),
        ("---\n---\n", "SKILL.md:2: the frontmatter must have fields"),
        ("---\n- a\n---\n", "SKILL.md:2: the frontmatter must have fields"),
        ("---\njust text\n---\n", "SKILL.md:2: the frontmatter must have fields"),
        ("---\nname: pdf\n---\n", "SKILL.md: the field 'description' is missing"),
        ("---\ndescription: d\n---\n", "SKILL.md: the field 'name' is missing"),
    ],
)
def test_other_beginnings_and_ends_are_refused(text: str, message: str) -> None:
    """SKILL-11"""
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("name", ["a", "9", "a-b-c", "x" * 64], ["-a", "a-", "a--b", "A", "a_b", "é", "x" * 65]),
        ("name", [], ["", "a\n", 1, None, ["a"]]),
        ("description", ["d", "ü" * 1024], ["", " ", "ü" * 1025, 1, None]),
        ("license", ["MIT", ""], [1, None, ["MIT"]]),
        ("compatibility", ["c", "c" * 500], ["", "c" * 501, 1]),
        ("metadata", [{}, {"a": "b", "c": [1]}], ["a", ["a"], None]),
        ("metadata", [{"io.modelcontextprotocol": 1}], [{"io.modelcontextprotocol/x": "reserved"}]),
        ("allowed-tools", ["Read Bash(git:*)", ["Read", "Grep"]], [1, None, {"a": "b"}, [1]]),
    ],
)
def test_known_fields_have_rules(field: str, good: list[Any], bad: list[Any]) -> None:
    """SKILL-9, SKILL-10, SKILL-14"""
    for value in good:
        document = {"name": "pdf", "description": "d", field: value}
        assert parse_frontmatter(written(document)) == document
    for value in bad:
        document = {field: value} | {"name": "pdf", "description": "d", field: value}
        assert refusal(written(document)).startswith(f"SKILL.md:2: '{field}' must be ")


def test_without_pyyaml_the_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r'pip install "mcpkit\[skills\]"'):
        parse_frontmatter(f"---\n{REQUIRED}---\n")


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: "\x7f" not in text  # JSON does not escape it, and YAML does not allow it
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15) + 1, 10**15 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@given(JSON)
def test_json_is_read_as_it_is(value: Any) -> None:
    assert fields(f"extra: {json.dumps(value)}") == {"extra": value}


@given(st.text("aynoefx0179_+-.:~=<TZ ", min_size=1, max_size=8))
def test_what_is_accepted_without_quotes_is_what_yaml_1_1_reads(text: str) -> None:
    """SKILL-13"""
    with suppress(SkillError):
        assert fields(f"extra: {text}") == yaml.safe_load(f"extra: {text}")
