"""What steers a terminal or hides is written out; what is merely foreign stays."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.support.plain import one_line, visible

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
    "half a character": ("a\ud800", r"a\ud800"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN.keys())
def test_what_steers_or_hides_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a\n\tb",
        "é ß e\u0301 漢字 かな 한국어 русский עברית \N{EURO SIGN}\xa0",
        "می\u200cخواهم क्\u200dष",
        "👩\u200d💻 👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 ❤️\u200d🔥 👩🏽\u200d🚀 1️⃣ ☀️",
        "葛\U000e0100",
    ],
)
def test_what_is_merely_foreign_stays(text: str) -> None:
    assert visible(text) == text


def test_lines_of_windows_are_lines() -> None:
    assert visible("a\r\nb") == "a\nb"


@given(st.text(st.characters(), max_size=20))
def test_nothing_else_steers(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    shown.encode()
    controls = {each for each in shown if unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp")}
    assert controls <= {"\n", "\t"}
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {unicodedata.bidirectional(each) for each in shown} & bidirectional


def test_a_careless_server_sends_no_text() -> None:
    assert visible(5) == "5"


def test_a_part_of_a_line() -> None:
    assert one_line(" a\r\n\n  b\tc  d\n") == "a b c  d"


def test_a_long_text_is_cut() -> None:
    assert one_line("x" * 1000, 3) == "xxx… (1000 characters)"
    assert one_line("xxx", 3) == "xxx"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", [" ", "\n \t", "\u200d", "\x1b", "\ufe0f"], ids=ascii)
def test_neither_takes_more_than_linear_time(part: str) -> None:
    text = part * 200_000 + "x"
    assert visible(text).endswith("x")
    assert one_line(text).endswith("x")


def test_as_json() -> None:
    text = "\u202e\x9b\U000e0041"
    shown = visible(json.dumps(text, ensure_ascii=False), lambda each: json.dumps(each)[1:-1])
    assert shown == r'"\u202e\u009b\udb40\udc41"'
    assert json.loads(shown) == text
