"""Following a session: gaps are repaired by reading again, lost connections are made anew. The wire is a function."""

from typing import Any

import httpx
import pytest

from termal.client.errors import Unreachable
from termal.client.follow import follow
from termal.client.http import Http
from termal.client.transcript import Said, StatusIs, Update
from termal.wire.errors import Busy, NotFound
from tests.support.client_replies import added, event, grown, session, session_reply, state, text

BUSY = httpx.Response(503, json={"error": "later", "code": "no_mutation_attempted", "requestId": "r"})
GONE = httpx.Response(404, json={"error": "no such session", "code": "not_found", "requestId": "r"})


class Wire:
    """Answers event streams and session reads from two lists, the last of each again and again."""

    def __init__(self, streams: list[list[bytes]], reads: list[Any], pages: list[Any] | None = None) -> None:
        self._streams, self._reads, self._pages = streams, reads, pages or []
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode())
        if request.url.path == "/api/events":
            if not self._streams:
                raise httpx.ConnectError("refused")
            return httpx.Response(200, stream=httpx.ByteStream(b"".join(self._streams.pop(0))))
        answers = self._pages if request.url.path.endswith("/history") else self._reads
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def follow(self, **options: Any) -> list[Update]:
        with Http("http://127.0.0.1:1", transport=httpx.MockTransport(self), repeat_s=0.0) as http:
            return list(follow(http, "session-1", **options))


def said(updates: list[Update]) -> str:
    return "".join(update.piece for update in updates if isinstance(update, Said))


SNAPSHOT = event("state", state(session()))


def test_it_ends_when_the_session_is_killed() -> None:
    killed = event("state", state(revision=9))
    wire = Wire(
        [[SNAPSHOT, event("delta", added(text(2, "Hello"), 1, 2)), killed]], [session_reply(text(1, "Hi")), GONE]
    )
    assert said(wire.follow()) == "HiHello"


def test_an_unknown_session_is_an_error() -> None:
    with pytest.raises(NotFound):
        Wire([[SNAPSHOT]], [GONE]).follow()


def test_a_gap_in_the_events_is_filled_by_reading_again() -> None:
    wire = Wire(
        [[SNAPSHOT, event("delta", grown("message-1", "lost", 40, 7)), event("state", state(revision=9))]],
        [session_reply(text(1, "Hel")), session_reply(text(1, "Hello"), text(2, "World"), revision=7), GONE],
    )
    assert said(wire.follow()) == "HelloWorld"


def test_after_a_lost_connection_it_goes_on_where_it_was() -> None:
    wire = Wire(
        [[SNAPSHOT], [event("state", state(session(), revision=5))], [event("state", state(revision=9))]],
        [session_reply(text(1, "Hel")), session_reply(text(1, "Hello"), revision=5, status="idle"), GONE],
    )
    updates = wire.follow()
    assert said(updates) == "Hello"
    assert updates[-1] == StatusIs("idle")


def test_more_than_one_window_missed_is_read_page_by_page() -> None:
    page = {
        "messages": [text(2, "b"), text(3, "c")],
        "hasMore": True,
        "hasNewer": True,
        "messageStartIndex": 1,
        "messageCount": 4,
        "revision": 5,
        "serverInstanceId": "one",
    }
    wire = Wire(
        [[SNAPSHOT, event("state", state(session(), revision=5)), event("state", state(revision=9))]],
        [session_reply(text(1, "a")), session_reply(text(4, "d"), count=4, revision=5), GONE],
        [page],
    )
    assert said(wire.follow()) == "abcd"
    assert "/api/sessions/session-1/history?limit=64&after=message-1" in wire.asked


def test_a_worker_that_is_being_replaced_is_waited_for() -> None:
    wire = Wire([[SNAPSHOT], [SNAPSHOT, SNAPSHOT]], [BUSY, session_reply(text(1, "Hello")), GONE])
    assert said(wire.follow()) == "Hello"


def test_it_gives_up_when_no_daemon_answers() -> None:
    with pytest.raises(Unreachable):
        Wire([[SNAPSHOT]], [session_reply(text(1, "Hello"))]).follow(lost_s=0.0)


def test_it_gives_up_when_streams_open_and_no_read_succeeds() -> None:
    with pytest.raises(Busy):
        Wire([[SNAPSHOT]] * 4, [BUSY]).follow(lost_s=0.05)


def test_a_read_that_succeeds_starts_its_patience_anew() -> None:
    again = event("state", state(session(), revision=5))
    wire = Wire(
        [[SNAPSHOT], [SNAPSHOT], [again], [again, event("state", state(revision=9))]],
        [BUSY, session_reply(text(1, "Hel")), BUSY, session_reply(text(1, "Hello"), revision=5), GONE],
    )
    assert said(wire.follow(lost_s=0.15)) == "Hello"
