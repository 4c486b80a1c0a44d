"""What steers a terminal or hides is written out; what is merely foreign stays."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.text import escape_control, single_line

SHOWN = {
    "escape": ("a\x1b[31mb", r"a\x1b[31mb"),
    "the shorter form of it": ("\x9b2J", r"\x9b2J"),
    "clipboard": ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
    "return": ("good\revil", r"good\revil"),
    "delete": ("a\x7f\x08", r"a\x7f\x08"),
    "direction": ("\u202egpj.exe", r"\u202egpj.exe"),
    "isolates": ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
    "no width": ("ad\u200bmin\ufeff\u2060\xad", r"ad\u200bmin\ufeff\u2060\xad"),
    "line separator": ("a\u2028b\x85c\x0bd", r"a\u2028b\x85c\x0bd"),
    "joiner among letters": ("ad\u200dmin\u200c", r"ad\u200dmin\u200c"),
    "joiners in a row": ("👩\u200d\u200d💻", r"👩\u200d\u200d💻"),
    "tags": ("x\U000e0041", r"x\U000e0041"),
    "selectors of a letter": ("x\ufe01", r"x\ufe01"),
    "selectors in a row": ("☀\ufe0f\U000e0130", "☀\ufe0f" + r"\U000e0130"),
    "filler": ("a\u3164\u115f", r"a\u3164\u115f"),
    "selectors of foreign letters": ("é\ufe01漢\ufe0f", r"é\ufe01漢\ufe0f"),
    "selectors without a form": ("☀\ufe08漢\U000e01f0", r"☀\ufe08漢\U000e01f0"),
    "selector of a joiner": ("👩\u200d\ufe0f", r"👩\u200d\ufe0f"),
    "joiner of a letter's selector": ("x\ufe0f\u200d👩", r"x\ufe0f\u200d👩"),
    "hieroglyphs' joiners": ("x\U00013430", r"x\U00013430"),
    "another filler": ("x\U00016fe4\uffa0", r"x\U00016fe4\uffa0"),
    "half a character": ("a\ud800", r"a\ud800"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN.keys())
def test_what_steers_or_hides_is_written_out(text: str, shown: str) -> None:
    assert escape_control(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a\n\tb",
        "é ß e\u0301 漢字 かな 한국어 русский עברית \N{EURO SIGN}\xa0",
        "می\u200cخواهم क्\u200dष",
        "👩\u200d💻 👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 ❤️\u200d🔥 👩🏽\u200d🚀 1️⃣ ☀️",
        "葛\U000e0100 直\ufe00 ∩\ufe00 ᠠ\u180b 、\ufe01 #️⃣ ‼️",
    ],
)
def test_what_is_merely_foreign_stays(text: str) -> None:
    assert escape_control(text) == text


SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Characters of the category Cf that are seen: they stand around or above numbers."""


def test_every_character_that_only_formats_is_written_out() -> None:
    formats = [
        each for each in map(chr, range(sys.maxunicode)) if unicodedata.category(each) == "Cf"
    ]
    shown = [each for each in formats if escape_control(f"x{each}y") == f"x{each}y"]
    # An older Python does not know the newest of them.
    known = [each for each in SIGNS if unicodedata.category(each) == "Cf"]
    assert shown == known


# Default_Ignorable_Code_Point, in DerivedCoreProperties.txt of Unicode 16.
IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164),
    *(*range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9)),
    *(*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]


@pytest.mark.parametrize("before", ["x", "é", "\N{EURO SIGN}"])
def test_nothing_that_is_not_drawn_hides_behind_a_letter(before: str) -> None:
    hidden = map(chr, IGNORABLE)
    assert [each for each in hidden if each in escape_control(f"{before}{each}y")] == []


@given(st.text(st.characters(), max_size=20))
def test_nothing_else_steers(text: str) -> None:
    shown = escape_control(text)
    assert escape_control(shown) == shown
    shown.encode()
    controls = {each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")}
    assert controls <= {"\n", "\t"}
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {unicodedata.bidirectional(each) for each in shown} & bidirectional


def test_one_line_of_a_text() -> None:
    assert single_line(" a\r\n\n  b\tc  d\n") == "a b c  d"
    assert single_line("x" * 1000, 3) == "xxx… (1000 characters)"
    assert single_line("xxx", 3) == "xxx"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", [" ", "\n \t", "\u200d", "\x1b", "\ufe0f"], ids=ascii)
def test_neither_takes_more_than_linear_time(part: str) -> None:
    text = part * 200_000 + "x"
    assert escape_control(text).endswith("x")
    assert single_line(text).endswith("x")


def test_as_json() -> None:
    text = "\u202e\x9b\U000e0041"
    shown = escape_control(
        json.dumps(text, ensure_ascii=False), lambda each: json.dumps(each)[1:-1]
    )
    assert shown == r'"\u202e\u009b\udb40\udc41"'
    assert json.loads(shown) == text
