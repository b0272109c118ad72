"""The steps of a state machine that an agent takes: what it says, runs and asks in a turn, and reports of it twice."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from termal.wire.errors import Conflict
from termal.wire.turns import (
    ApprovalAsked,
    ApprovalWithdrawn,
    Notice,
    PermissionOption,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
)
from tests.support.driven_state import PICKS, WORDS, DrivenState

OPTIONS = [PermissionOption("yes", "accepted", "Yes"), PermissionOption("no", "rejected", "No")]
ITEMS = st.sampled_from(["a", "b", "c"])


class AgentSteps(DrivenState):
    """Each step is of some running turn."""

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, piece=WORDS)
    def text(self, pick: int, item: str, piece: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, TextDelta(item, piece))
        session.text(item, piece)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, text=WORDS)
    def final_text(self, pick: int, item: str, text: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, TextDone(item, text))
        session.final_text(item, text)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, text=WORDS)
    def thinking(self, pick: int, item: str, text: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, ThinkingDelta(item, text))
        session.thinking(item, text)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, command=WORDS)
    def command(self, pick: int, item: str, command: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, ToolStarted(item, "execute", command))
        session.command(item, command)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, output=WORDS, append=st.booleans())
    def output(self, pick: int, item: str, output: str, append: bool) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, ToolOutput(item, output, append))
        session.output(item, output, append=append)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, item=ITEMS, output=st.none() | WORDS, good=st.booleans())
    def command_ends(self, pick: int, item: str, output: str | None, good: bool) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, ToolEnded(item, "success" if good else "error", output))
        session.command_ended(item, "success" if good else "error", output)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, text=WORDS)
    def notice(self, pick: int, text: str) -> None:
        session, turn = self.some_running(pick)
        self.runtime.report(turn, Notice(text))
        session.notice(text)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, count=st.integers(10, 70))
    def many_messages(self, pick: int, count: int) -> None:
        """Enough that the older ones need not be in memory."""
        session, turn = self.some_running(pick)
        spoken = [f"{len(turn.events)} and {number}" for number in range(count)]
        self.runtime.report(turn, *(Notice(text) for text in spoken))
        for text in spoken:
            session.notice(text)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS, title=WORDS)
    def approval_asked(self, pick: int, title: str) -> None:
        session, turn = self.some_running(pick)
        request = f"request-{len(turn.events)}"
        self.runtime.report(turn, ApprovalAsked(request, title, "ls", "", OPTIONS))
        session.asked(request, title)

    @precondition(lambda self: any(session.running.requests for session in self.running()))
    @rule(pick=PICKS, decision=st.sampled_from(["accepted", "rejected", "acceptedForSession", "withdrawn"]))
    def approval_settled(self, pick: int, decision: str) -> None:
        asking = [session for session in self.running() if session.running.requests]
        session = asking[pick % len(asking)]
        request = sorted(session.running.requests)[pick % len(session.running.requests)]
        if decision == "withdrawn":
            self.runtime.report(self.turn_of(session), ApprovalWithdrawn(request))
            session.withdrawn(request)
            return
        message_id = self.transcript(session)[session.running.requests[request]]["id"]
        if decision == "acceptedForSession":
            with pytest.raises(Conflict):
                self.state.answer(session.id, message_id, decision)
            return
        self.state.answer(session.id, message_id, decision)
        session.settled(request, decision)
        with pytest.raises(Conflict):
            self.state.answer(session.id, message_id, decision)

    @precondition(lambda self: self.running())
    @rule(pick=PICKS)
    def reports_come_twice(self, pick: int) -> None:
        _, turn = self.some_running(pick)
        first = 1 + pick % max(1, len(turn.events))
        self.runtime.send_again(turn, first, turn.events[first - 1 :])

    @rule(pick=PICKS, text=WORDS)
    def reports_come_too_late(self, pick: int, text: str) -> None:
        if not self.dead:
            return
        turn = self.dead[pick % len(self.dead)]
        self.runtime.send_again(turn, len(turn.events) + 1, [TextDelta("late", text)])
