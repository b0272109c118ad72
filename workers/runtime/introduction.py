"""What an agent says of itself when its conversation began, as the first events of the next turn."""

from termal.wire.turns import CommandsKnown, ExternalSession, ModelsKnown, Notice, SessionSpec
from workers.runtime.adapter import Started
from workers.runtime.turn import Turn


def introduce(turn: Turn, spec: SessionSpec, started: Started) -> None:
    """Tell state what it does not know yet of the agent's conversation."""
    if started.external_session_id and started.external_session_id != spec.external_session_id:
        turn.emit(ExternalSession(started.external_session_id))
    if started.note:
        turn.emit(Notice(started.note))
    if started.models:
        turn.emit(ModelsKnown(started.models, started.current_model, started.details))
    if started.commands:
        turn.emit(CommandsKnown(started.commands))
