"""Calls as awaitables, on asyncio."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from termal.bus.aio import AioLoop
from termal.bus.ask import ask
from termal.bus.client import Client
from termal.wire.errors import Busy, Conflict, InvalidRequest
from termal.wire.runtime_operations import TURN_HELD
from termal.wire.session_operations import SESSION_CREATE, SESSION_KILL, CreateSession, OneSession
from termal.wire.turns import Anything, JsonReply
from tests.support.bus import BusThread, soon

ROLE = "state"


def on_asyncio(run_dir: Path, main: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = AioLoop()
        client = Client(loop, run_dir, ROLE, "test")
        try:
            async with asyncio.timeout(5):
                await main(client)
        finally:
            client.close()
            loop.close()

    asyncio.run(run())


def test_many_questions_at_once_each_get_their_own_reply(run_dir: Path, peer: BusThread) -> None:
    peer.server(ROLE, {"session.create": lambda request, record: request.reply(JsonReply(record.key.encode()))})

    async def main(client: Client) -> None:
        questions = [ask(client, SESSION_CREATE, CreateSession(key=f"k-{n}")) for n in range(200)]
        assert [reply.json for reply in await asyncio.gather(*questions)] == [b"k-%d" % n for n in range(200)]

    on_asyncio(run_dir, main)


def test_the_error_that_ended_the_call_is_raised(run_dir: Path, peer: BusThread) -> None:
    peer.server(ROLE, {"session.kill": lambda request, _: request.refuse(Conflict("moved", detail=[1, 2]))})

    async def main(client: Client) -> None:
        with pytest.raises(Conflict, match="moved") as raised:
            await ask(client, SESSION_KILL, OneSession("session-1"))
        assert raised.value.detail == [1, 2]

    on_asyncio(run_dir, main)


def test_a_question_that_failed_leaves_nothing_for_the_garbage_collector(run_dir: Path, peer: BusThread) -> None:
    """Its caller's frame, with all that it holds, ends with the error."""
    peer.server(ROLE, {"session.create": lambda request, _: request.refuse(Conflict("moved"))})

    class Body:
        """What the caller made its question of."""

    async def asked(client: Client) -> "weakref.ref[Body]":
        body = Body()
        with contextlib.suppress(Conflict):
            await ask(client, SESSION_CREATE, CreateSession(key="k"))
        return weakref.ref(body)

    async def main(client: Client) -> None:
        gc.collect()
        gc.disable()
        try:
            held = await asked(client)
            # What woke this task is let go of behind its step.
            await asyncio.sleep(0)
            assert held() is None
        finally:
            gc.enable()

    on_asyncio(run_dir, main)


def test_the_limits_of_a_question_are_those_of_a_call(run_dir: Path) -> None:
    async def main(client: Client) -> None:
        with pytest.raises(Busy):
            await ask(client, SESSION_KILL, OneSession("session-1"), deadline_s=soon())
        with pytest.raises(Busy):
            await ask(client, TURN_HELD, Anything(), absent_s=0.01)
        with pytest.raises(InvalidRequest):
            await ask(client, SESSION_KILL, OneSession("session-1"), trace="t" * 1000)
        assert client.pending == 0

    on_asyncio(run_dir, main)


def test_a_cancelled_question_forgets_its_call(run_dir: Path) -> None:
    async def main(client: Client) -> None:
        task = asyncio.create_task(ask(client, SESSION_KILL, OneSession("session-1")))
        await asyncio.sleep(0)
        assert client.pending == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.pending == 0

    on_asyncio(run_dir, main)
