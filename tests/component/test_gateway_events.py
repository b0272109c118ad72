"""Event streams: a snapshot first, then what follows it, nothing lost unnoticed, no client slowed down by another."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from termal.config import Config
from termal.gateway.stream import OPENING
from termal.wire.errors import Internal
from tests.component.gateway_app import App, Reader, serve
from tests.support.fake_state import FakeState


@pytest.mark.case("H28")
def test_the_first_event_is_the_state_and_deltas_follow_it(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        app.state.publish(3)
        known = (await app.get("/api/state")).json["revision"]
        async with app.stream() as opened:
            reader = Reader(opened)
            ((name, data),) = await reader.wait_for(1)
            assert (name, data["revision"]) == ("state", known)
            assert reader.text.startswith(OPENING.decode())
            assert opened.headers["content-type"] == "text/event-stream"
            assert opened.headers["cache-control"] == "no-cache"
            assert "content-encoding" not in opened.headers
            app.state.publish(2)
            await reader.wait_for(3)
            assert reader.names == ["state", "delta", "delta"]
            assert reader.revisions == [known, known + 1, known + 2]

    serve(run_dir, scenario)


def test_what_happens_while_the_snapshot_is_on_its_way_follows_it_once(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        app.state.publish(2)
        app.state.hold()
        async with app.stream() as opened:
            reader = Reader(opened)
            await app.until(lambda: app.state.snapshots, "the request for a snapshot")
            app.state.publish(4)
            await reader.read()
            assert reader.events == []
            app.state.release()
            await reader.wait_for(5)
            assert reader.revisions == [3, 4, 5, 6, 7]

    serve(run_dir, scenario)


def test_hints_reach_open_streams_in_order_and_make_no_snapshot_void(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        app.state.hold()
        async with app.stream() as opened:
            reader = Reader(opened)
            await app.until(lambda: app.state.snapshots, "the request for a snapshot")
            app.state.publish(1)
            app.state.publish(2, name="workspaceFilesChanged")
            await reader.read()
            app.state.release()
            await reader.wait_for(4)
            app.state.publish(1)
            app.state.publish(1, name="workspaceFilesChanged")
            await reader.wait_for(6)
            hint = "workspaceFilesChanged"
            assert reader.names == ["state", "delta", hint, hint, "delta", hint]
            assert app.state.snapshots == 1

    serve(run_dir, scenario)


@pytest.mark.case("H33")
def test_a_snapshot_is_never_overtaken_by_the_delta_behind_it(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.wait_for(1)
            app.state.publish(1, name="state")
            app.state.publish(1)
            await reader.wait_for(3)
            assert reader.names == ["state", "state", "delta"]
            assert reader.revisions == [1, 2, 3]

    serve(run_dir, scenario)


def test_streams_that_open_together_share_one_snapshot(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        app.state.hold()
        async with AsyncExitStack() as stack:
            readers = [Reader(await stack.enter_async_context(app.stream())) for _ in range(20)]
            await app.until(lambda: app.state.snapshots, "the request for a snapshot")
            app.state.release()
            for reader in readers:
                await reader.wait_for(1)
            assert app.state.snapshots == 1
            app.state.publish(1)
            for reader in readers:
                assert (await reader.wait_for(2))[1][1]["revision"] == 2

    serve(run_dir, scenario)


def test_a_lost_event_shows_at_the_next_one_and_a_fresh_state_repairs_it(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.wait_for(1)
            app.state.publish(1)
            await reader.wait_for(2)
            app.state.skip(3)
            app.state.publish(1)
            await reader.wait_for(4)
            assert reader.names == ["state", "delta", "lagged", "state"]
            assert reader.events[2][1] == 1
            assert reader.events[3][1]["revision"] == 6
            app.state.publish(1)
            await reader.wait_for(5)
            assert reader.revisions == [1, 2, 6, 7]

    serve(run_dir, scenario)


def test_a_lost_tail_shows_without_another_event(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termal.bus.publisher.TICK_S", 0.05)
    monkeypatch.setattr("termal.gateway.hub.CHECK_S", 0.05)

    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.wait_for(1)
            app.state.skip(1)
            await reader.wait_for(3)
            assert reader.names == ["state", "lagged", "state"]
            assert reader.revisions == [1, 2]

    serve(run_dir, scenario)


def test_a_new_state_worker_makes_every_stream_start_again_and_none_end(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            app.state.publish(1)
            await reader.wait_for(1)
            await asyncio.to_thread(app.state.__exit__)
            await app.until(lambda: not app.gateway.is_up("state"), "the loss of state")
            with FakeState(run_dir, epoch="epoch-2", revision=2) as second:
                await reader.wait_for(len(reader.events) + 2)
                assert reader.names[-2:] == ["lagged", "state"]
                assert reader.events[-1][1]["serverInstanceId"] == "epoch-2"
                # The first event may come before the subscription is there again; then it shows as a gap.
                second.publish(1)
                while reader.revisions[-1] < 3:
                    await reader.wait_for(len(reader.events) + 1)
                before = len(reader.events)
                second.publish(2)
                await reader.wait_for(before + 2)
                assert reader.names[before:] == ["delta", "delta"]
                assert reader.revisions[-2:] == [4, 5]

    serve(run_dir, scenario)


def test_a_stream_that_opens_while_state_is_away_gets_its_state_when_it_is_back(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        await asyncio.to_thread(app.state.__exit__)
        await app.until(lambda: not app.gateway.is_up("state"), "the loss of state")
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.read()
            assert reader.text == OPENING.decode()
            with FakeState(run_dir, epoch="epoch-2", revision=9):
                await reader.wait_for(1)
                assert reader.revisions == [9]

    serve(run_dir, scenario)


def test_a_state_that_cannot_be_built_is_replaced_by_one_that_says_so(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        app.state.publish(4)
        async with app.stream() as first:
            await Reader(first).wait_for(1)
        app.state.snapshot_error = Internal("no")
        async with app.stream() as opened:
            reader = Reader(opened)
            ((name, data),) = await reader.wait_for(1)
            assert name == "state"
            assert data["_sseFallback"] is True
            assert (data["revision"], data["serverInstanceId"]) == (5, "")
            app.state.publish(1)
            await reader.wait_for(2)
            assert reader.revisions == [5, 6]

    serve(run_dir, scenario)


def test_a_stream_beyond_the_limit_is_refused_and_one_that_ends_makes_room(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        async with app.stream() as first:
            await Reader(first).wait_for(1)
            reply = await app.get("/api/events")
            assert (reply.status_code, reply.json["code"]) == (429, "too_many")
        await app.until(lambda: len(app.gateway.hub) == 0, "the stream to be forgotten")
        async with app.stream() as second:
            await Reader(second).wait_for(1)

    serve(run_dir, scenario, config=Config(max_event_streams=1))


def test_a_silent_stream_gets_a_comment(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termal.gateway.hub.BEAT_CHECK_S", 0.05)
    monkeypatch.setattr("termal.gateway.hub.BEAT_AFTER_S", 0.0)

    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.wait_for(1)
            await reader.until(lambda: ": beat" in reader.text, "a comment")

    serve(run_dir, scenario)


@pytest.mark.case("H35")
def test_a_stream_asked_for_after_the_end_began_is_empty(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        async with app.stream() as opened:
            reader = Reader(opened)
            await reader.wait_for(1)
            app.gateway.drain()
            await app.until(lambda: len(app.gateway.hub) == 0, "the stream to end")
        reply = await app.get("/api/events")
        assert (reply.status_code, reply.content) == (200, b"")
        assert (await app.get("/api/state")).status_code == 200

    serve(run_dir, scenario)
