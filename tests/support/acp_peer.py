"""A runtime worker as a real process between the test and a state that only records what it is told."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from termal.bus.loop import PollLoop
from termal.bus.server import Handler, Request, Server
from termal.log import Log
from termal.wire.agent_operations import AGENT_FORGIVE, AgentTrouble, OneAgent, TellTroubles
from termal.wire.codex_operations import CodexNews
from termal.wire.control import Ready
from termal.wire.runtime_operations import (
    AGENT_TREES,
    INTERACTION_ANSWER,
    SESSIONS_CLOSE,
    TURN_HELD,
    TURN_START,
    TURN_STOP,
    AgentTrees,
    AnswerInteraction,
    CloseSessions,
    StartTurn,
    StopTurn,
    TurnTaken,
)
from termal.wire.turns import (
    Anything,
    AnyTurnEvent,
    ApprovalAsked,
    Held,
    SessionSpec,
    TextDelta,
    TextDone,
    TurnConfirmed,
    TurnEnded,
    TurnReport,
)
from termal.wire.workspace_operations import TurnTouched, WorkspaceChanged
from tests.support.bus_peer import call
from tests.support.control_peer import ControlPeer
from tests.support.waiting import wait_until

EventT = TypeVar("EventT")


class RecordingState:
    """Serves ``turn.report`` as state does: events are taken in the order of their numbers, each once.

    What was taken outlives `stop` and `start`, as a database does. ``delay_s`` is the price of a commit; ``held``
    reports are received, but neither taken nor answered; a turn in ``unknown`` is nobody's.
    """

    def __init__(self, run_dir: Path) -> None:
        self.delay_s = 0.0
        self.held = False
        self.unknown: set[str] = set()
        self.events: dict[str, list[AnyTurnEvent]] = {}
        self.reports: list[TurnReport] = []
        self.received: list[TurnReport] = []
        self.gaps = 0
        self.hints: list[WorkspaceChanged] = []
        self.late: list[TurnTouched] = []
        self.news: list[CodexNews] = []
        self.troubles: list[list[AgentTrouble]] = []
        self._run_dir = run_dir
        self._loop: PollLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None

    def start(self) -> None:
        loop = self._loop = PollLoop()
        handlers: dict[str, Handler] = {
            "turn.report": self._take,
            "agents.trouble": self._troubled,
            "workspace.changed": self._hinted,
            "turn.touched": self._touched,
            "codex.news": self._informed,
        }
        self._server = Server(loop, self._run_dir, "state", handlers, log=Log("state"))
        self._thread = threading.Thread(target=loop.run, name="recording-state")
        self._thread.start()

    def stop(self) -> None:
        """As a SIGKILL: what was received and not answered is lost."""
        if self._loop is None or self._thread is None or self._server is None:
            return
        self._loop.threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.close()
        self._loop = None

    def _hinted(self, request: Request, hint: WorkspaceChanged) -> None:
        self.hints.append(hint)
        request.reply(Anything())

    def _informed(self, request: Request, news: CodexNews) -> None:
        self.news.append(news)
        request.reply(Anything())

    def _touched(self, request: Request, late: TurnTouched) -> None:
        self.late.append(late)
        request.reply(Anything())

    def _take(self, request: Request, report: TurnReport) -> None:
        assert self._loop is not None
        self.received.append(report)
        if not self.held:
            self._loop.later(self.delay_s, lambda: self._commit(request, report))

    def _troubled(self, request: Request, body: TellTroubles) -> None:
        self.troubles.append(body.agents)
        request.reply(Anything())

    def _commit(self, request: Request, report: TurnReport) -> None:
        if report.turn_id in self.unknown:
            request.reply(TurnConfirmed(report.turn_id, 0, known=False))
            return
        self.reports.append(report)
        taken = self.events.setdefault(report.turn_id, [])
        for number, event in enumerate(report.events, report.first):
            if number == len(taken) + 1:
                taken.append(event)
            elif number > len(taken) + 1:
                self.gaps += 1
        request.reply(TurnConfirmed(report.turn_id, len(taken)))


class RuntimePeer:
    """``python -m workers.runtime acp`` with its state. Use as a context manager."""

    def __init__(
        self, home: Path, run_dir: Path, *, portable: bool = False, config: str = "", kind: str = "acp"
    ) -> None:
        self.name = f"runtime-{kind}"
        self._kind = kind
        self.home = home
        self.run_dir = run_dir
        self.demo_home = run_dir / "demo"
        self.workdir = run_dir / "work"
        self.workdir.mkdir(exist_ok=True)
        self.state = RecordingState(run_dir)
        self._portable = portable
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(config)
        self.worker = self._start_worker()

    def _start_worker(self) -> ControlPeer:
        return ControlPeer(
            "workers.runtime",
            self.home,
            self.run_dir,
            name=self.name,
            arguments=[self._kind],
            portable=self._portable,
            environment={"TERMAL_DEMO_HOME": str(self.demo_home), "CODEX_FAKE_HOME": str(self.run_dir)},
        )

    def __enter__(self) -> "RuntimePeer":
        self.state.start()
        self.worker.wait_for(Ready)
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.__exit__(None, None, None)
        self.state.stop()

    # ----------------------------------------------------------------- operations

    def spec(self, session: str = "session-1", agent: str = "Demo", **more: Any) -> SessionSpec:
        return SessionSpec(session, agent, str(self.workdir), "auto", **more)

    def start(self, turn: str, prompt: str, spec: SessionSpec | None = None) -> TurnTaken:
        return call(self.run_dir, self.name, TURN_START, StartTurn(spec or self.spec(), turn, prompt))

    def stop(self, turn: str, session: str = "session-1") -> None:
        call(self.run_dir, self.name, TURN_STOP, StopTurn(session, turn))

    def close(self, *sessions: str) -> None:
        call(self.run_dir, self.name, SESSIONS_CLOSE, CloseSessions(list(sessions)))

    def answer(self, turn: str, request: str, option: str, session: str = "session-1") -> None:
        call(self.run_dir, self.name, INTERACTION_ANSWER, AnswerInteraction(session, turn, request, option))

    def forgive(self, agent: str) -> None:
        call(self.run_dir, self.name, AGENT_FORGIVE, OneAgent(agent))

    def held(self) -> Held:
        return call(self.run_dir, self.name, TURN_HELD, Anything())

    def trees(self) -> AgentTrees:
        return call(self.run_dir, self.name, AGENT_TREES, Anything())

    # --------------------------------------------------------------------- events

    def events(self, turn: str) -> list[AnyTurnEvent]:
        return self.state.events.get(turn, [])

    def said(self, turn: str, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events(turn) if isinstance(event, kind)]

    def wait_for(self, turn: str, kind: type[EventT], count: int = 1, limit_s: float = 5.0) -> EventT:
        found = wait_until(
            lambda: self.said(turn, kind)[count - 1 : count],
            f"{kind.__name__} number {count} in {turn}; so far {self.events(turn)[-5:]}, {self.worker.stderr()}",
            limit_s,
        )
        return found[0]

    def ended(self, turn: str, limit_s: float = 5.0) -> TurnEnded:
        """The end of the turn, which is its last event and the only one of its kind."""
        end = self.wait_for(turn, TurnEnded, limit_s=limit_s)
        assert self.events(turn)[-1] is end
        assert len(self.said(turn, TurnEnded)) == 1
        return end

    def text(self, turn: str) -> str:
        """What was streamed as the agent's text."""
        return "".join(event.text for event in self.said(turn, TextDelta))

    def final_text(self, turn: str) -> str:
        return "".join(event.text for event in self.said(turn, TextDone))

    def asked(self, turn: str, count: int = 1) -> ApprovalAsked:
        return self.wait_for(turn, ApprovalAsked, count)

    def agent_pid(self, wait: Callable[..., Any] = wait_until) -> int:
        """The pid of the shim of the only agent that runs."""
        trees: list[Any] = wait(lambda: self.trees().agents, "an agent process")
        return int(trees[0].pid)
