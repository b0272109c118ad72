"""Answers to what agents ask, but for approvals, which live with the sessions. State decides; this translates."""

from typing import Any, Literal

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.resource import Resource
from termal.wire.codec import encode_json
from termal.wire.errors import InvalidRequest, Unprocessable
from termal.wire.session_operations import (
    APP_REQUEST_ANSWER,
    ELICITATION_ANSWER,
    QUESTIONS_ANSWER,
    AnswerAppRequest,
    AnswerElicitation,
    AnswerQuestions,
)


class AnswersBody(Body, frozen=True):
    answers: dict[str, list[str]]


class ElicitationBody(Body, frozen=True):
    action: Literal["accept", "decline", "cancel"]
    content: Any = None


class ResultBody(Body, frozen=True):
    result: Any


class UserInput(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        body = await read_body(req, AnswersBody)
        await self.forward(req, resp, QUESTIONS_ANSWER, AnswerQuestions(session_id, message_id, body.answers))


class Elicitation(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        body = await read_body(req, ElicitationBody)
        content = None if body.content is None else encode_json(body.content)
        request = AnswerElicitation(session_id, message_id, body.action, content)
        await self.forward(req, resp, ELICITATION_ANSWER, request)


class AppRequest(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        try:
            body = await read_body(req, ResultBody)
            result = encode_json(body.result)
        except Unprocessable as error:
            if isinstance(error.__cause__, RecursionError):
                raise InvalidRequest("the result is nested far too deep", reason="resultTooDeep") from error
            raise
        except RecursionError as error:
            raise InvalidRequest("the result is nested far too deep", reason="resultTooDeep") from error
        await self.forward(req, resp, APP_REQUEST_ANSWER, AnswerAppRequest(session_id, message_id, result))
