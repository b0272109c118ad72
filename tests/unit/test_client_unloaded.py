"""What a client does about sessions that it has not loaded: nothing."""

from typing import Any

import msgspec
import pytest

from termal.client.replies import Delta
from termal.client.transcript import Transcript
from termal.model.reply import SessionResponse
from tests.support.client_replies import added, delta, grown, session_reply, text

ELSEWHERE: list[dict[str, Any]] = [
    added(text(9, "new"), 40, 2),
    grown("message-9", "more", 12, 2),
    delta("textReplace", 2, messageId="message-9", text="all"),
    delta("messageUpdated", 2, messageId="message-9", messageIndex=3, message=text(9, "x"), status="idle"),
    delta("messagesCompacted", 2, messageCount=3),
]


@pytest.mark.case("H37")
@pytest.mark.parametrize("one", ELSEWHERE, ids=[one["type"] for one in ELSEWHERE])
def test_an_event_of_a_session_that_is_not_loaded_loads_nothing_and_asks_for_nothing(one: dict[str, Any]) -> None:
    transcript = Transcript("session-1")
    transcript.adopt(msgspec.convert(session_reply(text(1, "Hi", "you")), SessionResponse))
    before = (dict(transcript.messages), transcript.end, transcript.status)
    # A gap, which is what makes a client ask, would be raised here.
    assert transcript.apply(msgspec.convert({**one, "sessionId": "session-2"}, Delta)) == []
    assert (transcript.messages, transcript.end, transcript.status) == before
    following = transcript.apply(msgspec.convert(added(text(2, "next"), 1, 3), Delta))
    assert [update.message.id for update in following if hasattr(update, "message")] == ["message-2"]
