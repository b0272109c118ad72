"""What agents ask in tests of `state`, and how a test answers it."""

import json
from typing import Any

from termal.wire.session_operations import (
    APP_REQUEST_ANSWER,
    ELICITATION_ANSWER,
    QUESTIONS_ANSWER,
    AnswerAppRequest,
    AnswerElicitation,
    AnswerQuestions,
)
from termal.wire.turns import (
    AppRequestAsked,
    ApprovalAsked,
    AskedOption,
    AskedQuestion,
    ElicitationAsked,
    PermissionOption,
    QuestionAsked,
)
from tests.support.state_worker import Json, StateWorker, find

YES = PermissionOption("yes", "accepted", "Yes")
NO = PermissionOption("no", "rejected", "No")
FORM: Json = {
    "threadId": "thread-1",
    "serverName": "docs",
    "mode": "form",
    "message": "Which branch?",
    "requestedSchema": {
        "type": "object",
        "properties": {"branch": {"type": "string", "minLength": 2}, "force": {"type": "boolean"}},
        "required": ["branch"],
    },
}
PAGE: Json = {
    "threadId": "thread-1",
    "serverName": "docs",
    "mode": "url",
    "elicitationId": "e1",
    "message": "Sign in",
    "url": "https://docs.invalid",
}


def approval(request: str, title: str = "Run ls?", options: list[PermissionOption] | None = None) -> ApprovalAsked:
    return ApprovalAsked(request, title, "ls", "in /w", [YES, NO] if options is None else options)


def questions(request: str, title: str = "Two questions") -> QuestionAsked:
    color = AskedQuestion("color", "Color", "Which one?", False, False, [AskedOption("red"), AskedOption("blue")])
    return QuestionAsked(request, title, "", [color, AskedQuestion("token", "Token", "Which token?", True, True)])


def elicitation(request: str, asked: Json | None = None, title: str = "docs asks") -> ElicitationAsked:
    return ElicitationAsked(request, title, "", json.dumps(FORM if asked is None else asked).encode())


def app_request(request: str, method: str = "item/tool/call", title: str = "Codex asks") -> AppRequestAsked:
    return AppRequestAsked(request, title, "", method, b'{"tool":"clock"}')


def answer_questions(state: StateWorker, session_id: str, message_id: str, answers: dict[str, list[str]]) -> Json:
    return find(state.json(QUESTIONS_ANSWER, AnswerQuestions(session_id, message_id, answers)), session_id)


def answer_elicitation(
    state: StateWorker, session_id: str, message_id: str, action: Any, content: object = None
) -> Json:
    encoded = None if content is None else json.dumps(content).encode()
    return find(state.json(ELICITATION_ANSWER, AnswerElicitation(session_id, message_id, action, encoded)), session_id)


def answer_app_request(state: StateWorker, session_id: str, message_id: str, result: bytes) -> Json:
    return find(state.json(APP_REQUEST_ANSWER, AnswerAppRequest(session_id, message_id, result)), session_id)
