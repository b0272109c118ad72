"""SIGKILL of `state` again and again under work: nothing acknowledged is lost, nothing happens twice."""

import json
import random
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from termal.wire.errors import TermalError
from termal.wire.session_operations import PROMPT_SEND
from termal.wire.turns import TextDelta, TurnEnded
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import StateWorker, texts
from tests.support.waiting import wait_until

SESSIONS = 4
PROMPTS = 12
KILLS = 6
FAULTS = (
    "state.before_commit",
    "state.after_commit_before_reply",
    "state.after_turn_end_before_drain",
    "state.after_turn_start_sent",
)


class Answering(threading.Thread):
    """Answers each turn of a runtime with its prompt in two pieces, repeating what state did not confirm."""

    def __init__(self, runtime: FakeRuntime) -> None:
        super().__init__(daemon=True)
        self.runtime = runtime
        self.ending = threading.Event()
        self.answered: set[str] = set()

    def run(self) -> None:
        while not self.ending.is_set():
            for turn in list(self.runtime.turns):
                if turn.id not in self.answered:
                    self.answered.add(turn.id)
                    self._answer(turn)
            self.ending.wait(0.005)

    def _answer(self, turn: FakeTurn) -> None:
        text = turn.start.prompt
        self.runtime.report(turn, TextDelta("a", f"echo {text[:2]}"), wait=False)
        self.runtime.report(turn, TextDelta("a", text[2:]), TurnEnded("completed"), wait=False)


@pytest.mark.chaos
def test_no_acknowledged_prompt_is_lost_or_doubled_over_kills(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    state.start(faults=faults)
    runtime = state.runtime()
    answering = Answering(runtime)
    answering.start()
    sessions = [state.create() for _ in range(SESSIONS)]
    acknowledged: dict[str, list[str]] = {session_id: [] for session_id in sessions}

    def work(session_id: str) -> None:
        for number in range(PROMPTS):
            prompt = state.prompt(session_id, f"{number:02d} of {session_id}", key=f"{session_id}-{number}")
            while True:
                try:
                    state.ask(PROMPT_SEND, prompt)
                except TermalError as error:
                    if error.status < 500:
                        raise
                    continue
                acknowledged[session_id].append(prompt.text)
                break

    workers = [threading.Thread(target=work, args=(session_id,), daemon=True) for session_id in sessions]
    for worker in workers:
        worker.start()
    generator = random.Random(4)
    for kill in range(KILLS):
        (faults / FAULTS[kill % len(FAULTS)]).write_text(f"kill {generator.randint(1, 8)}")
        end = time.monotonic() + 1.0
        while state.process.process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        for left in FAULTS:
            (faults / left).unlink(missing_ok=True)
        state.kill()
        state.start("replacement", running=["runtime-acp"], faults=faults)
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    for session_id in sessions:
        wait_until(partial(_at_rest, state, session_id), f"{session_id} to be at rest")
    answering.ending.set()
    answering.join(5)
    for session_id in sessions:
        _check(state, session_id, acknowledged[session_id])
    state.stop()


def _at_rest(state: StateWorker, session_id: str) -> bool:
    return state.status(session_id) in ("idle", "error")


def _check(state: StateWorker, session_id: str, acknowledged: list[str]) -> None:
    shown = state.read(session_id)
    mine = [message["text"] for message in shown["messages"] if message["author"] == "you"]
    waiting = [prompt["text"] for prompt in shown.get("pendingPrompts", [])]
    assert sorted(mine + waiting) == sorted(acknowledged)
    answers = [text for text in texts(shown) if text.startswith("echo")]
    assert len(answers) == len(set(answers))
    rows = state.rows("SELECT position, value_json FROM messages WHERE session_id = ? ORDER BY position", (session_id,))
    assert [position for position, _ in rows] == list(range(shown["messageCount"]))
    assert [json.loads(value)["id"] for _, value in rows][-64:] == [message["id"] for message in shown["messages"]]
    ((overview,),) = state.rows("SELECT value_blob FROM session_overviews WHERE session_id = ?", (session_id,))
    assert len(overview) == shown["messageCount"]
