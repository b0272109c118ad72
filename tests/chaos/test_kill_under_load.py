"""Eight people prompt and read while every process of the daemon is killed in turn: nothing acknowledged is lost."""

import contextlib
import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.invariants import answers_of, check_database, check_transcript
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240)]

PEOPLE = 8
VICTIMS = ("state", "runtime-acp", "gateway-worker", "coordination", "wake", "agent", "gateway")


class Load:
    """People who prompt in turns, each in a thread, until told to end; it remembers what was acknowledged."""

    def __init__(self, daemon: Daemon) -> None:
        self.people = [Person(daemon, f"person-{number}", waits_out_pauses=True) for number in range(PEOPLE)]
        self.acknowledged: dict[str, list[str]] = {person.name: [] for person in self.people}
        self.attempted: dict[str, list[str]] = {person.name: [] for person in self.people}
        self.errors: list[str] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(person,)) for person in self.people]
        for thread in self._threads:
            thread.start()

    @property
    def rounds(self) -> int:
        return min(len(done) for done in self.acknowledged.values())

    def finish(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)
        assert not self.errors, self.errors

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)
        for person in self.people:
            person.close()

    def _run(self, person: Person) -> None:
        try:
            for number in itertools.count():
                if self._end.is_set():
                    return
                text = f"say {person.name} round {number}"
                self.attempted[person.name].append(text)
                person.prompt(text, key=f"{person.name}-{number}")
                # Also a prompt whose turn failed to start is answered for: it is in the transcript.
                self.acknowledged[person.name].append(text)
                person.wait_idle(30)
        except BaseException as error:
            self.errors.append(f"{person.name}: {error!r}")


def one_agent(daemon: Daemon) -> int | None:
    """The pid of some running demo agent."""
    for process in daemon.marked():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "termal.demo_agent" in words and "shim" not in " ".join(words[:6]):
                return int(process.pid)
    return None


def strike(daemon: Daemon, victim: str) -> None:
    with contextlib.suppress(ProcessLookupError, AssertionError, IndexError, psutil.Error):
        if victim == "agent":
            pid = one_agent(daemon)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        else:
            daemon.kill(victim)


def test_nothing_acknowledged_is_lost_or_doubled_whatever_is_killed(daemon: Daemon) -> None:
    load = Load(daemon)
    try:
        for _ in range(3):
            for victim in VICTIMS:
                before = load.rounds
                strike(daemon, victim)
                wait_until(lambda before=before: load.rounds > before or load.errors, f"progress after {victim}", 30)  # type: ignore[misc]
                assert not load.errors, load.errors
        load.finish()
        daemon.wait_healthy()
        for person in load.people:
            session = person.wait_idle()
            assert session["status"] in ("idle", "error")
            transcript = person.transcript()
            check_transcript(transcript, load.acknowledged[person.name], load.attempted[person.name])
            said = [answer for answer in answers_of(transcript) if answer.startswith(person.name)]
            assert len(said) == len(set(said)), "an answer was recorded twice"
            assert not person.failed_reads, person.failed_reads
    finally:
        load.close()
    home = daemon.home
    assert daemon.stop() == 0
    check_database(home.termal_db)
    check_database(home.coordination_db)


def test_a_prompt_acknowledged_before_the_supervisor_is_killed_is_there_after_the_next_start(
    daemon: Daemon, run_dir: Path
) -> None:
    load = Load(daemon)
    try:
        wait_until(lambda: load.rounds >= 3, "three rounds of everybody", 30)
        grandchild = Person(daemon, "grandchild", workdir=run_dir)
        grandchild.prompt("run setsid sleep 1000", key="grandchild")
        approve(daemon, grandchild)
        wait_until(
            lambda: any("sleep" in " ".join(words(process)) for process in daemon.marked()), "the grandchild", 10
        )
        daemon.kill_supervisor()
        wait_until(lambda: not daemon.marked(), "every process of the daemon to be gone, grandchildren included")
        acknowledged = {name: list(done) for name, done in load.acknowledged.items()}
        daemon.start()
        for person in load.people:
            person.reconnect()
            check_transcript(person.transcript(), acknowledged[person.name], load.attempted[person.name])
        grandchild.close()
    finally:
        load.close()


