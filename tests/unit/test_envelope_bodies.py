"""Typed bodies: what `encode` and `decode` raise, and nothing else."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from termal.wire.codec import UNENCODABLE, decode, encode, encode_json
from termal.wire.errors import ErrorBody, InvalidRequest
from termal.wire.events import Published
from termal.wire.session_operations import CreateSession, SendPrompt
from termal.wire.turns import TextDelta, TouchedFile, TurnEnded, TurnReport

TYPES = [CreateSession, SendPrompt, TurnReport, ErrorBody, Published]


@pytest.mark.parametrize("kind", TYPES)
@given(body=st.binary(max_size=300))
@example(b"")
@example(b"\x91" * 100_000)
@example(b"\x81\xa3key\xa2\xff\xfe")
@example(b"\x81\xa1x" + b"\x91" * 100_000)
@example(b"\xdf\xff\xff\xff\xff")
def test_any_bytes_are_an_invalid_request_or_a_record_of_the_type(kind: type[Any], body: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        assert type(decode(body, kind)) is kind


def test_a_record_of_another_shape_is_refused_for_its_schema() -> None:
    with pytest.raises(InvalidRequest, match="CreateSession") as refused:
        decode(encode(ErrorBody(409, "conflict", "moved")), CreateSession)
    assert refused.value.reason == "wireSchema"


@given(st.text(), st.none() | st.text(), st.dictionaries(st.text(), st.text(), max_size=3))
def test_records_come_back_as_they_were(key: str, name: str | None, settings: dict[str, str]) -> None:
    record = CreateSession(key=key, name=name, settings=settings)
    assert decode(encode(record), CreateSession) == record


def test_the_bytes_of_records() -> None:
    assert (
        encode(ErrorBody(409, "conflict", "moved", None, {"revision": 7}))
        == bytes.fromhex("95 cd0199 a8") + b"conflict" + b"\xa5moved\xc0\x81\xa8revision\x07"
    )
    assert encode(Published("delta", 3, b"{}")) == b"\x93\xa5delta\x03\xc4\x02{}"
    end = TurnEnded("completed", files=[TouchedFile("a/b", "created")])
    report = TurnReport("r", "session-1", "turn-1", 1, [TextDelta("i", "x"), end])
    plain = msgspec.msgpack.decode(encode(report))
    assert plain == {
        "runtime": "r",
        "session_id": "session-1",
        "turn_id": "turn-1",
        "first": 1,
        "events": [
            {"type": "TextDelta", "item": "i", "text": "x"},
            {
                "type": "TurnEnded",
                "outcome": "completed",
                "detail": "",
                "files": [["a/b", "created"]],
                "more_files": False,
            },
        ],
    }
    assert decode(encode(report), TurnReport) == report


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value", [object(), 2**70, "\ud800", LOOP, 1j], ids=["foreign", "long", "surrogate", "nested", "complex"]
)
def test_what_msgpack_cannot_say_is_refused_by_the_documented_exceptions(value: object) -> None:
    with pytest.raises(UNENCODABLE):
        encode(ErrorBody(500, "internal", "x", None, value))


def test_json_is_compact() -> None:
    assert encode_json({"a": [1, 2], "b": None}) == b'{"a":[1,2],"b":null}'
