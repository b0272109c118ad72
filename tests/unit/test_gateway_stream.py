"""One client's queue of events."""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from termal.gateway.stream import BEAT, LAGGED, OPENING, QUEUE_BYTES, QUEUE_EVENTS, Kept, Stream


class Asked:
    """The hub's side: counts the snapshots that were asked for."""

    def __init__(self) -> None:
        self.wanted = 0

    def want(self, stream: Stream) -> None:
        self.wanted += 1

    def leave(self, stream: Stream) -> None:
        raise AssertionError("a stream never leaves by itself")


def run(scenario: Callable[[Stream, Asked], Awaitable[None]]) -> None:
    async def body() -> None:
        hub = Asked()
        stream = Stream(hub)
        assert await stream.next() == OPENING
        assert hub.wanted == 1
        await scenario(stream, hub)

    asyncio.run(body())


def test_the_snapshot_comes_first_and_what_waits_together_is_one_chunk() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S", 4, [Kept("e", 5, b"5", whole=False)])
        stream.offer(b"6", whole=False)
        assert await stream.next() == b"S56"
        assert stream.after == 4

    run(scenario)


def test_a_pending_snapshot_gives_way_to_a_newer_one_just_behind_it() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S", 1, [])
        for chunk, whole in ((b"T", True), (b"d", False), (b"U", True), (b"V", True), (b"e", False)):
            stream.offer(chunk, whole=whole)
        assert await stream.next() == b"TdVe"

    run(scenario)


def test_a_client_that_is_behind_misses_hints_and_nothing_else() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S", 0, [])
        for _ in range(QUEUE_EVENTS):
            stream.hint(b"h")
        assert all(stream.offer(b"d", whole=False) for _ in range(QUEUE_EVENTS // 2))
        assert await stream.next() == b"S" + b"h" * (QUEUE_EVENTS // 2) + b"d" * (QUEUE_EVENTS // 2)
        stream.hint(b"x" * (QUEUE_BYTES // 2 + 1))
        stream.hint(b"h")
        assert await stream.next() == b"h"
        assert hub.wanted == 1

    run(scenario)


def test_a_full_queue_is_dropped_and_the_client_told_before_it_gets_a_new_snapshot() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S", 0, [])
        assert all(stream.offer(b"d", whole=False) for _ in range(QUEUE_EVENTS))
        assert not stream.offer(b"d", whole=False)
        assert hub.wanted == 1
        assert await stream.next() == LAGGED
        assert hub.wanted == 2
        stream.adopt(b"T", 300, [])
        assert await stream.next() == b"T"

    run(scenario)


def test_the_queue_is_bounded_in_bytes_as_well() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S" * (2 * QUEUE_BYTES), 0, [])
        half = b"d" * (QUEUE_BYTES // 2)
        assert stream.offer(half, whole=False)
        assert stream.offer(half, whole=False)
        assert not stream.offer(b"d", whole=False)

    run(scenario)


def test_what_was_sent_no_longer_counts() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        stream.adopt(b"S", 0, [])
        for _ in range(4):
            assert all(stream.offer(b"d" * 1000, whole=False) for _ in range(QUEUE_EVENTS))
            sent = 0
            while sent < QUEUE_EVENTS * 1000:
                chunk = await stream.next()
                assert chunk is not None
                sent += chunk.count(b"d")

    run(scenario)


def test_a_silent_stream_sends_a_comment_when_it_is_told_to() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        waiting = asyncio.create_task(stream.next())
        await asyncio.sleep(0)
        stream.beat()
        assert await waiting == BEAT

    run(scenario)


def test_a_closed_stream_ends_whatever_waits_in_it() -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        waiting = asyncio.create_task(stream.next())
        await asyncio.sleep(0)
        stream.close()
        assert await waiting is None
        stream.offer(b"d", whole=False)
        assert await stream.next() is None

    run(scenario)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 9))
def test_no_event_is_lost_doubled_or_moved_but_snapshots_with_a_newer_one_just_behind(
    wholes: list[bool], every: int
) -> None:
    async def scenario(stream: Stream, hub: Asked) -> None:
        kinds = [True, *wholes, False]
        stream.adopt(b"0 ", 0, [])
        sent = b""
        for position, whole in enumerate(kinds[1:], 1):
            stream.offer(b"%d " % position, whole=whole)
            if position % every == 0:
                sent += await stream.next() or b""
        if (len(kinds) - 1) % every:
            sent += await stream.next() or b""
        seen = [int(number) for number in sent.split()]
        assert seen == sorted(set(seen))
        assert all(kinds[missing] and kinds[missing + 1] for missing in set(range(len(kinds))) - set(seen))

    run(scenario)
