"""An adapter in the test's own loop, with a scripted agent as its process."""

import json
import os
import sys
from pathlib import Path
from typing import Any, TypeVar

from termal.config import AgentConfig, Config
from termal.wire.turns import AnyTurnEvent, SessionSpec, TurnEnded
from tests.support.waiting import LIMIT_S, until
from workers.runtime.acp import AcpAdapter
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.place import Place

_AGENT = str(Path(__file__).with_name("acp_agent.py"))
EventT = TypeVar("EventT")


class Journal:
    """A log that keeps the events' names."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def warning(self, event: str, **_: Any) -> None:
        self.written.append(event)

    repeating = warning


class ScriptedAgent:
    """``script``: see `tests.support.acp_agent`. Its steps may be given in the adapter's words by `updates`."""

    def __init__(
        self, folder: Path, *, name: str = "Scripted", own: dict[str, Any] | None = None, **script: Any
    ) -> None:
        self.folder = folder
        self.name = name
        self.events: list[AnyTurnEvent] = []
        self._log = folder / "received.jsonl"
        file = folder / "script.json"
        file.write_text(json.dumps({**script, "log": str(self._log)}))
        agent = AgentConfig(command=[sys.executable, _AGENT, str(file), "--skip-trust"], **(own or {}))
        place = Place(Config(agents={name: agent}), dict(os.environ), folder, portable=False)
        self.times = LoadTimes()
        self.journal = Journal()
        self.adapter = AcpAdapter(name, place, self.times, self.journal)

    def spec(self, **more: Any) -> SessionSpec:
        return SessionSpec(
            **{"session_id": "session-1", "agent": self.name, "workdir": str(self.folder), "model": "auto", **more}
        )

    async def turn(self, text: str = "go") -> list[AnyTurnEvent]:
        """The events of a whole turn."""
        self.events = []
        await self.adapter.prompt(text, [], self.events.append)
        await self.ended()
        return self.events

    async def ended(self, limit_s: float = LIMIT_S) -> TurnEnded:
        return (await until(lambda: self.said(TurnEnded), "the end of the turn", limit_s))[0]

    def said(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.events if isinstance(event, kind)]

    def received(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every message of ``method`` that the agent got."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        messages = [json.loads(line) for line in lines]
        return [message["params"] for message in messages if message.get("method") == method]

    def methods(self) -> list[str]:
        """The methods of everything that the agent was asked, in order."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [message["method"] for message in map(json.loads, lines) if "method" in message]

    def answered(self) -> list[dict[str, Any]]:
        """Results and errors that the agent got for its own requests."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        messages = [json.loads(line) for line in lines]
        return [message.get("result") or message["error"] for message in messages if "method" not in message]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": value}, **more}}


def tool(update: str, number: str, **fields: Any) -> dict[str, Any]:
    """``update``: ``tool_call`` or ``tool_call_update``."""
    return {"update": {"sessionUpdate": update, "toolCallId": number, **fields}}


def ask(number: str, *options: tuple[str, str], **fields: Any) -> dict[str, Any]:
    """``options``: pairs of id and kind."""
    offered = [{"optionId": option, "kind": kind, "name": option} for option, kind in options]
    return {"ask": {"sessionId": "conversation-1", "toolCall": {"toolCallId": number, **fields}, "options": offered}}


DONE: dict[str, Any] = {"result": {"stopReason": "end_turn"}}
