"""What the crash of each process costs, one test for each: who notices, what goes on, what is never lost."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.events import EventStream
from tests.support.invariants import answers_of, check_database, prompts_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

LIMIT_S = 15.0


@contextmanager
def person(daemon: Daemon, name: str) -> Iterator[Person]:
    made = Person(daemon, name)
    try:
        yield made
    finally:
        made.close()


def health(daemon: Daemon) -> dict[str, Any]:
    with daemon.client() as client:
        body: dict[str, Any] = client.get("/api/health").json()
    return body


def state_of(daemon: Daemon) -> dict[str, Any]:
    with daemon.client() as client:
        reply = client.get("/api/state")
        assert reply.status_code == 200, reply.text
        body: dict[str, Any] = reply.json()
    return body


def begun(who: Person, text: str) -> None:
    """The agent has said its first words in the turn that runs."""
    wait_until(lambda: text in " ".join(answers_of(who.read()["messages"])), f"{who.name}'s agent to say {text!r}")


def restarted(daemon: Daemon, name: str, old: int) -> None:
    def there() -> bool:
        row = daemon.row(name)
        return row is not None and row["state"] == "ready" and row["pid"] not in (None, old)

    wait_until(there, f"a new {name}", LIMIT_S)


def agent_of(daemon: Daemon, who: Person) -> psutil.Process:
    """The agent's own process of a session, below its shim."""
    with daemon.client() as client:
        rows = client.get("/api/status").json()["agents"]
    shim = next(row["pid"] for row in rows if who.session_id in row["sessionIds"])
    return psutil.Process(shim).children()[0]


@pytest.mark.parametrize("victim", ["gateway", "gateway-worker"])
def test_a_killed_gateway_cuts_connections_and_nothing_else(daemon: Daemon, victim: str) -> None:
    with person(daemon, "watched") as who:
        stream = EventStream(daemon.url)
        wait_until(lambda: stream.events, "the first event")
        who.prompt("say begun\nwait 1\nsay ended", key="one")
        begun(who, "begun")
        before = state_of(daemon)
        refused: list[OSError] = []
        end = threading.Event()

        def knock() -> None:
            host, port = daemon.url.removeprefix("http://").split(":")
            while not end.wait(0.005):
                try:
                    socket.create_connection((host, int(port)), timeout=5).close()
                except OSError as error:
                    refused.append(error)

        knocking = threading.Thread(target=knock)
        knocking.start()
        try:
            daemon.kill(victim)
            wait_until(lambda: stream.ended == "cut", "the open connection to drop")
            who.prompt("say next", key="two")
        finally:
            end.set()
            knocking.join()
        assert not refused, "the listening socket outlives the gateway"
        stream.close()
        after = EventStream(daemon.url)
        wait_until(lambda: after.events, "the stream to begin again")
        name, data = after.events[0]
        assert name == "state"
        assert data["serverInstanceId"] == before["serverInstanceId"]
        assert data["revision"] >= before["revision"]
        wait_until(lambda: answers_of(who.read()["messages"])[-1:] == ["next"], "both turns to end", LIMIT_S)
        assert prompts_of(who.transcript()) == ["say begun\nwait 1\nsay ended", "say next"]
        after.close()


def test_a_killed_state_is_invisible_and_running_turns_go_on(daemon: Daemon) -> None:
    with person(daemon, "through") as who:
        stream = EventStream(daemon.url)
        who.prompt("say begun\nwait 1\nsay ended", key="one")
        begun(who, "begun")
        before = state_of(daemon)
        daemon.kill("state")
        after = state_of(daemon)
        who.prompt("say queued", key="two")
        assert after["serverInstanceId"] != before["serverInstanceId"]
        assert after["revision"] >= before["revision"]
        wait_until(lambda: answers_of(who.read()["messages"])[-1:] == ["queued"], "both turns to end", LIMIT_S)
        assert answers_of(who.transcript()) == ["begun\nended", "queued"], "no word lost, none twice, no notice"
        assert who.failed_reads == []
        ids = [data["serverInstanceId"] for name, data in list(stream.events) if name == "state"]
        assert ids[-1] == after["serverInstanceId"], "an open stream starts anew by itself"
        stream.close()


@pytest.mark.parametrize("victim", ["coordination", "wake"])
def test_a_killed_worker_beside_the_sessions_costs_them_nothing(daemon: Daemon, victim: str) -> None:
    with person(daemon, "beside") as who:
        before = state_of(daemon)
        old = daemon.kill(victim)
        who.prompt("say on", key="on")
        assert answers_of(who.wait_idle()["messages"]) == ["on"]
        restarted(daemon, victim, old)
        daemon.wait_healthy()
        assert state_of(daemon)["serverInstanceId"] == before["serverInstanceId"]
        row = daemon.row(victim)
        assert row is not None
        assert (row["restarts"], row["lastExit"]["signal"]) == (1, signal.SIGKILL)


