"""Prompts of other sessions: their header, and what waits as one."""

from typing import Any

import pytest
from msgspec import UNSET

from termal.model.message import Attachment, PromptSource
from termal.model.session import PendingPrompt
from termal.model.stored import QueueEntry, StoredImage
from termal.rules.peer_prompt import BATCH_HEADER, HEADER, may_merge, merged, worded

IMAGE = StoredImage(b"x", Attachment(byte_size=1, file_name="a.png", media_type="image/png"))
MAIL = PromptSource(session_id="session-1", name="A", kind="mailbox")


def prompt(number: int, sender: str | None, text: str = "text") -> PendingPrompt:
    source = UNSET if sender is None else PromptSource(session_id=f"session-{sender}", name=sender)
    return PendingPrompt(id=f"message-{number}", timestamp=f"10:00:0{number}", text=text, source=source)


def entry(pending: PendingPrompt, source: Any = "user", images: int = 0) -> QueueEntry:
    return QueueEntry(source, pending, [IMAGE] * images)


@pytest.mark.parametrize(
    ("waiting", "new", "expected"),
    [
        pytest.param(entry(prompt(1, "A")), entry(prompt(2, "B")), True, id="two-peers"),
        pytest.param(entry(merged([prompt(1, "A"), prompt(2, "B")])), entry(prompt(3, "A")), True, id="batch"),
        pytest.param(entry(prompt(1, None)), entry(prompt(2, "B")), False, id="behind-a-user"),
        pytest.param(entry(prompt(1, "A")), entry(prompt(2, None)), False, id="user-behind"),
        pytest.param(entry(prompt(1, "A"), images=1), entry(prompt(2, "B")), False, id="image-before"),
        pytest.param(entry(prompt(1, "A")), entry(prompt(2, "B"), images=1), False, id="image"),
        pytest.param(entry(prompt(1, "A"), "orchestrator"), entry(prompt(2, "B")), False, id="other-queue-source"),
        pytest.param(
            entry(PendingPrompt(id="m", timestamp="", text="", source=MAIL)), entry(prompt(2, "B")), False, id="wake"
        ),
    ],
)
def test_only_neighbouring_peer_prompts_merge(waiting: QueueEntry, new: QueueEntry, expected: bool) -> None:
    assert may_merge(waiting, new) is expected


def test_a_batch_lists_its_parts_in_order_under_the_first_id() -> None:
    batch = merged([prompt(1, "A", "first body"), prompt(2, "B", "second body")])
    assert (batch.id, batch.timestamp) == ("message-1", "10:00:01")
    assert batch.source == PromptSource(name="Peer queue", kind="peerBatch")
    lines = batch.text.split("\n")
    assert lines[0] == BATCH_HEADER
    assert "2 messages" in lines[1]
    assert "10:00:01" in lines[1]
    assert lines.index("first body") < lines.index("second body")
    assert "from B (session-B), 10:00:02, message-2" in batch.text


def test_a_batch_of_one_sender_keeps_it() -> None:
    source = merged([prompt(1, "A"), prompt(2, "A")]).source
    assert source == PromptSource(session_id="session-A", name="A", kind="peerBatch")


def test_a_single_prompt_is_behind_a_header_that_says_where_it_is_from() -> None:
    text = worded("do it", sender_id="session-3", sender_name="Lead", other_project=True)
    assert text.startswith(HEADER)
    assert "Lead (session-3)" in text
    assert "different repository" in text
    assert text.endswith("\n\ndo it")
    assert "different" not in worded("x", sender_id="s", sender_name="n", other_project=False)
