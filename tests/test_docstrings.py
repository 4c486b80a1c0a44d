"""What registration reads in a docstring: the description, and those of the parameters.

Nothing is lost: what does not become the description of a parameter stays in that of the function.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._signature.docstrings import Docs, Part, parse_docstring

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


def plain(text: str) -> Docs:
    """A docstring without sections."""
    return Docs((Part(text),), {})


def described(text: str, *names: str) -> str | None:
    """The description that a docstring gives a function with these parameters."""
    return parse_docstring(inspect.cleandoc(text), names or None).description


def parameter(text: str) -> str:
    """The description of the parameter x."""
    return parse_docstring(inspect.cleandoc(text), ["x"]).parameters["x"]


@pytest.mark.parametrize(
    "written",
    ["", "int ", "int | None ", "list of str ", "dict[str, list[int]] ", "Callable[[int], str] "],
)
def test_a_type_of_rest_may_have_several_words(written: str) -> None:
    docs = parse_docstring(f"Do.\n\n:param {written}x: What it is.\n:param y: Other.", ["x", "y"])
    assert docs.parameters == {"x": "What it is.", "y": "Other."}
    assert docs.description == "Do."


class TestDescriptions:
    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            (GOOGLE, "Returns: A booking.\n\nRaises: ValueError: If there is none."),
            (NUMPY, "Returns: Booking: A booking."),
            (REST, "Returns: A booking.\n\nRaises ValueError: If there is none."),
        ],
        ids=["google", "numpy", "rest"],
    )
    def test_have_all_but_the_parameters_compactly(self, text: str, kept: str) -> None:
        docs = parse_docstring(text)
        assert docs.description == f"Book a hotel.\n\nOnly where there is room.\n\n{kept}"
        assert docs.parameters["city"] == "Where to stay, or near it."
        assert "A booking." in docs.returns
        assert "A booking." not in (docs.without_returns or "")

    @pytest.mark.parametrize(
        "section",
        [
            "Limitations:\n    Only in Norway.\n    Never at night.",
            "Presentation Guidelines:\n    - Show a table.\n    - Name the price.",
            "IMPORTANT:\n    Ask first.",
            "Limitations\n-----------\nOnly in Norway.",
            "## Usage\n\nCall it twice.",
            ":meta private:",
            ".. note:: Slow.",
            "```\nArgs:\n    x: in code\n```",
        ],
    )
    def test_keep_unknown_sections_as_they_were_written(self, section: str) -> None:
        text = f"Book.\n\nArgs:\n    x: An x.\n\n{section}\n\nReturns:\n    It."
        assert described(text, "x") == f"Book.\n\n{section}\n\nReturns: It."

    def test_keep_what_follows_a_section_what_is_said_of_no_parameter_and_examples(self) -> None:
        assert described("Book.\n\nArgs:\n    x: An x.\n\nOnly once.") == "Book.\n\nOnly once."
        text = "Book.\n\nParameters\n----------\nx : int\n    An x.\n\nOnly once.\n\nNote\n----\nA."
        assert described(text, "x") == "Book.\n\nOnly once.\n\nNote: A."
        text = "Book.\n\nArgs:\n    x: An x.\n    query.limit: How many.\n    y: Another."
        assert described(text, "x") == "Book.\n\nArgs:\nquery.limit: How many.\ny: Another."
        assert described(":param x: An x.\n:param y: Another.", "x") == ":param y: Another."
        text = "Book.\n\nExamples:\n    >>> book(1)\n    'done'\n\n    >>> book(2)\n    'full'"
        kept = "Examples:\n>>> book(1)\n'done'\n\n>>> book(2)\n'full'"
        assert described(text) == f"Book.\n\n{kept}"

    @pytest.mark.parametrize(
        "text",
        [
            "Book a hotel.",
            "Book a hotel\nin a city.",
            "Book.\n\nOne more.\n\nAnd one.",
            "Book.\n\nReturns nothing in particular. Args: none.",
            "Book.\n\nReturns: nothing in particular.",
            "Search the notes.\n\nNotes\nare short.",
            "Book.\n\n- city: where\n- nights: how many",
            "Book :hotel: rooms.",
            ":class:`Hotel` is booked.",
            "Book.\n\n    city = 'oslo'\n    nights = 2",
            "Book.\n\nArgs:\nnone",
        ],
    )
    def test_are_prose_as_it_is(self, text: str) -> None:
        assert parse_docstring(text) == plain(text)

    @pytest.mark.parametrize(
        "text",
        ["Args:\n    a: An a.", "Parameters\n----------\na : int\n    An a.", ":param a: An a."],
    )
    def test_may_be_missing_or_right_above_a_section(self, text: str) -> None:
        assert parse_docstring(text) == Docs((), {"a": "An a."})
        assert parse_docstring(f"Book.\n{text}") == Docs((Part("Book."),), {"a": "An a."})

    @pytest.mark.parametrize("said", ["{name}:", "{name} (int):", "{name} :", ":param {name}:"])
    def test_may_name_a_parameter_and_say_nothing_of_it(self, said: str) -> None:
        heading, indent = ("", "") if said.startswith(":") else ("Args:\n", "    ")
        named = "\n".join(indent + said.format(name=each) for each in ("empty", "last"))
        docs = parse_docstring(f"Do.\n\n{heading}{named}\n", {"empty", "last"})
        assert docs.parameters == {}
        assert parse_docstring("") == parse_docstring("   \n  ") == Docs((), {})


class TestParameters:
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
    def test_other_ways_to_name_one(self, text: str, name: str, about: str) -> None:
        assert parse_docstring(text).parameters[name] == about

    @pytest.mark.parametrize(
        "item",
        [
            *("x: An x.", "x (int): An x.", "x (dict(str, int)): An x.", "*x: An x.", "`x`: An x."),
            *(
                "- x: An x.",
                "* x (int): An x.",
                "- `x` (int): An x.",
                "x - An x.",
                "x (int) – An x.",
            ),
            *("x :An x.", "x:\n        An x.", "x (int,\n", "**x**: An x."),
        ],
    )
    @pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "Params", "args", "ARGS"])
    def test_ways_to_write_an_item(self, item: str, title: str) -> None:
        text = f"Book.\n\n{title}:\n    {item}"
        found = parse_docstring(text, ["x"])
        if item.endswith("\n"):  # a bracket that is never closed
            assert "x (int," in (found.description or "")
        else:
            assert found.parameters == {"x": "An x."}

    LISTS: Final = (
        ("An x:\n  - a: one,\n    or so\n  - b: two", "An x:\n- a: one,\n  or so\n- b: two"),
        ("One of\n  fast: quick\n  slow: thorough", "One of\nfast: quick\nslow: thorough"),
        ("An x.\n\n  Another\n  paragraph.", "An x.\n\nAnother paragraph."),
        ("Steps:\n  1. go\n  2. stay", "Steps:\n1. go\n2. stay"),
        ("As\n  | a | b |\n  | 1 | 2 |", "As\n| a | b |\n| 1 | 2 |"),
        ("As\n  ```\n  a  b\n  ```", "As\n```\na  b\n```"),
        ("A list\n  - a\n      - inner\n  - b", "A list\n- a\n    - inner\n- b"),
    )

    @pytest.mark.parametrize(("written", "kept"), LISTS)
    def test_lists_and_paragraphs_keep_their_lines(self, written: str, kept: str) -> None:
        more = written.replace("\n  ", "\n        ")
        assert parameter(f"Book.\n\nArgs:\n    x: {more}") == kept
        field = written.replace("\n  ", "\n    ")
        assert parameter(f"Book.\n\n:param x: {field}") == kept
        block = ("\n" + written.replace("\n  ", "\n")).replace("\n", "\n    ")
        assert parameter(f"Book.\n\nParameters\n----------\nx : int{block}") == kept

    @pytest.mark.parametrize(
        "text",
        [
            "Book.\n\nArgs:\n    x ({'a', 'b'}): An x.",
            "Parameters\n----------\nx : {'a', 'b'}\n    An x.",
            ":param x: An x.\n:type x: {'a', 'b'}",
        ],
    )
    def test_choices_in_a_type_are_kept(self, text: str) -> None:
        assert parameter(text) == "An x. ({'a', 'b'})"


# --- nothing is lost ------------------------------------------------------------------------------

LINES: Final = st.one_of(
    st.sampled_from(
        [
            *(
                "Book a hotel.",
                "Only where there is room.",
                "",
                "Note:",
                "x: y",
                "Odd Title:",
                "```",
            ),
            *("Args:", "Args:", "Parameters:", "Attributes:", "Returns:", "Raises:", "Yields:"),
            *("Exceptions:", "Args: none", "Parameters", "Returns", "Odd title", "------", "===="),
            *(".. note:: x", ":param a: b", ":param city: where", ":returns: it", ":odd: field"),
            *(":raises ValueError: If none.", ":type city: {'x'}", "- a: b", "city : str", "city"),
        ]
    ),
    st.sampled_from(
        [
            *("city: Where.", "city (str): Where.", "nights, more: How many.", "**more: a"),
            *("- a: b", "or near it.", "    odd", "no colon", "empty:", "a: b: c", "a (b (c)): d"),
            *("ValueError: If none.", "[a]: b", "ä: ö", ">>> book()", "1. one", "| a |", "", "```"),
            "a(): b",
        ]
    ).map("    {}".format),
    st.sampled_from(["  short: indent", "  short", "        deep", "\tcity: tab"]),
)
TEXTS: Final = st.lists(LINES, max_size=12).map("\n".join)
TITLES: Final = {"args", "parameters", "attributes", "param", "type"}


def words(text: str) -> set[str]:
    return {each.lower() for each in re.findall(r"\w+", text)}


@given(TEXTS, st.sampled_from([None, ("city", "nights")]))
def test_every_word_is_in_one_of_the_descriptions(text: str, names: list[str] | None) -> None:
    docs = parse_docstring(inspect.cleandoc(text), names)
    shown = words(f"{docs.description or ''} {' '.join(docs.parameters.values())}")
    # The names of parameters are in the schema, and so are their types.
    # Of one of them nothing is said.
    gone = {*map(str.lower, docs.parameters), *TITLES, "str", "b", "c", "a", "more", "empty"}
    assert words(text) - gone <= shown
