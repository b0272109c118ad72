"""The envelope: golden bytes, round trips, and that nothing but `MalformedFrame` comes of bytes that are none."""

import math
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from termal.wire.envelope import (
    FAILED,
    MAX_BODY_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PACK,
    MAX_TEXT_BYTES,
    OK,
    PACK,
    PACK_BYTES,
    Answer,
    Envelope,
    Event,
    MalformedFrame,
    Unsendable,
    messages,
    pack_answer,
    pack_answers,
    pack_event,
    pack_events,
    pack_request,
    pack_requests,
    unpack_answers,
    unpack_events,
    unpack_requests,
)

REQUEST = Envelope(7, "session.read", 1234.5, "gateway", "req-1", b"\x80")
Unpack = Callable[[bytes], list[Any]]
UNPACK: list[Unpack] = [unpack_requests, unpack_answers, unpack_events]
PACKS: list[Callable[[list[Any]], bytes]] = [pack_requests, pack_answers, pack_events]

texts = st.text(max_size=MAX_TEXT_BYTES // 4)
numbers = st.integers(-(2**63), 2**64 - 1)
times = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
bodies = st.binary(max_size=300)
requests = st.builds(Envelope, numbers, texts, times, texts, texts, bodies)
answers = st.builds(Answer, numbers, st.sampled_from([OK, FAILED]), bodies)
events = st.builds(Event, texts, numbers, bodies)
anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


def test_the_bytes_of_a_request() -> None:
    head = bytes.fromhex("91 92 96 01 07 ac") + b"session.read" + bytes.fromhex("cb 40934a0000000000")
    assert pack_requests([REQUEST]) == head + b"\xa7gateway\xa5req-1" + b"\xc4\x01\x80"


def test_the_bytes_of_answers() -> None:
    assert pack_answers([Answer(7, OK, b"\x80"), Answer(300, FAILED, b"")]) == bytes.fromhex(
        "92 92 93 01 07 00 c4 01 80 92 93 01 cd012c 01 c4 00"
    )


def test_the_bytes_of_an_event_and_a_tick() -> None:
    assert pack_events([Event("e", 1, b"{}"), Event("e", 1, b"")]) == bytes.fromhex(
        "92 92 93 01 a1 65 01 c4 02 7b7d 92 93 01 a1 65 01 c4 00"
    )


def test_an_array_of_sixteen_has_the_longer_head() -> None:
    assert pack_answers([Answer(1, OK, b"")] * 15)[:1] == b"\x9f"
    assert pack_answers([Answer(1, OK, b"")] * 16)[:3] == b"\xdc\x00\x10"
    assert pack_answers([]) == b"\x90"


@given(st.lists(requests, max_size=20))
def test_requests_come_back_as_they_were(sent: list[Envelope]) -> None:
    assert unpack_requests(pack_requests(sent)) == sent


@given(st.lists(answers, max_size=20))
def test_answers_come_back_as_they_were(sent: list[Answer]) -> None:
    assert unpack_answers(pack_answers(sent)) == sent


@given(st.lists(events, max_size=20))
def test_events_come_back_as_they_were(sent: list[Event]) -> None:
    assert unpack_events(pack_events(sent)) == sent


@given(st.lists(requests, max_size=5))
def test_the_format_is_plain_msgpack(sent: list[Envelope]) -> None:
    plain = [[[1, e.id, e.op, e.deadline, e.caller, e.trace], e.body] for e in sent]
    assert pack_requests(sent) == msgpack.packb(plain, use_bin_type=True)


def refused_or_typed(unpack: Unpack, frame: bytes) -> None:
    """What an unpacker makes of ``frame`` packs again, or is refused by the one exception."""
    try:
        got = unpack(frame)
    except MalformedFrame:
        return
    assert unpack(PACKS[UNPACK.index(unpack)](got)) == got


@pytest.mark.parametrize("unpack", UNPACK)
@given(frame=st.binary(max_size=400))
@example(b"")
@example(b"\xc1")
@example(b"\x91" * 5000)
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xc6\xff\xff\xff\xff")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xc9\xff\xff\xff\xff\x01")
@example(b"\xd6\xff\x00\x00\x00\x00")
@example(b"\xc7\x00\xff")
@example(b"\x91\xa2\xff\xfe")
@example(b"\x80")
def test_any_bytes_are_refused_by_one_exception_or_are_records(unpack: Unpack, frame: bytes) -> None:
    refused_or_typed(unpack, frame)


@pytest.mark.parametrize("unpack", UNPACK)
@given(value=anything)
def test_any_msgpack_value_is_refused_by_one_exception_or_is_records(unpack: Unpack, value: Any) -> None:
    refused_or_typed(unpack, msgpack.packb(value, use_bin_type=True))


@given(requests, st.data())
def test_a_truncated_or_changed_message_is_refused_or_other_records(sent: Envelope, data: st.DataObject) -> None:
    frame = pack_requests([sent, sent])
    with pytest.raises(MalformedFrame):
        unpack_requests(frame[: data.draw(st.integers(0, len(frame) - 1))])
    place = data.draw(st.integers(0, len(frame) - 1))
    changed = frame[:place] + bytes([data.draw(st.integers(0, 255))]) + frame[place + 1 :]
    refused_or_typed(unpack_requests, changed)


def test_bytes_behind_the_array_are_refused() -> None:
    with pytest.raises(MalformedFrame):
        unpack_requests(pack_requests([REQUEST]) + b"\x00")


def header(**changed: object) -> list[object]:
    fields = {"version": 1, "id": 7, "op": "session.read", "deadline": 1.0, "caller": "c", "trace": "t"}
    return list((fields | changed).values())


