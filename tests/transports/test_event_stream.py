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


@pytest.mark.parametrize(
    ("chunks", "data"),
    [
        ([b"data: a\r\n\r"], b"a"),  # it does not wait for more
        ([b"data: a\n\n"], b"a"),
        ([b"data:a\n\n"], b"a"),
        ([b"data:  a\n\n"], b" a"),
        ([b"data: a: b\n\n"], b"a: b"),
        ([b"data\n\n"], b""),
        ([b"data:\n\n"], b""),
        ([b": hello\nhint: x\ndata: a\n: more\n\n"], b"a"),  # comments and unknown fields
        ([b"event: ping\n\n\n\ndata: a\n\n"], b"a"),  # without data there is no event
        ([b"\xef\xbb", b"\xbfdata: a\n\n"], b"a"),  # a byte order mark
    ],
)
def test_the_data_of_an_event(chunks: list[bytes], data: bytes) -> None:
    assert read(*chunks) == [message(data)]


@pytest.mark.parametrize(
    ("text", "last_id"),
    [
        (b"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n", b"1"),  # of a complete event
        (b"id: 1\n\nid\n\n", b""),
        (b"id: 1\n\nid: 2\0\n\n", b"1"),
        (b"id: 1\ndata: a\n\nid: " + b"x" * 10_000 + b"\ndata: b\n\n", b"1"),  # no header has it
    ],
)
def test_the_last_id(text: bytes, last_id: bytes) -> None:
    stream = EventStream()
    list(stream.feed(text))
    assert stream.last_id == last_id


@pytest.mark.parametrize(
    ("value", "retry"),
    [
        (b"250", 250),
        *((wrong, 1000) for wrong in (b"", b"soon", b"-1", b"1.5", "٣".encode(), b"9" * 5000)),
    ],
)
def test_the_time_to_the_next_connection(value: bytes, retry: int) -> None:
    stream = EventStream()
    assert stream.retry == 1000
    list(stream.feed(b"retry: " + value + b"\n"))
    assert stream.retry == retry


def test_another_connection_starts_again_with_the_last_id() -> None:
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
def test_blank_lines_are_not_parsed_one_by_one(end: bytes) -> None:
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
