"""What a client holds of the whole daemon, and how a stream with gaps is repaired. The wire is a plain function."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from termal.client.async_http import AsyncHttp
from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.client.mirror import Mirror
from termal.client.stream import Event
from termal.client.transcript import Gap
from termal.client.watch import watch, watch_async
from termal.wire.errors import Busy
from tests.support.client_replies import session


def snapshot(revision: int, *sessions: dict[str, Any], life: str = "life-1", **more: Any) -> dict[str, Any]:
    return {"revision": revision, "serverInstanceId": life, "sessions": list(sessions), **more}


def state(*parts: Any, **more: Any) -> Event:
    return Event("state", json.dumps(snapshot(*parts, **more)))


def delta(kind: str, revision: int, **more: Any) -> Event:
    return Event("delta", json.dumps({"type": kind, "revision": revision, **more}))


@pytest.fixture
def mirror() -> Mirror:
    mirror = Mirror()
    assert mirror.take(state(5, session(), delegations=[{"id": "d-1", "status": "running"}])) is not None
    return mirror


def test_summaries_follow_the_deltas(mirror: Mirror) -> None:
    mirror.take(delta("messageAdded", 6, sessionId="session-1", preview="hello", status="idle", messageCount=3))
    mirror.take(delta("delegationUpdated", 7, delegationId="d-1", status="failed", updatedAt="t"))
    mirror.take(delta("delegationFailed", 7, delegationId="d-1", result={"summary": "s"}, failedAt="t"))
    mirror.take(delta("delegationWaitCreated", 8, wait={"id": "w-1"}))
    mirror.take(delta("delegationCreated", 9, delegation={"id": "d-2", "status": "running"}))
    found = mirror.sessions["session-1"]
    assert (found.preview, found.status, found.message_count) == ("hello", "idle", 3)
    assert mirror.delegations["d-1"] == {"id": "d-1", "status": "failed", "result": {"summary": "s"}}
    assert (list(mirror.waits), list(mirror.delegations), mirror.revision) == (["w-1"], ["d-1", "d-2"], 9)
    mirror.take(delta("delegationWaitConsumed", 10, waitId="w-1", reason="completed"))
    assert mirror.waits == {}


def test_a_delta_that_the_snapshot_holds_is_left_out_and_one_of_the_same_commit_is_not(mirror: Mirror) -> None:
    assert mirror.take(delta("delegationUpdated", 5, delegationId="d-1", status="completed")) is None
    assert mirror.take(delta("sessionCreated", 6, session=session())) is not None
    assert mirror.take(delta("delegationCreated", 6, delegation={"id": "d-3"})) is not None


def test_a_delta_further_ahead_is_a_gap_that_a_state_closes(mirror: Mirror) -> None:
    with pytest.raises(Gap):
        mirror.take(delta("textDelta", 7, sessionId="session-1"))
    assert mirror.revision == 5
    assert mirror.adopt(state(9).state())
    assert mirror.take(delta("textDelta", 10, sessionId="session-1")) is not None


@pytest.mark.parametrize(
    ("event", "adopted"),
    [
        pytest.param(state(4), False, id="older"),
        pytest.param(state(5), False, id="the same"),
        pytest.param(state(6), True, id="newer"),
        pytest.param(state(2, life="life-2"), True, id="older of another life"),
        pytest.param(state(2, life=""), False, id="older of nobody"),
    ],
)
def test_which_snapshots_are_adopted(mirror: Mirror, event: Event, adopted: bool) -> None:
    assert (mirror.take(event) is not None) is adopted


def test_after_falling_behind_a_snapshot_of_the_same_revision_counts(mirror: Mirror) -> None:
    assert mirror.take(Event("lagged", "1")) is None
    assert mirror.take(state(5)) is not None


def test_a_snapshot_without_content_asks_for_one(mirror: Mirror) -> None:
    with pytest.raises(Gap):
        mirror.take(Event("state", json.dumps({**snapshot(6, life=""), "_sseFallback": True})))


def test_what_codex_tells_takes_the_place_of_what_it_told_before(mirror: Mirror) -> None:
    mirror.take(Event("state", json.dumps({**snapshot(6), "codex": {"notices": [{"title": "old"}]}})))
    assert mirror.codex == {"notices": [{"title": "old"}]}
    assert mirror.take(delta("codexUpdated", 7, codex={"rateLimits": {"planType": "plus"}})) is not None
    assert mirror.codex == {"rateLimits": {"planType": "plus"}}


def test_what_is_not_known_moves_the_revision_alone(mirror: Mirror) -> None:
    assert mirror.take(delta("somethingNew", 6)) is not None
    assert mirror.take(Event("workspaceFilesChanged", "{}")) is None
    assert mirror.revision == 6


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Bytes that come as a stream."""

    def __init__(self, text: str) -> None:
        self._content = text.encode()

    def __iter__(self) -> Iterator[bytes]:
        yield self._content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


