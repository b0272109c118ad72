"""Lines between supervisor and worker: golden text, round trips, and refusal of everything else."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.wire.control import (
    LINE_BYTES,
    Beat,
    BootDone,
    Extend,
    Line,
    Need,
    Peers,
    Ready,
    Refused,
    Reload,
    Serving,
    Stop,
    decode_to_supervisor,
    decode_to_worker,
    encode_line,
)

TO_SUPERVISOR: list[tuple[Line, str]] = [
    (Ready(), '{"t":"ready"}'),
    (Beat(), '{"t":"beat"}'),
    (
        Beat(queue_depth=3, p50_ms=0.5, p99_ms=2.0, facts={"sessions": 4, "epoch": "e", "wal": None}),
        '{"t":"beat","queueDepth":3,"p50Ms":0.5,"p99Ms":2.0,"facts":{"sessions":4,"epoch":"e","wal":null}}',
    ),
    (Extend(30.0, "migration"), '{"t":"extend","seconds":30.0,"why":"migration"}'),
    (Extend(1.5), '{"t":"extend","seconds":1.5}'),
    (Need("runtime-acp"), '{"t":"need","worker":"runtime-acp"}'),
    (BootDone(), '{"t":"bootDone"}'),
    (Refused("foreign schema"), '{"t":"refused","message":"foreign schema"}'),
]
TO_WORKER: list[tuple[Line, str]] = [
    (Stop(12.5), '{"t":"stop","deadline":12.5}'),
    (Peers(["state", "wake"]), '{"t":"peers","running":["state","wake"]}'),
    (Peers([]), '{"t":"peers","running":[]}'),
    (Reload(), '{"t":"reload"}'),
    (Serving(), '{"t":"serving"}'),
]


@pytest.mark.parametrize(("line", "text"), TO_SUPERVISOR, ids=lambda value: type(value).__name__)
def test_lines_to_the_supervisor(line: Line, text: str) -> None:
    assert encode_line(line) == text.encode()
    assert decode_to_supervisor(text.encode()) == line


@pytest.mark.parametrize(("line", "text"), TO_WORKER, ids=lambda value: type(value).__name__)
def test_lines_to_a_worker(line: Line, text: str) -> None:
    assert encode_line(line) == text.encode()
    assert decode_to_worker(text.encode()) == line


@pytest.mark.parametrize(("line", "text"), TO_WORKER, ids=lambda value: type(value).__name__)
def test_the_two_directions_are_never_mixed_up(line: Line, text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_to_supervisor(text.encode())
    with pytest.raises(msgspec.ValidationError):
        decode_to_worker(TO_SUPERVISOR[0][1].encode())


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "7", "{}", '{"t":"other"}', '{"t":"need"}', '{"t":"need","worker":7}', '{"t":"extend"}'],
)
def test_a_line_that_is_none_is_refused_by_one_exception(text: str) -> None:
    for decode in (decode_to_supervisor, decode_to_worker):
        with pytest.raises(msgspec.MsgspecError):
            decode(text.encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_by_one_exception(data: bytes) -> None:
    for decode in (decode_to_supervisor, decode_to_worker):
        with pytest.raises(msgspec.MsgspecError):
            decode(data)


@given(st.text(max_size=50), st.floats(0, 1e9))
def test_what_people_are_told_comes_back_as_it_was_and_is_one_line(text: str, seconds: float) -> None:
    for line in (Refused(text), Extend(seconds, text)):
        encoded = encode_line(line)
        assert b"\n" not in encoded
        assert decode_to_supervisor(encoded) == line


def test_a_field_that_a_newer_side_adds_is_ignored() -> None:
    assert decode_to_supervisor(b'{"t":"ready","since":7}') == Ready()


def test_a_beat_with_many_facts_fits_into_a_line() -> None:
    facts: dict[str, int | float | str | None] = {f"operations.prompt.send.{n}": 2**60 for n in range(200)}
    assert len(encode_line(Beat(1, 1.0, 1.0, facts))) < LINE_BYTES
