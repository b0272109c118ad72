"""Any sequence of calls, agents' reports, kills and restarts of `state` against a model of plain lists.

After every step all that can be read is what the model says. ``STATE_MACHINE_EXAMPLES`` and ``STATE_MACHINE_STEPS`` in
the environment ask for more or longer sequences.
"""

import os

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from termal.wire.control import Peers
from termal.wire.errors import Conflict, Internal, NotFound
from termal.wire.session_operations import PROMPT_SEND, SESSION_CREATE, CreateSession
from termal.wire.turns import TextDelta
from tests.support.agent_steps import AgentSteps
from tests.support.driven_state import PICKS, RUNTIME, WORDS
from tests.support.model_daemon import ModelSession
from tests.support.waiting import wait_until

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "12"))
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "25"))
MOST_SESSIONS = 4
REASON = "no model answers"


class Machine(AgentSteps):
    """What clients and accidents do beside the agents."""

    # ------------------------------------------------------------------ sessions

    @initialize()
    def first_session(self) -> None:
        self.create()

    @precondition(lambda self: len(self.model.sessions) < MOST_SESSIONS)
    @rule()
    def create(self) -> None:
        request = CreateSession(key=self.state.key(), agent="Demo")
        made = self.state.json(SESSION_CREATE, request)
        self.creations[made["sessionId"]] = request
        self.model.sessions.append(ModelSession(made["sessionId"]))

    @precondition(lambda self: self.model.sessions)
    @rule(pick=PICKS)
    def create_again_under_its_key(self, pick: int) -> None:
        session = self.any_session(pick)
        assert self.state.json(SESSION_CREATE, self.creations[session.id])["sessionId"] == session.id

    @precondition(lambda self: len(self.model.sessions) > 1)
    @rule(pick=PICKS)
    def kill_session(self, pick: int) -> None:
        session = self.any_session(pick)
        if session.turn is not None:
            self.dead.append(self.turn_of(session))
        self.state.kill_session(session.id)
        self.model.sessions.remove(session)
        with pytest.raises(NotFound):
            self.state.read(session.id)
        with pytest.raises(NotFound):
            self.state.send(session.id, "too late")

    # ------------------------------------------------------------------- prompts

    @precondition(lambda self: self.model.sessions)
    @rule(pick=PICKS, text=WORDS)
    def prompt(self, pick: int, text: str) -> None:
        session = self.any_session(pick)
        request = self.state.prompt(session.id, text)
        self.last_prompt[session.id] = request
        self.state.json(PROMPT_SEND, request)
        self.model.prompt(session, text.strip())
        self.started()

    @precondition(lambda self: self.model.sessions)
    @rule(pick=PICKS)
    def prompt_again_under_its_key(self, pick: int) -> None:
        request = self.last_prompt.get(self.any_session(pick).id)
        if request is not None:
            self.state.json(PROMPT_SEND, request)

    @precondition(lambda self: any(session.turn is None for session in self.model.sessions))
    @rule(pick=PICKS, text=WORDS)
    def prompt_that_the_runtime_refuses(self, pick: int, text: str) -> None:
        idle = [session for session in self.model.sessions if session.turn is None and not session.queue]
        if not idle:
            return
        session = idle[pick % len(idle)]
        self.runtime.refuse = Conflict(REASON)
        try:
            with pytest.raises(Internal):
                self.state.send(session.id, text)
        finally:
            self.runtime.refuse = None
        session.refused(text.strip(), REASON)

    @precondition(lambda self: any(session.queue for session in self.model.sessions))
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        session = self.queued(pick)
        at = pick % len(session.queue)
        prompt = self.state.read(session.id)["pendingPrompts"][at]
        self.state.cancel(session.id, prompt["id"])
        session.queue.pop(at)
        with pytest.raises(NotFound):
            self.state.cancel(session.id, prompt["id"])

    # -------------------------------------------------------------------- endings

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, outcome=st.sampled_from(["completed", "completed", "interrupted", "failed", "lost"]))
    def turn_ends(self, pick: int, outcome: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.end(turn, outcome, "" if outcome == "completed" else REASON)
        self.dead.append(turn)
        self.model.end(session, outcome, REASON)
        self.started()

    @precondition(lambda self: self.model.sessions)
    @rule(pick=PICKS)
    def stop(self, pick: int) -> None:
        session = self.any_session(pick)
        if session.turn is None:
            with pytest.raises(Conflict):
                self.state.stop_turn(session.id)
            return
        self.stop_turn(session)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS)
    def stop_that_fails(self, pick: int) -> None:
        session, _ = self.some_running(pick)
        self.runtime.stop_error = Conflict(REASON)
        try:
            with pytest.raises(Internal):
                self.state.stop_turn(session.id)
        finally:
            self.runtime.stop_error = None

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, pieces=st.lists(WORDS, min_size=1, max_size=3), succeeds=st.booleans())
    def text_comes_during_a_stop(self, pick: int, pieces: list[str], succeeds: bool) -> None:
        """It counts if the stop fails: then the turn goes on."""
        session, turn = self.some_running(pick)
        outcome = self.begin_stop(session)
        self.runtime.report(turn, *(TextDelta("meanwhile", piece) for piece in pieces), wait=False)
        self.runtime.stop_error = None if succeeds else Conflict(REASON)
        self.release_stops()
        if succeeds:
            outcome.reply()
            self.dead.append(turn)
            self.model.end(session, "stopped")
            self.started()
            return
        assert isinstance(outcome.error(), Internal)
        self.runtime.stop_error = None
        self.runtime.wait_confirmed(turn)
        for piece in pieces:
            session.text("meanwhile", piece)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS)
    def state_is_killed_during_a_stop(self, pick: int) -> None:
        """The runtime did not stop: the turn goes on, and can be stopped."""
        session, _ = self.some_running(pick)
        outcome = self.begin_stop(session)
        self.end_state(graceful=False)
        self.runtime.hold_stops = False
        self.runtime.forget_held()
        self.replaced()
        outcome.error()

    @precondition(lambda self: any(session.queue for session in self.running()))
    @rule(pick=PICKS)
    def the_next_prompt_is_refused(self, pick: int) -> None:
        """What waits behind it goes on waiting."""
        queued = [session for session in self.running() if session.queue]
        session = queued[pick % len(queued)]
        turn = self.turn_of(session)
        self.runtime.refuse = Conflict(REASON)
        try:
            self.runtime.end(turn)
            wait_until(lambda: self.state.status(session.id) == "error", "the refusal to be stored")
        finally:
            self.runtime.refuse = None
        self.dead.append(turn)
        session.ended("completed")
        session.refused(session.queue.pop(0), REASON)

    # ------------------------------------------------------------------- restarts

    @rule(graceful=st.booleans())
    def state_is_replaced(self, graceful: bool) -> None:
        """The runtime worker lives on and keeps its turns."""
        before = self.steady()
        self.end_state(graceful)
        self.replaced()
        assert self.steady() == before

    @rule(graceful=st.booleans())
    def the_daemon_is_restarted(self, graceful: bool) -> None:
        self.end_state(graceful)
        for session in self.running():
            turn = self.turn_of(session)
            turn.known = False
            self.dead.append(turn)
        self.model.restarted()
        self.state.start()
        self.state.process.order(Peers([RUNTIME]))

    @precondition(lambda self: self.running())
    @rule(pick=PICKS)
    def state_is_replaced_and_a_turn_is_gone(self, pick: int) -> None:
        session, turn = self.some_running(pick)
        self.end_state(graceful=False)
        turn.known = False
        self.dead.append(turn)
        session.cut_off()
        self.replaced()
        wait_until(lambda: self.state.status(session.id) == "error", "the turn to be cut off")

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, pieces=st.lists(WORDS, min_size=1, max_size=8))
    def state_is_killed_while_text_comes(self, pick: int, pieces: list[str]) -> None:
        session, turn = self.some_running(pick)
        for piece in pieces:
            self.runtime.report(turn, TextDelta("torrent", piece), wait=False)
        self.end_state(graceful=False)
        self.replaced()
        self.runtime.wait_confirmed(turn)
        for piece in pieces:
            session.text("torrent", piece)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, text=WORDS)
    def state_is_killed_while_a_prompt_is_queued(self, pick: int, text: str) -> None:
        session, _ = self.some_running(pick)
        request = self.state.prompt(session.id, text)
        outcome = self.state.begin(PROMPT_SEND, request)
        self.end_state(graceful=False)
        self.replaced()
        outcome.reply()
        self.model.prompt(session, text.strip())

    @precondition(lambda self: any(session.turn is None for session in self.model.sessions))
    @rule(pick=PICKS, text=WORDS)
    def state_is_killed_while_a_prompt_starts(self, pick: int, text: str) -> None:
        """Its turn runs, or is cut off because no runtime had it yet; the prompt is there once either way.

        A running one is stopped: which steps can follow must not depend on who was faster.
        """
        idle = [session for session in self.model.sessions if session.turn is None and not session.queue]
        if not idle:
            return
        session = idle[pick % len(idle)]
        outcome = self.state.begin(PROMPT_SEND, self.state.prompt(session.id, text))
        self.end_state(graceful=False)
        self.replaced()
        outcome.wait()
        if self.state.status(session.id) == "active":
            self.model.prompt(session, text.strip())
            self.started()
            self.stop_turn(session)
            return
        session.begin(text.strip(), -1)
        session.cut_off()
        # The runtime may have got that turn all the same, too late; nobody waits for it.
        self.runtime.on_loop(lambda: None)
        self.dead += self.runtime.turns[self.model.turns :]
        self.model.turns = len(self.runtime.turns)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * EXAMPLES)
def test_state_shows_what_the_model_says_whatever_happens() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, phases=[Phase.generate], print_blob=False),
    )
