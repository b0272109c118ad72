"""Ends that meet other ends: processes killed while the daemon stops, stops while it starts, signals on signals."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.daemon import Daemon, Person
from tests.support.invariants import answers_of, check_database, prompts_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIMIT_S = 15.0


@contextmanager
def person(daemon: Daemon, name: str) -> Iterator[Person]:
    made = Person(daemon, name)
    try:
        yield made
    finally:
        made.close()


def begun(who: Person, text: str) -> None:
    wait_until(lambda: text in " ".join(answers_of(who.read()["messages"])), f"the agent to say {text!r}")


@pytest.mark.parametrize("victim", ["state", "runtime-acp", "gateway", "coordination"])
def test_a_process_killed_while_the_daemon_stops_costs_nothing_that_was_acknowledged(
    daemon: Daemon, victim: str
) -> None:
    with person(daemon, "cut") as who:
        who.prompt("say begun\nwait 60", key="one")
        begun(who, "begun")
        who.prompt("say queued", key="two")
        doomed = daemon.pid_of(victim)
        os.kill(daemon.pid, signal.SIGTERM)
        os.kill(doomed, signal.SIGKILL)
        assert daemon.wait_exit(LIMIT_S) == 0
        assert not daemon.marked()
        check_database(daemon.home.termal_db)
        daemon.start()
        who.reconnect()
        session = who.read()
        assert session["status"] == "error"
        assert prompts_of(session["messages"]) == ["say begun\nwait 60"]
        assert answers_of(session["messages"])[0] == "begun"
        assert [entry["text"] for entry in session["pendingPrompts"]] == ["say queued"]


def test_a_stop_during_the_start_ends_in_order(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    for _ in range(3):
        daemon.start(ready=False)
        wait_until(daemon.home.report.exists, "the supervisor to report")
        assert daemon.stop() in (0, -signal.SIGTERM)
        assert not daemon.marked()
    daemon.start()
    check_database(daemon.home.termal_db)


def test_many_signals_at_once_end_it_once(daemon: Daemon) -> None:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(daemon.pid, number)
    assert daemon.wait_exit(LIMIT_S) == 0
    assert not daemon.marked()
    daemon.start()


def test_a_session_killed_while_state_is_killed_leaves_no_agent(daemon: Daemon) -> None:
    with person(daemon, "doomed") as who:
        who.prompt("say begun\nwait 60", key="one")
        begun(who, "begun")
        agents = [p for p in daemon.marked() if "termal.demo_agent" in " ".join(p.cmdline())]
        assert agents
        daemon.arm("state.after_commit_before_reply")
        with daemon.client() as client:
            reply = client.post(f"/api/sessions/{who.session_id}/kill")
            assert (reply.status_code, reply.json()["code"]) == (504, "outcome_unknown")
            assert client.get(f"/api/sessions/{who.session_id}").status_code == 404
        wait_until(lambda: not any(agent.is_running() for agent in agents), "its agent to be ended", LIMIT_S)


def test_a_fault_inside_state_costs_one_answer_and_no_session(daemon: Daemon) -> None:
    with person(daemon, "faulty") as who:
        who.prompt("say before", key="before")
        who.wait_idle()
        old = daemon.pid_of("state")
        daemon.arm("state.in_dispatch", "raise")
        assert who.prompt("say now", key="now") is False, "the fault is answered"
        wait_until(lambda: (row := daemon.row("state")) is not None and row["pid"] not in (None, old), "a new state")
        row = daemon.row("state")
        assert row is not None
        assert row["lastExit"]["code"] == 70
        assert prompts_of(who.read()["messages"]) == ["say before"], "nothing of the change was kept"
        who.prompt("say now", key="now")
        assert answers_of(who.wait_idle()["messages"]) == ["before", "now"]


def test_faults_after_a_commit_are_invisible(daemon: Daemon) -> None:
    with person(daemon, "calm") as who:
        who.prompt("say before", key="before")
        who.wait_idle()
        for number, point in enumerate(("state.after_turn_end_before_drain", "state.after_commit_before_reply")):
            daemon.arm(point, "raise")
            who.prompt(f"say turn {number}", key=str(number))
            wait_until(lambda point=point: daemon.fired(point), f"{point} to be passed")  # type: ignore[misc]
            who.wait_idle()
        assert prompts_of(who.transcript()) == ["say before", "say turn 0", "say turn 1"]
        assert who.failed_reads == []
