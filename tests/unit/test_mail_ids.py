"""Ids of messages: never twice, of one form, and in the order of their times."""

import itertools
import threading
import uuid

import pytest

from termal.model.ids import new_mailbox_message_id

PREFIX = "mailbox-message-"


def test_an_id_is_a_uuid_of_version_7_and_ids_follow_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_ms = itertools.count(1_767_225_600_000)
    monkeypatch.setattr("termal.model.ids.time.time_ns", lambda: next(clock_ms) * 1_000_000)
    ids = [new_mailbox_message_id() for _ in range(1000)]
    found = [uuid.UUID(text.removeprefix(PREFIX)) for text in ids]
    assert all(text == f"{PREFIX}{value}" for text, value in zip(ids, found, strict=True))
    assert {(value.version, value.variant) for value in found} == {(7, uuid.RFC_4122)}
    times_ms = [value.int >> 80 for value in found]
    assert times_ms == list(range(1_767_225_600_000, 1_767_225_601_000))
    assert ids == sorted(ids)


def test_no_id_is_given_twice_to_whichever_threads() -> None:
    made: list[list[str]] = []

    def make() -> None:
        made.append([new_mailbox_message_id() for _ in range(700)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    ids = [text for some in made for text in some]
    assert len(ids) == len({text[-20:] for text in ids}) == 2800
