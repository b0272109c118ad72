"""A disk that is full for a while, and a record that cannot be written: nothing that was accepted is lost."""

import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from termal.model.message import Text
from termal.wire.session_operations import PROMPT_SEND, SESSION_CREATE, CreateSession
from termal.wire.turns import TextDelta
from tests.support.state_memory import Memory
from tests.support.state_worker import StateWorker, texts
from tests.support.waiting import wait_until

FULL_S = 3.0


@pytest.fixture
def memory(home_dir: Path) -> Iterator[Memory]:
    home_dir.mkdir(mode=0o700, exist_ok=True)
    memory = Memory(home_dir / "termal.sqlite")
    yield memory
    memory.close()


def stored(memory: Memory, session_id: str) -> list[tuple[Any, ...]]:
    """The row of a session beside each row of its transcript."""
    connection = apsw.Connection(str(memory.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        sql = "SELECT s.value_json, m.value_json FROM sessions s JOIN messages m ON m.session_id = s.id WHERE s.id = ?"
        return connection.execute(sql, (session_id,)).fetchall()
    finally:
        connection.close()


@pytest.mark.case("S82")
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no way to limit another process here")
def test_what_is_accepted_while_the_disk_is_full_is_stored_when_it_is_not(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    talking = state.create()
    state.send(talking, "go")
    turn = runtime.turn(0)
    log = state.home.termal_db.with_name("termal.sqlite-wal")
    _, hard = resource.prlimit(state.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(state.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, hard))
    full_until = time.monotonic() + FULL_S
    created = state.begin(SESSION_CREATE, CreateSession(key="while full", agent="Demo"))
    prompted = state.begin(PROMPT_SEND, state.prompt(talking, "queued while full"))
    pieces = [f"{number} " for number in range(20)]
    for piece in pieces:
        runtime.report(turn, TextDelta("a", piece), wait=False)
    wait_until(lambda: time.monotonic() > full_until, "the disk to have been full for three seconds")
    assert state.rows("SELECT count(*) FROM sessions") == [(1,)], "the disk was not full"
    resource.prlimit(state.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    session_id = json.loads(created.reply().json)["sessionId"]
    assert prompted.reply().json
    runtime.wait_confirmed(turn)
    state.kill()
    state.start("replacement", running=["runtime-acp"])
    shown = state.read(talking)
    assert texts(shown) == ["go", "".join(pieces)]
    assert [prompt["text"] for prompt in shown["pendingPrompts"]] == ["queued while full"]
    assert state.status(session_id) == "idle"


@pytest.mark.case("S81")
def test_a_record_that_cannot_be_written_keeps_its_last_good_row_and_holds_up_nobody(memory: Memory) -> None:
    bad, good = memory.create(), memory.create()
    memory.say(bad, 1)
    memory.say(good, 1)
    memory.commit()
    before = stored(memory, bad.id)
    spoiled = bad.at(0)
    assert isinstance(spoiled, Text)
    bad.put(replace(spoiled, text="half a character: \ud800"), 0, preview=False)
    memory.journal.touch(bad)
    memory.say(good, 1)
    memory.commit()
    assert stored(memory, bad.id) == before
    assert len(stored(memory, good.id)) == 2
    bad.put(replace(spoiled, text="whole again"), 0, preview=False)
    memory.journal.touch(bad)
    memory.commit()
    assert json.loads(stored(memory, bad.id)[0][1])["text"] == "whole again"
