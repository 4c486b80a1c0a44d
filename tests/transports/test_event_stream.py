"""Event streams, as a client reads them (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.event_stream import Event, EventStream, EventTooLarge


def read(*chunks: bytes) -> list[Event]:
    stream = EventStream()
    return [event for chunk in chunks for event in stream.feed(chunk)]


def message(data: bytes) -> Event:
    return Event("message", data)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    assert read(b"data: a" + end + b"data: b" + end + end) == [message(b"a\nb")]


def test_an_event_that_ends_in_a_return_does_not_wait_for_more() -> None:
    assert read(b"data: a\r\n\r") == [message(b"a")]


@pytest.mark.parametrize(
    ("line", "data"),
    [
        (b"data: a", b"a"),
        (b"data:a", b"a"),
        (b"data:  a", b" a"),
        (b"data: a: b", b"a: b"),
        (b"data", b""),
        (b"data:", b""),
    ],
)
def test_one_blank_after_the_colon_is_no_data(line: bytes, data: bytes) -> None:
    assert read(line + b"\n\n") == [message(data)]


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert read(b": hello\nhint: x\ndata: a\n: more\n\n") == [message(b"a")]


def test_what_has_no_data_is_no_event() -> None:
    assert read(b"event: ping\n\n\n\ndata: a\n\n") == [message(b"a")]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read(b"\xef\xbb", b"\xbfdata: a\n\n") == [message(b"a")]


def test_the_last_id_is_that_of_the_last_complete_event() -> None:
    stream = EventStream()
    list(stream.feed(b"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n"))
    assert stream.last_id == b"1"


def test_an_empty_id_takes_the_last_one_back() -> None:
    stream = EventStream()
    list(stream.feed(b"id: 1\n\nid\n\n"))
    assert stream.last_id == b""


def test_an_id_with_a_null_is_none() -> None:
    stream = EventStream()
    list(stream.feed(b"id: 1\n\nid: 2\0\n\n"))
    assert stream.last_id == b"1"


def test_a_second_apart_unless_the_stream_says_otherwise() -> None:
    stream = EventStream()
    assert stream.retry == 1000
    list(stream.feed(b"retry: 250\n"))
    assert stream.retry == 250


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"1.5", "٣".encode(), b"9" * 5000])
def test_a_wait_that_is_no_number_is_passed_over(value: bytes) -> None:
    stream = EventStream()
    list(stream.feed(b"retry: " + value + b"\n"))
    assert stream.retry == 1000


def test_another_connection_begins_anew_but_remembers() -> None:
    stream = EventStream()
    list(stream.feed(b"id: 1\nretry: 5\ndata: a\n\nid: 2\nevent: x\ndata: lost\r"))
    stream.connect()
    assert list(stream.feed(b"\n\ndata: b\n\n")) == [message(b"b")]
    assert (stream.last_id, stream.retry) == (b"1", 5)


@pytest.mark.parametrize(
    "endless", [b"x" * 60, b"data: x\n" * 10, b": a" + b"x" * 60], ids=["line", "event", "comment"]
)
def test_an_event_has_a_limit(endless: bytes) -> None:
    stream = EventStream(limit=50)
    with pytest.raises(EventTooLarge, match="larger than 50 bytes"):
        list(stream.feed(endless))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\r"])
def test_blank_lines_are_not_looked_at_one_by_one(end: bytes) -> None:
    looked_at: list[bytes] = []

    class Watched(EventStream):
        def _line(self, line: bytes) -> Iterator[Event]:
            looked_at.append(line)
            return super()._line(line)

    stream = Watched()
    for _ in range(10):
        assert list(stream.feed(end * 100_000)) == []
    assert list(stream.feed(b"data: a" + end * 3)) == [message(b"a")]
    assert len(looked_at) < 30


def test_an_id_that_no_header_carries_is_none() -> None:
    stream = EventStream()
    list(stream.feed(b"id: 1\ndata: a\n\nid: " + b"x" * 10_000 + b"\ndata: b\n\n"))
    assert stream.last_id == b"1"


@given(
    st.lists(st.sampled_from([b"data: a", b"data", b"id: 1", b": c", b"event: x", b""])),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_pieces_make_no_difference(lines: list[bytes], end: bytes, data: st.DataObject) -> None:
    text = b"".join(line + end for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(*pieces) == read(text)
