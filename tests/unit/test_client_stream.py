"""Server-sent events from bytes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.client.stream import Event, parse_events

STREAM = 'event: state\ndata: {"a":1}\n\n: keep-alive\n\nevent: delta\r\ndata: {"t":"é\u2028x"}\r\n\r\n'.encode()
EVENTS = [Event("state", '{"a":1}'), Event("delta", '{"t":"é\u2028x"}')]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"data: 1\n\n", [Event("message", "1")], id="without a name"),
        pytest.param(b"event: lagged\ndata: 1\n\n", [Event("lagged", "1")], id="lagged"),
        pytest.param(b"data: a\ndata: b\n\n", [Event("message", "a\nb")], id="data of two lines"),
        pytest.param(b": hello\nretry: 500\n\n", [], id="comment and retry alone"),
        pytest.param(b"event: state\n\ndata: 1\n\n", [Event("message", "1")], id="a name without data names nothing"),
        pytest.param(b"data: 1\n\ndata: cut o", [Event("message", "1")], id="cut off at the end"),
        pytest.param(b"data:1\nid: 7\n\n", [Event("message", "1")], id="no blank after the colon, other fields"),
    ],
)
def test_bytes_become_named_events(stream: bytes, events: list[Event]) -> None:
    assert list(parse_events([stream])) == events


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_where_the_network_cuts_the_stream_makes_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(edges)]
    assert list(parse_events(chunks)) == EVENTS
