"""Delegations at the edge between one commit and the next, where only the memory of `state` can be looked at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from termal.log import Log
from termal.model.delegation import DelegationRecord
from termal.model.message import ParallelAgent, ParallelAgents, Text
from termal.rules.verdicts import Refused
from termal.wire.delegation_operations import SpawnDelegation
from termal.wire.errors import TermalError
from termal.wire.verdict_errors import error_of
from tests.support.state_memory import Asked, Memory
from workers.state.delegation_audit import Audit
from workers.state.delegation_cards import Cards
from workers.state.delegation_outcome import observed
from workers.state.delegation_spawn import Spawns
from workers.state.load import load
from workers.state.session_record import SessionRecord


@pytest.fixture
def memory(home_dir: Path) -> Iterator[Memory]:
    home_dir.mkdir(mode=0o700)
    memory = Memory(home_dir / "termal.sqlite")
    yield memory
    memory.close()


def append_card(memory: Memory, cards: Cards, parent: SessionRecord, record: DelegationRecord) -> None:
    """Store ``record`` with its card."""
    change = memory.book.change()
    cards.append(change, parent, record)
    change.delegation(record)
    change.commit()
    memory.commit()


def record_of(parent: str, child: str, **fields: object) -> DelegationRecord:
    values = {"status": "running", "title": "Look", "agent": "Demo", "cwd": "/", **fields}
    return DelegationRecord(
        id="delegation-1",
        parent_session_id=parent,
        child_session_id=child,
        **values,  # type: ignore[arg-type]
    )


def test_rows_of_an_agents_own_tools_are_never_touched(memory: Memory) -> None:
    parent = memory.create()
    record = record_of(parent.id, "session-9")
    cards = Cards(memory.book)
    change = memory.book.change()
    cards.append(change, parent, record)
    tool = ParallelAgent(id="delegation-1", source="tool", status="running", title="A tool")
    change.append(
        parent, ParallelAgents(id=memory.registry.new_message_id(), timestamp="now", author="assistant", agents=[tool])
    )
    change.commit()
    memory.commit()
    again = memory.book.change()
    assert not cards.refresh(again, record)
    assert again.empty
    assert cards.refresh(again, record_of(parent.id, "session-9", status="failed"))
    again.commit()
    memory.commit()
    rows = [message.agents[0] for message in parent.messages if isinstance(message, ParallelAgents)]
    assert [(row.source, row.status) for row in rows] == [("delegation", "error"), ("tool", "running")]


def test_a_card_in_front_of_what_is_in_memory_is_written_and_its_overview_kept(memory: Memory) -> None:
    parent = memory.create()
    record = record_of(parent.id, "session-9")
    cards = Cards(memory.book)
    change = memory.book.change()
    cards.append(change, parent, record)
    change.commit()
    memory.say(parent, 100)
    memory.commit()
    assert parent.start > 0
    change = memory.book.change()
    change.delegation(record_of(parent.id, "session-9", status="failed"))
    assert cards.refresh(change, record_of(parent.id, "session-9", status="failed"))
    change.commit()
    memory.commit()
    connection = apsw.Connection(str(memory.path))
    [[value, kind]] = connection.execute(
        "SELECT value_json, overview_kind FROM messages WHERE session_id = ? AND position = 0", (parent.id,)
    ).fetchall()
    [[blob]] = connection.execute(
        "SELECT value_blob FROM session_overviews WHERE session_id = ?", (parent.id,)
    ).fetchall()
    connection.close()
    assert '"status":"error"' in str(value)
    assert isinstance(blob, bytes)
    assert blob[0] & 3 == kind
    assert parent.distant == {}
    found = load(memory.path, Log("state", None), fresh=False)
    assert [one.status for one in found.delegations.values()] == ["failed"]


@pytest.mark.parametrize("grown", [0, 1, 3, 100], ids=["shorter", "another-there", "longer", "out-of-memory"])
def test_a_card_that_was_taken_back_with_the_transcript_is_written_nowhere(memory: Memory, grown: int) -> None:
    parent = memory.create()
    record = record_of(parent.id, "session-9")
    cards = Cards(memory.book)
    append_card(memory, cards, parent, record)
    parent.start_over([])
    cards.forget(parent)
    memory.say(parent, grown)
    memory.commit()
    before = memory.rows(parent)
    change = memory.book.change()
    assert not cards.refresh(change, record_of(parent.id, "session-9", status="failed"))
    assert change.empty
    memory.commit()
    assert memory.rows(parent) == before


def test_the_place_of_a_card_beyond_the_end_of_the_transcript_is_not_believed(memory: Memory) -> None:
    parent = memory.create()
    record = record_of(parent.id, "session-9")
    cards = Cards(memory.book)
    memory.say(parent, 3)
    append_card(memory, cards, parent, record)
    parent.start_over([])
    assert not cards.found(record)
    assert not cards.refresh(memory.book.change(), record_of(parent.id, "session-9", status="failed"))


def test_a_place_that_was_read_before_the_transcript_was_taken_back_is_not_remembered(memory: Memory) -> None:
    parent = memory.create()
    record = record_of(parent.id, "session-9")
    cards = Cards(memory.book)
    append_card(memory, cards, parent, record)
    connection = apsw.Connection(str(memory.path))
    found = cards.stored(connection, record)
    connection.close()
    assert found is not None
    seen = cards.rewritten
    parent.start_over([])
    cards.forget(parent)
    cards.remember(record, *found, seen=seen)
    memory.say(parent, 100)
    memory.commit()
    assert not cards.found(record)


@pytest.mark.case("A38")
def test_a_child_on_another_daemon_is_at_work_as_long_as_it_says_so(memory: Memory) -> None:
    child = memory.create()
    text = "## Result\n\nStatus: completed\n\nSummary:\nDone.\n"
    change = memory.book.change()
    change.append(child, Text(id="message-90", timestamp="now", author="assistant", text=text))
    change.commit()
    memory.commit()
    child.status = "active"
    assert observed(child).kind == "packet"
    child.session = replace(child.session, remote_id="host")
    assert observed(child).kind == "running"


@pytest.mark.case("A14")
@pytest.mark.parametrize(
    ("identity", "status", "reason"),
    [
        pytest.param(
            {"remote_id": "host", "remote_session_id": "theirs"}, 501, "remoteSessionNotImplemented", id="both"
        ),
        pytest.param({"remote_id": "host"}, 500, "invalidProxyIdentity", id="only-the-host"),
        pytest.param({"remote_session_id": "theirs"}, 500, "invalidProxyIdentity", id="only-the-session"),
    ],
)
def test_a_proxy_of_another_daemons_session_delegates_nothing(
    memory: Memory, identity: dict[str, str], status: int, reason: str
) -> None:
    parent = memory.create()
    parent.stored = replace(parent.stored, **identity)
    parts: Any = None
    spawns = Spawns(
        memory.book,
        parts,
        cards=Cards(memory.book),
        audit=Audit(memory.journal),
        files=parts,
        agents=parts,
        defaults=parts,
        again=parts,
        unstarted=set(),
        environ={},
    )
    spawn = SpawnDelegation(delegation_id="delegation-1", parent_session_id=parent.id, prompt="Look.", mode="explorer")
    with pytest.raises((TermalError, Refused)) as refused:
        spawns.spawn(Asked(), spawn)
    error = error_of(refused.value)  # type: ignore[arg-type]  # one of the two that are expected
    assert (error.status, error.reason) == (status, reason)
    assert (len(memory.registry.delegations), list(memory.registry.sessions)) == (0, [parent.id])
