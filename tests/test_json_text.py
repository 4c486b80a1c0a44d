"""Values are counted as a parser would find them, before anything is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.json import count_values, excess_of, excess_of_digits, has_more_values

TEXTS = st.text(alphabet=' ,:"\\[]{}aé', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


def count(value: Any) -> int:
    """The number of values in a JSON value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(JSON, st.booleans())
def test_the_number_is_right(value: Any, compact: bool) -> None:
    text = json.dumps(value, separators=(",", ":") if compact else None).encode()
    number = count(value)
    assert not has_more_values(text, number)
    assert has_more_values(text, number - 1)
    assert count_values(text, number) == number
    assert count_values(text, number - 1) > number - 1


@pytest.mark.parametrize("blanks", [0, 1, 2])
def test_the_number_is_right_of_a_long_text(blanks: int) -> None:
    text = b"[" + b" " * blanks + b"[],{},[{}]," * 80_000 + b"0]"
    assert not has_more_values(text, 320_002)
    assert has_more_values(text, 320_001)


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b"," * 1000 + b'"',
        b'"' + b'\\",[' * 1000 + b'"',
        b'"' + b"\\\\" * 1000 + b'"',
        b'{"' + b"[{," * 1000 + b'": 1}',
        b'["\\\\", "' + b"," * 1000 + b'"]',
    ],
    ids=lambda each: str(each)[2:12],
)
def test_what_stands_in_strings_does_not_count(text: bytes) -> None:
    json.loads(text)
    assert not has_more_values(text, 4)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 1000,
        b"1," * 1000,
        b'"\\\\",' * 1000,
        b'"\\"",' * 1000,
        b'{"a":1,' * 1000,
        b'["",' + b"1," * 1000 + b'"',
        b'"",' * 1000 + b"\\",
    ],
    ids=lambda each: str(each)[2:12],
)
def test_what_stands_before_a_mistake_counts(text: bytes) -> None:
    assert has_more_values(text, 100)


LARGE = b" " * 64 * 1024


@pytest.mark.parametrize("number", [b"7" * 401, b"-" + b"7" * 401, b"1." + b"7" * 401])
@pytest.mark.parametrize("around", [(b"", b""), (b'["a",', b"]"), (b'{"a\\"b":', b"}")])
def test_a_long_number_is_found_in_a_large_text(number: bytes, around: tuple[bytes, bytes]) -> None:
    text = LARGE + number.join(around)
    assert excess_of(text, 10) == "a number of more than 400 digits"
    assert not excess_of_digits(number.join(around))


@pytest.mark.parametrize("digits", [20, 21, 40, 390])
def test_long_numbers_have_so_many_digits_together(digits: int) -> None:
    number = b"7" * digits
    at_most = 200_000 // (digits // 20 * 20)
    assert not excess_of_digits(LARGE + b",".join([number] * at_most))
    said = "numbers of 20 digits and more, of 200,000 digits in all"
    assert excess_of_digits(LARGE + b",".join([number] * (at_most + 1))) == said


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"7" * 400 + b"," + b"7" * 400 + b"]",
        b'"' + b"7" * 1000 + b'"',
        b'["\\"' + b"7" * 1000 + b'"]',
        b'{"' + b"7" * 1000 + b'": 1}',
        b"[" + b",".join([b"7" * 19] * 50_000) + b"]",
        b'["' + b"7" * 300_000 + b'"]',
    ],
)
def test_digits_that_are_no_long_number(text: bytes) -> None:
    json.loads(text)
    assert not excess_of_digits(LARGE + text)
