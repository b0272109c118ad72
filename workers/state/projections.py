"""What clients see of memory: summaries, tails and whole replies as final JSON bytes. Changes nothing."""

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from termal.model.message import Message
from termal.model.reply import CreateSessionResponse, SessionResponse, StateResponse
from termal.model.session import LiveActivity, PendingPrompt, Session
from termal.rules.history_page import RESIDENT_MESSAGES
from termal.rules.preview import activity
from termal.rules.size import fitting
from termal.wire.codec import encode_json
from workers.state.delegation_summaries import Summaries
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord

Readiness = Callable[[], list[Any]]
"""The readiness rows of all agents, cached by whoever gives them."""


def summary_session(record: SessionRecord) -> Session:
    """Without messages, queue and history; the live activity cut short and only while a turn is active."""
    return replace(
        record.session,
        status=record.status,
        preview=record.preview,
        message_count=record.count,
        messages_loaded=record.count == 0,
        prompt_history_redacted=True,
        live_activity=_short(record.live) if record.status == "active" and record.live is not None else UNSET,
        session_mutation_stamp=record.stamp,
    )


def summary_json(record: SessionRecord) -> Raw:
    """PERF: kept per mutation stamp; a state reply of many sessions is then a join of bytes."""
    cached = record.summary
    if cached is None or cached[0] != record.stamp:
        cached = record.summary = (record.stamp, Raw(encode_json(summary_session(record))))
    return cached[1]


def full_session(record: SessionRecord, tail: int = RESIDENT_MESSAGES) -> Session:
    """With the newest ``tail`` messages, the whole queue and the prompt history."""
    messages = reply_messages(record.newest(min(tail, RESIDENT_MESSAGES)), "end")
    pending: list[PendingPrompt] = [queued.entry.pending_prompt for queued in record.queue]
    return replace(
        record.session,
        status=record.status,
        preview=record.preview,
        message_count=record.count,
        messages_loaded=len(messages) == record.count,
        messages=cast("list[Message]", messages),
        pending_prompts=pending or UNSET,
        prompt_history=record.history or UNSET,
        live_activity=record.live if record.status == "active" and record.live is not None else UNSET,
        session_mutation_stamp=record.stamp,
    )


def reply_messages(messages: list[Message], keep: Literal["start", "end"]) -> list[Raw]:
    """The JSON of as many of ``messages`` as one reply carries."""
    encoded = [Raw(encode_json(message)) for message in messages]
    return encoded[fitting([len(raw) for raw in encoded], keep)]


class Projections:
    def __init__(self, registry: Registry, readiness: Readiness) -> None:
        self.delegations = Summaries()
        self._registry = registry
        self._readiness = readiness

    def state(self, detail: SessionRecord | None = None, disposition: str | None = None) -> bytes:
        """``StateResponse``; the session ``detail`` with its newest messages, every other one as a summary."""
        registry = self._registry
        metadata = registry.metadata
        sessions = [
            Raw(encode_json(full_session(record))) if record is detail else summary_json(record)
            for record in registry.sessions.values()
        ]
        return encode_json(
            StateResponse(
                revision=registry.revision,
                server_instance_id=registry.instance_id,
                codex={} if metadata.codex is UNSET else metadata.codex,
                agent_readiness=self._readiness(),
                preferences=metadata.preferences,
                projects=metadata.projects,
                orchestrators=[],
                workspaces=[],
                sessions=sessions,
                delegations=[self.delegations.json(record) for record in registry.delegations.values()] or UNSET,
                delegation_waits=list(registry.waits.values()) or UNSET,
                message_disposition=disposition or UNSET,
            )
        )

    def session(self, record: SessionRecord, tail: int) -> bytes:
        registry = self._registry
        return encode_json(
            SessionResponse(
                revision=registry.revision,
                server_instance_id=registry.instance_id,
                session=full_session(record, tail),
            )
        )

    def created(self, record: SessionRecord) -> bytes:
        registry = self._registry
        return encode_json(
            CreateSessionResponse(
                session_id=record.id,
                session=full_session(record),
                revision=registry.revision,
                server_instance_id=registry.instance_id,
            )
        )


def _short(live: LiveActivity) -> LiveActivity:
    return msgspec.structs.replace(
        live,
        prompt=activity(live.prompt),
        command=UNSET if live.command is UNSET else activity(live.command),
    )