def approve(daemon: Daemon, person: Person) -> None:
    """Say yes to the approval that the session waits for."""

    def asked() -> dict[str, Any] | None:
        messages = person.read()["messages"]
        return next((m for m in messages if m["type"] == "approval" and m["decision"] == "pending"), None)

    message = wait_until(asked, "an approval to be asked", 10)
    with daemon.client() as http:
        reply = http.post(f"/api/sessions/{person.session_id}/approvals/{message['id']}", json={"decision": "accepted"})
        assert reply.status_code == 200, reply.text


def words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_all_processes_killed_at_once_leave_what_was_acknowledged(daemon: Daemon) -> None:
    person = Person(daemon, "alone")
    for number in range(3):
        person.prompt(f"say before {number}", key=f"before-{number}")
        person.wait_idle()
    person.prompt("say last\nwait 30", key="last")
    victims = daemon.marked()
    os.kill(daemon.pid, signal.SIGSTOP)
    for process in victims:
        with contextlib.suppress(psutil.Error):
            process.kill()
    daemon.kill_supervisor()
    daemon.start()
    person.reconnect()
    session = person.read()
    assert session["status"] == "error", "a turn that was cut off ends as an error"
    assert [m["text"] for m in session["messages"] if m["author"] == "you"][-1] == "say last\nwait 30"
    person.prompt("say after", key="after")
    assert answers_of(person.wait_idle()["messages"])[-1] == "after"
    person.close()


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    "point", ["state.before_commit", "state.after_commit_before_reply", "state.after_turn_end_before_drain"]
)
def test_a_prompt_cut_at_a_named_point_is_there_exactly_once(daemon: Daemon, point: str, number: int) -> None:
    person = Person(daemon, "pointed")
    person.prompt("say warm", key="warm")
    person.wait_idle()
    daemon.arm(point, f"kill {number}")
    for turn in range(3):
        person.prompt(f"say turn {turn}", key=f"turn-{turn}")
        person.wait_idle()
    wait_until(lambda: daemon.fired(point), f"{point} to be passed")
    transcript = person.transcript()
    check_transcript(
        transcript,
        ["say warm", *(f"say turn {n}" for n in range(3))],
        ["say warm", *(f"say turn {n}" for n in range(3))],
    )
    # A prompt that was stored and never handed to its runtime is answered by the notice of the restart.
    told = ["cut" if answer.startswith("TermAl restarted") else answer for answer in answers_of(transcript)]
    expected = ["warm", "turn 0", "turn 1", "turn 2"]
    assert len(told) == len(expected)
    assert all(answer in (said, "cut") for answer, said in zip(told, expected, strict=True)), told
    assert told.count("cut") <= 1
    assert not person.failed_reads
    person.close()


def test_a_paused_worker_is_replaced_and_the_work_goes_on(daemon: Daemon) -> None:
    person = Person(daemon, "patient")
    first = daemon.kill("state", signal.SIGSTOP)
    wait_until(lambda: (row := daemon.row("state")) is not None and row["pid"] not in (first, None), "a new state", 25)
    daemon.wait_healthy()
    person.prompt("say still here", key="still")
    assert answers_of(person.wait_idle()["messages"]) == ["still here"]
    person.close()


def test_event_streams_come_back_after_the_gateway_was_killed(daemon: Daemon) -> None:
    def first_event() -> bool:
        with contextlib.suppress(httpx.HTTPError), httpx.stream("GET", daemon.url + "/api/events", timeout=5) as reply:
            for line in reply.iter_lines():
                if line.startswith("event: state"):
                    return True
        return False

    assert first_event()
    daemon.kill("gateway")
    wait_until(first_event, "a stream from the restarted gateway", 5)
