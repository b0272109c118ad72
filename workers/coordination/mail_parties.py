"""Who may take part in mail: one question to state for all sessions that one pass of the loop wants to know of."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.wire.errors import Busy, TermalError
from termal.wire.session_operations import SESSION_ELIGIBILITY, AskEligibility, Eligibilities, Eligibility

MARGIN_S = 0.1
"""Answers are given this long before the deadline: behind it nobody listens any more."""
AGAIN_S = 0.02

Known = Callable[[list[Eligibility] | None, TermalError | None], None]


class _Question(NamedTuple):
    session_ids: Sequence[str]
    deadline_s: float
    known: Known


class Parties:
    """Belongs to the loop's thread. ``state`` may be down: a question waits for it until its deadline."""

    def __init__(self, loop: Loop, state: Callable[[], Client]) -> None:
        self._state = state
        self._questions: list[_Question] = []
        self._loop = loop
        loop.on_pass(self._flush)

    def ask(self, session_ids: Sequence[str], deadline_s: float, known: Known) -> None:
        """``known`` gets the answers in the order of ``session_ids``, or the reason why there are none."""
        self._questions.append(_Question(session_ids, deadline_s, known))
        self._loop.request_pass()

    def ask_later(self, session_ids: Sequence[str], deadline_s: float, known: Known) -> None:
        self._loop.later(AGAIN_S, lambda: self.ask(session_ids, deadline_s, known))

    def _flush(self) -> None:
        if not self._questions:
            return
        questions, self._questions = self._questions, []
        _Round(self, questions, time.monotonic()).start(self._state())


class _Round:
    """The questions of one pass, under way together until the first of their deadlines."""

    def __init__(self, parties: Parties, questions: list[_Question], now: float) -> None:
        self._parties = parties
        self._questions = [question for question in questions if question.deadline_s > now]
        for question in questions:
            if question.deadline_s <= now:
                question.known(None, _unasked())

    def start(self, state: Client) -> None:
        if not self._questions:
            return
        wanted = dict.fromkeys(session_id for question in self._questions for session_id in question.session_ids)
        deadline_s = min(question.deadline_s for question in self._questions)
        try:
            state.call(SESSION_ELIGIBILITY, AskEligibility(list(wanted)), self._answered, deadline_s=deadline_s)
        except TermalError as error:
            self._fail(error)

    def _answered(self, reply: Eligibilities | None, error: TermalError | None) -> None:
        if reply is None:
            self._unanswered(error or _unasked())
            return
        answers = {answer.session_id: answer for answer in reply.sessions}
        for question in self._questions:
            question.known([answers[session_id] for session_id in question.session_ids], None)

    def _unanswered(self, error: TermalError) -> None:
        """The round ended for its first deadline, or state stops: who has time left asks again."""
        now = time.monotonic()
        for question in self._questions:
            if isinstance(error, Busy) and question.deadline_s > now:
                self._parties.ask_later(*question)
            else:
                question.known(None, error)

    def _fail(self, error: TermalError) -> None:
        for question in self._questions:
            question.known(None, error)


def _unasked() -> Busy:
    return Busy("state could not be asked who takes part in time", code="no_mutation_attempted", reason="stateAway")
