"""An agent asks whether it may: yes, yes for the session, or no."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.bus.server import Request
from termal.model.message import Approval, Decision
from termal.model.stored import StoredOption
from termal.rules.settings import is_acp
from termal.wire.errors import Conflict, InvalidRequest, Unprocessable
from termal.wire.session_operations import AnswerApproval
from termal.wire.turns import ApprovalAsked
from workers.state.clock import now_text
from workers.state.held_answers import detail_of
from workers.state.open_requests import Answer, Asked, OpenRequests
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.write_lock import check_may_write

_ANSWERS: dict[str, Decision] = {name: name for name in ("accepted", "acceptedForSession", "rejected")}
_OURS = ("pending", "interrupted", "canceled")


class Approvals:
    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def asked(self, record: SessionRecord, turn: Turn, event: ApprovalAsked) -> None:
        options = [StoredOption(id=option.id, decision=option.decision) for option in event.options]
        offered = list(dict.fromkeys(str(option.decision) for option in options))
        message = Approval(
            id=self._requests.book.registry.new_message_id(),
            timestamp=now_text(),
            author="assistant",
            title=event.title,
            command=event.command,
            command_language="bash",
            detail=detail_of(event),
            decision="pending",
            supported_decisions=offered if is_acp(record.agent) else UNSET,
        )
        self._requests.show(
            record, turn, event.request, message, options, own_tool=event.own_tool, by_mode=event.by_mode
        )

    def answer(self, request: Request, body: AnswerApproval) -> None:
        """The handler of ``approval.answer``."""
        if body.decision in _OURS:
            raise InvalidRequest(f"only TermAl itself sets the decision {body.decision!r}")
        decision = _ANSWERS.get(body.decision)
        if decision is None:
            raise Unprocessable(f"decision must be one of {', '.join(_ANSWERS)}")

        def decide(asked: Asked[Approval]) -> Answer:
            option = asked.request.option_for(decision)
            if option is None:
                raise Conflict(f"the agent did not offer {decision!r} for this request", reason="notOffered")
            if decision != "rejected" and not asked.request.own_tool:
                check_may_write(self._requests.book.registry, asked.record)
            return Answer(option, None, replace(asked.message, decision=decision), decision)

        self._requests.answer(request, body.session_id, body.message_id, Approval, decide)
