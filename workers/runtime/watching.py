"""What turns ask of whoever looks at the files below their sessions' directories."""

from typing import Protocol

from termal.wire.runtime_operations import StartTurn
from termal.wire.turns import TurnEnded


class Watch(Protocol):
    """Of one turn."""

    def complete(self, end: TurnEnded) -> TurnEnded:
        """``end`` of the turn with what was seen. Called once, unless `close` is."""

    def close(self) -> None: ...


class Watches(Protocol):
    def begin(self, start: StartTurn) -> Watch | None:
        """Look from now on; None: nobody looks at this turn's directory."""

    def closed(self, session_id: str) -> None:
        """The session's agent was ended for good."""
