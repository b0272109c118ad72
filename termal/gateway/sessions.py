"""Sessions: create, read, prompt, queue, stop, kill, answer. Every reply is made by state and passed on unread."""

from falcon.asgi import Request, Response

from termal.gateway.bodies import DecisionBody, PromptBody, SessionBody, read_body
from termal.gateway.images import decode_images
from termal.gateway.query import Query
from termal.gateway.resource import Resource
from termal.gateway.route import key_of
from termal.rules.history_page import PAGE_MESSAGES, RESIDENT_MESSAGES, TAIL_MESSAGES
from termal.wire.session_operations import (
    APPROVAL_ANSWER,
    PROMPT_CANCEL,
    PROMPT_SEND,
    SESSION_CREATE,
    SESSION_HISTORY,
    SESSION_KILL,
    SESSION_READ,
    SESSION_STOP,
    AnswerApproval,
    CancelPrompt,
    CreateSession,
    OneSession,
    ReadHistory,
    ReadSession,
    SendPrompt,
)


class Sessions(Resource):
    async def on_post(self, req: Request, resp: Response) -> None:
        key = key_of(req)
        body = await read_body(req, SessionBody)
        request = CreateSession(
            key=key,
            agent=body.agent,
            name=body.name,
            workdir=body.workdir,
            project_id=body.project_id,
            model=body.model,
            settings=body.settings(),
        )
        await self.forward(req, resp, SESSION_CREATE, request, 201)


class Session(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        tail = Query(req, "session").count("tail", 1, RESIDENT_MESSAGES, default=TAIL_MESSAGES)
        await self.forward(req, resp, SESSION_READ, ReadSession(session_id, tail))


class History(Resource):
    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        query = Query(req, "history")
        limit = query.count("limit", 1, PAGE_MESSAGES, default=PAGE_MESSAGES)
        before, after = query.words("before"), query.words("after")
        around = query.number("around", 0)
        start = query.one("from")
        if start not in (None, "start"):
            raise query.refusal("from can only be start")
        if sum(selector is not None for selector in (before, after, around, start)) > 1:
            raise query.refusal("there is more than one of before, after, around and from")
        request = ReadHistory(
            session_id=session_id,
            before=before,
            after=after,
            around=around,
            from_start=start is not None,
            limit=limit,
        )
        await self.forward(req, resp, SESSION_HISTORY, request)


class Messages(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        key = key_of(req)
        body = await read_body(req, PromptBody)
        request = SendPrompt(
            key=key,
            session_id=session_id,
            text=body.text,
            expanded_text=body.expanded_text,
            attachments=await decode_images(body.attachments or []),
            source_session_id=body.source_session_id,
        )
        await self.forward(req, resp, PROMPT_SEND, request, 202)


class QueuedPrompt(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, prompt_id: str) -> None:
        await self.forward(req, resp, PROMPT_CANCEL, CancelPrompt(session_id, prompt_id))


class Stop(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, SESSION_STOP, OneSession(session_id))


class Kill(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, SESSION_KILL, OneSession(session_id))


class Approval(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str, message_id: str) -> None:
        body = await read_body(req, DecisionBody)
        await self.forward(req, resp, APPROVAL_ANSWER, AnswerApproval(session_id, message_id, body.decision))
