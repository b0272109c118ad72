"""The turn that a runtime worker holds for a session: what of its events is known, and who waits for it."""

from collections.abc import Callable
from typing import Literal

from msgspec import UNSET

from termal.bus.client import Call
from termal.bus.server import Request
from termal.model.stored import TURN_ITEMS, QueueEntry, StoredOption, StoredRequest, StoredTurn
from termal.wire.errors import TermalError
from termal.wire.runtime_operations import TurnTaken
from termal.wire.turns import TurnReport

Taken = Callable[[TermalError | None], None]


class OpenRequest:
    """A request of the agent that waits for a person. ``answering``: an answer is on its way to the agent.

    ``own_tool``: a yes lets nothing be written; ``by_mode``: what the session's mode says to it when nothing is locked.
    See `termal.wire.turns.ApprovalAsked`.
    """

    __slots__ = ("answering", "by_mode", "message_id", "options", "own_tool", "request")

    def __init__(
        self,
        request: str,
        message_id: str,
        options: list[StoredOption],
        *,
        own_tool: bool = False,
        by_mode: str = "",
    ) -> None:
        self.own_tool = own_tool
        self.by_mode = by_mode
        self.request = request
        self.message_id = message_id
        self.options = options
        self.answering = False

    def option_for(self, decision: str) -> str | None:
        """The agent's own id for ``decision``, None when it did not offer it."""
        for option in self.options:
            if option.decision == decision:
                return option.id
        return None


class Turn:
    """``deferred``: reports that came while a stop was carried out. ``stop_wanted``: a stop waits for the start's end.
    ``stop_lost``: answers the stop under way when the worker that carries it out has ended. ``start_call``: the request
    that the worker take this turn.

    ``entry``: what goes back to the front of the queue when the worker refuses this turn, None when nothing does.
    ``wake``: the mailbox wake that started it, None for every other prompt; ``reported``: that it was taken is on its
    way to the mailboxes.

    ``phase``: ``starting`` until the worker took it, ``held`` while a new state does not know yet who holds it,
    ``running``, ``stopping`` while a stop is carried out, ``ended`` until what follows an end is done."""

    __slots__ = (
        "deferred",
        "entry",
        "id",
        "items",
        "last_event",
        "on_drained",
        "on_taken",
        "open_texts",
        "phase",
        "prompt_id",
        "reported",
        "requests",
        "start_call",
        "stop_lost",
        "stop_wanted",
        "wake",
        "worker",
    )

    def __init__(self, turn_id: str, worker: str, prompt_id: str) -> None:
        self.id = turn_id
        self.worker = worker
        self.prompt_id = prompt_id
        self.phase: Literal["starting", "held", "running", "stopping", "ended"] = "starting"
        self.last_event = 0
        self.items: dict[str, str] = {}
        self.requests: dict[str, OpenRequest] = {}
        self.open_texts: set[str] = set()
        self.stop_wanted = False
        self.entry: QueueEntry | None = None
        self.wake: QueueEntry | None = None
        self.reported = False
        self.deferred: list[tuple[Request, TurnReport]] = []
        self.start_call: Call[TurnTaken] | None = None
        self.stop_lost: Callable[[], None] | None = None
        self.on_taken: list[Taken] = []
        self.on_drained: list[Callable[[], None]] = []

    def taken(self, error: TermalError | None) -> None:
        """Tell who waits for the worker's word on the start of this turn."""
        waiting, self.on_taken = self.on_taken, []
        for callback in waiting:
            callback(error)

    def drained(self) -> None:
        waiting, self.on_drained = self.on_drained, []
        for callback in waiting:
            callback()

    def stored(self) -> StoredTurn:
        return StoredTurn(
            turn_id=self.id,
            worker=self.worker,
            prompt_id=self.prompt_id,
            last_event=self.last_event,
            ended=self.phase == "ended",
            items=list(self.items.items())[-TURN_ITEMS:],
            requests=[
                StoredRequest(
                    request=r.request,
                    message_id=r.message_id,
                    options=r.options,
                    own_tool=r.own_tool,
                    by_mode=r.by_mode,
                )
                for r in self.requests.values()
            ],
            open_texts=sorted(self.open_texts),
            wake=self.wake or UNSET,
            reported=self.reported,
        )

    @classmethod
    def from_stored(cls, stored: StoredTurn) -> "Turn":
        turn = cls(stored.turn_id, stored.worker, stored.prompt_id)
        turn.phase = "ended" if stored.ended else "held"
        turn.last_event = stored.last_event
        turn.items = dict(stored.items)
        turn.requests = {
            request.request: OpenRequest(
                request.request,
                request.message_id,
                request.options,
                own_tool=request.own_tool,
                by_mode=request.by_mode,
            )
            for request in stored.requests
        }
        turn.open_texts = set(stored.open_texts)
        turn.wake = None if stored.wake is UNSET else stored.wake
        turn.reported = stored.reported
        return turn
