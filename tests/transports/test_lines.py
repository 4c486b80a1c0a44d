"""A stream is split into lines, however it is cut into chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol.messages import LineSplitter

LETTERS = st.lists(st.sampled_from([b"a", b"\n", b" ", b"bc\n", b"\r\n", b"\n\n"]))


@given(LETTERS)
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    *complete, rest = b"".join(chunks).split(b"\n")
    assert lines == [line for line in complete if line.strip()]
    assert splitter.take_rest() == rest


@given(LETTERS)
def test_no_more_of_a_line_is_kept_than_allowed(chunks: list[bytes]) -> None:
    bounded, whole = LineSplitter(2), LineSplitter()
    for chunk in chunks:
        kept = bounded.feed(chunk)
        assert [line[:2] for line in whole.feed(chunk) if line[:2].strip()] == [
            line for line in kept if line.strip()
        ]
    assert bounded.take_rest() == whole.take_rest()[:2]


def test_the_rest_is_taken_once() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntwo") == [b"one"]
    assert splitter.take_rest() == b"two"
    assert splitter.feed(b"three\n") == [b"three"]
