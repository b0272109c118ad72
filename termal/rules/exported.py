"""What of a session goes with its transcript to another daemon, and how it becomes a new session there."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from termal.model.message import Diff, Message
from termal.model.session import Session
from termal.model.stored import StoredSession
from termal.rules import wording
from termal.rules.closing import closed
from termal.rules.settings import check_stored, checked_model, checked_name, emoji_of

EXPORTED_KEYS = frozenset(
    {
        "name",
        "emoji",
        "agent",
        "workdir",
        "model",
        "approvalPolicy",
        "sandboxMode",
        "claudeApprovalMode",
        "reasoningEffort",
        "codexFastMode",
        "claudeEffort",
        "cursorMode",
        "geminiApprovalMode",
        "opencodeModel",
        "opencodeEffort",
        "opencodeMode",
    }
)
"""Neither ids, nor the agent's own conversation, nor what an agent has once said of its models."""
EMOJI_CHARACTERS = 16
AGENT_CHARACTERS = 64


def exported(session: Session) -> dict[str, Any]:
    """The keys of ``session`` that make sense elsewhere."""
    fields = msgspec.to_builtins(session)
    return {key: value for key, value in fields.items() if key in EXPORTED_KEYS and value is not None}


def imported(header: dict[str, Any], session_id: str, workdir: str) -> Session:
    """A new idle session with the settings of ``header``. Raises `Bad`, `msgspec.ValidationError`."""
    kept = {key: value for key, value in header.items() if key in EXPORTED_KEYS}
    own = {"id": session_id, "workdir": workdir, "status": "idle", "preview": wording.READY}
    session = msgspec.convert({"emoji": "", **kept, **own}, Session)
    agent = session.agent.strip()[:AGENT_CHARACTERS]
    session = replace(
        session,
        name=checked_name(session.name),
        agent=agent,
        emoji=session.emoji[:EMOJI_CHARACTERS] or emoji_of(agent),
        model=checked_model(agent, session.model),
    )
    check_stored(session)
    return session


def stored_as(session: Session, key: str | UnsetType = UNSET) -> StoredSession:
    """The wrapper of a new ``session``. ``key`` is that of its creation, where that has one."""
    codex = session.agent == "Codex"
    return StoredSession(
        session=session,
        codex_approval_policy=session.approval_policy if codex else None,
        codex_sandbox_mode=session.sandbox_mode if codex else None,
        codex_reasoning_effort=session.reasoning_effort if codex else UNSET,
        creation_key=key,
    )


def renumbered(message: Message, message_id: str) -> Message:
    """``message`` under its new id; what was open in it is closed, for nobody works on it here."""
    message = closed(message, "restart") or message
    if isinstance(message, Diff) and message.change_set_id == f"change-{message.id}":
        message = replace(message, change_set_id=f"change-{message_id}")
    return replace(message, id=message_id)
