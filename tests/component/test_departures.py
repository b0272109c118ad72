"""Departures from mailboxes, with state and coordination as real processes on one data directory."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from termal.wire.control import BootDone, Ready
from termal.wire.errors import NotFound
from termal.wire.mail_operations import MAILBOX_LIST, MAILBOX_SEND, AboutSession, SendMail
from tests.support.bus_peer import call
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import add_mailbox, add_message, coordination_file
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until


@contextmanager
def coordination(state: StateWorker, *, faults: Path | None = None) -> Iterator[ControlPeer]:
    with ControlPeer("workers.coordination", state.home.root, state.run_dir, faults=faults) as worker:
        worker.wait_for(Ready)
        yield worker


def left_at(state: StateWorker, session_id: str) -> list[str | None]:
    connection = apsw.Connection(str(state.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        query = "SELECT left_at FROM mailbox_participants WHERE session_id = ?"
        return [row[0] for row in connection.execute(query, (session_id,))]
    finally:
        connection.close()


def mailboxes(state: StateWorker, session_id: str) -> list[Json]:
    listed: list[Json] = json.loads(call(state.run_dir, "coordination", MAILBOX_LIST, AboutSession(session_id)).json)
    return listed


def send(state: StateWorker, sender: str, target: str, key: str) -> Json:
    mail = SendMail(session_id=sender, target_session_id=target, message="hello", idempotency_key=key)
    receipt: Json = json.loads(call(state.run_dir, "coordination", MAILBOX_SEND, mail).json)
    return receipt


@pytest.mark.case("C49")
def test_a_deleted_session_has_left_and_its_peer_keeps_the_history(state: StateWorker) -> None:
    state.start()
    one, other = state.create(), state.create()
    with coordination(state):
        send(state, one, other, "k1")
        state.kill_session(other)
        [mailbox] = mailboxes(state, one)
        assert [("leftAt" in party, party["sessionId"]) for party in mailbox["participants"]] == [
            (False, one),
            (True, other),
        ]
        assert mailbox["latestMessagePreview"] == "hello"
        with pytest.raises(NotFound):
            mailboxes(state, other)


@pytest.mark.case("C119")
def test_a_session_that_was_deleted_while_the_mailboxes_were_away_has_left_when_they_are_back(
    state: StateWorker,
) -> None:
    state.start()
    one, other = state.create(), state.create()
    with coordination(state):
        send(state, one, other, "k1")
    state.kill_session(other)
    assert left_at(state, other) == [None]
    with coordination(state):
        wait_until(lambda: left_at(state, other) != [None], "the departure")
        assert left_at(state, one) == [None]


@pytest.mark.case("C120")
def test_a_deletion_stands_though_a_repair_was_cut_off_before_it_asked_again(
    state: StateWorker, tmp_path: Path
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    state.start()
    one, other = state.create(), state.create()
    with coordination_file(state.home.root) as connection:
        mailbox_id = add_mailbox(connection, one, other)
        add_message(connection, mailbox_id, one, other)
        connection.execute("UPDATE mailbox_participants SET left_at = joined_at WHERE session_id = ?", (other,))
    (faults / "coordination.left_at_cleared").write_text("kill")
    with coordination(state, faults=faults) as worker:
        state.bus.start(state.bus.client("coordination"), MAILBOX_LIST, AboutSession(other))
        assert worker.wait() == -9
    assert left_at(state, other) == [None]
    state.kill_session(other)
    with coordination(state):
        wait_until(lambda: left_at(state, other) != [None], "the departure")


@pytest.mark.case("C121")
def test_an_id_that_takes_part_in_mail_is_never_given_again(state: StateWorker) -> None:
    with coordination_file(state.home.root) as connection:
        add_mailbox(connection, "session-9", "session-40")
    state.start(ready=False)
    with coordination(state) as worker:
        worker.wait_for(BootDone)
        session_id = state.create()
        assert session_id == "session-41"
        assert mailboxes(state, session_id) == []


@pytest.mark.parametrize("point", ["coordination.in_group", "coordination.after_commit"])
def test_a_departure_that_was_not_confirmed_is_told_again_and_keeps_its_time(
    state: StateWorker, tmp_path: Path, point: str
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    state.start()
    one, other = state.create(), state.create()
    with coordination(state):
        send(state, one, other, "k1")
    with coordination(state, faults=faults) as worker:
        (faults / point).write_text("kill")
        state.kill_session(other)
        assert worker.wait() == -9
    [stored] = left_at(state, other)
    assert (stored is None) == (point == "coordination.in_group")
    [[pending]] = state.rows("SELECT value_json ->> '$.pendingMailboxDepartures[0].leftAt' FROM app_state")
    with coordination(state):
        wait_until(lambda: left_at(state, other) == [pending], "the departure")
        query = "SELECT value_json ->> '$.pendingMailboxDepartures' FROM app_state"
        wait_until(lambda: state.rows(query) == [(None,)], "the outbox to be empty")
    assert left_at(state, one) == [None]
