"""Sessions: create, read, prompt, answer, stop, change, remove; their commands and markers."""

from collections.abc import Mapping
from typing import Any

from termal.client.call import Call, new_key, read, session_path, write
from termal.client.replies import Changed, History, State
from termal.model.agent_command import AgentCommandsResponse, ResolvedCommand
from termal.model.marker import MarkerGoneResponse, MarkerResponse, MarkersResponse
from termal.model.overview import OverviewResponse
from termal.model.reply import CreateSessionResponse, SessionResponse
from termal.rules.history_page import PAGE_MESSAGES, TAIL_MESSAGES

SETTINGS_S = 65.0
"""An agent must confirm them."""
MODELS_S = 40.0


def create(
    *,
    agent: str | None = None,
    name: str | None = None,
    workdir: str | None = None,
    model: str | None = None,
    project_id: str | None = None,
    settings: Mapping[str, str] | None = None,
    key: str | None = None,
) -> Call[CreateSessionResponse]:
    body = {"agent": agent, "name": name, "workdir": workdir, "model": model, "projectId": project_id}
    return write("/api/sessions", CreateSessionResponse, {**body, **(settings or {})}, key=key or new_key())


def get(session_id: str, tail: int = TAIL_MESSAGES) -> Call[SessionResponse]:
    """The session with its newest ``tail`` (1 to 64) messages."""
    return read(session_path(session_id), SessionResponse, tail=tail)


def history(
    session_id: str,
    *,
    after: str | None = None,
    before: str | None = None,
    around: int | None = None,
    from_start: bool = False,
    limit: int = PAGE_MESSAGES,
) -> Call[History]:
    """A page of up to 64 messages next to a message id or a position; the newest ones without any."""
    start = "start" if from_start else None
    path = session_path(session_id, "history")
    return read(path, History, limit=limit, after=after, before=before, around=around, **{"from": start})


def overview(session_id: str, buckets: int = 200) -> Call[OverviewResponse]:
    return read(session_path(session_id, "overview"), OverviewResponse, buckets=buckets)


def send_prompt(
    session_id: str,
    text: str,
    *,
    expanded_text: str | None = None,
    source_session_id: str | None = None,
    attachments: list[dict[str, str]] | None = None,
    key: str | None = None,
) -> Call[Changed]:
    """Accepted and durable when it is answered: running, or queued behind what runs. A second call with the same
    ``key`` answers the same and sends nothing again."""
    body = {
        "text": text,
        "expandedText": expanded_text,
        "sourceSessionId": source_session_id,
        "attachments": attachments,
    }
    return write(session_path(session_id, "messages"), Changed, body, key=key or new_key())


def answer_approval(session_id: str, message_id: str, decision: str) -> Call[Changed]:
    """``decision``: ``accepted``, ``acceptedForSession`` or ``rejected``."""
    return write(session_path(session_id, "approvals", message_id), Changed, {"decision": decision})


def answer_questions(session_id: str, message_id: str, answers: Mapping[str, list[str]]) -> Call[Changed]:
    return write(session_path(session_id, "user-input", message_id), Changed, {"answers": answers})


def answer_elicitation(session_id: str, message_id: str, action: str, content: Any = None) -> Call[Changed]:
    """``action``: ``accept`` (with ``content`` for a form), ``decline`` or ``cancel``."""
    body = {"action": action, "content": content}
    return write(session_path(session_id, "mcp-elicitation", message_id), Changed, body)


def answer_app_request(session_id: str, message_id: str, result: Any) -> Call[Changed]:
    return write(session_path(session_id, "codex", "requests", message_id), Changed, {"result": result})


def cancel_prompt(session_id: str, prompt_id: str) -> Call[Changed]:
    return write(session_path(session_id, "queued-prompts", prompt_id, "cancel"), Changed)


def stop(session_id: str) -> Call[Changed]:
    return write(session_path(session_id, "stop"), Changed)


def kill(session_id: str) -> Call[State]:
    return write(session_path(session_id, "kill"), State)


def change_settings(
    session_id: str,
    *,
    name: str | None = None,
    model: str | None = None,
    settings: Mapping[str, str | bool] | None = None,
) -> Call[Changed]:
    """All of it or nothing; ``settings`` under their wire names."""
    body = {"name": name, "model": model, **(settings or {})}
    return write(session_path(session_id, "settings"), Changed, body, limit_s=SETTINGS_S)


def refresh_models(session_id: str) -> Call[Changed]:
    return write(session_path(session_id, "model-options", "refresh"), Changed, limit_s=MODELS_S)


def commands(session_id: str) -> Call[AgentCommandsResponse]:
    return read(session_path(session_id, "agent-commands"), AgentCommandsResponse)


def resolve_command(
    session_id: str,
    name: str,
    *,
    arguments: str | None = None,
    note: str | None = None,
    cwd: str | None = None,
    intent: str | None = None,
) -> Call[ResolvedCommand]:
    """What a slash command becomes; nothing is sent to anyone."""
    body = {"arguments": arguments, "note": note, "cwd": cwd, "intent": intent}
    path = session_path(session_id, "agent-commands", name, "resolve")
    return write(path, ResolvedCommand, body, repeatable=True)


def markers(session_id: str) -> Call[MarkersResponse]:
    return read(session_path(session_id, "markers"), MarkersResponse)


def create_marker(
    session_id: str, *, kind: str, name: str, color: str, message_id: str, **more: str | None
) -> Call[MarkerResponse]:
    """``more``: ``body`` and ``endMessageId``."""
    body = {"kind": kind, "name": name, "color": color, "messageId": message_id, **more}
    return write(session_path(session_id, "markers"), MarkerResponse, body)


def delete_marker(session_id: str, marker_id: str) -> Call[MarkerGoneResponse]:
    return write(session_path(session_id, "markers", marker_id), MarkerGoneResponse, method="DELETE")
