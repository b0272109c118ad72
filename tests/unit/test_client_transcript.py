"""A session's transcript in a client: what a reader is shown, and when the client knows that something is missing."""

from typing import Any

import msgspec
import pytest

from termal.client.replies import Delta
from termal.client.transcript import Gap, Said, Shown, StatusIs, Transcript, Update
from termal.model.reply import SessionResponse
from tests.support.client_replies import added, delta, grown, session, session_reply, text


def adopted(*messages: dict[str, Any], **more: Any) -> Transcript:
    transcript = Transcript("session-1")
    transcript.adopt(reply(*messages, **more))
    return transcript


def reply(*messages: dict[str, Any], **more: Any) -> SessionResponse:
    return msgspec.convert(session_reply(*messages, **more), SessionResponse)


def apply(transcript: Transcript, *deltas: dict[str, Any]) -> list[Update]:
    return [update for one in deltas for update in transcript.apply(msgspec.convert(one, Delta))]


def pieces(updates: list[Update]) -> list[tuple[str, str, bool]]:
    return [(said.message.id, said.piece, said.first) for said in updates if isinstance(said, Said)]


def test_a_snapshot_shows_every_message_and_the_status() -> None:
    updates = Transcript("session-1").adopt(reply(text(1, "Hi", "you"), text(2, "Hello")))
    assert pieces(updates) == [("message-1", "Hi", True), ("message-2", "Hello", True)]
    assert updates[-1] == StatusIs("active")


def test_streamed_text_is_shown_piece_by_piece() -> None:
    transcript = adopted(text(1, "Hi", "you"))
    updates = apply(
        transcript,
        added(text(2, ""), 1, 2),
        grown("message-2", "Gr", 0, 3),
        grown("message-2", "üße", 2, 4),
        grown("message-2", ".", 7, 5),
    )
    assert pieces(updates) == [
        ("message-2", "", True),
        ("message-2", "Gr", False),
        ("message-2", "üße", False),
        ("message-2", ".", False),
    ]
    assert transcript.end == 2


def test_what_a_snapshot_held_already_is_not_shown_again() -> None:
    transcript = adopted(text(1, "Hello"), revision=4)
    assert apply(transcript, added(text(1, ""), 0, 3), grown("message-1", "Hello", 0, 4)) == []
    assert pieces(apply(transcript, grown("message-1", "!", 5, 5))) == [("message-1", "!", False)]


def test_text_that_the_snapshot_read_ahead_of_its_event_is_not_doubled() -> None:
    transcript = adopted(text(1, "Hello"), revision=4)
    assert apply(transcript, grown("message-1", "lo", 3, 5)) == []


def test_several_events_of_one_commit_are_all_taken() -> None:
    transcript = adopted(revision=1, status="idle")
    updates = apply(transcript, delta("sessionSummaryUpdated", 2, session=session()), added(text(1, "Hi", "you"), 0, 2))
    assert updates[0] == StatusIs("active")
    assert pieces(updates) == [("message-1", "Hi", True)]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(grown("message-1", "x", 5, 9), id="a revision was left out"),
        pytest.param(added(text(3, "x"), 2, 2), id="a position was left out"),
        pytest.param(grown("message-1", "x", 8, 2), id="bytes were left out"),
        pytest.param(grown("message-7", "x", 0, 2), id="the message is unknown"),
        pytest.param(delta("messagesCompacted", 2, messageCount=1, status="idle"), id="positions changed"),
    ],
)
def test_a_gap_is_noticed(late: dict[str, Any]) -> None:
    transcript = adopted(text(1, "Hello"), revision=1)
    with pytest.raises(Gap):
        apply(transcript, late)


def test_after_a_gap_only_what_is_new_is_shown() -> None:
    transcript = adopted(text(1, "Hel"), revision=1)
    updates = transcript.adopt(reply(text(1, "Hello"), text(2, "Next"), revision=8, status="idle"))
    assert pieces(updates) == [("message-1", "lo", False), ("message-2", "Next", True)]
    assert updates[-1] == StatusIs("idle")


def test_events_of_other_sessions_move_the_revision_alone() -> None:
    transcript = adopted(text(1, "Hello"), revision=1)
    other = {**grown("message-9", "x", 0, 2), "sessionId": "session-2"}
    assert apply(transcript, other) == []
    assert pieces(apply(transcript, grown("message-1", "!", 5, 3))) == [("message-1", "!", False)]


def test_replaced_text_is_shown_as_a_whole_unless_it_only_grew() -> None:
    transcript = adopted(text(1, "Hello"), revision=1)
    grew = apply(transcript, delta("textReplace", 2, messageId="message-1", text="Hello you"))
    assert pieces(grew) == [("message-1", " you", False)]
    [changed] = apply(transcript, delta("textReplace", 3, messageId="message-1", text="Bye"))
    assert isinstance(changed, Shown)


def test_a_command_that_goes_on_is_shown_anew_and_is_not_the_sessions_status() -> None:
    transcript = adopted(revision=1)
    command = {**text(1, ""), "type": "command", "command": "ls", "output": "", "status": "running"}
    del command["text"]
    apply(transcript, added(command, 0, 2))
    update = delta("commandUpdate", 3, messageId="message-1", command="ls", output="a", status="success", preview="")
    [shown] = apply(transcript, update)
    assert isinstance(shown, Shown)
    assert (shown.message.output, shown.message.status) == ("a", "success")  # type: ignore[union-attr]
    assert transcript.status == "active"


def test_an_answered_question_of_long_ago_is_no_gap() -> None:
    transcript = adopted(text(1, "Hello"), revision=1)
    old = {**text(90, ""), "type": "approval", "title": "", "command": "", "detail": "", "decision": "accepted"}
    del old["text"]
    assert apply(transcript, delta("messageUpdated", 2, messageId="message-90", message=old, status="active")) == []
