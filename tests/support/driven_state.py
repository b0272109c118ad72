"""The base of state machines that drive the `state` worker beside a model: start, choices, restarts, the comparison."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from termal.bus.server import Request
from termal.wire.mail_operations import SESSION_DEPART
from termal.wire.session_operations import SESSION_STOP, CreateSession, OneSession, SendPrompt
from termal.wire.turns import Anything, JsonReply
from tests.support.bus import Outcome
from tests.support.bus_peer import serving
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.model_daemon import RESIDENT, ModelDaemon, ModelSession, shown
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until

RUNTIME = "runtime-acp"
PICKS = st.integers(0, 1000)
"""Which of those that are there, whatever their number."""
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


def _confirm(request: Request, _: object) -> None:
    request.reply(Anything())


class DrivenState(RuleBasedStateMachine):
    """The worker as a process over a file, the test as its gateway, its coordination and its runtime worker.

    ``dead``: turns of the runtime that are over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tml-"))
        self.model = ModelDaemon()
        self.ends = contextlib.ExitStack()
        # Without it every removal of a session would wait for mailboxes that never come.
        self.ends.enter_context(serving(self.folder, "coordination", {SESSION_DEPART.name: _confirm}))
        self.state = StateWorker(self.folder / "home", self.folder)
        self.state.start()
        self.runtime: FakeRuntime = self.state.runtime(RUNTIME)
        self.dead: list[FakeTurn] = []
        self.revision = 0
        self.instance = ""
        self.last_prompt: dict[str, SendPrompt] = {}
        self.creations: dict[str, CreateSession] = {}

    def teardown(self) -> None:
        for runtime in self.state.runtimes:
            runtime.close()
        self.state.runtimes.clear()
        self.state.close()
        self.ends.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------- choices

    def any_session(self, pick: int) -> ModelSession:
        return self.model.sessions[pick % len(self.model.sessions)]

    def running(self) -> list[ModelSession]:
        return [session for session in self.model.sessions if session.turn is not None]

    def some_running(self, pick: int) -> tuple[ModelSession, FakeTurn]:
        running = self.running()
        session = running[pick % len(running)]
        return session, self.turn_of(session)

    def turn_of(self, session: ModelSession) -> FakeTurn:
        turn = self.runtime.turn(session.running.number)
        assert turn.start.spec.session_id == session.id
        return turn

    def queued(self, pick: int) -> ModelSession:
        queued = [session for session in self.model.sessions if session.queue]
        return queued[pick % len(queued)]

    def started(self) -> None:
        """The runtime has every turn that the model says it has, and none twice."""
        if self.model.turns:
            self.runtime.turn(self.model.turns - 1)
        assert len(self.runtime.turns) == self.model.turns

    # -------------------------------------------------------------------- endings

    def stop_turn(self, session: ModelSession) -> None:
        turn = self.turn_of(session)
        self.state.stop_turn(session.id)
        self.dead.append(turn)
        self.model.end(session, "stopped")
        self.started()

    def begin_stop(self, session: ModelSession) -> Outcome[JsonReply]:
        """A stop that the runtime has and does not answer yet."""
        self.runtime.hold_stops = True
        stops = len(self.runtime.stops)
        outcome = self.state.begin(SESSION_STOP, OneSession(session.id))
        wait_until(lambda: len(self.runtime.stops) > stops, "the stop to reach the runtime")
        return outcome

    def release_stops(self) -> None:
        self.runtime.hold_stops = False
        self.runtime.release()

    # ------------------------------------------------------------------- restarts

    def end_state(self, graceful: bool) -> None:
        if graceful:
            self.state.stop()
        else:
            self.state.kill()

    def replaced(self) -> None:
        self.state.start("replacement", running=[RUNTIME])

    def steady(self) -> dict[str, Json]:
        """All that a client sees of each session, but for what lives in memory alone."""
        found = {}
        for session in self.model.sessions:
            read = self.state.read(session.id)
            read.pop("sessionMutationStamp")
            read.pop("liveActivity", None)
            found[session.id] = read
        return found

    # --------------------------------------------------------------------- compare

    @invariant()
    def everything_that_can_be_read_is_what_the_model_says(self) -> None:
        state = self.state.state()
        if state["serverInstanceId"] == self.instance:
            assert state["revision"] >= self.revision
        self.instance, self.revision = state["serverInstanceId"], state["revision"]
        assert {session["id"] for session in state["sessions"]} == {session.id for session in self.model.sessions}
        for summary in state["sessions"]:
            session = next(one for one in self.model.sessions if one.id == summary["id"])
            assert (summary["status"], summary["messageCount"]) == (session.status, len(session.messages))
            self.compare(session)

    def compare(self, session: ModelSession) -> None:
        read = self.state.read(session.id)
        assert read["status"] == session.status
        assert [prompt["text"] for prompt in read.get("pendingPrompts", [])] == session.queue
        assert read["messagesLoaded"] == (len(session.messages) <= RESIDENT)
        assert [shown(message) for message in read["messages"]] == session.messages[-RESIDENT:]
        whole = self.transcript(session)
        assert [shown(message) for message in whole] == session.messages
        ids = [message["id"] for message in whole]
        assert len(set(ids)) == len(ids)

    def transcript(self, session: ModelSession) -> list[Json]:
        """All messages, by pages from the start."""
        messages: list[Json] = []
        page = self.state.history(session.id, from_start=True, limit=50)
        while True:
            assert page["messageStartIndex"] == len(messages)
            messages += page["messages"]
            if not page["hasNewer"]:
                assert page["messageCount"] == len(messages)
                return messages
            page = self.state.history(session.id, after=page["nextAfter"], limit=50)
