"""The one interface behind which every agent sits. An adapter knows no bus, no storage and no session but its own."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from termal.wire.session_operations import PromptImage
from termal.wire.thread_operations import ThreadCommand, ThreadDone
from termal.wire.turns import AnyTurnEvent, ModelDetail, ModesKnown, SessionSpec


class Started(msgspec.Struct, frozen=True):
    """What an agent said of itself when its conversation began. ``note`` is shown in the transcript when not empty
    (for example: the earlier conversation was unknown to the agent and a fresh one was begun). ``commands``: name,
    description and argument hint of what it knows by itself."""

    external_session_id: str | None
    version: str = ""
    models: list[tuple[str, str, str | None]] = []
    current_model: str | None = None
    note: str = ""
    commands: list[tuple[str, str, str]] = []
    details: dict[str, ModelDetail] = {}


class AgentFailed(Exception):
    """The agent could not be started, or refused. ``text`` is for people; ``unknown_session``: it has no such
    conversation to resume; ``conversation_lost``: it may still be at work there, so nobody may resume it;
    ``unanswered``: it said neither yes nor no; ``exited``: its process ended before it could take a prompt."""

    def __init__(
        self,
        text: str,
        *,
        unknown_session: bool = False,
        conversation_lost: bool = False,
        unanswered: bool = False,
        exited: bool = False,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.unknown_session = unknown_session
        self.conversation_lost = conversation_lost
        self.unanswered = unanswered
        self.exited = exited


class CommandRefused(Exception):
    """The agent says no to what a person wants of its thread; the text is for people."""


Emit = Callable[[AnyTurnEvent], None]
"""Takes the events of the running turn, in order; `TurnEnded` exactly once per prompt, whatever happens."""


class Adapter(Protocol):
    """One conversation with one agent. All methods run on the worker's asyncio loop.

    `start` ends within its own deadline or raises `AgentFailed` with nothing left running. `prompt` returns when the
    agent has taken it; the turn then goes on by itself and reports through ``emit``. `interrupt` returns when the turn
    has ended, at the latest when the process was ended. `close` leaves no process behind. `pid` is the pid of the shim
    (or None), for status.
    """

    @property
    def pid(self) -> int | None: ...
    @property
    def alive(self) -> bool: ...
    async def start(self, spec: SessionSpec) -> Started: ...
    async def prompt(self, text: str, images: list[PromptImage], emit: Emit) -> None: ...
    async def interrupt(self) -> None: ...
    async def answer(self, request: str, option: str) -> None:
        """Raises `AgentFailed` when the request is no longer open."""

    async def apply(self, spec: SessionSpec) -> bool:
        """Take over changed settings, also while a turn runs; False: the process must be replaced before the next turn,
        and keeps the settings that it has until then. Raises `AgentFailed` when the agent says no or nothing."""

    async def close(self) -> None: ...


@runtime_checkable
class HoldsBack(Protocol):
    """What an adapter may offer besides: reading its agent more slowly than the agent writes.

    Called when too much of the running turn waits for its confirmation, and again when it does not any more. An agent
    whose library must be read without stopping leaves it out.
    """

    def hold_back(self, held: bool) -> None: ...


@runtime_checkable
class HasModes(Protocol):
    """What an adapter may offer besides: modes and efforts that its agent tells of, and may change by itself."""

    @property
    def modes(self) -> ModesKnown | None:
        """As they are now; None while no agent runs. What changes in a turn is emitted there as well."""


@runtime_checkable
class TakesAnswers(Protocol):
    """What an adapter may offer besides: taking more than a choice as an answer to a request of its agent."""

    async def answer_with(self, request: str, option: str, payload: bytes) -> None:
        """``payload`` is JSON, as `AnswerInteraction` says; it may hold secrets. Raises `AgentFailed` when the request
        is no longer open."""


@runtime_checkable
class HasThreads(Protocol):
    """What an adapter may offer besides: its conversations are threads that a person can fork, put away, shorten."""

    async def thread(self, command: ThreadCommand, begun: Callable[[Started], None]) -> ThreadDone:
        """Between turns. ``begun`` is told what the agent says of itself where its conversation has to be begun for
        this. Raises `CommandRefused` where the agent says no, `AgentFailed` where it fails."""
