"""The estimate of tokens, held against what real tokenizers have counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.cli._token_estimate import estimate, tool_tokens

SENTENCE = "The quick brown fox jumps over the lazy dog."
DESCRIPTION = (
    "Search for flights between two airports. Returns at most ten offers, cheapest first; "
    "prices include taxes and are in euros."
)
SCHEMA = (
    '{"type":"object","properties":{"query":{"type":"string","description":"What to look for"},'
    '"limit":{"type":"integer","default":10}},"required":["query"]}'
)
CODE = """\
def weather(city: str, days: int = 3) -> list[Forecast]:
    return [forecast(city, day) for day in range(days)]
"""
COUNTED = {
    "a sentence": (SENTENCE, 10, 10),
    "a description": (DESCRIPTION, 24, 25),
    "a schema": (SCHEMA, 37, 36),
    "code": (CODE, 32, 36),
}
"""Texts, and their tokens in o200k_base and in Anthropic's published tokenizer."""

BOOK: dict[str, Any] = {
    "name": "book_hotel",
    "description": "Book a hotel in a city. Asks the user before anything is paid.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to stay."},
            "nights": {"type": "integer", "minimum": 1, "default": 2},
            "guests": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "birthDate": {"type": "string"}},
                    "required": ["name"],
                },
            },
        },
        "required": ["city"],
    },
}
"""Has 103 and 105 tokens as compact JSON."""


@pytest.mark.parametrize(("text", "one", "other"), COUNTED.values(), ids=COUNTED.keys())
def test_english_code_and_json_are_within_a_tenth(text: str, one: int, other: int) -> None:
    assert estimate(text) == pytest.approx((one + other) / 2, rel=0.1)


def test_a_tool_is_its_name_its_description_and_its_input_schema() -> None:
    assert tool_tokens(BOOK) == pytest.approx(104, rel=0.1)


def test_what_a_model_does_not_read_costs_nothing() -> None:
    more = {"outputSchema": BOOK["inputSchema"], "annotations": {"readOnlyHint": True}, "_meta": {}}
    assert tool_tokens({**BOOK, **more}) == tool_tokens(BOOK)


@given(st.text())
def test_no_text_has_more_tokens_than_characters(text: str) -> None:
    assert 0 <= estimate(text) <= len(text)


@given(st.text(), st.text())
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert estimate(text + "\n\n" + more) + 1 >= estimate(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", " ", "\t", "\n"])
def test_blanks_without_end_take_linear_time(blank: str) -> None:
    """A server writes the description; in quadratic time this would take minutes."""
    assert estimate(blank * 300_000) <= 300_000
