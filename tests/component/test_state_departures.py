"""A deleted session is told to coordination until that confirms it, whatever ends in between."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from termal.bus.server import Request
from termal.wire.errors import Busy
from termal.wire.mail_operations import Depart
from termal.wire.session_operations import SESSION_KILL, STATE_FACTS, OneSession
from termal.wire.turns import Anything
from tests.support.bus_peer import serving
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until

PENDING = "SELECT value_json ->> '$.pendingMailboxDepartures' FROM app_state"


def pending(state: StateWorker) -> list[Json]:
    """What is stored of it now."""
    [[value]] = state.rows(PENDING)
    return [] if value is None else list(json.loads(value))


@contextmanager
def coordination(state: StateWorker, *, refuse: int = 0) -> Iterator[list[Depart]]:
    """A peer that records what it is told, and refuses the first ``refuse`` times."""
    told: list[Depart] = []

    def depart(request: Request, body: Depart) -> None:
        told.append(body)
        if len(told) <= refuse:
            raise Busy("not now")
        request.reply(Anything())

    with serving(state.run_dir, "coordination", {"session.depart": depart}):
        yield told


def test_a_deletion_is_answered_once_the_mailboxes_know_and_leaves_nothing_behind(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    with coordination(state) as told:
        shown = state.kill_session(session_id)
        assert [body.session_ids for body in told] == [[session_id]]
        assert shown["sessions"] == []
        wait_until(lambda: pending(state) == [], "the outbox to be empty")
    assert len(told[0].at) == len("2026-01-01T00:00:00.000000+00:00")
    assert told[0].at.endswith("+00:00")


def test_a_deletion_does_not_wait_for_mailboxes_that_are_away(state: StateWorker) -> None:
    state.start()
    first, second = state.create(), state.create()
    for session_id in (first, second):
        state.kill_session(session_id)
    assert [entry["sessionId"] for entry in pending(state)] == [first, second]
    assert state.ask(STATE_FACTS, Anything()).outbox.departures == 2
    times = [entry["leftAt"] for entry in pending(state)]
    with coordination(state) as told:
        wait_until(lambda: pending(state) == [], "the outbox to be empty")
    assert [(body.session_ids, body.at) for body in told] == [([first], times[0]), ([second], times[1])]


def test_a_departure_outlives_the_process_that_committed_it(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.kill_session(session_id)
    [entry] = pending(state)
    state.kill()
    state.start()
    with coordination(state, refuse=1) as told:
        wait_until(lambda: pending(state) == [], "the outbox to be empty")
    assert told == [Depart([session_id], entry["leftAt"])] * 2


def test_a_confirmation_that_was_not_stored_is_asked_for_again(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    session_id = state.create()
    (faults / "state.departed_before_commit").write_text("kill")
    with coordination(state) as told:
        state.begin(SESSION_KILL, OneSession(session_id))
        state.process.wait()
        assert [entry["sessionId"] for entry in pending(state)] == [session_id]
        state.start("replacement")
        wait_until(lambda: pending(state) == [], "the outbox to be empty")
    assert told[0] == told[1]


@pytest.mark.parametrize("deep", [1, 3])
def test_everything_below_a_deleted_session_leaves_with_it(state: StateWorker, deep: int) -> None:
    state.start()
    chain = [state.create() for _ in range(deep + 1)]
    state.stop()
    for number, (parent, child) in enumerate(pairwise(chain)):
        state.change_row(child, session={"parentDelegationId": f"delegation-{number}"})
        record = {"id": f"delegation-{number}", "parentSessionId": parent, "childSessionId": child, "status": "running"}
        state.write(f"INSERT INTO delegations VALUES ('delegation-{number}', '{json.dumps(record)}')")
    state.start()
    with coordination(state) as told:
        state.kill_session(chain[0])
    assert [sorted(body.session_ids) for body in told] == [sorted(chain)]
