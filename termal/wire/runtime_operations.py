"""What `state` asks of the runtime workers."""

import msgspec

from termal.wire.facts import OperationCount
from termal.wire.operation import WRITE_S, read, write
from termal.wire.session_operations import PromptImage
from termal.wire.turns import AgentTree, Anything, Held, ModelDetail, ModesKnown, SessionSpec

MODELS_S = 30.0
"""For an agent to say which models it has; it may have to be started for that."""

CONFIRM_S = 55.0
"""For a running agent to take over changed settings."""


class StartTurn(msgspec.Struct, frozen=True):
    """Take this turn. A repeat with the same turn id is answered the same and starts nothing again."""

    spec: SessionSpec
    turn_id: str
    prompt: str
    images: list[PromptImage] = []


class TurnTaken(msgspec.Struct, frozen=True):
    """The worker holds the turn and will report its end exactly once. ``runtime`` names this life of the worker."""

    runtime: str


class StopTurn(msgspec.Struct, frozen=True):
    session_id: str
    turn_id: str


class TurnStopped(msgspec.Struct, frozen=True):
    """``conversation_lost``: the agent did not end the turn and may still be at work; its conversation is given up."""

    conversation_lost: bool = False


class CloseSessions(msgspec.Struct, frozen=True):
    session_ids: list[str]


class AnswerInteraction(msgspec.Struct, frozen=True):
    """``option``: the id of an approval's option; an elicitation's ``accept``, ``decline`` or ``cancel``; else empty.

    ``payload`` is the JSON of what a person gave beyond a choice: answers by question id (a list of one text each), an
    elicitation's content, an app request's result; None for an approval. It may hold secrets: never logged.
    """

    session_id: str
    turn_id: str
    request: str
    option: str
    payload: bytes | None = None


class AgentTrees(msgspec.Struct, frozen=True):
    agents: list[AgentTree]
    operations: list[OperationCount] = []


class ListModels(msgspec.Struct, frozen=True):
    spec: SessionSpec


class ModelList(msgspec.Struct, frozen=True):
    """Triples of value, label and description, as the agent last said; empty for an agent without a list."""

    options: list[tuple[str, str, str | None]]
    details: dict[str, ModelDetail] = {}
    modes: ModesKnown | None = None


class ApplySettings(msgspec.Struct, frozen=True):
    """``spec`` has the settings that the session has now."""

    spec: SessionSpec


class SettingsApplied(msgspec.Struct, frozen=True):
    """``live``: the running agent works by them already; else its next turn begins with them. ``modes``: as the agent
    has them now, None where it says nothing of them."""

    live: bool = False
    modes: ModesKnown | None = None


TURN_START = write("turn.start", StartTurn, TurnTaken, repeatable=False, timeout_s=WRITE_S)
TURN_STOP = write("turn.stop", StopTurn, TurnStopped, repeatable=True, timeout_s=14.0)
"""Answered when the agent has ended the turn, or its process was ended; the `TurnEnded` event comes on its own way."""
TURN_HELD = write("turn.held", Anything, Held, repeatable=True, timeout_s=None)
SESSIONS_CLOSE = write("sessions.close", CloseSessions, Anything, repeatable=True, timeout_s=10.0)
"""Ends the agent processes of sessions that were killed; a running turn of theirs is dropped and reports nothing."""
INTERACTION_ANSWER = write("interaction.answer", AnswerInteraction, Anything, repeatable=False)
AGENT_TREES = read("agent.trees", Anything, AgentTrees)
SETTINGS_APPLY = write("settings.apply", ApplySettings, SettingsApplied, repeatable=False, timeout_s=CONFIRM_S)
"""A `Conflict` is the agent's no; any other error leaves open whether it took them."""
MODELS_LIST = write("models.list", ListModels, ModelList, repeatable=True, timeout_s=MODELS_S)
