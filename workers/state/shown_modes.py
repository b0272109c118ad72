"""The modes and efforts that OpenCode tells of, as its session shows them. No other agent's session has such fields."""

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.session import ModelOption, Session
from termal.rules.settings import is_mode
from termal.wire.turns import ModesKnown
from workers.state.shown_models import model_options


def with_modes(session: Session, known: ModesKnown | None) -> Session:
    """``session`` with what its agent said; the same one where that concerns no field of it."""
    if known is None or session.agent != "OpenCode":
        return session
    mode, effort = known.current_mode, known.current_effort
    return replace(
        session,
        opencode_current_mode=mode if mode is not None and is_mode(mode) else UNSET,
        opencode_current_effort=effort if effort is not None and is_mode(effort) else UNSET,
        opencode_mode_options=_options(known.modes) or UNSET,
        opencode_effort_options=_options(known.efforts) or UNSET,
    )


def _options(choices: Sequence[tuple[str, str, str | None]]) -> list[ModelOption]:
    # One that could not be asked for is not offered.
    return model_options([choice for choice in choices if is_mode(choice[0])], {})