WRONG: dict[str, object] = {
    "no_array": 7,
    "a_map": {},
    "pair_is_no_array": ["xx"],
    "pair_of_three": [[header(), b"", b""]],
    "body_is_text": [[header(), "text"]],
    "body_is_nothing": [[header(), None]],
    "header_is_text": [["header", b""]],
    "header_too_short": [[header()[:-1], b""]],
    "header_too_long": [[[*header(), 1], b""]],
    "no_version": [[header(version=None), b""]],
    "version_2": [[header(version=2), b""]],
    "version_true": [[header(version=True), b""]],
    "version_as_float": [[header(version=1.0), b""]],
    "id_is_text": [[header(id="7"), b""]],
    "id_is_true": [[header(id=True), b""]],
    "op_is_bytes": [[header(op=b"session.read"), b""]],
    "deadline_is_int": [[header(deadline=1), b""]],
    "deadline_is_nan": [[header(deadline=math.nan), b""]],
    "deadline_is_infinite": [[header(deadline=math.inf), b""]],
    "deadline_is_negative": [[header(deadline=-1.0), b""]],
    "caller_is_nothing": [[header(caller=None), b""]],
    "trace_is_a_number": [[header(trace=1), b""]],
    "trace_is_too_long": [[header(trace="t" * (MAX_TEXT_BYTES + 1)), b""]],
    "the_second_is_wrong": [[header(), b""], [header(id="7"), b""]],
    "too_many": [[header(), b""]] * (MAX_PACK + 1),
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
def test_a_request_of_another_shape_is_refused_whole(value: object) -> None:
    with pytest.raises(MalformedFrame):
        unpack_requests(msgpack.packb(value, use_bin_type=True))


@pytest.mark.parametrize(
    ("unpack", "fields"),
    [
        (unpack_answers, [1, "7", 0]),
        (unpack_answers, [1, 7, "0"]),
        (unpack_answers, [1, 7, True]),
        (unpack_answers, [1, 7]),
        (unpack_answers, [2, 7, 0]),
        (unpack_events, [1, b"e", 1]),
        (unpack_events, [1, "e", 1.0]),
        (unpack_events, [1, "e", True]),
        (unpack_events, [0, "e", 1]),
    ],
)
def test_an_answer_or_event_of_another_shape_is_refused(unpack: Unpack, fields: list[object]) -> None:
    with pytest.raises(MalformedFrame):
        unpack(msgpack.packb([[fields, b""]], use_bin_type=True))


def test_as_many_envelopes_as_the_limit_pass() -> None:
    assert len(unpack_requests(pack_requests([REQUEST] * MAX_PACK))) == MAX_PACK


def test_the_longest_texts_and_the_largest_body_pass_and_fit_into_a_message() -> None:
    longest = "t" * MAX_TEXT_BYTES
    sent = Envelope(2**64 - 1, longest, 1.0, longest, longest, bytes(MAX_BODY_BYTES))
    frame = pack_requests([sent])
    assert len(frame) <= MAX_MESSAGE_BYTES
    assert unpack_requests(frame) == [sent]


@pytest.mark.parametrize(
    "changed",
    [
        {"body": bytes(MAX_BODY_BYTES + 1)},
        {"trace": "t" * (MAX_TEXT_BYTES + 1)},
        {"trace": "ä" * (MAX_TEXT_BYTES // 2 + 1)},
        {"trace": "\ud800"},
        {"caller": "c" * (MAX_TEXT_BYTES + 1)},
        {"trace": "\ud800" * MAX_TEXT_BYTES},
    ],
    ids=["body", "trace", "trace_in_bytes", "surrogate", "caller", "surrogates"],
)
def test_what_no_receiver_would_take_is_not_packed(changed: dict[str, Any]) -> None:
    with pytest.raises(Unsendable):
        pack_request(REQUEST._replace(**changed))


def test_an_answer_or_event_that_no_receiver_would_take_is_not_packed() -> None:
    large = bytes(MAX_BODY_BYTES + 1)
    with pytest.raises(Unsendable):
        pack_answer(Answer(1, OK, large))
    with pytest.raises(Unsendable):
        pack_event(Event("e", 1, large))


@given(st.lists(requests, max_size=30))
def test_pairs_joined_into_messages_are_what_was_sent_in_order(sent: list[Envelope]) -> None:
    got = list(messages([pack_request(envelope) for envelope in sent]))
    assert [count for count, _ in got] == [len(unpack_requests(frame)) for _, frame in got]
    assert [envelope for _, frame in got for envelope in unpack_requests(frame)] == sent
    assert len(got) == (1 if sent else 0)


@given(st.lists(st.integers(0, 3 * PACK_BYTES // 2), max_size=12))
def test_messages_are_closed_at_their_size(sizes: list[int]) -> None:
    pairs = [bytes(size) for size in sizes]
    got = list(messages(pairs))
    assert sum(count for count, _ in got) == len(pairs)
    assert all(len(frame) <= PACK_BYTES + 3 or count == 1 for count, frame in got)
    # No message could have taken the first pair of the next one.
    place = 0
    for count, frame in got[:-1]:
        place += count
        assert len(frame) - 1 + len(pairs[place]) > PACK_BYTES


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, [1]), (PACK, [PACK]), (PACK + 1, [PACK, 1]), (3 * PACK, [PACK] * 3)]
)
def test_messages_are_closed_at_their_number(count: int, expected: list[int]) -> None:
    pairs = [pack_answer(Answer(number, OK, b"")) for number in range(count)]
    assert [number for number, _ in messages(pairs)] == expected


def test_a_sender_packs_less_than_a_receiver_takes() -> None:
    assert PACK <= MAX_PACK
    assert PACK_BYTES <= MAX_BODY_BYTES < MAX_MESSAGE_BYTES