def test_a_killed_runtime_ends_its_running_turns_and_keeps_their_queues(daemon: Daemon) -> None:
    with person(daemon, "running") as who, person(daemon, "resting") as other:
        other.prompt("say earlier", key="earlier")
        conversation = other.wait_idle()["externalSessionId"]
        who.prompt("say begun\nwait 60", key="one")
        begun(who, "begun")
        who.prompt("say queued", key="two")
        agents = [agent_of(daemon, who), agent_of(daemon, other)]
        old = daemon.kill("runtime-acp")
        session = wait_until(lambda: s if (s := who.read())["status"] == "error" else None, "the turn to end")
        texts = answers_of(session["messages"])
        assert texts[0] == "begun"
        assert len(texts) == 2, "what happened is said once"
        assert [entry["text"] for entry in session["pendingPrompts"]] == ["say queued"]
        wait_until(lambda: not any(agent.is_running() for agent in agents), "the agents to end with their worker")
        other.prompt("say resumed", key="resumed")
        shown = other.wait_idle()
        assert answers_of(shown["messages"]) == ["earlier", "resumed"]
        assert shown["externalSessionId"] == conversation, "the next prompt resumes the agent's own conversation"
        who.prompt("say after", key="three")
        wait_until(lambda: answers_of(who.read()["messages"])[-1:] == ["after"], "the queue to go on", LIMIT_S)
        assert answers_of(who.transcript())[-2:] == ["queued", "after"]
        restarted(daemon, "runtime-acp", old)


def test_a_killed_agent_costs_its_own_session_alone(daemon: Daemon) -> None:
    with person(daemon, "struck") as who, person(daemon, "spared") as other:
        for each in (who, other):
            each.prompt("say begun\nwait 2\nsay ended", key="one")
        begun(who, "begun")
        begun(other, "begun")
        agent_of(daemon, who).kill()
        session = wait_until(lambda: s if (s := who.read())["status"] == "error" else None, "the turn to end")
        assert answers_of(session["messages"])[0] == "begun"
        assert answers_of(other.wait_idle()["messages"]) == ["begun\nended"]
        who.prompt("say back", key="back")
        shown = who.wait_idle()
        assert answers_of(shown["messages"])[-1] == "back"
        assert shown["externalSessionId"] == session["externalSessionId"]
        assert daemon.row("runtime-acp")["restarts"] == 0  # type: ignore[index]


def test_a_killed_supervisor_takes_all_with_it_and_the_next_start_recovers(daemon: Daemon) -> None:
    with person(daemon, "cut") as who:
        who.prompt("say begun\nwait 60", key="one")
        begun(who, "begun")
        who.prompt("say queued", key="two")
        daemon.kill_supervisor()
        wait_until(lambda: not daemon.marked(), "every process to be gone")
        daemon.start()
        who.reconnect()
        session = who.read()
        assert session["status"] == "error"
        assert answers_of(session["messages"])[0] == "begun"
        # All children get their SIGKILL in one sweep, but state may live long enough to see the runtime die before it.
        closing = answers_of(session["messages"])[1]
        notices = ("One queued prompt is kept", "Turn failed: the Demo process ended before the turn did")
        assert any(notice in closing for notice in notices)
        assert [entry["text"] for entry in session["pendingPrompts"]] == ["say queued"]
        who.prompt("say after", key="three")
        wait_until(lambda: answers_of(who.read()["messages"])[-1:] == ["after"], "the queue to go on", LIMIT_S)
        assert answers_of(who.transcript())[-2:] == ["queued", "after"]
    assert daemon.stop() == 0
    check_database(daemon.home.termal_db)


def test_an_acknowledged_prompt_survives_the_death_of_everybody_in_the_same_instant(daemon: Daemon) -> None:
    with person(daemon, "first") as who, person(daemon, "second") as other:
        who.prompt("say one\nwait 60", key="one")
        who.prompt("say two", key="two")
        other.prompt("say three", key="three")
        os.kill(daemon.pid, signal.SIGSTOP)
        for process in daemon.marked():
            with contextlib.suppress(psutil.Error):
                process.kill()
        daemon.kill_supervisor()
        daemon.start()
        who.reconnect()
        other.reconnect()
        session = who.read()
        assert prompts_of(session["messages"]) == ["say one\nwait 60"]
        assert [entry["text"] for entry in session["pendingPrompts"]] == ["say two"]
        assert prompts_of(other.read()["messages"]) == ["say three"]
    assert daemon.stop() == 0
    check_database(daemon.home.termal_db)
    check_database(daemon.home.coordination_db)


def test_restarts_of_its_peers_cost_a_process_no_descriptors(daemon: Daemon) -> None:
    with person(daemon, "steady") as who:
        who.prompt("say warm", key="warm")
        who.wait_idle()
        lasting = ["gateway-worker", "wake", "runtime-acp"]

        def counts() -> dict[str, int]:
            return {name: psutil.Process(daemon.pid_of(name)).num_fds() for name in lasting} | {
                "supervisor": psutil.Process(daemon.pid).num_fds()
            }

        def settled() -> bool:
            names = {row["name"] for row in daemon.report()["processes"] if row["state"] == "ready"}
            return names >= {"state", "coordination", "wake", "gateway", "state-spare", "coordination-spare"}

        for victim in ("state", "coordination"):
            old = daemon.kill(victim)
            restarted(daemon, victim, old)
        wait_until(settled, "every worker and its spare", LIMIT_S)
        before = counts()
        for turn in range(3):
            for victim in ("state", "coordination"):
                old = daemon.kill(victim)
                restarted(daemon, victim, old)
            who.prompt(f"say turn {turn}", key=str(turn))
            who.wait_idle()
        wait_until(settled, "every worker and its spare", LIMIT_S)
        wait_until(lambda: all(counts()[name] <= before[name] for name in before), f"no more than {before}")
        assert httpx.get(daemon.url + "/api/health").json()["state"] == "ok"
