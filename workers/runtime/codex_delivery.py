"""Hands one prompt to Codex, and knows what to do when Codex takes it late or not at all."""

import asyncio
from typing import Any

from workers.runtime.adapter import AgentFailed
from workers.runtime.codex_server import NAME, Attachment
from workers.runtime.codex_turn import CodexTurn
from workers.runtime.lines import Refused

TAKE_S = 30.0
"""Codex answers a prompt at once; it is given this long before the turn counts as not taken."""

Json = dict[str, Any]


class Delivery:
    """Of one turn to one attachment."""

    def __init__(self, attachment: Attachment, turn: CodexTurn) -> None:
        self._attachment = attachment
        self._turn = turn
        self._refusal = ""

    async def made(self, params: Json) -> None:
        """Return when Codex has taken it, or its process ended. Raises `AgentFailed`: the turn is over then."""
        attachment, turn = self._attachment, self._turn
        params = {"threadId": attachment.thread_id, **params}
        attachment.process.lines.call("turn/start", params, self._answered)
        try:
            async with asyncio.timeout(TAKE_S):
                await turn.named.wait()
        except TimeoutError:
            turn.ended.set()
            attachment.process.detach(attachment)
            raise AgentFailed(f"{NAME} did not take the prompt within {TAKE_S:g} s") from None
        if self._refusal and not turn.ended.is_set():
            turn.ended.set()
            raise AgentFailed(f"{NAME} refuses the prompt: {self._refusal}")

    def _answered(self, result: Any, error: Exception | None) -> None:
        turn, number = self._turn, turn_id(result)
        if isinstance(error, Refused):
            self._refusal = error.message
        elif error is None and not number:
            self._refusal = "it named no turn"
        if number:
            turn.name(number)
        turn.named.set()
        if turn.ended.is_set() and number:
            # Taken after it was given up: nobody waits for it.
            self._attachment.cut(number)


def turn_id(record: object) -> str:
    """The id of the turn that an answer or a notification is about, empty without one."""
    turn = record.get("turn") if isinstance(record, dict) else None
    number = turn.get("id") if isinstance(turn, dict) else None
    return number if isinstance(number, str) else ""
