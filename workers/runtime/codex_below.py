"""The thread of a sub-agent that a turn of Codex began: what it asks is shown in that session, what it says is not.

Its answer reaches the model that began it, and what it changed is in the folder.
"""

from collections.abc import Callable
from typing import Any, Protocol

from workers.runtime.codex_delivery import turn_id
from workers.runtime.codex_turn import CodexTurn

Json = dict[str, Any]


class Above(Protocol):
    """The session that began it (`workers.runtime.codex.CodexAdapter`)."""

    def asked_below(self, request: object, method: str, params: Json, there: CodexTurn) -> None: ...
    def resolved(self, request: object) -> None: ...


class SubAgent:
    """A `Thread` of the app-server."""

    def __init__(self, above: Above, folder: str, unknown: Callable[[str], None]) -> None:
        self._above = above
        self._folder = folder
        self._unknown = unknown
        self._turn = self._new_turn()

    @property
    def running(self) -> str:
        """The id of its running turn, empty without one."""
        return "" if self._turn.ended.is_set() else self._turn.id

    def told(self, method: str, params: Json) -> None:
        if method == "serverRequest/resolved":
            self._above.resolved(params.get("requestId"))
            return
        number = turn_id(params) or str(params.get("turnId") or "")
        if method == "turn/started" and number:
            self._turn = self._new_turn()
            self._turn.name(number)
        if number and number == self._turn.id:
            self._turn.told(method, params)

    def asked(self, request: object, method: str, params: Json) -> None:
        self._above.asked_below(request, method, params, self._turn)

    def gone(self, reason: str) -> None:
        """Its session is told of the same."""

    def sub_agent(self, root_turn: str) -> None:
        """All that a turn begins, at any depth, belongs to the session of that turn."""

    def _new_turn(self) -> CodexTurn:
        return CodexTurn(lambda _: None, folder=self._folder, unknown=self._unknown)
