"""An MCP server asks a person through its agent: a form to fill in, or a page to open."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import ElicitationRequest
from termal.rules.elicitation import check_form
from termal.rules.verdicts import Bad
from termal.wire.session_operations import AnswerElicitation
from termal.wire.turns import ElicitationAsked
from workers.state.clock import now_text
from workers.state.held_answers import detail_of
from workers.state.open_requests import Answer, Asked, OpenRequests
from workers.state.session_record import SessionRecord
from workers.state.shown_json import shown_json
from workers.state.turn import Turn
from workers.state.write_lock import check_may_write

_WORDS: dict[Literal["accept", "decline", "cancel"], str] = {
    "accept": "submitted",
    "decline": "declined",
    "cancel": "canceled",
}
_TOOL_CALL = "codex_approval_kind"
"""In the ``_meta`` of an elicitation by which Codex asks whether a tool of an MCP server may be called."""


class Elicitations:
    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def asked(self, record: SessionRecord, turn: Turn, event: ElicitationAsked) -> None:
        asked = shown_json(event.asked_json)
        message = ElicitationRequest(
            id=self._requests.book.registry.new_message_id(),
            timestamp=now_text(),
            author="assistant",
            title=event.title,
            detail=detail_of(event),
            request=asked if isinstance(asked, dict) else {},
            state="pending",
        )
        self._requests.show(record, turn, event.request, message, own_tool=event.own_tool, by_mode=event.by_mode)

    def answer(self, request: Request, body: AnswerElicitation) -> None:
        """The handler of ``elicitation.answer``."""
        content: Any = None if body.content is None else msgspec.json.decode(body.content)

        def decide(asked: Asked[ElicitationRequest]) -> Answer:
            wanted = asked.message.request
            has_content = body.action == "accept" and wanted.get("mode") == "form"
            if has_content:
                check_form(wanted.get("requestedSchema"), content)
            elif content is not None:
                raise Bad("this answer takes no content", reason="noContent")
            if body.action == "accept" and _is_tool_call(wanted) and not asked.request.own_tool:
                check_may_write(self._requests.book.registry, asked.record)
            shown = replace(
                asked.message,
                state="submitted",
                submitted_action=body.action,
                submitted_content=content if has_content else UNSET,
            )
            return Answer(body.action, body.content if has_content else None, shown, _WORDS[body.action])

        self._requests.answer(request, body.session_id, body.message_id, ElicitationRequest, decide)


def _is_tool_call(wanted: dict[str, Any]) -> bool:
    meta = wanted.get("_meta")
    return isinstance(meta, dict) and _TOOL_CALL in meta