BUSY = {"error": "later", "code": "no_mutation_attempted", "requestId": "r"}


class Wire:
    """A daemon whose streams are given in order; the last one breaks off, and nothing answers any more. Without a
    ``repair`` it is too busy for one."""

    def __init__(self, *streams: list[Event], repair: dict[str, Any] | None = None) -> None:
        self._streams: Iterator[list[Event]] = iter(streams)
        self._repair = repair
        self.repairs = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/state":
            self.repairs += 1
            return httpx.Response(200, json=self._repair) if self._repair else httpx.Response(503, json=BUSY)
        try:
            events = next(self._streams)
        except StopIteration:
            raise httpx.ConnectError("gone") from None
        text = "".join(f"event: {each.name}\ndata: {each.data}\n\n" for each in events)
        return httpx.Response(200, stream=Body(text))


STREAMS = (
    [state(5, session()), delta("a", 6), delta("b", 9)],
    [state(12, session()), delta("c", 13)],
)


def test_a_gap_and_a_lost_connection_lose_nothing_on_the_way() -> None:
    wire, seen = Wire(*STREAMS, repair=snapshot(10, session())), list[int]()

    def story() -> None:
        with Http("http://127.0.0.1:1", transport=httpx.MockTransport(wire), repeat_s=0.0) as http:
            for news in watch(http, Mirror(), lost_s=0.0):
                seen.append(news.revision)

    with pytest.raises(Unreachable):
        story()
    assert seen == [5, 6, 10, 12, 13]
    assert wire.repairs == 1


def test_the_same_on_an_event_loop() -> None:
    wire, mirror, seen = Wire(*STREAMS, repair=snapshot(10, session())), Mirror(), list[int]()

    async def story() -> None:
        transport = httpx.MockTransport(wire)
        async with AsyncHttp("http://127.0.0.1:1", transport=transport, repeat_s=0.0) as http:
            async for news in watch_async(http, mirror, lost_s=0.0):
                seen.append(news.revision)

    with pytest.raises(Unreachable):
        asyncio.run(story())
    assert seen == [5, 6, 10, 12, 13]
    assert wire.repairs == 1


WITHOUT_CONTENT = [Event("state", json.dumps({**snapshot(6, life=""), "_sseFallback": True}))]


def test_it_gives_up_when_streams_open_and_no_gap_can_be_repaired() -> None:
    wire = Wire(*[WITHOUT_CONTENT] * 4)
    with (
        Http("http://127.0.0.1:1", transport=httpx.MockTransport(wire), repeat_s=0.0) as http,
        pytest.raises(Busy),
    ):
        next(watch(http, Mirror(), lost_s=0.05))


def test_on_an_event_loop_it_gives_up_too() -> None:
    wire = Wire(*[WITHOUT_CONTENT] * 4)

    async def story() -> None:
        transport = httpx.MockTransport(wire)
        async with AsyncHttp("http://127.0.0.1:1", transport=transport, repeat_s=0.0) as http:
            await anext(watch_async(http, Mirror(), lost_s=0.05))

    with pytest.raises(Busy):
        asyncio.run(story())
