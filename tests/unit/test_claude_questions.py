"""Questions that Claude's tool asks: put to a person, answered by question, taken back with the turn."""

import asyncio
import json
from typing import Any

import pytest

from termal.wire.turns import AnyTurnEvent, ApprovalAsked, AskedOption, InteractionWithdrawn, QuestionAsked
from workers.runtime.adapter import AgentFailed
from workers.runtime.claude_approvals import Approvals, ToolRequest, Verdict
from workers.runtime.claude_questions import OPTIONS, QUESTIONS, TEXT_CHARACTERS, asked_of, updated_input

COLOR = {
    "question": "Which color?",
    "header": "Color",
    "multiSelect": True,
    "options": [{"label": "red", "description": "like blood"}, {"label": "blue"}, {"label": ""}, "green"],
}
CALL: dict[str, Any] = {"questions": [COLOR, {"question": "Your name?"}], "other": 1}


def test_a_call_is_shown_as_questions_to_which_any_text_is_an_answer() -> None:
    event = asked_of("r1", CALL)
    assert event is not None
    assert (event.request, event.title) == ("r1", "Claude asks")
    color, name = event.questions
    assert (color.id, color.header, color.question) == ("question-1", "Color", "Which color?")
    assert color.options == [AskedOption("red", "like blood"), AskedOption("blue")]
    assert (name.id, name.question, name.options) == ("question-2", "Your name?", [])
    assert all(question.is_other and not question.is_secret for question in event.questions)


def test_a_single_question_is_the_title() -> None:
    event = asked_of("r1", {"questions": [COLOR]})
    assert event is not None
    assert event.title == "Which color?"


@pytest.mark.parametrize("arguments", [{}, {"questions": "x"}, {"questions": []}, {"questions": ["x", 1]}])
def test_a_call_without_questions_asks_nothing(arguments: dict[str, Any]) -> None:
    assert asked_of("r1", arguments) is None


def test_a_call_of_any_size_is_shown_within_bounds() -> None:
    huge = {"question": "x" * 10_000, "options": [{"label": "y" * 10_000}] * 99}
    event = asked_of("r1", {"questions": [huge] * 99})
    assert event is not None
    assert len(event.questions) == QUESTIONS
    assert len(event.questions[0].options) == OPTIONS
    assert len(event.questions[0].question) == len(event.questions[0].options[0].label) == TEXT_CHARACTERS


def test_half_a_character_is_shown_as_a_question_mark() -> None:
    event = asked_of("r1", {"questions": [{"question": "a\ud800?", "options": [{"label": "\udc00"}]}]})
    assert event is not None
    assert (event.questions[0].question, event.questions[0].options) == ("a??", [AskedOption("?")])


def test_answers_go_back_under_the_text_of_their_questions() -> None:
    payload = json.dumps({"question-1": ["red, blue"], "question-2": ["Ada"]}).encode()
    assert updated_input(CALL, payload) == {**CALL, "answers": {"Which color?": "red, blue", "Your name?": "Ada"}}


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"{", b'{"question-9":["x"]}', b'{"question-1":[]}'])
def test_a_payload_without_answers_is_none(payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of our own and of the decoder
        updated_input(CALL, payload)


class Asking:
    """One open call of the tool."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.approvals = Approvals()
        self.events: list[AnyTurnEvent] = []
        request = ToolRequest("AskUserQuestion", arguments)
        self.task = asyncio.create_task(self.approvals.ask(request, self.events.append))

    async def asked(self) -> QuestionAsked:
        await asyncio.sleep(0)
        (event,) = self.events
        assert isinstance(event, QuestionAsked)
        return event


def test_an_answered_call_is_allowed_with_its_answers() -> None:
    async def scenario() -> None:
        asking = Asking(CALL)
        asked = await asking.asked()
        for option in ("allow", "refuse", ""):
            with pytest.raises(AgentFailed):
                asking.approvals.answer(asked.request, option)
        with pytest.raises(AgentFailed):
            asking.approvals.answer_questions(asked.request, b"{}")
        asking.approvals.answer_questions(asked.request, b'{"question-1":["red"]}')
        verdict = await asking.task
        assert verdict == Verdict("allow", arguments={**CALL, "answers": {"Which color?": "red"}})
        with pytest.raises(AgentFailed):
            asking.approvals.answer_questions(asked.request, b'{"question-1":["red"]}')

    asyncio.run(scenario())


def test_a_call_without_questions_is_refused_with_advice() -> None:
    async def scenario() -> None:
        asking = Asking({})
        verdict = await asking.task
        assert verdict.kind == "refuse"
        assert verdict.text
        assert asking.events == []

    asyncio.run(scenario())


def test_questions_that_nobody_answers_are_withdrawn() -> None:
    async def scenario() -> None:
        asking = Asking(CALL)
        asked = await asking.asked()
        asking.approvals.withdraw_all()
        with pytest.raises(asyncio.CancelledError):
            await asking.task
        assert asking.events == [asked, InteractionWithdrawn(asked.request)]

    asyncio.run(scenario())


def test_a_decision_takes_no_answers() -> None:
    async def scenario() -> None:
        approvals = Approvals()
        events: list[AnyTurnEvent] = []
        task = asyncio.create_task(approvals.ask(ToolRequest("Bash", {"command": "ls"}), events.append))
        await asyncio.sleep(0)
        (asked,) = events
        assert isinstance(asked, ApprovalAsked)
        with pytest.raises(AgentFailed):
            approvals.answer_questions(asked.request, b'{"question-1":["red"]}')
        approvals.withdraw_all()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
