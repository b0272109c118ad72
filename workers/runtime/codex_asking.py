"""What Codex asks, in a session's own thread or for a sub-agent: answered by the session's settings, or shown."""

from msgspec import structs

from termal.bridge.descriptor import SERVER
from termal.wire.turns import SessionSpec
from workers.runtime.codex_doubts import Doubts
from workers.runtime.codex_requests import Json
from workers.runtime.codex_rules import call_of, may_write, ruled
from workers.runtime.codex_turn import CodexTurn
from workers.runtime.lines import METHOD_NOT_FOUND, JsonLines


class Asking:
    """Of one session. ``turn`` shows what a person has to decide, ``there`` is the turn that asks: the same one, or
    that of a sub-agent, whose question must not outlive the turn that shows it."""

    def __init__(self, doubts: Doubts) -> None:
        self._doubts = doubts

    def ask(
        self,
        request: object,
        method: str,
        params: Json,
        *,
        spec: SessionSpec,
        lines: JsonLines,
        turn: CodexTurn,
        there: CodexTurn,
    ) -> None:
        """``request`` is Codex's own number of it."""
        call = call_of(params, there.unanswered_calls(str(params.get("serverName"))))
        answer = ruled(spec, method, params, call)
        if call is not None:
            there.take_answer(call)
        item = call or there.item(str(params.get("itemId")))
        below = there is not turn

        def gone() -> None:
            lines.refuse(request, METHOD_NOT_FOUND, "the turn that could answer is over")

        def show(*, own_tool: bool = False, by_mode: bool = False) -> None:
            event = turn.requests.ask(
                request,
                method,
                params,
                item,
                spec.workdir,
                own_tool=own_tool,
                by_mode=by_mode,
                on_withdrawn=gone if below else None,
            )
            turn.tell(structs.replace(event, title=f"Sub-agent: {event.title}") if below else event)

        if answer is None:
            show(own_tool=call is not None and call.get("server") == SERVER)
        elif not may_write(params, answer):
            lines.answer(request, answer)
        else:
            allowed = answer

            def known(locked: bool) -> None:
                if turn.ended.is_set() or turn.stopping:
                    if below:
                        gone()
                elif locked:
                    show(by_mode=True)
                else:
                    lines.answer(request, allowed)

            self._doubts.ask(spec.session_id, request, known)
