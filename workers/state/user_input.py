"""An agent asks questions: one answer each. A secret one goes to the agent and nowhere else."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import Question, QuestionOption, UserInputRequest
from termal.rules.answers import check_answers, without_secrets
from termal.wire.codec import encode_json
from termal.wire.session_operations import AnswerQuestions
from termal.wire.turns import AskedQuestion, QuestionAsked
from workers.state.clock import now_text
from workers.state.open_requests import Answer, Asked, OpenRequests
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn


class UserInput:
    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def asked(self, record: SessionRecord, turn: Turn, event: QuestionAsked) -> None:
        message = UserInputRequest(
            id=self._requests.book.registry.new_message_id(),
            timestamp=now_text(),
            author="assistant",
            title=event.title,
            detail=event.detail,
            questions=[_question(asked) for asked in event.questions],
            state="pending",
        )
        self._requests.show(record, turn, event.request, message)

    def answer(self, request: Request, body: AnswerQuestions) -> None:
        """The handler of ``questions.answer``."""

        def decide(asked: Asked[UserInputRequest]) -> Answer:
            questions = asked.message.questions
            check_answers(questions, body.answers)
            shown = replace(
                asked.message, state="submitted", submitted_answers=without_secrets(questions, body.answers)
            )
            return Answer("", encode_json(body.answers), shown, "submitted")

        self._requests.answer(request, body.session_id, body.message_id, UserInputRequest, decide)


def _question(asked: AskedQuestion) -> Question:
    options = [QuestionOption(label=option.label, description=option.description) for option in asked.options]
    return Question(
        id=asked.id,
        header=asked.header,
        question=asked.question,
        is_other=asked.is_other,
        is_secret=asked.is_secret,
        options=options or UNSET,
    )
