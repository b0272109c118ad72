"""A request of an agent's own protocol that any JSON answers; only the client and the agent know what it means."""

from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import CodexAppRequest
from termal.rules.answers import check_result
from termal.wire.session_operations import AnswerAppRequest
from termal.wire.turns import AppRequestAsked
from workers.state.clock import now_text
from workers.state.open_requests import Answer, Asked, OpenRequests
from workers.state.session_record import SessionRecord
from workers.state.shown_json import shown_json
from workers.state.turn import Turn
from workers.state.write_lock import check_may_write

_PERMISSIONS = "item/permissions/requestApproval"
"""Codex asks for more rights; every other method only asks for data."""


class AppRequests:
    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def asked(self, record: SessionRecord, turn: Turn, event: AppRequestAsked) -> None:
        message = CodexAppRequest(
            id=self._requests.book.registry.new_message_id(),
            timestamp=now_text(),
            author="assistant",
            title=event.title,
            detail=event.detail,
            method=event.method,
            params=shown_json(event.params_json),
            state="pending",
        )
        self._requests.show(record, turn, event.request, message)

    def answer(self, request: Request, body: AnswerAppRequest) -> None:
        """The handler of ``apprequest.answer``."""
        result = check_result(body.result)

        def decide(asked: Asked[CodexAppRequest]) -> Answer:
            if asked.message.method == _PERMISSIONS:
                check_may_write(self._requests.book.registry, asked.record)
            shown = replace(asked.message, state="submitted", submitted_result=result)
            return Answer("", body.result, shown, "submitted")

        self._requests.answer(request, body.session_id, body.message_id, CodexAppRequest, decide)
