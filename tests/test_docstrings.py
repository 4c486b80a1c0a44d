"""What registration reads in a docstring: the description, and those of the parameters."""

from __future__ import annotations

import inspect
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from mcpkit.functions.docstrings import (
    _SECTION,
    Docs,
    _google_docs,
    _parsed_docs,
    parse_docstring,
)

GOOGLE = """Book a hotel.

Only where there is room.

Args:
    city (str): Where to stay,
        or near it.
    nights: How many: one by one.
    **more: The rest.

Returns:
    A booking.

Raises:
    ValueError: If there is none.
"""

NUMPY = """Book a hotel.

Only where there is room.

Parameters
----------
city : str
    Where to stay,
    or near it.
nights, more : int, optional
    How many.

Returns
-------
Booking
    A booking.
"""

REST = """Book a hotel.

Only where there is room.

:param city: Where to stay,
    or near it.
:param int nights: How many.
:returns: A booking.
:raises ValueError: If there is none.
"""


class TestDocstrings:
    @pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
    def test_the_description_is_what_stands_above_the_sections(self, text: str) -> None:
        assert parse_docstring(text).description == "Book a hotel.\n\nOnly where there is room."

    @pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
    def test_parameters_are_described_on_one_line(self, text: str) -> None:
        assert parse_docstring(text).parameters["city"] == "Where to stay, or near it."

    @pytest.mark.parametrize(
        ("text", "name", "about"),
        [
            (GOOGLE, "nights", "How many: one by one."),
            (GOOGLE, "more", "The rest."),
            (NUMPY, "nights", "How many."),
            (NUMPY, "more", "How many."),
            (REST, "nights", "How many."),
        ],
    )
    def test_other_ways_to_name_a_parameter(self, text: str, name: str, about: str) -> None:
        assert parse_docstring(text).parameters[name] == about

    @pytest.mark.parametrize(
        "text",
        [
            "Book a hotel.",
            "Book a hotel\nin a city.",
            "Book.\n\nOne more.\n\nAnd one.",
            "Book.\n\nReturns nothing in particular. Args: none.",
            "Search the notes.\n\nNotes\nare short.",
            "Book.\n\n- city: where\n- nights: how many",
            "Book :hotel: rooms.",
            "Book.\n\n    city = 'oslo'\n    nights = 2",
        ],
    )
    def test_prose_is_kept_as_it_is(self, text: str) -> None:
        assert parse_docstring(text) == Docs(text, {})

    def test_paragraphs_below_the_summary_are_kept(self) -> None:
        text = "Book.\n\nFirst\nlines.\n\nSecond.\n\nArgs:\n    a: An a."
        assert parse_docstring(text).description == "Book.\n\nFirst\nlines.\n\nSecond."

    def test_a_section_right_below_the_summary(self) -> None:
        assert parse_docstring("Book.\nArgs:\n    a: An a.") == Docs("Book.", {"a": "An a."})

    @pytest.mark.parametrize(
        "text",
        ["Args:\n    a: An a.", "Parameters\n----------\na : int\n    An a.", ":param a: An a."],
    )
    def test_nothing_but_a_section(self, text: str) -> None:
        assert parse_docstring(text) == Docs(None, {"a": "An a."})

    @pytest.mark.parametrize("text", ["", "   \n  "])
    def test_nothing_at_all(self, text: str) -> None:
        assert parse_docstring(text) == Docs(None, {})


@pytest.mark.parametrize(
    "text",
    [
        "Book.\n\nArgs:\n    city\n        of the stay: Where.\n    nights: How many.",
        "Note:\n    Book early.\nArgs:\n    city: Where.",
        "Exceptions:\nArgs:\n    city: Where.",
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_parser(text: str) -> None:
    """So that no name and no sentence is made of parts that belong elsewhere."""
    assert parse_docstring(text) == _parsed_docs(text)


# --- the short ways, beside the long ones ---------------------------------------------------------

PLAIN: Final = ["Book a hotel.", "Only where there is room.", "", "", "Note:", "x: y"]
TITLES: Final = [
    *("Args:", "Args:", "Parameters:", "Attributes:", "Returns:", "Raises:", "Example:", "Yields:"),
    *("Exceptions:", "Args:  ", "Args: none", "Parameters", "----------", "=====", ".. note:: x"),
]
ITEMS: Final = [
    *("city: Where to stay.", "city (str): Where to stay.", "nights, more: How many.", "**more: a"),
    *("    or near it.", "  odd", "no colon", "empty:", "blank: ", "a: b: c", "a (b (c)): d"),
    *("a(): b", "(a): b", "a (int) b: c", "a b: c", "ValueError: If there is none.", "[a]: b"),
    *(
        "dict[str, int]: b",
        ":param a: b",
        "",
        "    ",
        "ä: ö",
        "a\u00a0b: c",
        "\x0ccity: x",
        "- a: b",
    ),
    *("a: b   ", "a :b", ", a: b", "a,: b", ">>> book()", "city\r", "a: \u2003b", "@param a: b"),
]
LINES: Final = st.one_of(
    st.sampled_from([*PLAIN, *TITLES]),
    st.sampled_from(ITEMS).map("    {}".format),
    st.sampled_from(ITEMS).map("    {}".format),
    st.sampled_from(ITEMS),
    st.sampled_from(["  short: indent", "  short", "\tcity: x"]),
)
TEXTS: Final = st.lists(LINES, max_size=9).map("\n".join)


@given(st.one_of(TEXTS, TEXTS.map("Book a hotel.\n\nArgs:\n    city: Where.\n{}".format)))
def test_sections_in_the_style_of_google_are_read_as_by_the_parser(text: str) -> None:
    text = inspect.cleandoc(text).strip()
    found = _google_docs(text) if "\n" in text else None
    event("read" if found is not None else "left to the parser")
    if found is not None:
        assert _SECTION.search(f"\n{text}") is not None
        assert found == _parsed_docs(text)


@pytest.mark.parametrize("text", [GOOGLE, GOOGLE.replace("\n", "\n    ")])
def test_common_docstrings_are_read_without_the_parser(text: str) -> None:
    assert _google_docs(inspect.cleandoc(text).strip()) == parse_docstring(GOOGLE)
