"""Collects the events of a turn and waits for them, in an asyncio test."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from termal.wire.turns import AnyTurnEvent, ApprovalAsked, TextDelta, TextDone, TurnEnded

EventT = TypeVar("EventT")

AGENT_LIMIT_S = 40.0
"""Real agents start slowly on a busy machine, OpenCode above all; a wait of this length fails the test."""


class Recorder:
    """The ``emit`` of one turn."""

    def __init__(self) -> None:
        self.events: list[AnyTurnEvent] = []
        self._news = asyncio.Event()

    def __call__(self, event: AnyTurnEvent) -> None:
        assert not self.of(TurnEnded), f"an event after the end of the turn: {event!r}"
        self.events.append(event)
        self._news.set()

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]

    def text(self) -> str:
        """The assistant's text as a transcript would hold it: pieces joined, replaced by final texts."""
        items: dict[str, str] = {}
        for event in self.events:
            if isinstance(event, TextDelta):
                items[event.item] = items.get(event.item, "") + event.text
            elif isinstance(event, TextDone):
                items[event.item] = event.text
        return "\n".join(items.values())

    async def until(self, condition: Callable[[], object], what: str) -> None:
        try:
            async with asyncio.timeout(AGENT_LIMIT_S):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}; events: {self.events!r}") from None

    async def end(self) -> TurnEnded:
        await self.until(lambda: self.of(TurnEnded), "the end of the turn")
        return self.of(TurnEnded)[0]

    async def question(self) -> ApprovalAsked:
        await self.until(lambda: self.of(ApprovalAsked), "a question for approval")
        return self.of(ApprovalAsked)[0]
